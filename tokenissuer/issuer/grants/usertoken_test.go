package grants_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// stored adds a user of acme directly to the store, without the registry's checks.
func (f *flow) stored(u store.User) {
	f.tb.Helper()
	u.Organisation, u.Email = "acme", u.ID+"@stored.example"
	if u.Status == "" {
		u.Status = store.UserActive
	}
	f.must(f.store.AddUser(f.tb.Context(), &u, true))
}

// TestM28TheTargetChangesBeforeTheTokenIsMade: the target changes after it was looked up.
func TestM28TheTargetChangesBeforeTheTokenIsMade(t *testing.T) {
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.store.meanwhile("AddFamily", func() { f.must(f.registry.People.SetRole(t.Context(), "u-grace", store.RoleMember)) })
	tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
	wantReason(t, err, oauth.UserInactive, "user_changed")
	if !tokens.AccessToken.IsEmpty() {
		t.Error("a token comes with the error")
	}
}

// TestMAnOutageCreatesNothing: a failed look-up is an outage, never a refusal.
func TestMAnOutageCreatesNothing(t *testing.T) {
	for _, step := range []string{"User", "Client", "AddFamily"} {
		f := newFlow(t)
		admin, token := f.admin("ada", "trusted")
		f.store.fail(step, false)
		tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
		if oauth.AsError(err).Code != oauth.TemporarilyUnavailable || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%s: %v", step, err)
		}
	}
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.must(f.registry.Clients.DisableClient(t.Context(), "conf"))
	_, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
	tokentest.WantCode(t, err, oauth.InvalidToken)
}

// TestT132NothingIsCreatedAfterTheEnd: a token that an admin creates while all of the admin's access ends is not issued. It would otherwise
// outlive the end by months.
func TestT132NothingIsCreatedAfterTheEnd(t *testing.T) {
	f := newFlow(t)
	for name, end := range map[string]func(admin *store.User) error{
		"signed out everywhere": func(admin *store.User) error { return f.EndPerson(t.Context(), admin.ID) },
		"revoked":               func(admin *store.User) error { return f.registry.People.RevokeUser(t.Context(), admin.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			f.wait(2 * time.Second) // later than the earlier revocations
			admin, token := f.admin("ada", "trusted public")
			f.store.meanwhile("AddFamily", func() { f.must(end(admin)) })
			_, err := f.IssueForUser(t.Context(), admin, token, "u-grace", nil)
			wantReason(t, err, oauth.InvalidToken, "token_revoked")
		})
	}
}

// TestM5M24OnlyAnAdminOfThisMoment: a caller without the admin role, or who lost it, status or record after signing in → admin_required. A
// token that an admin obtained for a user creates no further ones.
func TestM5M24OnlyAnAdminOfThisMoment(t *testing.T) {
	f := newFlow(t)
	caller := func(id string) error {
		_, err := f.OrganisationAdmin(t.Context(), &token.AccessToken{Subject: id, ClientID: "conf", Scopes: oauth.Scopes{oauth.ScopeTrusted}})
		return err
	}
	for _, role := range []store.Role{"", "owner", "Admin"} {
		f.stored(store.User{ID: "u-" + string(role), Role: role})
	}
	for _, id := range []string{"u-", "u-owner", "u-Admin", "u-grace", "u-bob", "u-mia", "u-rex", "u-nobody"} {
		wantReason(t, caller(id), oauth.AdminRequired, "caller_is_no_admin")
	}
	people := f.registry.People
	for how, end := range map[string]func(id string) error{
		"demoted":  func(id string) error { return people.SetRole(t.Context(), id, store.RoleMember) },
		"disabled": func(id string) error { return people.SetUserStatus(t.Context(), id, store.UserDisabled) },
		"locked":   func(id string) error { return people.SetUserStatus(t.Context(), id, store.UserLocked) },
		"removed":  func(id string) error { return people.RemoveUser(t.Context(), id) },
	} {
		f.stored(store.User{ID: "u-" + how, Role: store.RoleAdmin, PasswordHash: cheapHash()})
		f.must(caller("u-" + how))
		f.must(end("u-" + how))
		if err := caller("u-" + how); err == nil || oauth.AsError(err).Code != oauth.AdminRequired {
			t.Errorf("%s: %v", how, err)
		}
	}
	f.must(caller("u-ada"))
	_, err := f.OrganisationAdmin(t.Context(), &token.AccessToken{
		Subject: "u-ada", ClientID: "conf", Scopes: oauth.Scopes{oauth.ScopeTrusted}, Actors: []store.Actor{{Subject: "u-eve", ClientID: "conf"}},
	})
	wantReason(t, err, oauth.AdminRequired, "caller_is_no_admin")
}

// TestM7To10M29WhomAnAdminActsFor: a target in another organisation → unknown, as any unknown id; a member, admin, oneself, or a role in another
// spelling → target_role; disabled, locked or only invited → inactive. The organisation of the directory counts, not the token's.
func TestM7To10M29WhomAnAdminActsFor(t *testing.T) {
	f := newFlow(t)
	admin, tok := f.admin("ada", "trusted")
	tok.Organisation = "rival"
	type want struct {
		code   oauth.ErrorCode
		reason string
	}
	unknown, notAllowed, inactive := want{oauth.UserNotFound, "target_unknown"}, want{oauth.TargetRoleNotAllowed, "target_role"}, want{oauth.UserInactive, "target_inactive"}
	wanted := map[string]want{
		"u-nobody": unknown, "u-rex": unknown, "U-GRACE": unknown, "conf": unknown, "acme": unknown, "me": unknown, "u-ada": notAllowed, "u-eve": notAllowed, "u-mia": notAllowed,
	}
	for _, role := range []store.Role{
		store.RoleAdmin, "owner", "Group_Manager", "GROUP_MANAGER", " group_manager", "group_manager ", "group_manager\n", "group-manager", "groupmanager",
		"group_mаnager", "group_manager\u200b", "business_managers", "group_manager,business_manager", "",
	} {
		id := oauth.NewID()
		f.stored(store.User{ID: id, Role: role, PasswordHash: cheapHash()})
		wanted[id] = notAllowed
	}
	f.stored(store.User{ID: "u-invited", Role: store.RoleBusinessManager})
	f.stored(store.User{ID: "u-disabled", Role: store.RoleGroupManager, Status: store.UserDisabled, PasswordHash: cheapHash()})
	f.stored(store.User{ID: "u-locked", Role: store.RoleGroupManager, Status: store.UserLocked, PasswordHash: cheapHash()})
	f.stored(store.User{ID: "u-gone", Role: store.RoleGroupManager, PasswordHash: cheapHash()})
	f.must(f.registry.People.RemoveUser(t.Context(), "u-gone"))
	wanted["u-invited"], wanted["u-disabled"], wanted["u-locked"], wanted["u-gone"] = inactive, inactive, inactive, unknown
	for id, want := range wanted {
		_, err := f.IssueForUser(t.Context(), admin, tok, id, nil)
		if e := oauth.AsError(err); err == nil || e.Code != want.code || e.Reason != want.reason {
			t.Errorf("%s: %v, want %s", id, err, want.reason)
		}
	}
	f.must(f.registry.People.SetUserStatus(t.Context(), "u-locked", store.UserActive))
	for _, id := range []string{"u-grace", "u-bob", "u-locked"} {
		tokens, err := f.IssueForUser(t.Context(), admin, tok, id, nil)
		if f.must(err); tokens.Claims.Organisation != "acme" || tokens.Claims.Subject != id {
			t.Errorf("%s: %+v", id, tokens.Claims)
		}
	}
}

// TestTM3UnknownTargetsCostTheSame: a foreign or unknown target → the same questions to the store.
func TestTM3UnknownTargetsCostTheSame(t *testing.T) {
	f := newFlow(t)
	admin, tok := f.admin("ada", "trusted")
	f.must(f.declare(store.User{ID: "u-declared", Email: "d@rival.example", Organisation: "rival", Role: store.RoleGroupManager, PasswordHash: cheapHash()}))
	for _, id := range []string{"u-nobody", "u-rex", "u-declared"} {
		f.store.asked()
		_, err := f.IssueForUser(t.Context(), admin, tok, id, nil)
		wantReason(t, err, oauth.UserNotFound, "target_unknown")
		if asked := f.store.asked(); len(asked) > 1 || len(asked) == 1 && asked[0] != "User" {
			t.Errorf("%s: the store was asked for %v", id, asked)
		}
	}
}

// TestM22Scopes: a member's token → trusted and public alone, as far as the admin's token has them; a refresh adds none.
func TestM22Scopes(t *testing.T) {
	f := newFlow(t)
	for held, want := range map[string][]string{
		"trusted": {"trusted"}, "public trusted": {"trusted", "public"}, "refresh_token offline_access public trusted": {"trusted", "public"},
	} {
		admin, tok := f.admin("ada", held)
		tokens, err := f.IssueForUser(t.Context(), admin, tok, "u-grace", nil)
		f.must(err)
		sameScopes(t, tokens.Claims.Scopes, want...)
		for _, wider := range []string{"trusted reports", "refresh_token"} {
			_, err := f.narrow("conf", tokens.RefreshToken, wider)
			tokentest.WantCode(t, err, oauth.InvalidScope)
		}
		again, err := f.refresh("conf", tokens.RefreshToken)
		f.must(err)
		sameScopes(t, again.Claims.Scopes, want...)
	}
}

// TestM26TheRefreshTokenIsTheAdminsClients: a member's refresh token used by another client → invalid_grant.
func TestM26TheRefreshTokenIsTheAdminsClients(t *testing.T) {
	f := newFlow(t)
	for _, client := range []string{"conf", "pub"} {
		tokens, err := f.IssueForUser(t.Context(), f.user("ada"), &token.AccessToken{Subject: "u-ada", ClientID: client, Scopes: oauth.Scopes{oauth.ScopeTrusted}}, "u-grace", nil)
		f.must(err)
		for _, other := range []string{"conf", "other", "pub"} {
			if other != client {
				_, err := f.refresh(other, tokens.RefreshToken)
				wantReason(t, err, oauth.InvalidGrant, "refresh_token_of_another_client")
			}
		}
		_, err = f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Client: clients.Authentication{Address: "192.0.2.1"}, Refresh: RefreshParameters{Token: tokens.RefreshToken}})
		tokentest.WantCode(t, err, oauth.InvalidClient)
		again, err := f.refresh(client, tokens.RefreshToken)
		if f.must(err); again.Claims.Subject != "u-grace" {
			t.Errorf("%+v", again.Claims)
		}
	}
}
