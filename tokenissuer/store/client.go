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
	// stored of one is what a user has consented to last; see tokenissuer.ClientDocuments.
	FromMetadata ClientOrigin = "metadata"
	// FromRegistration clients have registered themselves (RFC 7591).
	FromRegistration ClientOrigin = "registration"
)

// Client is an application that may ask for tokens. A Client that the directory has handed out is never changed.
type Client struct {
	ID   string
	Name string
	Type ClientType
	// Secrets are the digests of the client's secrets; several may be live during a rotation.
	Secrets []ClientSecret
	ClientKeys
	// Grants are the grant types the client may use.
	Grants []oauth.GrantType
	// Scopes are the ceiling of what the client can be granted.
	Scopes oauth.Scopes
	// RedirectURIs are compared byte for byte (RFC 9700 §4.1.3).
	RedirectURIs []string
	// CORSOrigins are origins whose pages may read answers of the token and revocation endpoints, beside those of a public
	// client's redirect URIs.
	CORSOrigins []string
	// FirstParty clients need no consent.
	FirstParty bool
	// RevokePrevious ends the previous access token at each refresh. A repeat of the refresh must come from the same address;
	// see Lifetimes.SameAddress.
	RevokePrevious bool
	// PKCERequired refuses authorization requests without a code_challenge (RFC 7636). Clients without a secret always
	// need one.
	PKCERequired bool
	// PKCEOptional lets a confidential client leave the code_challenge out of a request that has the scope openid and a nonce,
	// also where the issuer requires one.
	PKCEOptional bool
	// OpenID is how the client takes part in OpenID Connect.
	OpenID ClientOpenID
	// Exchange are the rules by which the client may exchange tokens; none: it may not.
	Exchange []ExchangeRule
	// Lifetimes are the client's own; zero members fall back to the issuer's.
	Lifetimes Lifetimes
	// Disabled clients are refused as if they did not exist.
	Disabled  bool
	CreatedAt time.Time
	// Origin says who has made the client known. Nobody has vouched for what a client says of itself.
	Origin ClientOrigin
	// LastUsedAt is when the client got a token last, to the day; zero: never. It is kept for clients that made themselves known.
	LastUsedAt time.Time
	// Declared clients come from the configuration and cannot be changed at run time.
	Declared bool
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
	c.InferMethod()
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

// Validate says what is wrong with a registration, for the one who registers it.
func (c *Client) Validate() error {
	if err := ValidateID(c.ID); err != nil {
		return fmt.Errorf("client id: %w", err)
	}
	if err := validateName(c.Name); err != nil {
		return fmt.Errorf("client name: %w", err)
	}
	if err := c.Type.Validate(); err != nil {
		return err
	}
	if err := c.ClientKeys.Validate(); err != nil {
		return err
	}
	if c.IsPublic() && c.SignsAssertions() {
		return fmt.Errorf("a %s client has no key that it could keep: its type must be confidential", c.Type)
	}
	if !c.IsPublic() && len(c.Secrets) == 0 && !c.SignsAssertions() {
		return errors.New("a confidential client needs a secret, or keys of its own: jwks or jwks_uri")
	}
	if len(c.Grants) == 0 {
		return errors.New("a client needs at least one grant")
	}
	for _, grant := range c.Grants {
		if err := grant.Validate(); err != nil {
			return err
		}
	}
	for _, uri := range c.RedirectURIs {
		if err := oauth.ValidateRedirectURI(uri); err != nil {
			return err
		}
	}
	for _, origin := range c.CORSOrigins {
		if err := oauth.ValidateOrigin(origin); err != nil {
			return fmt.Errorf("cors_origins %w", err)
		}
	}
	if c.PKCEOptional && c.IsPublic() {
		return errors.New("pkce optional is for confidential clients: only the code_challenge protects the code of a client without a secret")
	}
	if c.PKCEOptional && c.PKCERequired {
		return errors.New("PKCE cannot be both required and optional")
	}
	if err := c.OpenID.Validate(); err != nil {
		return err
	}
	if err := c.validateExchange(); err != nil {
		return err
	}
	return c.Lifetimes.Validate()
}

// ValidateID says whether a client id or user id can be used: 1 to 255 bytes of UTF-8 without control characters.
func ValidateID(id string) error {
	if id == "" || len(id) > maxClientText || !utf8.ValidString(id) || strings.ContainsFunc(id, unicode.IsControl) {
		return fmt.Errorf("use 1 to %d bytes of text without control characters", maxClientText)
	}
	return nil
}

// CheckRedirects refuses what Validate lets be, because builds before took it and it may still work where it is: a public
// client that nobody can sign in to for want of a redirect URI, and plain http to a host that is not on loopback. Whoever
// registers a client at run time asks it; a configuration is warned.
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
