package store

import (
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Lifetimes are how long tokens live: access tokens by the grant that they came from, and what they are refreshed or
// exchanged with. A zero member means "not set".
type Lifetimes struct {
	AuthorizationCode time.Duration `json:"authorization_code,omitempty"`
	ClientCredentials time.Duration `json:"client_credentials,omitempty"`
	Password          time.Duration `json:"password,omitempty"`
	AdminCreated      time.Duration `json:"admin_created,omitempty"`
	// Refresh is how long a family can be refreshed in all, however often it is.
	Refresh time.Duration `json:"refresh,omitempty"`
	// RefreshIdle is how long it may rest between two refreshes.
	RefreshIdle time.Duration `json:"refresh_idle,omitempty"`
	// RefreshGrace is how long after its use a refresh token gives its successor again. NoGrace turns that off.
	RefreshGrace time.Duration `json:"refresh_grace,omitempty"`
	// SameAddress makes it a reuse when that is asked for from another address, or by another family of user agents, than the
	// token was used from. It belongs to RefreshGrace: who sets the one without the other has it off.
	SameAddress bool `json:"refresh_grace_same_address,omitempty"`
	// Code is how long an authorization code can be redeemed.
	Code time.Duration `json:"code,omitempty"`
}

// NoGrace as Lifetimes.RefreshGrace makes every second use of a refresh token a reuse.
const NoGrace = time.Duration(-1)

// DefaultLifetimes are those of the wire contract.
var DefaultLifetimes = Lifetimes{
	AuthorizationCode: 6 * time.Hour,
	ClientCredentials: 2 * time.Hour,
	Password:          28 * 24 * time.Hour,
	AdminCreated:      28 * 24 * time.Hour,
	Refresh:           90 * 24 * time.Hour,
	RefreshIdle:       30 * 24 * time.Hour,
	RefreshGrace:      30 * time.Second,
	Code:              time.Minute,
}

// MaxLifetime is the longest life of an access token. The gate refuses any that claims more, so that a leaked signing
// key cannot be used to mint tokens for years.
const MaxLifetime = 35 * 24 * time.Hour

// Day is how operators count lifetimes: 24 hours, whatever the clocks do.
const Day = 24 * time.Hour

// MaxFamilyLifetime is the longest time in which a family can be refreshed.
const MaxFamilyLifetime = 400 * Day

// lifetimeBounds are the least and the most of each lifetime.
var lifetimeBounds = []struct {
	name        string
	For         func(*Lifetimes) *time.Duration
	least, most time.Duration
}{
	{"authorization_code", func(l *Lifetimes) *time.Duration { return &l.AuthorizationCode }, time.Second, MaxLifetime},
	{"client_credentials", func(l *Lifetimes) *time.Duration { return &l.ClientCredentials }, time.Second, MaxLifetime},
	{"password", func(l *Lifetimes) *time.Duration { return &l.Password }, time.Second, MaxLifetime},
	{"admin_created", func(l *Lifetimes) *time.Duration { return &l.AdminCreated }, time.Second, MaxLifetime},
	{"refresh", func(l *Lifetimes) *time.Duration { return &l.Refresh }, time.Second, MaxFamilyLifetime},
	{"refresh_idle", func(l *Lifetimes) *time.Duration { return &l.RefreshIdle }, time.Second, MaxFamilyLifetime},
	{"refresh_grace", func(l *Lifetimes) *time.Duration { return &l.RefreshGrace }, NoGrace, 5 * time.Minute},
	{"code", func(l *Lifetimes) *time.Duration { return &l.Code }, time.Second, 10 * time.Minute},
}

// Or fills the members that are not set from defaults.
func (l Lifetimes) Or(defaults Lifetimes) Lifetimes {
	if l == (Lifetimes{}) { // as most clients have it
		return defaults
	}
	return l.filled(defaults)
}

func (l Lifetimes) filled(defaults Lifetimes) Lifetimes {
	if l.RefreshGrace == 0 {
		l.SameAddress = l.SameAddress || defaults.SameAddress
	}
	for _, bound := range lifetimeBounds {
		if d := bound.For(&l); *d == 0 {
			*d = *bound.For(&defaults)
		}
	}
	return l
}

// Words are the lifetimes that are set, by their names in the configuration, as durations; nil: none.
func (l Lifetimes) Words() map[string]string {
	var words map[string]string
	for _, bound := range lifetimeBounds {
		if d := *bound.For(&l); d != 0 {
			if words == nil {
				words = make(map[string]string)
			}
			words[bound.name] = max(d, 0).String() // NoGrace is 0
		}
	}
	if l.SameAddress {
		words["refresh_grace_same_address"] = "true"
	}
	return words
}

// Validate refuses lifetimes that are set and out of bounds.
func (l Lifetimes) Validate() error {
	for _, bound := range lifetimeBounds {
		if d := *bound.For(&l); d != 0 && (d < bound.least || d > bound.most) {
			return fmt.Errorf("token lifetime %s %s: use %s to %s", bound.name, d, FormatBound(bound.least), FormatBound(bound.most))
		}
	}
	return nil
}

// FormatBound writes a bound as a configuration would.
func FormatBound(d time.Duration) string {
	switch {
	case d == NoGrace:
		return "0"
	case d >= Day:
		return fmt.Sprintf("%dd", d/Day)
	case d >= time.Minute:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// For returns the lifetime of access tokens that come from the grant type. A refreshed token asks with the grant that
// its family came from.
func (l Lifetimes) For(grant oauth.GrantType) time.Duration {
	switch grant {
	case oauth.AuthorizationCode, BrowserSession, HostSession:
		return l.AuthorizationCode
	case oauth.PasswordGrant:
		return l.Password
	case AdminCreated:
		return l.AdminCreated
	default:
		return l.ClientCredentials
	}
}

// Leeway is how far our own nodes' clocks may be apart.
const Leeway = 5 * time.Second
