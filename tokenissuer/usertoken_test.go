package tokenissuer_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestM1M22M23AnAdminCreatesATokenForAManager(t *testing.T) {
	f := newFlow(t)
	for name, role := range map[string]string{"grace": "group_manager", "bob": "business_manager"} {
		tokens, err := f.mint(name)
		f.must(err)
		f.alive(tokens)
		sameScopes(t, tokens.Scopes, oauth.ScopeTrusted, oauth.ScopePublic)
		got := tokens.Claims
		if tokens.ExpiresIn != 28*day || !tokens.CreatedAt.Equal(tokentest.Start) || tokens.RefreshToken.IsEmpty() {
			t.Errorf("%+v", tokens)
		}
		if got.Subject != "u-"+name || got.Organisation != "acme" || got.Role != role || got.ClientID != "conf" || got.Actor != (store.Actor{Subject: "u-ada", ClientID: "conf"}) || got.FamilyID == "" || !got.AuthTime.IsZero() {
			t.Errorf("%+v", got)
		}
		read, err := f.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience)
		f.must(err)
		if read.Actor != got.Actor || read.FamilyID != got.FamilyID {
			t.Errorf("reads back as %+v", read)
		}
	}
	// Nothing that the admin's token lacks.
	admin, token := f.admin("ada", "trusted")
	tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	f.must(err)
	sameScopes(t, tokens.Scopes, oauth.ScopeTrusted)
	admin, token = f.admin("ada", "trusted public refresh_token offline_access")
	tokens, err = f.IssueForUser(t.Context(), admin, token, "u-grace")
	f.must(err)
	sameScopes(t, tokens.Scopes, oauth.ScopeTrusted, oauth.ScopePublic)
}

func TestM4ToM6M21WhoMayCreateTokens(t *testing.T) {
	f := newFlow(t)
	verified := func(tokens Tokens, err error) *accesstoken.AccessToken {
		t.Helper()
		f.must(err)
		token, err := f.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience)
		f.must(err)
		return token
	}
	server := verified(f.exchange(TokenRequest{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")}))
	for name, v := range map[string]struct {
		token *accesstoken.AccessToken
		want  oauth.ErrorCode
	}{
		"M4 server token":     {server, oauth.UserContextRequired},
		"M6 public alone":     {verified(f.tokens("conf", "public"), nil), oauth.InsufficientScope},
		"M5 group manager":    {verified(f.redeem("conf", f.codeOf("grace", "conf", parameters("trusted")))), oauth.AdminRequired},
		"M5 business manager": {verified(f.redeem("conf", f.codeOf("bob", "conf", parameters("trusted")))), oauth.AdminRequired},
		"M5 member":           {verified(f.redeem("conf", f.codeOf("mia", "conf", parameters("trusted")))), oauth.AdminRequired},
		"M21 a minted token":  {verified(f.mint("grace")), oauth.AdminRequired},
		"gone":                {&accesstoken.AccessToken{Subject: "u-gone", ClientID: "conf", Scopes: oauth.Scopes{oauth.ScopeTrusted}}, oauth.AdminRequired},
		"acting for an admin": {&accesstoken.AccessToken{Subject: "u-ada", ClientID: "conf", Scopes: oauth.Scopes{oauth.ScopeTrusted}, Actor: store.Actor{Subject: "u-eve"}}, oauth.AdminRequired},
		// T68: what the client is called does not matter.
		"T68 a client called like an admin": {&accesstoken.AccessToken{Subject: "u-ada", ClientID: "u-ada", Scopes: oauth.Scopes{oauth.ScopeTrusted}}, oauth.UserContextRequired},
	} {
		admin, err := f.OrganisationAdmin(t.Context(), v.token)
		if admin != nil || oauth.AsError(err).Code != v.want {
			t.Errorf("%s: %v, %v", name, admin, err)
		}
	}
	if oauth.AsError(oauth.MissingScope(oauth.ScopeTrusted)).Scope != oauth.ScopeTrusted {
		t.Error("the missing scope is not named")
	}
}

// TestM24TheDirectoryDecidesWhoIsAdmin, on every call, whatever the token says.
func TestM24TheDirectoryDecidesWhoIsAdmin(t *testing.T) {
	for name, change := range map[string]func(f *flow) error{
		"demoted":  func(f *flow) error { return f.registry.SetRole(f.tb.Context(), "u-ada", store.RoleMember) },
		"disabled": func(f *flow) error { return f.registry.SetUserStatus(f.tb.Context(), "u-ada", store.UserDisabled) },
		"removed":  func(f *flow) error { return f.registry.RemoveUser(f.tb.Context(), "u-ada") },
	} {
		f := newFlow(t)
		_, token := f.admin("ada", "trusted")
		f.must(change(f))
		if _, err := f.OrganisationAdmin(t.Context(), token); oauth.AsError(err).Code != oauth.AdminRequired {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Moved to another organisation: the old one's users are unknown.
	f := newFlow(t)
	_, token := f.admin("ada", "trusted")
	f.must(f.declare(store.User{ID: "u-ada", Email: "ada@acme.example", Organisation: "rival", Role: store.RoleAdmin, PasswordHash: cheapHash()}))
	admin, err := f.OrganisationAdmin(t.Context(), token)
	f.must(err)
	_, err = f.IssueForUser(t.Context(), admin, token, "u-grace")
	tokentest.WantCode(t, err, oauth.UserNotFound)
	_, err = f.IssueForUser(t.Context(), admin, token, "u-rex")
	f.must(err)
	f.store.fail("User", false)
	_, err = f.OrganisationAdmin(t.Context(), token)
	f.must(err) // a declared admin needs no store
	_, err = f.IssueForUser(t.Context(), admin, token, "u-rex")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

func TestM7ToM10Targets(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	for id, u := range map[string]store.User{
		"u-off": {Role: store.RoleGroupManager, Status: store.UserDisabled, PasswordHash: cheapHash()}, "u-locked": {Role: store.RoleBusinessManager, Status: store.UserLocked, PasswordHash: cheapHash()}, "u-invited": {Role: store.RoleGroupManager},
		"u-deleted": {Role: store.RoleGroupManager, PasswordHash: cheapHash()},
	} {
		u.ID, u.Email, u.Organisation = id, id+"@acme.example", "acme"
		_, err := f.registry.AddUser(ctx, u, oauth.Secret{})
		f.must(err)
	}
	f.must(f.registry.RemoveUser(ctx, "u-deleted"))
	admin, token := f.admin("ada", "trusted")
	unknown := func(id string) *oauth.Error {
		_, err := f.IssueForUser(ctx, admin, token, id)
		return oauth.AsError(err)
	}
	for id, want := range map[string]oauth.ErrorCode{
		"u-rex": oauth.UserNotFound, "u-nobody": oauth.UserNotFound, "u-deleted": oauth.UserNotFound, "": oauth.UserNotFound, "me": oauth.UserNotFound, "U-GRACE": oauth.UserNotFound, "u-grace ": oauth.UserNotFound, "conf": oauth.UserNotFound,
		"u-ada": oauth.TargetRoleNotAllowed, "u-eve": oauth.TargetRoleNotAllowed, "u-mia": oauth.TargetRoleNotAllowed,
		"u-off": oauth.UserInactive, "u-locked": oauth.UserInactive, "u-invited": oauth.UserInactive,
	} {
		tokens, err := f.IssueForUser(ctx, admin, token, id)
		if oauth.AsError(err).Code != want || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%q: %v", id, err)
		}
	}
	if a, b := unknown("u-rex"), unknown("u-nobody"); a.Description != b.Description || a.Reason != b.Reason {
		t.Errorf("a user of another organisation is told from an unknown one: %+v, %+v", a, b)
	}
	for _, role := range []store.Role{"Group_Manager", " group_manager", "group_manager ", "grоup_manager", "GROUP_MANAGER", ""} { // M9
		if err := (store.RoleCatalogue{}).Check(role); err == nil {
			t.Errorf("role %q", role)
		}
		odd := &faultyDirectory{Directory: f.store, user: &store.User{ID: "u-odd", Organisation: "acme", Role: role, Status: store.UserActive, PasswordHash: cheapHash()}}
		f.Directory = odd
		if _, err := f.IssueForUser(ctx, admin, token, "u-odd"); oauth.AsError(err).Code != oauth.TargetRoleNotAllowed {
			t.Errorf("role %q: %v", role, err)
		}
		f.Directory = f.store
	}
}

func TestM26ItsRefreshTokenIsTheAdminsClients(t *testing.T) {
	f := newFlow(t)
	minted, err := f.mint("grace")
	f.must(err)
	_, err = f.refresh("other", minted.RefreshToken)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	next, err := f.refresh("conf", minted.RefreshToken)
	f.must(err)
	if next.Claims.Actor != minted.Claims.Actor || next.Claims.Subject != "u-grace" {
		t.Errorf("%+v", next.Claims)
	}
}

// TestM27TheTargetsOwnSessionsAreAnotherMatter: signing out leaves the admin's token alone; revoking all takes both.
func TestM27TheTargetsOwnSessionsAreAnotherMatter(t *testing.T) {
	f := newFlow(t)
	minted, err := f.mint("grace")
	f.must(err)
	s, cookie := f.open("grace")
	f.must(f.registry.RevokeFamily(t.Context(), minted.Claims.FamilyID))
	if f.dead(minted); !f.signedIn(cookie) {
		t.Error("the target was signed out")
	}
	minted, err = f.mint("grace")
	f.must(err)
	f.must(f.SignOut(t.Context(), s))
	f.alive(minted)
	s, cookie = f.open("grace")
	f.must(f.registry.RevokeUser(t.Context(), s.User.ID))
	if f.dead(minted); f.signedIn(cookie) {
		t.Error("the session lives")
	}
}

// TestM28TheTargetIsDeletedMeanwhile: whatever comes first, afterwards there is no token that works.
func TestM28TheTargetIsDeletedMeanwhile(t *testing.T) {
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	for i := range 50 { // within the limit of a minute
		id := "u-brief-" + string(rune('a'+i%26)) + string(rune('a'+i/26))
		_, err := f.registry.AddUser(t.Context(), store.User{ID: id, Email: id + "@acme.example", Organisation: "acme", Role: store.RoleGroupManager, PasswordHash: cheapHash()}, oauth.Secret{})
		f.must(err)
		var minted Tokens
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				return f.registry.RemoveUser(t.Context(), id)
			}
			minted, err = f.IssueForUser(t.Context(), admin, token, id)
			return err
		})
		f.must(errs[0])
		if errs[1] == nil {
			f.dead(minted)
			_, err = f.refresh("conf", minted.RefreshToken)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		} else if code := oauth.AsError(errs[1]).Code; code != oauth.UserNotFound && code != oauth.UserInactive {
			t.Fatalf("%v", errs[1])
		}
	}
}

// TestM28TheTargetChangesBeforeTheTokenIsMade, after it was looked at.
func TestM28TheTargetChangesBeforeTheTokenIsMade(t *testing.T) {
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.store.meanwhile("AddFamily", func() { f.must(f.registry.SetRole(t.Context(), "u-grace", store.RoleMember)) })
	tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	wantReason(t, err, oauth.UserInactive, "user_changed")
	if !tokens.AccessToken.IsEmpty() {
		t.Error("a token comes with the error")
	}
}

func TestM32TheSixtyFirstInAMinute(t *testing.T) {
	f := newFlow(t)
	f.GrantLimit = Limit{Failures: 60, Window: time.Minute}
	admin, token := f.admin("ada", "trusted")
	for range 60 {
		_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
		f.must(err)
	}
	f.wait(20 * time.Second)
	_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	tokentest.WantCode(t, err, oauth.RateLimited)
	if after := oauth.AsError(err).RetryAfter; after != 40*time.Second {
		t.Errorf("retry after %s", after)
	}
	eve, hers := f.admin("eve", "trusted")
	_, err = f.IssueForUser(t.Context(), eve, hers, "u-grace")
	f.must(err)
	f.wait(40 * time.Second)
	_, err = f.IssueForUser(t.Context(), admin, token, "u-grace")
	f.must(err)
}

func TestM35EveryTokenIsAnother(t *testing.T) {
	f := newFlow(t)
	first, err := f.mint("grace")
	f.must(err)
	second, err := f.mint("grace")
	f.must(err)
	if first.Claims.ID == second.Claims.ID || first.Claims.FamilyID == second.Claims.FamilyID {
		t.Error("two tokens share an id")
	}
	f.must(f.Revoke(t.Context(), f.RevocationOf(store.RevokeToken, first.Claims.ID)))
	f.dead(first)
	f.alive(second)
}

// TestMAnOutageCreatesNothing: what cannot be asked is an outage, and never a refusal that sends the admin away.
func TestMAnOutageCreatesNothing(t *testing.T) {
	for _, step := range []string{"User", "Client", "AddFamily"} {
		f := newFlow(t)
		admin, token := f.admin("ada", "trusted")
		f.store.fail(step, false)
		tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
		if oauth.AsError(err).Code != oauth.TemporarilyUnavailable || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%s: %v", step, err)
		}
	}
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.must(f.registry.DisableClient(t.Context(), "conf"))
	_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	tokentest.WantCode(t, err, oauth.InvalidToken)
}

// TestT132NothingIsCreatedAfterTheEnd: a token that an admin creates beside the end of all of their access is not born, or it
// would outlive it by months.
func TestT132NothingIsCreatedAfterTheEnd(t *testing.T) {
	f := newFlow(t)
	for name, end := range map[string]func(admin *store.User) error{
		"signed out everywhere": func(admin *store.User) error { return f.SignOutEverywhere(t.Context(), admin) },
		"revoked":               func(admin *store.User) error { return f.registry.RevokeUser(t.Context(), admin.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			f.wait(2 * time.Second) // beyond what was revoked before
			admin, token := f.admin("ada", "trusted public")
			f.store.meanwhile("AddFamily", func() { f.must(end(admin)) })
			_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
			wantReason(t, err, oauth.InvalidToken, "token_revoked")
		})
	}
}
