package console

import (
	"context"
	"errors"
	"maps"
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
	errNoLetter  = &admin.Refusal{Status: http.StatusForbidden, Err: errors.New("links for people of your organisation go to them by mail, and no mail is sent here: ask an operator of everything")}
	errChanged   = &admin.Refusal{Status: http.StatusPreconditionFailed, Err: errors.New("it has changed since you read it: read it again, and decide anew")}
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
// at every gate; the address, by which gates let people in and providers link accounts; the username, by which some applications know people;
// and what is verified. A new person has the address to which the invitation is mailed.
var ownMembers = []string{"user", "name", "role", "given_name", "family_name", "locale", "zoneinfo", "picture", "phone_number", "address"}

// bind restricts what an operator of one organisation asks to that organisation, or refuses it. The request then names the user who was
// found, by the id: when it is carried out, the address may be another user's, or free.
func (o *operator) bind(ctx context.Context, a *admin.Ask) error {
	switch a.Route {
	case admin.ListUsers:
		a.Query = with(a.Query, "organisation", o.user.Organisation)
		return nil
	case admin.ShowUser, admin.UserSessions, admin.ListFactors:
		user, _, err := o.colleague(ctx, a.IDs[0])
		a.IDs = slices.Concat([]string{user.ID}, a.IDs[1:])
		return err
	case admin.ListSessions, admin.ListAudit, admin.ExportAudit:
		if a.Query.Get("user") == "" {
			return errForbidden
		}
		user, _, err := o.colleague(ctx, a.Query.Get("user"))
		a.Query = with(a.Query, "user", user.ID)
		return err
	case admin.ShowAudit:
		return o.colleaguesEvent(ctx, *a)
	case admin.EndSession:
		return o.managedSession(ctx, a.IDs[0])
	case admin.EndSessions:
		if a.Query.Get("client") != "" {
			return errForbidden
		}
		user, _, err := o.managed(ctx, a.Query.Get("user"))
		a.Query = with(a.Query, "user", user.ID)
		return err
	case admin.AddUser: // where people have passwords here, they are invited: only a letter proves the address
		if o.Target.Registry.Links != nil {
			return errForbidden
		}
		return o.bindNew(a, false)
	case admin.InviteUser:
		return o.bindInvitation(ctx, a)
	case admin.UpdateUser:
		changes, is := a.Body.(store.Patch)
		if !is || !o.mayset(changes) {
			return errForbidden
		}
		return o.bindChange(ctx, a)
	case admin.RecoverUser:
		if asked, is := a.Body.(map[string]bool); !is || !asked["mail"] {
			return errForbidden
		}
		if !o.mails() {
			return errNoLetter
		}
		return o.bindChange(ctx, a)
	case admin.RemoveUser, admin.DisableUser, admin.LockUser, admin.EnableUser, admin.RemoveFactors, admin.RemoveFactor:
		return o.bindChange(ctx, a)
	}
	return errForbidden
}

// bindChange allows to change a user whom the operator manages, and only as that user is now: one who is moved or gets another role before the
// change is made is not changed.
func (o *operator) bindChange(ctx context.Context, a *admin.Ask) error {
	user, version, err := o.managed(ctx, a.IDs[0])
	if err == nil && a.Version != "" && a.Version != version {
		err = errChanged
	}
	a.IDs, a.Version = slices.Concat([]string{user.ID}, a.IDs[1:]), version
	return err
}

// colleague returns a user of the operator's organisation, with the version. The name is the id or the address.
func (o *operator) colleague(ctx context.Context, name string) (admin.User, string, error) {
	user, answer, err := admin.ReadAs[admin.User](ctx, o.Operator, admin.Ask{Route: admin.ShowUser, IDs: []string{name}})
	if err == nil && user.Organisation != o.user.Organisation {
		err = errNoUser
	}
	return user, answer.Version, err
}

// colleaguesEvent refuses to show an event of the audit log that is about no user of the operator's organisation.
func (o *operator) colleaguesEvent(ctx context.Context, a admin.Ask) error {
	event, _, err := admin.ReadAs[admin.AuditEvent](ctx, o.Operator, a)
	if err != nil {
		return err
	}
	l := lineOf(&event)
	if l.rest["trust"] != "" { // another issuer's people may have the ids of ours
		return errNoUser
	}
	_, _, err = o.colleague(ctx, l.take("subject"))
	return err
}

// mails reports whether links are mailed. An operator of one organisation gets none to hand over, with which she could become the person.
func (o *operator) mails() bool {
	links := o.Target.Registry.Links
	return links != nil && links.Mails()
}

// managed is like colleague. It refuses a service account, and a user whose role the operator's does not manage.
func (o *operator) managed(ctx context.Context, name string) (admin.User, string, error) {
	user, version, err := o.colleague(ctx, name)
	if err == nil && (user.Service || !o.manages(user.Role)) {
		err = errForbidden
	}
	return user, version, err
}

// managedSession refuses to end a session of a user whom the operator does not manage.
func (o *operator) managedSession(ctx context.Context, id string) error {
	user, err := o.ownerOf(ctx, id)
	if err == nil && user == nil {
		err = errNoUser
	}
	if err != nil {
		return err
	}
	_, _, err = o.managed(ctx, user.ID)
	return err
}

// ownerOf returns the user of a session that is alive, or nil.
func (o *operator) ownerOf(ctx context.Context, session string) (user *store.User, err error) {
	if !o.Target.IsServing(ctx) || !o.Target.Node.Life.Enter() {
		return nil, errNoStore
	}
	defer o.Target.Node.Life.Leave()
	family, err := o.Target.Issuer.Families.Living(ctx, session)
	if err == nil && family != nil {
		user, err = o.Target.Issuer.Families.LivingUser(ctx, family)
	}
	if err != nil {
		return nil, &admin.Refusal{Status: http.StatusServiceUnavailable, Err: err}
	}
	return user, nil
}

// names returns the names of people and applications by id; ids of nothing are left out. An operator of one organisation gets none: she sees
// the names of its people on their own pages.
func (o *operator) names(ctx context.Context, ids []string) (map[string]string, error) {
	if !o.everywhere || len(ids) == 0 {
		return nil, nil
	}
	if !o.Target.IsServing(ctx) || !o.Target.Node.Life.Enter() {
		return nil, errNoStore
	}
	defer o.Target.Node.Life.Leave()
	names, err := o.Target.Registry.Clients.Names(ctx, ids)
	if err != nil {
		return nil, &admin.Refusal{Status: http.StatusServiceUnavailable, Err: err}
	}
	return names, nil
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
	bound := maps.Clone(p)
	delete(bound, "email") // it is that of a new person
	if !is || !o.mayset(bound) || !p.Has("role") || !invited && p.Has("user") {
		return errForbidden
	}
	if p.Has("email") {
		bound["email"] = p["email"]
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
	if !o.mails() {
		return errNoLetter
	}
	user, version, err := o.managed(ctx, name)
	var refused *admin.Refusal
	switch {
	case err == nil && len(p) == 1: // the version keeps the request from adding a user, should this one be removed first
		a.Body, a.Version = store.Patch{"user": jsonText(user.ID)}, version
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
