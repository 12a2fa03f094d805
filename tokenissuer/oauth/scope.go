package oauth

import (
	"fmt"
	"slices"
	"strings"
)

// Built-in scopes.
const (
	// ScopePublic is granted when a request names no scope.
	ScopePublic = "public"
	// ScopeTrusted acts for a user. Server tokens never hold it.
	ScopeTrusted = "trusted"
	// ScopeRefreshToken asks for a refresh token.
	ScopeRefreshToken = "refresh_token"
	// ScopeOfflineAccess is an alias of ScopeRefreshToken (OpenID Connect Core §11).
	ScopeOfflineAccess = "offline_access"
	// ScopeGroups puts the user's groups into the token.
	ScopeGroups = "groups"
)

// Scopes of OpenID Connect (Core §5.4), known where the issuer is an OpenID provider.
const (
	// ScopeOpenID asks for an ID token.
	ScopeOpenID  = "openid"
	ScopeProfile = "profile"
	ScopeEmail   = "email"
	ScopePhone   = "phone"
	ScopeAddress = "address"
)

const (
	maxScopes     = 100
	maxScopeBytes = 2048
)

// Scopes is a list of distinct scope names (RFC 6749 §3.3), in the order of the request.
type Scopes []string

// ParseScopes parses a list of scopes: names separated by spaces. It keeps their order and drops duplicates. A
// character that RFC 6749 §3.3 excludes, or more than 100 names or 2 KiB, is an invalid_scope.
func ParseScopes(text string) (Scopes, error) {
	if len(text) > maxScopeBytes {
		return nil, NewError(InvalidScope, "scope_too_long")
	}
	var scopes Scopes
	for name := range strings.SplitSeq(text, " ") {
		if name == "" || slices.Contains(scopes, name) {
			continue
		}
		if !validScopeName(name) {
			return nil, NewError(InvalidScope, "scope_malformed")
		}
		if len(scopes) == maxScopes {
			return nil, NewError(InvalidScope, "scope_too_long")
		}
		scopes = append(scopes, name)
	}
	return scopes, nil
}

// RequestedScopes parses the scope parameter of a request, in which any ASCII white space may separate the names.
func RequestedScopes(text string) (Scopes, error) {
	return ParseScopes(strings.Map(func(c rune) rune {
		if '\t' <= c && c <= '\r' {
			return ' '
		}
		return c
	}, text))
}

// validScopeName reports whether a name is a scope-token = 1*( %x21 / %x23-5B / %x5D-7E ) of RFC 6749 §3.3.
func validScopeName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c < 0x21 || c > 0x7e || c == '"' || c == '\\' {
			return false
		}
	}
	return name != ""
}

// String joins the names with single spaces, as in the scope parameter and claim.
func (s Scopes) String() string { return strings.Join(s, " ") }

// Has reports whether name is among the scopes, byte for byte.
func (s Scopes) Has(name string) bool { return slices.Contains(s, name) }

// Missing returns the first of names that s lacks, or "".
func (s Scopes) Missing(names ...string) string {
	for _, name := range names {
		if !s.Has(name) {
			return name
		}
	}
	return ""
}

// Scope declares a scope that the issuer knows.
type Scope struct {
	// Name is its name in requests and tokens (RFC 6749 §3.3).
	Name string `json:"name"`
	// Words tell a person what the scope allows.
	Words string `json:"words,omitempty"`
	// ServerTokens lets a server token, which acts for no user, hold the scope. By default they can hold only `public`.
	ServerTokens bool `json:"server_tokens,omitempty"`
}

// ScopeCatalogue holds the issuer's scopes by name. The zero value has the built-in scopes.
type ScopeCatalogue struct {
	declared map[string]Scope
	openID   bool
}

// builtinScopes are in every catalogue. A declaration of the same name replaces one.
var builtinScopes = []Scope{
	{Name: ScopePublic, Words: "Read public data", ServerTokens: true},
	{Name: ScopeTrusted, Words: "Act on your behalf"},
	{Name: ScopeRefreshToken, Words: "Stay signed in"},
	{Name: ScopeOfflineAccess, Words: "Stay signed in"},
	{Name: ScopeGroups, Words: "See which groups you belong to"},
}

// openIDScopes are in the catalogues of OpenID providers, likewise; providerScopes are both.
var openIDScopes = []Scope{
	{Name: ScopeOpenID, Words: "Know who you are"},
	{Name: ScopeProfile, Words: "See your name, language and picture"},
	{Name: ScopeEmail, Words: "See your e-mail address"},
	{Name: ScopePhone, Words: "See your phone number"},
	{Name: ScopeAddress, Words: "See your postal address"},
}

var providerScopes = slices.Concat(builtinScopes, openIDScopes)

// IsOpenIDScope reports whether a scope is one of OpenID Connect's own, which act for a user where the issuer is an OpenID provider.
func IsOpenIDScope(name string) bool {
	return slices.ContainsFunc(openIDScopes, func(s Scope) bool { return s.Name == name })
}

// NewScopeCatalogue returns a catalogue of the built-in and the declared scopes.
func NewScopeCatalogue(declared ...Scope) ScopeCatalogue {
	c := ScopeCatalogue{declared: make(map[string]Scope, len(declared))}
	for _, s := range declared {
		s.ServerTokens = s.Name == ScopePublic || s.ServerTokens && !ActsForUser(s.Name)
		c.declared[s.Name] = s
	}
	return c
}

// Declare adds scopes that nobody has declared, with their names as words. It is called while a configuration is read, before anybody
// else uses the catalogue.
func (c ScopeCatalogue) Declare(names []string) {
	for _, name := range names {
		if _, known := c.Find(name); !known && !IsOpenIDScope(name) {
			c.declared[name] = Scope{Name: name, Words: name}
		}
	}
}

// WithOpenID returns a catalogue that has the scopes of OpenID Connect too.
func (c ScopeCatalogue) WithOpenID() ScopeCatalogue {
	c.openID = true
	return c
}

// builtin returns the scopes that need no declaration.
func (c ScopeCatalogue) builtin() []Scope {
	if c.openID {
		return providerScopes
	}
	return builtinScopes
}

// Find returns the scope of that name.
func (c ScopeCatalogue) Find(name string) (Scope, bool) {
	if s, ok := c.declared[name]; ok {
		return s, true
	}
	for _, s := range c.builtin() {
		if s.Name == name {
			return s, true
		}
	}
	return Scope{}, false
}

// Names returns the names of all scopes: the built-in ones first, the others sorted.
func (c ScopeCatalogue) Names() []string {
	var names []string
	for _, s := range c.builtin() {
		names = append(names, s.Name)
	}
	own := len(names)
	for name := range c.declared {
		if !slices.Contains(names[:own], name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[own:])
	return names
}

// ActsForUser reports whether a scope requires a user, so that no server token can hold it.
func ActsForUser(name string) bool {
	return name == ScopeTrusted || name == ScopeRefreshToken || name == ScopeOfflineAccess
}

// Check refuses scopes that are not declared.
func (c ScopeCatalogue) Check(scopes Scopes) error {
	for _, name := range scopes {
		_, known := c.Find(name)
		switch {
		case !known && IsOpenIDScope(name):
			return fmt.Errorf("unknown scope %q: add `openid` to the oauth block, or declare it first", name)
		case !known:
			return fmt.Errorf("unknown scope %q: declare it first", name)
		}
	}
	return nil
}

// CheckScopeNames refuses malformed names (RFC 6749 §3.3).
func CheckScopeNames(names []string) error {
	for _, name := range names {
		if parsed, err := ParseScopes(name); err != nil || len(parsed) != 1 {
			return fmt.Errorf("%q is no scope", name)
		}
	}
	return nil
}

// Grantable checks the scope parameter of a request: every name must be known, allowed for the client and accepted by
// allowed. No name means `public`. The result shares no memory with the parameter, which would keep the whole request
// in memory for as long as the token is cached.
func (c ScopeCatalogue) Grantable(text string, ceiling Scopes, allowed func(Scope) bool) (Scopes, error) {
	scopes, err := RequestedScopes(text)
	if err != nil {
		return nil, err
	}
	if len(scopes) == 0 {
		scopes = Scopes{ScopePublic}
	}
	for i, name := range scopes {
		scope, known := c.Find(name)
		scopes[i] = scope.Name
		switch {
		case !known && strings.Contains(name, "+"):
			return nil, NewError(InvalidScope, "scope_unknown").WithDescription(descriptions[InvalidScope] +
				" A + that a form or a query has as %2B, and multipart or JSON as it is, is part of a name: separate names by spaces.")
		case !known:
			return nil, NewError(InvalidScope, "scope_unknown")
		case !ceiling.Has(name) || !allowed(scope):
			return nil, NewError(InvalidScope, "scope_not_allowed")
		}
	}
	if slices.Equal(scopes, ceiling) {
		return slices.Clip(ceiling), nil // tokens of a client that requests the same share the list
	}
	return scopes, nil
}

// AsksForRefresh reports whether a scope requests a refresh token.
func AsksForRefresh(name string) bool { return name == ScopeRefreshToken || name == ScopeOfflineAccess }

// ResourceScopes returns the distinct names that concern resources. Scopes that request a refresh token concern only
// a client and its issuer, so that no challenge and no metadata of a resource name them.
func ResourceScopes(names []string) []string {
	var scopes []string
	for _, name := range names {
		if !AsksForRefresh(name) && !slices.Contains(scopes, name) {
			scopes = append(scopes, name)
		}
	}
	return scopes
}

// AnyScope accepts every scope, as for tokens that act for a user.
func AnyScope(Scope) bool { return true }

// DeclaredWords returns the description in a scope's declaration; empty if it has none, and for built-in scopes that
// are not declared.
func (c ScopeCatalogue) DeclaredWords(name string) string { return c.declared[name].Words }
