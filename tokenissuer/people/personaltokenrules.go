package people

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The bounds of a token.
const (
	MaxTokenName = 100 // characters
	maxPerOwner  = 100
	leastLife    = time.Minute
	MostLifetime = store.MaxFamilyLifetime // as long as the end of a user is remembered
)

// The default lifetimes of tokens.
const (
	DefaultTokenLifetime = 90 * store.Day
	DefaultLongest       = 365 * store.Day
)

// TokenRules determine who may have tokens, and of what kind.
type TokenRules struct {
	// Scopes are those that tokens may have. If it is empty, they are those of a browser's session.
	Scopes oauth.Scopes
	// Lifetime is the default lifetime of a token, and Longest the maximum.
	Lifetime, Longest time.Duration
	// Roles and Groups limit who may make and use tokens to their members. If both are empty, all users may.
	Roles  []store.Role
	Groups []string
	// OperatorsOnly reports that users cannot make tokens themselves.
	OperatorsOnly bool
}

// MayMake reports whether a user may make a token now, without an operator.
func (r *TokenRules) MayMake(u *store.User) bool {
	return !r.OperatorsOnly && u.IsActive() && r.Allow(u)
}

// Allow reports whether a user may have tokens now. A service account always may, because an operator makes its tokens.
func (r *TokenRules) Allow(u *store.User) bool {
	if u.Service || len(r.Roles) == 0 && len(r.Groups) == 0 {
		return true
	}
	return slices.Contains(r.Roles, u.Role) || slices.ContainsFunc(r.Groups, func(name string) bool { return slices.Contains(u.AllGroups(), name) })
}

// within returns the scopes that the rules still allow.
func (r *TokenRules) within(scopes oauth.Scopes) oauth.Scopes {
	if slices.Equal(scopes, r.Scopes) {
		return r.Scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return !r.Scopes.Has(name) })
}

// TokenRequest is a request for a new token.
type TokenRequest struct {
	Name   string
	Scopes oauth.Scopes
	// Lifetime is 0 for the default.
	Lifetime time.Duration
	// Resources are those that the token is for (RFC 8707). If there are none, it is for the issuer's own audience.
	Resources []string
	// Form identifies the submitted form, which makes one token only. It is empty for a request by an operator.
	Form string
}

// InvalidTokenError is an error in a request that its sender can correct.
type InvalidTokenError struct {
	error
	// Fault selects the message on a page.
	Fault TokenFault
}

// TokenFault identifies a fault of a request.
type TokenFault string

// The faults of a request: an invalid name; no scope; a scope that tokens cannot have; a lifetime too short or too long; too many tokens;
// an owner who may not have or make tokens; a form that has already made its token.
const (
	FaultName     TokenFault = "name"
	FaultScopes   TokenFault = "scopes"
	FaultScope    TokenFault = "scope"
	FaultLifetime TokenFault = "lifetime"
	FaultTooMany  TokenFault = "too_many"
	FaultOwner    TokenFault = "owner"
	FaultUsed     TokenFault = "used"
)

var (
	errName     = InvalidTokenError{fmt.Errorf("give the token a name of at most %d characters, without control characters", MaxTokenName), FaultName}
	errScopes   = InvalidTokenError{errors.New("name at least one scope"), FaultScopes}
	errTooMany  = InvalidTokenError{fmt.Errorf("there are %d tokens already: remove one first", maxPerOwner), FaultTooMany}
	errNotOwner = InvalidTokenError{errors.New("the user may have no personal access tokens: they are for other roles or groups, or the user is not active"), FaultOwner}
	errOperator = InvalidTokenError{errors.New("operators make the tokens here: ask one"), FaultOwner}
	errUsed     = InvalidTokenError{errors.New("the form has made its token already"), FaultUsed}
)

// check refuses an invalid request. It sets a missing lifetime.
func (r *TokenRules) check(q *TokenRequest, owner *store.User) error {
	q.Name = strings.TrimSpace(q.Name)
	switch {
	case !owner.IsActive() || !r.Allow(owner):
		return errNotOwner
	case q.Form != "" && r.OperatorsOnly:
		return errOperator
	case !store.FitsLine(q.Name, MaxTokenName):
		return errName
	case len(q.Scopes) == 0:
		return errScopes
	}
	if missing := r.Scopes.Missing(q.Scopes...); missing != "" {
		return InvalidTokenError{fmt.Errorf("no personal access token can hold the scope %.64q: use %s", missing, r.Scopes), FaultScope}
	}
	if q.Lifetime == 0 {
		q.Lifetime = r.Lifetime
	}
	if q.Lifetime < leastLife || q.Lifetime > r.Longest {
		return InvalidTokenError{fmt.Errorf("a personal access token can live from %s to %s", store.FormatBound(leastLife), store.FormatBound(r.Longest)), FaultLifetime}
	}
	return nil
}
