package tokenissuer

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GrantType is a way to obtain tokens (RFC 6749 §1.3).
type GrantType string

// The grant types a client can be registered for.
const (
	AuthorizationCode GrantType = "authorization_code"
	ClientCredentials GrantType = "client_credentials"
	RefreshTokenGrant GrantType = "refresh_token"
	PasswordGrant     GrantType = "password"
)

var knownGrants = []GrantType{ClientCredentials, AuthorizationCode, RefreshTokenGrant, PasswordGrant}

func (g GrantType) known() bool { return slices.Contains(knownGrants, g) }

func joinGrants(grants []GrantType) string {
	names := make([]string, len(grants))
	for i, g := range grants {
		names[i] = string(g)
	}
	return strings.Join(names, ", ")
}

// Grant is what a grant type has proved: the input of Issue. It is never stored.
type Grant struct {
	Type   GrantType
	Client *Client
	// User is for whom the token acts; nil makes a server token.
	User   *User
	Scopes Scopes
	// FamilyID names the token family; empty on a server token.
	FamilyID string
	// AuthTime is when the user last proved a password; zero on a server token.
	AuthTime time.Time
	// Lifetime overrides the lifetime of the grant type; zero keeps it.
	Lifetime time.Duration
}

// User is the person a token acts for.
type User struct {
	ID           string
	Organisation string
	Role         string
}

// Lifetimes are how long access tokens live, by the grant that they came from. A zero member means "not set".
type Lifetimes struct {
	AuthorizationCode time.Duration `json:"authorization_code,omitempty"`
	ClientCredentials time.Duration `json:"client_credentials,omitempty"`
	Password          time.Duration `json:"password,omitempty"`
	AdminCreated      time.Duration `json:"admin_created,omitempty"`
}

// DefaultLifetimes are those of the wire contract.
var DefaultLifetimes = Lifetimes{
	AuthorizationCode: 6 * time.Hour,
	ClientCredentials: 2 * time.Hour,
	Password:          28 * 24 * time.Hour,
	AdminCreated:      28 * 24 * time.Hour,
}

// MaxLifetime is the longest life of an access token. The gate refuses any that claims more, so that a leaked signing
// key cannot be used to mint tokens for years.
const MaxLifetime = 35 * 24 * time.Hour

// Or fills the members that are not set from defaults.
func (l Lifetimes) Or(defaults Lifetimes) Lifetimes {
	fill := func(d, fallback time.Duration) time.Duration {
		if d == 0 {
			return fallback
		}
		return d
	}
	return Lifetimes{
		AuthorizationCode: fill(l.AuthorizationCode, defaults.AuthorizationCode),
		ClientCredentials: fill(l.ClientCredentials, defaults.ClientCredentials),
		Password:          fill(l.Password, defaults.Password),
		AdminCreated:      fill(l.AdminCreated, defaults.AdminCreated),
	}
}

// Validate refuses lifetimes that are set and not between one second and MaxLifetime.
func (l Lifetimes) Validate() error {
	for _, d := range []time.Duration{l.AuthorizationCode, l.ClientCredentials, l.Password, l.AdminCreated} {
		if d != 0 && (d < time.Second || d > MaxLifetime) {
			return fmt.Errorf("token lifetime %s: use 1s to %dd", d, MaxLifetime/(24*time.Hour))
		}
	}
	return nil
}

// of returns the lifetime of access tokens that come from the grant type. A refreshed token asks with the grant that
// its family came from.
func (l Lifetimes) of(grant GrantType) time.Duration {
	switch grant {
	case AuthorizationCode:
		return l.AuthorizationCode
	case PasswordGrant:
		return l.Password
	default:
		return l.ClientCredentials
	}
}
