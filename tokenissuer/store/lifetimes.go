package store

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Lifetimes are how long tokens live: access tokens by the grant that they were issued for, 1s to 35 days, and codes and refresh tokens.
// A zero member is not set.
type Lifetimes struct {
	// AuthorizationCode: default 6h. It also applies to the access token of a browser session.
	AuthorizationCode time.Duration `json:"authorization_code,omitempty"`
	// ClientCredentials: default 2h.
	ClientCredentials time.Duration `json:"client_credentials,omitempty"`
	// Password: default 28d.
	Password time.Duration `json:"password,omitempty"`
	// AdminCreated: default 28d.
	AdminCreated time.Duration `json:"admin_created,omitempty"`
	// Refresh is how long after the sign-in a family can be refreshed: 1s to 400 days, default 90d.
	Refresh time.Duration `json:"refresh,omitempty"`
	// RefreshIdle is the longest time between two refreshes: 1s to 400 days, default 30d.
	RefreshIdle time.Duration `json:"refresh_idle,omitempty"`
	// RefreshGrace is how long after its use a refresh token yields the same successor again, for a client that did not receive the
	// answer: at most 5m, default 30s. NoGrace, 0 in JSON, disables it: a client that repeats a refresh then loses all of its tokens.
	RefreshGrace time.Duration `json:"refresh_grace,omitempty"`
	// SameAddress treats a repeat within the grace as reuse when it comes from another address or user agent family than the refresh. By
	// default it is answered, with a warning in the audit log. Lifetimes with their own RefreshGrace do not inherit SameAddress.
	SameAddress bool `json:"refresh_grace_same_address,omitempty"`
	// Code is how long an authorization code can be redeemed: 1s to 10m, default 60s.
	Code time.Duration `json:"code,omitempty"`
}

// NoGrace as Lifetimes.RefreshGrace makes every second use of a refresh token reuse.
const NoGrace = time.Duration(-1)

// DefaultLifetimes are the documented defaults.
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

// MaxLifetime is the longest lifetime of an access token. The gate refuses a token that claims more, which limits what can be minted with
// a leaked signing key.
const MaxLifetime = 35 * 24 * time.Hour

// Day is 24 hours, regardless of daylight saving time.
const Day = 24 * time.Hour

// MaxFamilyLifetime is the longest time for which a family can be refreshed.
const MaxFamilyLifetime = 400 * Day

// lifetimeBounds are the minimum and maximum of each lifetime.
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

// Or returns l with the members that are not set taken from defaults.
func (l Lifetimes) Or(defaults Lifetimes) Lifetimes {
	if l == (Lifetimes{}) { // true of most clients
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

// sameAddress is the JSON name of SameAddress.
const sameAddress = "refresh_grace_same_address"

// MarshalJSON writes the members that are set, durations as text.
func (l Lifetimes) MarshalJSON() ([]byte, error) {
	words := make(map[string]any)
	for _, bound := range lifetimeBounds {
		if d := *bound.For(&l); d != 0 {
			words[bound.name] = max(d, 0).String() // NoGrace is 0
		}
	}
	if l.SameAddress {
		words[sameAddress] = true
	}
	return json.Marshal(words, json.Deterministic(true))
}

// UnmarshalJSON merges an object into the lifetimes. A null member resets that member, and null in place of the object resets all. A
// duration is a string, such as 90s, 15m, 2h or 28d, or a number of nanoseconds. 0 resets a member too, except refresh_grace.
func (l *Lifetimes) UnmarshalJSON(text []byte) error {
	var given map[string]jsontext.Value
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	if given == nil {
		*l = Lifetimes{}
	}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		value := given[name]
		if name == sameAddress {
			if err := json.Unmarshal(value, &l.SameAddress); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			continue
		}
		lifetime := l.Named(name)
		if lifetime == nil {
			return fmt.Errorf("unknown token lifetime %q", name)
		}
		d, err := durationOf(value)
		switch {
		case err != nil:
			return fmt.Errorf("token lifetime %s: %w", name, err)
		case d == NoGrace && lifetime == &l.RefreshGrace: // NoGrace is negative and means 0
			d--
		case d == 0 && lifetime == &l.RefreshGrace && value.Kind() != 'n':
			d = NoGrace
		}
		*lifetime = d
	}
	return nil
}

// LifetimesPatch returns a JSON value that changes the lifetimes as lines of NAME=DURATION say. An empty duration resets its member, and no
// lines at all reset every member.
func LifetimesPatch(lines []string) (any, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	patch := make(map[string]any)
	for _, line := range lines {
		name, value, ok := strings.Cut(line, "=")
		if !ok {
			return nil, fmt.Errorf("%q: write it as client_credentials=10m", line)
		}
		patch[name] = value
		switch value {
		case "":
			patch[name] = nil
		case "true", "false": // of refresh_grace_same_address
			patch[name] = value == "true"
		}
	}
	return patch, nil
}

// Lines returns the lifetimes that are set as lines that LifetimesPatch reads.
func (l Lifetimes) Lines() (lines []string) {
	for _, bound := range lifetimeBounds {
		if d := *bound.For(&l); d != 0 {
			lines = append(lines, bound.name+"="+max(d, 0).String()) // NoGrace is 0
		}
	}
	if l.SameAddress {
		lines = append(lines, sameAddress+"=true")
	}
	return lines
}

// durationOf decodes a duration from JSON; null is 0.
func durationOf(value jsontext.Value) (d time.Duration, err error) {
	var text string
	switch value.Kind() {
	case 'n':
		return 0, nil
	case '0':
		err = json.Unmarshal(value, (*int64)(&d))
		return d, err
	}
	if err := json.Unmarshal(value, &text); err != nil {
		return 0, err
	}
	days, rest, found := strings.Cut(text, "d")
	if !found {
		days, rest = "0", text
	}
	n, err := strconv.ParseFloat(days, 64)
	if rest != "" && err == nil {
		d, err = time.ParseDuration(rest)
	}
	if err != nil || text == "" {
		return 0, fmt.Errorf("%q is no duration: write it as 90s, 15m, 2h or 28d", text)
	}
	return time.Duration(n*float64(Day)) + d, nil
}

// LifetimeNames lists the JSON names of the lifetimes.
func LifetimeNames() []string {
	var names []string
	for _, bound := range lifetimeBounds {
		names = append(names, bound.name)
	}
	return names
}

// Named returns the lifetime with a JSON name, or nil.
func (l *Lifetimes) Named(name string) *time.Duration {
	for _, bound := range lifetimeBounds {
		if bound.name == name {
			return bound.For(l)
		}
	}
	return nil
}

// Validate returns an error when a lifetime is set and out of bounds.
func (l Lifetimes) Validate() error {
	for _, bound := range lifetimeBounds {
		if d := *bound.For(&l); d != 0 && (d < bound.least || d > bound.most) {
			what := bound.name + " " + d.String()
			if d < 0 && bound.least == NoGrace {
				what = bound.name // NoGrace cannot be written as a duration
			}
			return fmt.Errorf("token lifetime %s: use %s to %s", what, FormatBound(bound.least), FormatBound(bound.most))
		}
	}
	if l.RefreshGrace == NoGrace && l.SameAddress {
		return errors.New("token lifetime refresh_grace: 0 refuses every repeat, leave same_address out")
	}
	return nil
}

// FormatBound formats a bound as a configuration would.
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

// For returns the lifetime of access tokens issued for a grant type. For a refreshed token, callers pass the origin of its family.
func (l Lifetimes) For(grant oauth.GrantType) time.Duration {
	switch grant {
	case oauth.AuthorizationCode, oauth.DeviceCode, BrowserSession, HostSession:
		return l.AuthorizationCode
	case oauth.PasswordGrant:
		return l.Password
	case AdminCreated:
		return l.AdminCreated
	default:
		return l.ClientCredentials
	}
}

// Leeway is the tolerated difference between the clocks of the nodes.
const Leeway = 5 * time.Second
