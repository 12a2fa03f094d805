package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// These tests ask for an operator of one organisation with a store that changes between the check and what is asked.

// changing is a directory in which something happens once it has found a user for the first time.
type changing struct {
	store.Directory
	then func()
}

func (d *changing) found(user *store.User, err error) (*store.User, error) {
	if then := d.then; err == nil && then != nil {
		d.then = nil
		then()
	}
	return user, err
}

func (d *changing) User(ctx context.Context, id string) (*store.User, error) {
	return d.found(d.Directory.User(ctx, id))
}

func (d *changing) UserByEmail(ctx context.Context, email string) (*store.User, error) {
	return d.found(d.Directory.UserByEmail(ctx, email))
}

// ownerAmong returns owner with a store of acme and other. Members of acme are u-ada, who has a password and a second factor, and bob, who has
// neither and whose id is an address, but not his.
func ownerAmong(t *testing.T, then func(store.Store)) (*operator, store.Store) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	st, at := teststore.New(t).Store, time.Unix(1_800_000_000, 0).UTC()
	for _, id := range []string{"acme", "other"} {
		must(st.Users.AddOrganisation(t.Context(), &store.Organisation{ID: id, Name: id}))
	}
	for _, u := range []store.User{
		{ID: "u-ada", Email: "ada@acme.example", PasswordHash: oauth.NewSecret("$2a$04$abcdefghijklmnopqrstuuZ7ZmX5rQ9rQ9rQ9rQ9rQ9rQ9rQ9rQ9r")},
		{ID: "bob@old.example", Email: "bob@acme.example"},
	} {
		u.Organisation, u.Role, u.Status, u.CreatedAt = "acme", "member", store.UserActive, at
		must(st.Users.AddUser(t.Context(), &u, false))
	}
	must(st.Factors.AddFactor(t.Context(), &store.Factor{ID: "f", UserID: "u-ada", Kind: store.TOTP, Data: []byte("x"), CreatedAt: at}, "1"))
	o, now := owner(), func() time.Time { return at }
	fs := &families.Families{
		Opened: families.Opened{
			Store: families.StoreOf(st), Master: testkeys.Master(t, 'p', at), Directory: &changing{st.Directory(), func() { then(st) }},
		},
		Revocations: token.NewRevocationSet(), Now: now, NodeNow: now,
	}
	users := &people.Users{
		Families: fs, Roles: o.Target.Issuer.Roles, Usernames: token.NewUsernameCache(), Stored: people.StoreOf(st),
		Post: &mail.Post{Now: now, Opened: mail.Opened{Store: st.Mails, Master: fs.Master}},
	}
	o.Target.Logger, o.Target.IsServing = zap.NewNop(), func(context.Context) bool { return true }
	o.Target.Issuer.SignIns = &signin.SignIns{Factors: &signin.Factors{Families: fs, Post: users.Post}}
	o.Target.Registry = &people.Registry{People: users, Links: &people.Links{Users: users, Seals: &signin.Seals{Families: fs}, Page: "https://id.example/oauth/link"}}
	return o, st
}

// TestO82ARequestIsBoundToWhoWasChecked: what an operator of one organisation asks about a colleague by the address, in any spelling → it is asked
// about the id that was found, and a change about that user's version; another version in the form → 412.
func TestO82ARequestIsBoundToWhoWasChecked(t *testing.T) {
	const address = "ADA@acme.example"
	byPath, byQuery := []string{address, "f"}, url.Values{"user": {address}}
	for _, ask := range []admin.Ask{
		{Route: admin.ShowUser, IDs: byPath}, {Route: admin.UserSessions, IDs: byPath}, {Route: admin.ListFactors, IDs: byPath},
		{Route: admin.ListSessions, Query: byQuery}, {Route: admin.ListAudit, Query: byQuery}, {Route: admin.ExportAudit, Query: byQuery},
		{Route: admin.EndSessions, Query: byQuery}, {Route: admin.InviteUser, Body: store.Patch{"user": []byte(`"` + address + `"`)}},
		{Route: admin.UpdateUser, IDs: byPath, Body: store.Patch{"name": []byte(`"x"`)}}, {Route: admin.RecoverUser, IDs: byPath, Body: map[string]bool{"mail": true}},
		{Route: admin.RemoveUser, IDs: byPath}, {Route: admin.DisableUser, IDs: byPath}, {Route: admin.LockUser, IDs: byPath}, {Route: admin.EnableUser, IDs: byPath},
		{Route: admin.RemoveFactors, IDs: byPath}, {Route: admin.RemoveFactor, IDs: byPath},
	} {
		o, _ := ownerAmong(t, func(store.Store) {})
		bound := ask
		if err := o.bind(t.Context(), &bound); err != nil {
			t.Errorf("%s: %v", ask.Route, err)
			continue
		}
		text, err := json.Marshal(bound)
		if err != nil || !strings.Contains(string(text), "u-ada") || strings.Contains(strings.ToLower(string(text)), "acme.example") {
			t.Errorf("%s: %s, %v", ask.Route, text, err)
		}
		if len(bound.IDs) != len(ask.IDs) || byPath[0] != address || byQuery.Get("user") != address {
			t.Errorf("%s: %v of %v", ask.Route, bound.IDs, ask.IDs)
		}
		if ask.Route == admin.UpdateUser {
			if bound.Version == "" {
				t.Error("without a version")
			}
			for _, version := range []string{"*", `"another"`} {
				asked := ask
				asked.Version = version
				if _, err := o.ask(t.Context(), asked); statusOf(err) != http.StatusPreconditionFailed {
					t.Errorf("version %s: %v", version, err)
				}
			}
		}
	}
}

// statusOf returns the status of a refusal, or 0.
func statusOf(err error) int {
	var refused *admin.Refusal
	if errors.As(err, &refused) {
		return refused.Status
	}
	return 0
}

// TestO83AColleagueWhoLeavesBeforeTheChange: a user is removed, moved to another organisation, given a role above, or gets another address after the
// operator's rights were checked and before the change is made → 404 or 412, the user stays as is, and none is added.
func TestO83AColleagueWhoLeavesBeforeTheChange(t *testing.T) {
	end := store.Ending{At: time.Unix(1_800_000_000, 0).UTC(), Until: time.Unix(1_900_000_000, 0).UTC()}
	edits := func(edit func(*store.User)) func(store.Store, string) error {
		return func(st store.Store, id string) error {
			_, err := st.Users.ChangeUser(context.Background(), id, store.UserChange{Edit: func(u *store.User) error { edit(u); return nil }}, end)
			return err
		}
	}
	for change, leave := range map[string]func(st store.Store, id string) error{
		"removed": func(st store.Store, id string) error {
			_, err := st.Users.RemoveUser(context.Background(), id, end)
			return err
		},
		"moved": edits(func(u *store.User) { u.Organisation = "other" }), "raised": edits(func(u *store.User) { u.Role = "operator" }),
		"another address": edits(func(u *store.User) { u.Email = "new@acme.example" }),
	} {
		for name, id := range map[string]string{"u-ada": "u-ada", "ada@acme.example": "u-ada", "bob@old.example": "bob@old.example", "bob@acme.example": "bob@old.example"} {
			ids := []string{name, "f"}
			for _, ask := range []admin.Ask{
				{Route: admin.InviteUser, Body: store.Patch{"user": []byte(`"` + name + `"`)}}, {Route: admin.UpdateUser, IDs: ids, Body: store.Patch{"name": []byte(`"x"`)}},
				{Route: admin.RecoverUser, IDs: ids, Body: map[string]bool{"mail": true}}, {Route: admin.RemoveUser, IDs: ids}, {Route: admin.DisableUser, IDs: ids},
				{Route: admin.LockUser, IDs: ids}, {Route: admin.EnableUser, IDs: ids}, {Route: admin.RemoveFactors, IDs: ids}, {Route: admin.RemoveFactor, IDs: ids},
			} {
				before := ""
				o, st := ownerAmong(t, func(st store.Store) {
					if err := leave(st, id); err != nil {
						t.Fatal(err)
					}
					before = everything(t, st)
				})
				_, err := o.ask(t.Context(), ask)
				if status := statusOf(err); status != http.StatusNotFound && status != http.StatusPreconditionFailed {
					t.Errorf("%s, %s of %s: %v", change, ask.Route, name, err)
				}
				if now := everything(t, st); now != before || before == "" {
					t.Errorf("%s, %s of %s:\n%s\nwas\n%s", change, ask.Route, name, now, before)
				}
			}
		}
	}
}

// everything returns the users of a store and the factors of ada.
func everything(t *testing.T, st store.Store) string {
	t.Helper()
	users, err := st.Users.Users(context.Background(), "")
	if err != nil {
		t.Fatal(err)
	}
	factors, err := st.Factors.Factors(context.Background(), "u-ada")
	if err != nil {
		t.Fatal(err)
	}
	list := []any{len(factors)}
	for _, u := range users {
		list = append(list, u, u.Version, u.PasswordHash.Digest())
	}
	text, err := json.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
