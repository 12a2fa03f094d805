package console

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// recentSignIn is how long after a sign-in an operator can change something.
const recentSignIn = 15 * time.Minute

// operator is who asks.
type operator struct {
	admin.Operator
	user *store.User
	// everywhere: the operator sees and changes everything. Otherwise only people of the user's organisation.
	everywhere bool
	// fresh: the sign-in is recent enough for changes.
	fresh bool
}

// denied is the error of a request by a user who is no operator.
type denied struct{ user string }

func (denied) Error() string { return "the user is no operator" }

func (denied) As(target any) bool {
	if e, is := target.(**oauth.Error); is {
		*e = oauth.NewError(oauth.AccessDenied, "role_missing")
		return true
	}
	return false
}

// identify finds out who asks.
func (v *visit) identify() error {
	t, session := caller.Token(v.r), caller.KeptSession(v.r)
	target := v.parts.target.Load()
	switch {
	case target == nil:
		return oauth.Unavailable("not_started", nil)
	case t == nil || session.IsEmpty() || t.IsServerToken(): // a token that a program sends opens nothing here
		return oauth.NewError(oauth.AccessDenied, "session_missing").WithDescription("The console is for people who have signed in with a browser.")
	case t.ACR() != oauth.TwoFactorACR:
		return oauth.NewError(oauth.AccessDenied, "factor_missing").WithDescription("The console needs a sign-in with two factors.")
	}
	return v.become(target, t)
}

// become makes the user of a token the operator, by what the user is now: the session may be older than a change of the role.
func (v *visit) become(target *admin.Target, t *token.AccessToken) error {
	self := admin.Operator{Target: target, UserID: t.Subject}
	user, _, err := admin.ReadAs[admin.User](v.r.Context(), self, admin.Ask{Route: admin.ShowUser, IDs: []string{t.Subject}})
	if refused := (*admin.Refusal)(nil); errors.As(err, &refused) {
		if refused.Status == http.StatusNotFound {
			return denied{t.Subject}
		}
		return oauth.Unavailable("store_unavailable", err)
	}
	u := user.User
	u.Role, u.Organisation = user.Role, user.Organisation
	everywhere := slices.Contains(v.parts.Operators.Everywhere, u.Role)
	inOrganisation := slices.Contains(v.parts.Operators.InOrganisation, u.Role) && u.Organisation != ""
	if user.RoleUndeclared || cmp.Or(u.Status, store.UserActive) != store.UserActive || !everywhere && !inOrganisation {
		return denied{cmp.Or(u.Name, u.Email, u.ID)}
	}
	age := target.Node.StoreTime().Sub(t.AuthTime)
	v.operator = operator{Operator: self, user: &u, everywhere: everywhere, fresh: !t.AuthTime.IsZero() && age < recentSignIn}
	return nil
}

// manages reports whether the operator may give users a role, and change those who have it.
func (o *operator) manages(role store.Role) bool {
	return o.everywhere || o.Target.Issuer.Roles.Manages(o.user.Role, role)
}

// identifyAgain finds out again who asks, once a form has arrived: a body may take seconds, in which a session ends and a role is taken.
func (v *visit) identifyAgain() error {
	if err := v.identify(); err != nil {
		return err
	}
	user, err := v.operator.ownerOf(v.context(), caller.Token(v.r).FamilyID)
	if err == nil && (user == nil || user.ID != v.operator.UserID) {
		err = oauth.NewError(oauth.AccessDenied, "session_ended").WithDescription("You are signed out.")
	}
	return err
}

// keepsAudit reports whether the events of the audit log are kept.
func (o *operator) keepsAudit() bool { return o.Target.Audit.Keep > 0 }
