package store

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ClientType says what a client can keep to itself (RFC 6749 §2.1, RFC 8252).
type ClientType string

const (
	// ConfidentialClient keeps a secret.
	ConfidentialClient ClientType = "confidential"
	// PublicClient cannot keep one: an application in a browser.
	PublicClient ClientType = "public"
	// NativeClient is a public client installed on a device: its loopback redirect URIs may vary in the port.
	NativeClient ClientType = "native"
)

// Validate refuses types that no client has.
func (t ClientType) Validate() error {
	switch t {
	case ConfidentialClient, PublicClient, NativeClient:
		return nil
	}
	return fmt.Errorf("unknown client type %q: use confidential, public or native", t)
}

// ClientOrigin says how a client has come to be known.
type ClientOrigin string

const (
	// FromOperator clients were registered by an operator, or are declared.
	FromOperator ClientOrigin = ""
	// FromMetadata clients describe themselves in a document at the URL that is their id (OAuth Client ID Metadata Document). What is
	// stored of one is what a user has consented to last; see clients.Documents.
	FromMetadata ClientOrigin = "metadata"
	// FromRegistration clients have registered themselves (RFC 7591).
	FromRegistration ClientOrigin = "registration"
)

// Client is an application that may ask for tokens. A Client that the directory has handed out is never changed.
//
// Fields with a help tag are its members (package members), and its JSON form is its id and its members. The others are its state.
type Client struct {
	ID   string     `json:"id,omitzero"`
	Name string     `json:"name,omitzero" help:"Name, as people know the client"`
	Type ClientType `json:"type,omitzero" help:"confidential (default), public or native"`
	// Grants are the grant types the client may use.
	Grants []oauth.GrantType `json:"grants,omitempty" help:"Grant the client may use; repeat it for more (default: what suits the type)"`
	// Scopes are the ceiling of what the client can be granted.
	Scopes oauth.Scopes `json:"scopes,omitempty" help:"Scope the client may hold; repeat it for more (default: public)"`
	// RedirectURIs are compared byte for byte (RFC 9700 §4.1.3).
	RedirectURIs []string `json:"redirect_uris,omitempty" help:"Redirect URI; repeat it for more"`
	// CORSOrigins are origins whose pages may read answers of the token and revocation endpoints, beside those of a public
	// client's redirect URIs.
	CORSOrigins []string `json:"cors_origins,omitempty" help:"Origin whose pages may call the token endpoint, beside those of a public client's redirect URIs; repeat it for more"`
	// FirstParty clients need no consent.
	FirstParty bool `json:"first_party,omitzero" help:"The client needs no consent"`
	// RevokePrevious ends the previous access token at each refresh. A repeat of the refresh must come from the same address;
	// see Lifetimes.SameAddress.
	RevokePrevious bool `json:"revoke_previous_access_token,omitzero" help:"A refresh ends the previous access token"`
	// PKCE is oauth.PKCERequired for a client whose authorization requests need a code_challenge (RFC 7636). Clients without a secret always
	// need one. With oauth.PKCEOptional a confidential client may leave it out of a request that has the scope openid and a nonce, also
	// where the issuer requires one. Empty: the issuer decides.
	PKCE string `json:"pkce,omitzero" help:"\"required\": authorization requests need a code_challenge, as those of public and native clients always do; \"optional\": those of OpenID Connect with a nonce never do"`
	ClientOpenID
	ClientKeys
	// Exchange are the rules by which the client may exchange tokens; none: it may not.
	Exchange []ExchangeRule `json:"may_exchange,omitempty" flag:"may-exchange" help:"What the client may exchange tokens for, as \"AUDIENCE... [from AUDIENCE...] [scopes SCOPE...]\"; repeat it for more rules"`
	// Lifetimes are the client's own; zero members fall back to the issuer's.
	Lifetimes Lifetimes `json:"tokens,omitzero" flag:"lifetime" help:"Own lifetime as NAME=DURATION, such as client_credentials=10m; repeat it for more"`

	// Secrets are the digests of the client's secrets; several may be live during a rotation.
	Secrets []ClientSecret `json:"-"`
	// Disabled clients are refused as if they did not exist.
	Disabled  bool      `json:"-"`
	CreatedAt time.Time `json:"-"`
	// Origin says who has made the client known. What a client says of itself is not vouched for.
	Origin ClientOrigin `json:"-"`
	// LastUsedAt is when the client got a token last, to the day; zero: never. It is kept for clients that made themselves known.
	LastUsedAt time.Time `json:"-"`
	// Declared clients come from the configuration and cannot be changed at run time.
	Declared bool `json:"-"`
}

// ClientSecret is what is kept of a client secret.
type ClientSecret struct {
	// Digest is the SHA-256 of the secret.
	Digest    [sha256.Size]byte
	CreatedAt time.Time
	// ExpiresAt ends the overlap of a rotation; zero: never.
	ExpiresAt time.Time
}

// SetDefaults fills what a registration left out: confidential; the grants that suit the type; scope public; the id as
// name.
func (c *Client) SetDefaults() {
	if c.Type == "" {
		c.Type = ConfidentialClient
	}
	if c.Name == "" {
		c.Name = c.ID
	}
	if len(c.Scopes) == 0 {
		c.Scopes = oauth.Scopes{oauth.ScopePublic}
	}
	if len(c.Grants) > 0 {
		return
	}
	if c.IsPublic() {
		c.Grants = []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}
	} else {
		c.Grants = []oauth.GrantType{oauth.ClientCredentials}
	}
}

// DescribedBy is the host that describes the client; empty: none does.
func (c *Client) DescribedBy() string {
	if c.Origin != FromMetadata {
		return ""
	}
	u, err := url.Parse(c.ID)
	if err != nil {
		return ""
	}
	return u.Host
}

// Merge makes the changes of a patch. A member that is reset is what a new client has, and one kind of keys takes the place of the other.
func (c *Client) Merge(p Patch) error {
	if p.Has("jwks") || p.Has("jwks_uri") {
		c.ClientKeys = ClientKeys{}
	}
	if err := p.Apply(c); err != nil {
		return err
	}
	if p.Resets() {
		c.SetDefaults()
	}
	return nil
}

// Describe gives the client what another one says of itself: all that a client that made itself known can change.
func (c *Client) Describe(said *Client) {
	c.Name, c.Type, c.Grants, c.RedirectURIs = said.Name, said.Type, said.Grants, said.RedirectURIs
	c.ClientKeys, c.ClientOpenID = said.ClientKeys, said.ClientOpenID
}

// IsPublic reports whether the client can keep no secret. It may have one all the same, which proves nothing: it need
// not be sent, but when sent it must be right.
func (c *Client) IsPublic() bool { return c.Type != ConfidentialClient }

// MayUse reports whether the client is registered for the grant type.
func (c *Client) MayUse(grant oauth.GrantType) bool { return slices.Contains(c.Grants, grant) }

// SecretMatches compares a secret's digest with every live secret in constant time.
func (c *Client) SecretMatches(digest [sha256.Size]byte, now time.Time) bool {
	match := 0
	for i := range c.Secrets {
		equal := subtle.ConstantTimeCompare(c.Secrets[i].Digest[:], digest[:])
		if expires := c.Secrets[i].ExpiresAt; expires.IsZero() || now.Before(expires) {
			match |= equal
		}
	}
	return match == 1
}

const maxClientText = 255 // bytes of an id or a name

// clientChecks are the checks that need one member alone.
var clientChecks = []struct {
	member string
	check  func(*Client) error
}{
	{"name", func(c *Client) error { return within("client name", validateName(c.Name)) }},
	{"type", func(c *Client) error { return c.Type.Validate() }},
	{"grants", func(c *Client) error { return each(c.Grants, oauth.GrantType.Validate) }},
	{"redirect_uris", func(c *Client) error { return each(c.RedirectURIs, oauth.ValidateRedirectURI) }},
	{"cors_origins", func(c *Client) error { return within("cors_origins", each(c.CORSOrigins, oauth.ValidateOrigin)) }},
	{"pkce", func(c *Client) error { return oauth.CheckClientPKCE(c.PKCE) }},
	{"id_token_signed_response_alg", checkAlgorithm},
	{"post_logout_redirect_uris", func(c *Client) error { return each(c.PostLogoutRedirectURIs, checkPostLogoutURI) }},
	{"backchannel_logout_uri", func(c *Client) error { return checkBackchannelURI(c.BackchannelLogoutURI) }},
	{"response_modes", func(c *Client) error { return each(c.ResponseModes, checkResponseMode) }},
	{"default_max_age", checkMaxAge},
	{"tokens", func(c *Client) error { return c.Lifetimes.Validate() }},
}

// within says what an error is about.
func within(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// each returns the first error of a check.
func each[T any](values []T, check func(T) error) error {
	for _, value := range values {
		if err := check(value); err != nil {
			return err
		}
	}
	return nil
}

// ValidateMember says what is wrong with a member, whatever the others are.
func (c *Client) ValidateMember(name string) error {
	for _, m := range clientChecks {
		if m.member == name {
			return m.check(c)
		}
	}
	return nil
}

// Validate says what is wrong with a registration, for the one who registers it.
func (c *Client) Validate() error {
	if err := within("client id", ValidateID(c.ID)); err != nil {
		return err
	}
	for _, m := range clientChecks {
		if err := m.check(c); err != nil {
			return err
		}
	}
	if err := c.ClientKeys.Validate(); err != nil {
		return err
	}
	switch {
	case c.IsPublic() && c.SignsAssertions():
		return fmt.Errorf("a %s client has no key that it could keep: its type must be confidential", c.Type)
	case !c.IsPublic() && len(c.Secrets) == 0 && !c.SignsAssertions():
		return errors.New("a confidential client needs a secret, or keys of its own: jwks or jwks_uri")
	case len(c.Grants) == 0:
		return errors.New("a client needs at least one grant")
	case c.PKCE == oauth.PKCEOptional && c.IsPublic():
		return errors.New("pkce optional is for confidential clients: only the code_challenge protects the code of a client without a secret")
	case c.BackchannelLogoutSessionRequired && c.BackchannelLogoutURI == "":
		return errors.New("backchannel_logout_session_required needs a backchannel_logout_uri")
	}
	return validateExchange(c)
}

// ValidateID says whether a client id or user id can be used: 1 to 255 bytes of UTF-8 without control characters.
func ValidateID(id string) error {
	if id == "" || len(id) > maxClientText || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return fmt.Errorf("use 1 to %d bytes of text without control characters", maxClientText)
	}
	return nil
}

// CheckRedirects refuses what Validate permits: a public client without a redirect URI, in which no person can sign in, and plain http to
// a host that is not on loopback. A registration at run time fails by it; a configuration is warned of it.
func (c *Client) CheckRedirects() error {
	if err := c.CheckReachable(); err != nil {
		return err
	}
	return c.CheckPlainHTTP()
}

// CheckReachable refuses a public client of the grant authorization_code that has no redirect URI.
func (c *Client) CheckReachable() error {
	if c.IsPublic() && c.MayUse(oauth.AuthorizationCode) && len(c.RedirectURIs) == 0 {
		return errors.New("nobody can sign in to a public client without a redirect URI: add one, or leave the grant authorization_code out")
	}
	return nil
}

// CheckPlainHTTP refuses redirect URIs of plain http to a host that is not on loopback (RFC 8252 §7.3).
func (c *Client) CheckPlainHTTP() error {
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err == nil && u.Scheme == "http" && !oauth.IsLoopback(u.Hostname()) {
			return fmt.Errorf("redirect URI %q: plain http is for loopback hosts only, because anybody on the way can read the code: use https", uri)
		}
	}
	return nil
}

// GetsRefresh reports whether a refresh token goes with a grant of the scopes: the client is registered for the grant, or
// a scope asks for one.
func (c *Client) GetsRefresh(granted oauth.Scopes) bool {
	return c.MayUse(oauth.RefreshTokenGrant) || slices.ContainsFunc(granted, oauth.AsksForRefresh)
}

// MayRefresh reports whether the client can use refresh tokens: it is registered for the grant, or for a scope that asks
// for them.
func (c *Client) MayRefresh() bool {
	return c.MayUse(oauth.RefreshTokenGrant) || slices.ContainsFunc(c.Scopes, oauth.AsksForRefresh)
}

// Origins are those whose pages are of the client. One that made itself known is native as soon as one of its redirect URIs is, and may
// have pages all the same.
func (c *Client) Origins() []string {
	if c.Disabled {
		return nil
	}
	all := c.CORSOrigins
	if !c.IsPublic() || c.Type == NativeClient && c.Origin == FromOperator {
		return all
	}
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err == nil && (u.Scheme == "https" || u.Scheme == "http") {
			all = append(all[:len(all):len(all)], oauth.OriginOf(u))
		}
	}
	return all
}

// HasRedirectURI compares byte for byte (RFC 9700 §4.1.3). For a native client alone, the port of a loopback address may
// differ, because an application takes one that is free (RFC 8252 §7.3).
func (c *Client) HasRedirectURI(uri string) bool {
	if slices.Contains(c.RedirectURIs, uri) {
		return true
	}
	if c.Type != NativeClient {
		return false
	}
	portless, loopback := oauth.WithoutPort(uri)
	return loopback && slices.ContainsFunc(c.RedirectURIs, func(registered string) bool {
		other, ok := oauth.WithoutPort(registered)
		return ok && other == portless
	})
}
