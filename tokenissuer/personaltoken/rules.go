package personaltoken

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The bounds of what a token can be.
const (
	maxName      = 100 // bytes
	maxPerOwner  = 100
	leastLife    = time.Minute
	MostLifetime = store.MaxFamilyLifetime // as long as the end of a user is remembered
)

// Lifetimes of tokens where the configuration says nothing else.
const (
	DefaultLifetime = 90 * store.Day
	DefaultLongest  = 365 * store.Day
)

// Rules say who may have tokens, and of what kind.
type Rules struct {
	// Scopes are those that tokens can hold; empty: those of a browser's session.
	Scopes oauth.Scopes
	// Lifetime is how long a token lives where its maker does not say, and Longest the most that one can say.
	Lifetime, Longest time.Duration
	// Roles and Groups are whose members may make tokens and use them; both empty: everybody.
	Roles  []store.Role
	Groups []string
}

// Allow reports whether a user may have tokens now. A service account always may: an operator makes its tokens.
func (r *Rules) Allow(u *store.User) bool {
	if u.Service || len(r.Roles) == 0 && len(r.Groups) == 0 {
		return true
	}
	return slices.Contains(r.Roles, u.Role) || slices.ContainsFunc(r.Groups, func(name string) bool { return slices.Contains(u.Groups, name) })
}

// within returns the scopes that the rules still allow.
func (r *Rules) within(scopes oauth.Scopes) oauth.Scopes {
	if slices.Equal(scopes, r.Scopes) {
		return r.Scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return !r.Scopes.Has(name) })
}

// Request is what somebody asks of a new token.
type Request struct {
	Name   string
	Scopes oauth.Scopes
	// Lifetime 0 is the one of the rules.
	Lifetime time.Duration
	// Resources are those that it is for (RFC 8707); none: the issuer's own audience.
	Resources []string
}

// InvalidError is a request that its sender can mend.
type InvalidError struct{ error }

var (
	errName     = InvalidError{fmt.Errorf("give the token a name of at most %d bytes, without control characters", maxName)}
	errScopes   = InvalidError{errors.New("name at least one scope")}
	errTooMany  = InvalidError{fmt.Errorf("there are %d tokens already: remove one first", maxPerOwner)}
	errNotOwner = InvalidError{errors.New("the user may have no personal access tokens: they are for other roles or groups, or the user is not active")}
)

// check refuses a request, and fills in its lifetime.
func (r *Rules) check(q *Request, owner *store.User) error {
	q.Name = strings.TrimSpace(q.Name)
	switch {
	case !owner.IsActive() || !r.Allow(owner):
		return errNotOwner
	case q.Name == "" || len(q.Name) > maxName || !utf8.ValidString(q.Name) || strings.ContainsFunc(q.Name, unicode.IsControl):
		return errName
	case len(q.Scopes) == 0:
		return errScopes
	}
	if missing := r.Scopes.Missing(q.Scopes...); missing != "" {
		return InvalidError{fmt.Errorf("no personal access token can hold the scope %q: use %s", missing, r.Scopes)}
	}
	if q.Lifetime == 0 {
		q.Lifetime = r.Lifetime
	}
	if q.Lifetime < leastLife || q.Lifetime > r.Longest {
		return InvalidError{fmt.Errorf("a personal access token can live from %s to %s", store.FormatBound(leastLife), store.FormatBound(r.Longest))}
	}
	return nil
}
