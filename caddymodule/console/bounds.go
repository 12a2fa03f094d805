package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ask asks the API for the operator. What an operator of one organisation may not ask is refused: people of others are not found, and
// everything else is forbidden.
func (o *operator) ask(ctx context.Context, a admin.Ask) (admin.Answer, error) {
	if !o.everywhere {
		if err := o.bind(ctx, &a); err != nil {
			return admin.Answer{}, err
		}
	}
	if err := o.mayDoToSelf(ctx, a); err != nil {
		return admin.Answer{}, err
	}
	return o.Do(ctx, a)
}

// readAs is like ask, for an answer of type T.
func readAs[T any](ctx context.Context, o *operator, a admin.Ask) (content T, answer admin.Answer, err error) {
	if answer, err = o.ask(ctx, a); err != nil {
		return content, answer, err
	}
	return answer.Content.(T), answer, nil
}

var (
	errForbidden = &admin.Refusal{Status: http.StatusForbidden, Err: errors.New("your role does not allow this")}
	errNoStore   = &admin.Refusal{Status: http.StatusServiceUnavailable, Err: errors.New("the store cannot be reached")}
	errNoUser    = &admin.Refusal{Status: http.StatusNotFound, Err: errors.New("there is no such user")}
	errSelf      = &admin.Refusal{Status: http.StatusConflict, Err: errors.New("you cannot do this to yourself: ask another operator, or use `caddy oauth user`")}
)

// mayDoToSelf refuses changes by which an operator would lock herself out, however the address spells her. So the last operator stays: only
// another one can remove her.
func (o *operator) mayDoToSelf(ctx context.Context, a admin.Ask) error {
	switch a.Route {
	case admin.RemoveUser, admin.DisableUser, admin.LockUser, admin.SetRole, admin.RecoverUser, admin.RemoveFactors, admin.RemoveFactor, admin.SetPassword:
	case admin.UpdateUser:
		if changes, is := a.Body.(store.Patch); is && !changes.Has("role") && !changes.Has("organisation") && !changes.Has("status") {
			return nil
		}
	default:
		return nil
	}
	user, _, err := admin.ReadAs[admin.User](ctx, o.Operator, admin.Ask{Route: admin.ShowUser, IDs: a.IDs[:1]})
	if err == nil && user.ID == o.UserID {
		err = errSelf
	}
	return err
}

// ownMembers are the members of people that an operator of one organisation may set. Not among them: the organisation; groups, which count
// at every gate; the username, by which some applications know people; and what is verified, which decides whose accounts at providers sign in.
var ownMembers = []string{"user", "name", "email", "role", "given_name", "family_name", "locale", "zoneinfo", "picture", "phone_number", "address"}

// bind restricts what an operator of one organisation asks to that organisation, or refuses it.
func (o *operator) bind(ctx context.Context, a *admin.Ask) error {
	switch a.Route {
	case admin.ListUsers:
		a.Query = with(a.Query, "organisation", o.user.Organisation)
		return nil
	case admin.ShowUser, admin.UserSessions, admin.ListFactors:
		_, err := o.colleague(ctx, a.IDs[0])
		return err
	case admin.ListSessions, admin.ListAudit, admin.ExportAudit:
		if a.Query.Get("user") == "" {
			return errForbidden
		}
		_, err := o.colleague(ctx, a.Query.Get("user"))
		return err
	case admin.ShowAudit:
		return o.colleaguesEvent(ctx, *a)
	case admin.EndSession:
		return o.managedSession(ctx, a.IDs[0])
	case admin.EndSessions:
		if a.Query.Get("client") != "" {
			return errForbidden
		}
		return o.managed(ctx, a.Query.Get("user"))
	case admin.AddUser:
		return o.bindNew(a, false)
	case admin.InviteUser:
		return o.bindInvitation(ctx, a)
	case admin.UpdateUser:
		changes, is := a.Body.(store.Patch)
		if !is || !o.mayset(changes) {
			return errForbidden
		}
		return o.managed(ctx, a.IDs[0])
	case admin.RemoveUser, admin.DisableUser, admin.LockUser, admin.EnableUser, admin.RecoverUser, admin.RemoveFactors, admin.RemoveFactor:
		return o.managed(ctx, a.IDs[0])
	}
	return errForbidden
}

// colleague returns a user of the operator's organisation. The id may be an address.
func (o *operator) colleague(ctx context.Context, id string) (admin.User, error) {
	user, _, err := admin.ReadAs[admin.User](ctx, o.Operator, admin.Ask{Route: admin.ShowUser, IDs: []string{id}})
	if err == nil && user.Organisation != o.user.Organisation {
		err = errNoUser
	}
	return user, err
}

// colleaguesEvent refuses to show an event of the audit log that is about no user of the operator's organisation.
func (o *operator) colleaguesEvent(ctx context.Context, a admin.Ask) error {
	event, _, err := admin.ReadAs[admin.AuditEvent](ctx, o.Operator, a)
	if err != nil {
		return err
	}
	l := lineOf(&event)
	_, err = o.colleague(ctx, l.take("subject"))
	return err
}

// managed refuses to change a user who is none of the operator's organisation, or whose role the operator's does not manage.
func (o *operator) managed(ctx context.Context, id string) error {
	user, err := o.colleague(ctx, id)
	if err == nil && user.Role != "" && !o.manages(user.Role) {
		err = errForbidden
	}
	return err
}

// managedSession refuses to end a session of a user whom the operator does not manage.
func (o *operator) managedSession(ctx context.Context, id string) error {
	if !o.Target.IsServing(ctx) || !o.Target.Node.Life.Enter() {
		return errNoStore
	}
	family, err := o.Target.Issuer.Families.Living(ctx, id)
	o.Target.Node.Life.Leave()
	switch {
	case err != nil:
		return &admin.Refusal{Status: http.StatusServiceUnavailable, Err: err}
	case family == nil:
		return errNoUser
	}
	return o.managed(ctx, family.User.ID)
}

// mayset reports whether the operator may set all members of a patch, with the role that it gives.
func (o *operator) mayset(p store.Patch) bool {
	for name := range p {
		if !slices.Contains(ownMembers, name) {
			return false
		}
	}
	var role store.Role
	value, gives := p["role"]
	return !gives || json.Unmarshal(value, &role) == nil && o.manages(role)
}

// bindNew puts a new user into the operator's organisation. The role has to be named: that of new users may be one with more rights.
func (o *operator) bindNew(a *admin.Ask, invited bool) error {
	p, is := a.Body.(store.Patch)
	if !is || !o.mayset(p) || !p.Has("role") || !invited && p.Has("user") {
		return errForbidden
	}
	bound := make(store.Patch, len(p)+1)
	for name, value := range p {
		bound[name] = value
	}
	bound["organisation"] = jsonText(o.user.Organisation)
	a.Body = bound
	return nil
}

// bindInvitation allows to invite users of the operator's organisation, and new ones into it.
func (o *operator) bindInvitation(ctx context.Context, a *admin.Ask) error {
	p, is := a.Body.(store.Patch)
	var name string
	if !is || json.Unmarshal(p["user"], &name) != nil {
		return errForbidden
	}
	err := o.managed(ctx, name)
	var refused *admin.Refusal
	switch {
	case err == nil && len(p) == 1:
		return nil
	case errors.As(err, &refused) && refused.Status == http.StatusNotFound && len(p) > 1:
		return o.bindNew(a, true)
	case err == nil:
		return &admin.Refusal{Status: http.StatusConflict, Err: errors.New("there is a user with this address")}
	}
	return err
}

// jsonText returns a text in JSON.
func jsonText(text string) jsontext.Value {
	value, _ := json.Marshal(text, jsontext.AllowInvalidUTF8(true)) // the reader refuses it
	return value
}

// with returns a query with another value.
func with(query url.Values, name, value string) url.Values {
	changed := url.Values{name: {value}}
	for other, values := range query {
		if other != name {
			changed[other] = values
		}
	}
	return changed
}
