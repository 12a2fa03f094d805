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

// ClientType says whether a client can keep a secret (RFC 6749 §2.1, RFC 8252).
type ClientType string

const (
	// ConfidentialClient can keep a secret.
	ConfidentialClient ClientType = "confidential"
	// PublicClient cannot keep a secret: an application in a browser.
	PublicClient ClientType = "public"
	// NativeClient is a public client installed on a device. The port of its loopback redirect URIs may vary.
	NativeClient ClientType = "native"
)

// Validate returns an error for an unknown type.
func (t ClientType) Validate() error {
	switch t {
	case ConfidentialClient, PublicClient, NativeClient:
		return nil
	}
	return fmt.Errorf("unknown client type %q: use confidential, public or native", t)
}

// ClientOrigin says how a client was registered.
type ClientOrigin string

const (
	// FromOperator clients were registered by an operator, or are declared.
	FromOperator ClientOrigin = ""
	// FromMetadata clients describe themselves in a document at the URL that is their id (OAuth Client ID Metadata Document). The stored
	// client is the description that a user last consented to; see clients.Documents.
	FromMetadata ClientOrigin = "metadata"
	// FromRegistration clients have registered themselves (RFC 7591).
	FromRegistration ClientOrigin = "registration"
)

// Client is an application that may ask for tokens. Callers must not change a Client that a directory returned.
//
// Fields with a help tag are its members (see Member). Its JSON form is its id and its members. The other fields are its state.
type Client struct {
	ID   string     `json:"id,omitzero"`
	Name string     `json:"name,omitzero" help:"Name, as people know the client"`
	Type ClientType `json:"type,omitzero" help:"confidential (default), public or native"`
	// Grants are the grant types the client may use.
	Grants []oauth.GrantType `json:"grants,omitempty" help:"Grant the client may use; repeat it for more (default: what suits the type)"`
	// Scopes are the most that the client can be granted.
	Scopes oauth.Scopes `json:"scopes,omitempty" help:"Scope the client may hold; repeat it for more (default: public)"`
	// RedirectURIs are compared byte for byte (RFC 9700 §4.1.3).
	RedirectURIs []string `json:"redirect_uris,omitempty" help:"Redirect URI; repeat it for more"`
	// CORSOrigins are origins whose pages may read responses of the token and revocation endpoints, in addition to the origins of a
	// public client's redirect URIs.
	CORSOrigins []string `json:"cors_origins,omitempty" help:"Origin whose pages may call the token endpoint, beside those of a public client's redirect URIs; repeat it for more"`
	// FirstParty clients need no consent.
	FirstParty bool `json:"first_party,omitzero" help:"The client needs no consent"`
	// RevokePrevious revokes the previous access token at each refresh. A repeat of the refresh must come from the same address; see
	// Lifetimes.SameAddress.
	RevokePrevious bool `json:"revoke_previous_access_token,omitzero" help:"A refresh ends the previous access token"`
	// PKCE is oauth.PKCERequired if authorization requests of the client need a code_challenge (RFC 7636). Clients without a secret
	// always need one. With oauth.PKCEOptional a confidential client may omit it from a request with the scope openid and a nonce, even
	// if the issuer requires one. Empty: the issuer decides.
	PKCE string `json:"pkce,omitzero" help:"\"required\": authorization requests need a code_challenge, as those of public and native clients always do; \"optional\": those of OpenID Connect with a nonce never do"`
	ClientOpenID
	ClientKeys
	// Exchange lists the rules by which the client may exchange tokens; empty: it may not.
	Exchange []ExchangeRule `json:"may_exchange,omitempty" flag:"may-exchange" help:"What the client may exchange tokens for, as \"AUDIENCE... [from AUDIENCE...] [scopes SCOPE...]\"; repeat it for more rules"`
	// Lifetimes override the issuer's; a zero member does not.
	Lifetimes Lifetimes `json:"tokens,omitzero" flag:"lifetime" help:"Own lifetime as NAME=DURATION, such as client_credentials=10m; repeat it for more"`

	// Secrets are the digests of the client's secrets. Several may be valid during a rotation.
	Secrets []ClientSecret `json:"-"`
	// Disabled clients are treated as if they did not exist.
	Disabled  bool      `json:"-"`
	CreatedAt time.Time `json:"-"`
	// Origin says how the client was registered. What a client says about itself is not verified.
	Origin ClientOrigin `json:"-"`
	// LastUsedAt is the day on which the client last obtained a token; zero: never. It is recorded only for clients that registered
	// themselves.
	LastUsedAt time.Time `json:"-"`
	// Declared clients come from the configuration and cannot be changed at run time.
	Declared bool `json:"-"`
}

// ClientSecret is the stored form of a client secret.
type ClientSecret struct {
	// Digest is the SHA-256 of the secret; zero: only Hash is known.
	Digest [sha256.Size]byte
	// Hash is the bcrypt hash of a secret that another server has hashed; empty: Digest is known. It is replaced at the first use.
	Hash      oauth.Secret
	CreatedAt time.Time
	// ExpiresAt is the end of the overlap of a rotation; zero: never.
	ExpiresAt time.Time
}

// Equal reports whether two secrets are stored alike.
func (s ClientSecret) Equal(other ClientSecret) bool {
	return s.Digest == other.Digest && s.Hash.Digest() == other.Hash.Digest() && s.CreatedAt.Equal(other.CreatedAt) && s.ExpiresAt.Equal(other.ExpiresAt)
}

// IsLive reports whether the secret has not expired.
func (s ClientSecret) IsLive(now time.Time) bool {
	return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt)
}

// SetDefaults fills in what a registration omitted: type confidential, the grants that suit the type, scope public, and the id as name.
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

// DescribedBy returns the host of the document that describes the client, or "" if there is no such document.
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

// Merge applies a patch. A member that is reset gets the default of a new client. Setting one of jwks and jwks_uri replaces the other.
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

// Describe copies everything that a client may say about itself from said.
func (c *Client) Describe(said *Client) {
	c.Name, c.Type, c.Grants, c.RedirectURIs = said.Name, said.Type, said.Grants, said.RedirectURIs
	c.ClientKeys, c.ClientOpenID = said.ClientKeys, said.ClientOpenID
}

// IsPublic reports whether the client cannot keep a secret. It may still have one, which proves nothing: the client need not send it, but
// if sent it must be right.
func (c *Client) IsPublic() bool { return c.Type != ConfidentialClient }

// MayUse reports whether the client is registered for the grant type.
func (c *Client) MayUse(grant oauth.GrantType) bool { return slices.Contains(c.Grants, grant) }

// SecretMatches reports whether the digest is that of a live secret. It compares with every one, in constant time.
func (c *Client) SecretMatches(digest [sha256.Size]byte, now time.Time) bool {
	match := 0
	for i := range c.Secrets {
		equal := subtle.ConstantTimeCompare(c.Secrets[i].Digest[:], digest[:])
		if c.Secrets[i].IsLive(now) {
			match |= equal
		}
	}
	return match == 1
}

const maxClientText = 255 // bytes of an id or a name

// clientChecks are the checks that look at a single member.
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

// within prefixes a non-nil error with what it is about.
func within(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// each returns the first error of check.
func each[T any](values []T, check func(T) error) error {
	for _, value := range values {
		if err := check(value); err != nil {
			return err
		}
	}
	return nil
}

// ValidateMember returns an error if the named member is invalid, regardless of the others.
func (c *Client) ValidateMember(name string) error {
	for _, m := range clientChecks {
		if m.member == name {
			return m.check(c)
		}
	}
	return nil
}

// Validate returns an error if the registration is invalid. The error is meant for the person who registers the client.
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

// ValidateID returns an error unless the id can be a client id or user id: 1 to 255 bytes of UTF-8 without control characters.
func ValidateID(id string) error {
	if id == "" || len(id) > maxClientText || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return fmt.Errorf("use 1 to %d bytes of text without control characters", maxClientText)
	}
	return nil
}

// FitsLine reports whether a name that a person has given to something has 1 to most characters, none of which moves or hides others on a
// line.
func FitsLine(name string, most int) bool {
	breaksLine := func(c rune) bool { return unicode.In(c, unicode.Cc, unicode.Zl, unicode.Zp, unicode.Bidi_Control) }
	return name != "" && utf8.RuneCountInString(name) <= most && utf8.ValidString(name) && !strings.ContainsFunc(name, breaksLine)
}

// CheckRedirects returns an error for two things that Validate permits: a public client without a redirect URI, which no person can use
// to sign in, and plain http to a host other than loopback. A registration at run time fails by it, and a configuration gets a warning.
func (c *Client) CheckRedirects() error {
	if err := c.CheckReachable(); err != nil {
		return err
	}
	return c.CheckPlainHTTP()
}

// CheckReachable returns an error for a public client with the grant authorization_code and no redirect URI.
func (c *Client) CheckReachable() error {
	if c.IsPublic() && c.MayUse(oauth.AuthorizationCode) && len(c.RedirectURIs) == 0 {
		return errors.New("nobody can sign in to a public client without a redirect URI: add one, or leave the grant authorization_code out")
	}
	return nil
}

// CheckPlainHTTP returns an error for a redirect URI with plain http to a host other than loopback (RFC 8252 §7.3).
func (c *Client) CheckPlainHTTP() error {
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err == nil && u.Scheme == "http" && !oauth.IsLoopback(u.Hostname()) {
			return fmt.Errorf("redirect URI %q: plain http is for loopback hosts only, because anybody on the way can read the code: use https", uri)
		}
	}
	return nil
}

// GetsRefresh reports whether a grant of these scopes includes a refresh token: the client is registered for the refresh grant, or a
// scope asks for a refresh token.
func (c *Client) GetsRefresh(granted oauth.Scopes) bool {
	return c.MayUse(oauth.RefreshTokenGrant) || slices.ContainsFunc(granted, oauth.AsksForRefresh)
}

// MayRefresh reports whether the client can use refresh tokens: it is registered for the refresh grant, or for a scope that asks for one.
func (c *Client) MayRefresh() bool {
	return c.MayUse(oauth.RefreshTokenGrant) || slices.ContainsFunc(c.Scopes, oauth.AsksForRefresh)
}

// Origins returns the origins whose pages belong to the client. A client that registered itself is native as soon as one of its redirect
// URIs is, and may still have pages.
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

// HasRedirectURI reports whether the redirect URI is registered, compared byte for byte (RFC 9700 §4.1.3). Only for a native client, the
// port of a loopback address may differ, because an application takes a free port (RFC 8252 §7.3).
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
