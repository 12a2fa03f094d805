package clients

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Metadata is the metadata of a client (RFC 7591 §2), in a registration or in a metadata document. Unknown members are ignored, as the RFC
// requires.
type Metadata struct {
	RedirectURIs  []string `json:"redirect_uris,omitempty"`
	AuthMethod    string   `json:"token_endpoint_auth_method,omitzero"`
	GrantTypes    []string `json:"grant_types,omitempty"`
	ResponseTypes []string `json:"response_types,omitempty"`
	Name          string   `json:"client_name,omitzero"`
	Scope         string   `json:"scope,omitzero"`
	// ClientKeys applies to MethodPrivateKey.
	store.ClientKeys
	// ClientOpenID applies if the issuer is an OpenID provider.
	store.ClientOpenID
}

// Client authentication methods (RFC 7591 §2).
const (
	MethodNone       = "none"
	MethodBasic      = "client_secret_basic"
	MethodPost       = "client_secret_post"
	MethodPrivateKey = store.PrivateKeyJWT
)

const (
	maxRedirectURIs   = 50
	maxRedirectURI    = 2 << 10  // bytes
	maxKeys           = 16 << 10 // bytes of a JWK Set
	maxNameCharacters = 64
)

// ErrRedirectURI marks an error in a redirect URI, and errMetadata one in another member (RFC 7591 §3.2.2). They do not change its text.
var ErrRedirectURI, errMetadata = mark{"redirect URI"}, mark{"metadata"}

type mark struct{ of string }

func (mark) Error() string { return "" }

// describe sets a client's members from the metadata and checks them by our rules. A client that makes itself known uses the grant types
// authorization_code and refresh_token. name is used if the metadata has no name.
func (m *Metadata) describe(c *store.Client, name string) error {
	if err := m.checkFlow(); err != nil {
		return fmt.Errorf("%w%w", errMetadata, err)
	}
	if err := m.checkRedirectURIs(); err != nil {
		return fmt.Errorf("%w%w", ErrRedirectURI, err)
	}
	if err := m.readOpenID(c); err != nil {
		return fmt.Errorf("%w%w", errMetadata, err)
	}
	c.RedirectURIs = m.RedirectURIs
	c.Grants = []oauth.GrantType{oauth.AuthorizationCode}
	if len(m.GrantTypes) == 0 || slices.Contains(m.GrantTypes, string(oauth.RefreshTokenGrant)) {
		c.Grants = append(c.Grants, oauth.RefreshTokenGrant)
	}
	if c.Name = cleanName(m.Name); c.Name == "" {
		c.Name = name
	}
	return nil
}

// Secretless sets the members of a client without a secret: it is public, or signs assertions with its own key.
func (m *Metadata) Secretless(c *store.Client, name string) error {
	if err := m.describe(c, name); err != nil {
		return err
	}
	if m.AuthMethod == MethodPrivateKey {
		c.Type, c.PKCE = store.ConfidentialClient, oauth.PKCERequired
		if err := m.keys(c); err != nil {
			return fmt.Errorf("%w%w", errMetadata, err)
		}
		return nil
	}
	c.Type = store.PublicClient
	if slices.ContainsFunc(c.RedirectURIs, isOfDevice) {
		c.Type = store.NativeClient
	}
	return nil
}

// keys sets a client's public keys from its metadata. It ignores the keys of a client that authenticates by another method, because they
// have another purpose.
func (m *Metadata) keys(c *store.Client) error {
	k := m.ClientKeys
	switch {
	case !k.SignsAssertions():
		return fmt.Errorf("%s needs the client's public keys: give jwks or jwks_uri", MethodPrivateKey)
	case len(k.JWKS) > maxKeys:
		return fmt.Errorf("jwks: use at most %d bytes, or jwks_uri", maxKeys)
	}
	c.ClientKeys = k
	if err := k.Validate(); err != nil {
		return err
	}
	// In another spelling, the bounds on fetches would count it as another host, and the operator's denials would not match it.
	if u, err := url.Parse(k.JWKSURI); k.JWKSURI != "" && (err != nil || oauth.ValidateOrigin(u.Scheme+"://"+u.Host) != nil) {
		return errors.New("jwks_uri: write its host in lower case, without a dot at its end or the scheme's own port")
	}
	return CheckKeySet(c)
}

// apply sets a client's members from its metadata. The authentication method must be a supported one.
func (m *Metadata) apply(c *store.Client) error {
	switch m.AuthMethod {
	case MethodNone, MethodPrivateKey:
		return m.Secretless(c, "unnamed")
	case MethodBasic, MethodPost:
		c.Type = store.ConfidentialClient
		return m.describe(c, "unnamed")
	}
	return fmt.Errorf("%w%w", errMetadata, errors.New("token_endpoint_auth_method must be none, client_secret_basic, client_secret_post or private_key_jwt"))
}

// metadataOf returns the metadata of a registered client. method is its authentication method.
func metadataOf(c *store.Client, method string) Metadata {
	m := Metadata{
		RedirectURIs: c.RedirectURIs, AuthMethod: method, ResponseTypes: []string{"code"}, Name: c.Name, Scope: c.Scopes.String(),
		ClientKeys: c.ClientKeys, ClientOpenID: c.ClientOpenID,
	}
	for _, grant := range c.Grants {
		m.GrantTypes = append(m.GrantTypes, string(grant))
	}
	return m
}

// methodOf returns a client's authentication method. A client with a secret may send it in either of two places.
func methodOf(c *store.Client) string {
	switch {
	case c.IsPublic():
		return MethodNone
	case c.SignsAssertions():
		return MethodPrivateKey
	}
	return MethodBasic
}

// checkFlow refuses clients that need an unsupported flow.
func (m *Metadata) checkFlow() error {
	switch {
	case len(m.GrantTypes) > 0 && !slices.Contains(m.GrantTypes, string(oauth.AuthorizationCode)):
		return errors.New("grant_types must have authorization_code")
	case len(m.ResponseTypes) > 0 && !slices.Contains(m.ResponseTypes, "code"):
		return errors.New("response_types must have code")
	}
	return nil
}

func (m *Metadata) checkRedirectURIs() error {
	switch {
	case len(m.RedirectURIs) == 0:
		return errors.New("redirect_uris are missing")
	case len(m.RedirectURIs) > maxRedirectURIs:
		return errors.New("there are too many redirect_uris")
	}
	return checkTargets(m.RedirectURIs)
}

// checkTargets refuses redirect URIs that a client that made itself known may not have.
func checkTargets(uris []string) error {
	for _, uri := range uris {
		if len(uri) > maxRedirectURI || !utf8.ValidString(uri) {
			return errors.New("a redirect URI is too long, or no text")
		}
		if err := oauth.ValidateRedirectURI(uri); err != nil {
			return err
		}
		if err := errors.Join(checkShownHost(uri), checkScheme(uri)); err != nil {
			return err
		}
	}
	return (&store.Client{RedirectURIs: uris}).CheckPlainHTTP()
}

// reverseDomain matches a scheme that is a domain name in reverse, as com.example.app (RFC 8252 §7.1).
var reverseDomain = regexp.MustCompile(`^[a-z][a-z0-9-]*(\.[a-z0-9][a-z0-9-]*)+$`)

// knownSchemes are schemes of well-known clients that are not domain names.
var knownSchemes = []string{"cursor"}

// checkScheme refuses schemes that start another program on the device, such as ms-settings or search-ms. Otherwise a link to us would
// start it.
func checkScheme(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme == "https" || u.Scheme == "http" || slices.Contains(knownSchemes, u.Scheme) || reverseDomain.MatchString(u.Scheme) {
		return err
	}
	return fmt.Errorf("redirect URI %q: use https, http on loopback, or a scheme that is a domain name in reverse, like com.example.app", uri)
}

// readOpenID sets a client's OpenID Connect members from its metadata. It drops unsupported response modes.
func (m *Metadata) readOpenID(c *store.Client) error {
	c.ClientOpenID = m.ClientOpenID
	c.ResponseModes = slices.DeleteFunc(slices.Clone(m.ResponseModes), func(mode string) bool { return !slices.Contains(store.ResponseModes, mode) })
	if len(m.ResponseModes) > 0 && len(c.ResponseModes) == 0 {
		return errors.New("response_modes must have query or form_post")
	}
	if len(m.PostLogoutRedirectURIs) > maxRedirectURIs {
		return errors.New("there are too many post_logout_redirect_uris")
	}
	if err := checkTargets(m.PostLogoutRedirectURIs); err != nil {
		return fmt.Errorf("post_logout_redirect_uris: %w", err)
	}
	// A client must not make the server call itself.
	u, err := url.Parse(m.BackchannelLogoutURI)
	if m.BackchannelLogoutURI != "" && (err != nil || u.Scheme != "https" || oauth.IsLoopback(u.Hostname()) || len(m.BackchannelLogoutURI) > maxRedirectURI) {
		return errors.New("backchannel_logout_uri: use https, and no loopback host")
	}
	return nil
}

// checkShownHost refuses a web page whose host users would misread on the consent page.
func checkShownHost(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || oauth.HasPlainHost(u) {
		return err
	}
	return fmt.Errorf("redirect URI %q: write the host in ASCII letters, digits, hyphens and dots, other letters as xn--", uri)
}

// isOfDevice reports whether a redirect URI leads to a program on the user's device, by loopback or by a private-use scheme.
func isOfDevice(uri string) bool {
	_, loopback := oauth.WithoutPort(uri)
	return loopback || !strings.HasPrefix(strings.ToLower(uri), "http://") && !strings.HasPrefix(strings.ToLower(uri), "https://")
}

// maxMarks is the maximum number of marks on a letter in any language. More marks would overlap the lines above.
const maxMarks = 3

// withoutPiles removes the marks beyond maxMarks on a letter.
func withoutPiles(letters []rune) []rune {
	marks := 0
	return slices.DeleteFunc(letters, func(c rune) bool {
		if !unicode.In(c, unicode.Mn, unicode.Me) {
			marks = 0
			return false
		}
		marks++
		return marks > maxMarks
	})
}

// cleanName returns a name that a page can show between quotation marks. It has no invisible characters and no quotation marks, and fits on
// one line, so that the reader sees where it ends.
func cleanName(name string) string {
	if !utf8.ValidString(name) {
		return ""
	}
	seen := strings.Map(func(c rune) rune {
		switch {
		case unicode.In(c, unicode.Zs, unicode.Zl, unicode.Zp), c == '\t', c == '\n', c == '\r':
			return ' '
		case unicode.In(c, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs), c == 0x115f, c == 0x1160, c == 0x3164, c == 0xffa0, c == 0x2800:
			return -1 // the last ones are invisible letters and a symbol
		case unicode.In(c, unicode.Pi, unicode.Pf), strings.ContainsRune("\"\u201e\u201a\uff02\u2033\u301d\u301e\u301f", c):
			return '\''
		}
		return c
	}, name)
	letters := withoutPiles([]rune(strings.Join(strings.Fields(seen), " ")))
	if len(letters) > maxNameCharacters {
		letters = append(letters[:maxNameCharacters-1], '…')
	}
	return string(letters)
}
