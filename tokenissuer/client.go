package tokenissuer

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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

// Client is an application that may ask for tokens. A Client that the directory has handed out is never changed.
type Client struct {
	ID   string
	Name string
	Type ClientType
	// Secrets are the digests of the client's secrets; several may be live during a rotation.
	Secrets []ClientSecret
	// Grants are the grant types the client may use.
	Grants []GrantType
	// Scopes are the ceiling of what the client can be granted.
	Scopes Scopes
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
	// Lifetimes are the client's own; zero members fall back to the issuer's.
	Lifetimes Lifetimes
	// Disabled clients are refused as if they did not exist.
	Disabled  bool
	CreatedAt time.Time
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
	if len(c.Scopes) == 0 {
		c.Scopes = Scopes{ScopePublic}
	}
	if len(c.Grants) > 0 {
		return
	}
	if c.IsPublic() {
		c.Grants = []GrantType{AuthorizationCode, RefreshTokenGrant}
	} else {
		c.Grants = []GrantType{ClientCredentials}
	}
}

// IsPublic reports whether the client can keep no secret. It may have one all the same, which proves nothing: it need
// not be sent, but when sent it must be right.
func (c *Client) IsPublic() bool { return c.Type != ConfidentialClient }

// MayUse tells whether the client is registered for the grant type.
func (c *Client) MayUse(grant GrantType) bool { return slices.Contains(c.Grants, grant) }

// secretMatches compares a secret's digest with every live secret in constant time.
func (c *Client) secretMatches(digest [sha256.Size]byte, now time.Time) bool {
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
	if len(c.Name) > maxClientText || strings.ContainsFunc(c.Name, unicode.IsControl) || !utf8.ValidString(c.Name) {
		return fmt.Errorf("client name: use at most %d bytes of text without control characters", maxClientText)
	}
	if err := c.Type.Validate(); err != nil {
		return err
	}
	if !c.IsPublic() && len(c.Secrets) == 0 {
		return errors.New("a confidential client needs a secret")
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
		if err := ValidateRedirectURI(uri); err != nil {
			return err
		}
	}
	for _, origin := range c.CORSOrigins {
		if err := ValidateOrigin(origin); err != nil {
			return fmt.Errorf("cors_origins %w", err)
		}
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

// ValidateRedirectURI says what is wrong with a redirect URI that is to be registered.
func ValidateRedirectURI(uri string) error {
	if err := validateRedirectURI(uri); err != nil {
		return fmt.Errorf("redirect URI %q: %w", uri, err)
	}
	return nil
}

// CheckRedirects refuses what Validate lets be, because builds before took it and it may still work where it is: a public
// client that nobody can sign in to for want of a redirect URI, and plain http to a host that is not on loopback. Whoever
// registers a client at run time asks it; a configuration is warned.
func (c *Client) CheckRedirects() error {
	if err := c.checkReachable(); err != nil {
		return err
	}
	return c.checkPlainHTTP()
}

func (c *Client) checkReachable() error {
	if c.IsPublic() && c.MayUse(AuthorizationCode) && len(c.RedirectURIs) == 0 {
		return errors.New("nobody can sign in to a public client without a redirect URI: add one, or leave the grant authorization_code out")
	}
	return nil
}

func (c *Client) checkPlainHTTP() error {
	for _, uri := range c.RedirectURIs {
		if u, err := url.Parse(uri); err == nil && u.Scheme == "http" && !IsLoopback(u.Hostname()) {
			return fmt.Errorf("redirect URI %q: plain http is for loopback hosts only, because anybody on the way can read the code: use https", uri)
		}
	}
	return nil
}

// IsLoopback reports whether a host is localhost or a loopback address.
func IsLoopback(host string) bool {
	address, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && address.IsLoopback()
}

// validateRedirectURI refuses what could never be a safe target: relative, with a wildcard, which nothing would match, with
// a fragment (RFC 6749 §3.1.2), with credentials, with parameters that the answer itself sets, or of a scheme that runs code
// or leads to no application.
func validateRedirectURI(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || !u.IsAbs() {
		return errors.New("use an absolute URI")
	}
	if strings.Contains(uri, "#") || u.User != nil || strings.ContainsFunc(uri, unicode.IsControl) || strings.ContainsAny(uri, " \\") {
		return errors.New("fragments, credentials, spaces, backslashes and control characters are not allowed")
	}
	if strings.Contains(uri, "*") {
		return errors.New("a * stands for nothing, because redirect URIs are compared byte for byte: name each of them")
	}
	switch strings.ToLower(u.Scheme) {
	case "javascript", "data", "vbscript", "file", "filesystem", "blob", "about", "view-source", "urn", "mailto", "tel", "ftp", "ws", "wss":
		return fmt.Errorf("scheme %q is not allowed", u.Scheme)
	case "http", "https":
		if u.Host == "" {
			return errors.New("the host is missing")
		}
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil { // at a semicolon, where some readers see another parameter
		return errors.New("the query must be pairs that & separates, percent-encoded")
	}
	for _, name := range []string{"code", "state", "response", "error", "iss"} {
		if query.Has(name) {
			return fmt.Errorf("the query must not hold %q: the answer sets it", name)
		}
	}
	return nil
}

// getsRefresh tells whether a refresh token goes with a grant of the scopes: the client is registered for the grant, or
// a scope asks for one.
func (c *Client) getsRefresh(granted Scopes) bool {
	return c.MayUse(RefreshTokenGrant) || slices.ContainsFunc(granted, asksForRefresh)
}

// mayRefresh tells whether the client can use refresh tokens: it is registered for the grant, or for a scope that asks
// for them.
func (c *Client) mayRefresh() bool {
	return c.MayUse(RefreshTokenGrant) || slices.ContainsFunc(c.Scopes, asksForRefresh)
}
