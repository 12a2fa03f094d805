package tokenissuer_test

import (
	"testing"
	"time"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
)

func TestM1M22M23AnAdminCreatesATokenForAManager(t *testing.T) {
	f := newFlow(t)
	for name, role := range map[string]string{"grace": "group_manager", "bob": "business_manager"} {
		tokens, err := f.mint(name)
		f.must(err)
		f.alive(tokens)
		sameScopes(t, tokens.Scopes, ScopeTrusted, ScopePublic)
		got := tokens.Claims
		if tokens.ExpiresIn != 28*day || !tokens.CreatedAt.Equal(flowStart) || tokens.RefreshToken.IsEmpty() {
			t.Errorf("%+v", tokens)
		}
		if got.Subject != "u-"+name || got.Organisation != "acme" || got.Role != role || got.ClientID != "conf" || got.Actor != (Actor{Subject: "u-ada", ClientID: "conf"}) || got.FamilyID == "" || !got.AuthTime.IsZero() {
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
	sameScopes(t, tokens.Scopes, ScopeTrusted)
	admin, token = f.admin("ada", "trusted public refresh_token offline_access")
	tokens, err = f.IssueForUser(t.Context(), admin, token, "u-grace")
	f.must(err)
	sameScopes(t, tokens.Scopes, ScopeTrusted, ScopePublic)
}

func TestM4ToM6M21WhoMayCreateTokens(t *testing.T) {
	f := newFlow(t)
	verified := func(tokens Tokens, err error) *AccessToken {
		t.Helper()
		f.must(err)
		token, err := f.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience)
		f.must(err)
		return token
	}
	server := verified(f.exchange(TokenRequest{GrantType: ClientCredentials, Client: f.credentials("conf")}))
	for name, v := range map[string]struct {
		token *AccessToken
		want  ErrorCode
	}{
		"M4 server token":     {server, UserContextRequired},
		"M6 public alone":     {verified(f.tokens("conf", "public"), nil), InsufficientScope},
		"M5 group manager":    {verified(f.redeem("conf", f.codeOf("grace", "conf", parameters("trusted")))), AdminRequired},
		"M5 business manager": {verified(f.redeem("conf", f.codeOf("bob", "conf", parameters("trusted")))), AdminRequired},
		"M5 member":           {verified(f.redeem("conf", f.codeOf("mia", "conf", parameters("trusted")))), AdminRequired},
		"M21 a minted token":  {verified(f.mint("grace")), AdminRequired},
		"gone":                {&AccessToken{Subject: "u-gone", ClientID: "conf", Scopes: Scopes{ScopeTrusted}}, AdminRequired},
		"acting for an admin": {&AccessToken{Subject: "u-ada", ClientID: "conf", Scopes: Scopes{ScopeTrusted}, Actor: Actor{Subject: "u-eve"}}, AdminRequired},
		// T68: what the client is called does not matter.
		"T68 a client called like an admin": {&AccessToken{Subject: "u-ada", ClientID: "u-ada", Scopes: Scopes{ScopeTrusted}}, UserContextRequired},
	} {
		admin, err := f.OrganisationAdmin(t.Context(), v.token)
		if admin != nil || AsError(err).Code != v.want {
			t.Errorf("%s: %v, %v", name, admin, err)
		}
	}
	if AsError(MissingScope(ScopeTrusted)).Scope != ScopeTrusted {
		t.Error("the missing scope is not named")
	}
}

// TestM24TheDirectoryDecidesWhoIsAdmin, on every call, whatever the token says.
func TestM24TheDirectoryDecidesWhoIsAdmin(t *testing.T) {
	for name, change := range map[string]func(f *flow) error{
		"demoted":  func(f *flow) error { return f.registry.SetRole(f.tb.Context(), "u-ada", RoleMember) },
		"disabled": func(f *flow) error { return f.registry.SetUserStatus(f.tb.Context(), "u-ada", UserDisabled) },
		"removed":  func(f *flow) error { return f.registry.RemoveUser(f.tb.Context(), "u-ada") },
	} {
		f := newFlow(t)
		_, token := f.admin("ada", "trusted")
		f.must(change(f))
		if _, err := f.OrganisationAdmin(t.Context(), token); AsError(err).Code != AdminRequired {
			t.Errorf("%s: %v", name, err)
		}
	}
	// Moved to another organisation: the old one's users are unknown.
	f := newFlow(t)
	_, token := f.admin("ada", "trusted")
	f.must(f.declare(User{ID: "u-ada", Email: "ada@acme.example", Organisation: "rival", Role: RoleAdmin, PasswordHash: cheapHash()}))
	admin, err := f.OrganisationAdmin(t.Context(), token)
	f.must(err)
	_, err = f.IssueForUser(t.Context(), admin, token, "u-grace")
	wantCode(t, err, UserNotFound)
	_, err = f.IssueForUser(t.Context(), admin, token, "u-rex")
	f.must(err)
	f.store.fail("User", false)
	_, err = f.OrganisationAdmin(t.Context(), token)
	f.must(err) // a declared admin needs no store
	_, err = f.IssueForUser(t.Context(), admin, token, "u-rex")
	wantCode(t, err, TemporarilyUnavailable)
}

func TestM7ToM10Targets(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	for id, u := range map[string]User{
		"u-off": {Role: RoleGroupManager, Status: UserDisabled, PasswordHash: cheapHash()}, "u-locked": {Role: RoleBusinessManager, Status: UserLocked, PasswordHash: cheapHash()}, "u-invited": {Role: RoleGroupManager},
		"u-deleted": {Role: RoleGroupManager, PasswordHash: cheapHash()},
	} {
		u.ID, u.Email, u.Organisation = id, id+"@acme.example", "acme"
		_, err := f.registry.AddUser(ctx, u, Secret{})
		f.must(err)
	}
	f.must(f.registry.RemoveUser(ctx, "u-deleted"))
	admin, token := f.admin("ada", "trusted")
	unknown := func(id string) *Error {
		_, err := f.IssueForUser(ctx, admin, token, id)
		return AsError(err)
	}
	for id, want := range map[string]ErrorCode{
		"u-rex": UserNotFound, "u-nobody": UserNotFound, "u-deleted": UserNotFound, "": UserNotFound, "me": UserNotFound, "U-GRACE": UserNotFound, "u-grace ": UserNotFound, "conf": UserNotFound,
		"u-ada": TargetRoleNotAllowed, "u-eve": TargetRoleNotAllowed, "u-mia": TargetRoleNotAllowed,
		"u-off": UserInactive, "u-locked": UserInactive, "u-invited": UserInactive,
	} {
		tokens, err := f.IssueForUser(ctx, admin, token, id)
		if AsError(err).Code != want || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%q: %v", id, err)
		}
	}
	if a, b := unknown("u-rex"), unknown("u-nobody"); a.Description != b.Description || a.Reason != b.Reason {
		t.Errorf("a user of another organisation is told from an unknown one: %+v, %+v", a, b)
	}
	for _, role := range []Role{"Group_Manager", " group_manager", "group_manager ", "grоup_manager", "GROUP_MANAGER", ""} { // M9
		if err := (RoleCatalogue{}).Check(role); err == nil {
			t.Errorf("role %q", role)
		}
		odd := &faultyDirectory{Directory: f.store, user: &User{ID: "u-odd", Organisation: "acme", Role: role, Status: UserActive, PasswordHash: cheapHash()}}
		f.Directory = odd
		if _, err := f.IssueForUser(ctx, admin, token, "u-odd"); AsError(err).Code != TargetRoleNotAllowed {
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
	wantCode(t, err, InvalidGrant)
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
		_, err := f.registry.AddUser(t.Context(), User{ID: id, Email: id + "@acme.example", Organisation: "acme", Role: RoleGroupManager, PasswordHash: cheapHash()}, Secret{})
		f.must(err)
		var minted Tokens
		errs := together(2, func(i int) (err error) {
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
			wantCode(t, err, InvalidGrant)
		} else if code := AsError(errs[1]).Code; code != UserNotFound && code != UserInactive {
			t.Fatalf("%v", errs[1])
		}
	}
}

// TestM28TheTargetChangesBeforeTheTokenIsMade, after it was looked at.
func TestM28TheTargetChangesBeforeTheTokenIsMade(t *testing.T) {
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.store.meanwhile("AddFamily", func() { f.must(f.registry.SetRole(t.Context(), "u-grace", RoleMember)) })
	tokens, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	wantReason(t, err, UserInactive, "user_changed")
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
	wantCode(t, err, RateLimited)
	if after := AsError(err).RetryAfter; after != 40*time.Second {
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
	f.must(f.Revoke(t.Context(), f.RevocationOf(RevokeToken, first.Claims.ID)))
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
		if AsError(err).Code != TemporarilyUnavailable || !tokens.AccessToken.IsEmpty() {
			t.Errorf("%s: %v", step, err)
		}
	}
	f := newFlow(t)
	admin, token := f.admin("ada", "trusted")
	f.must(f.registry.DisableClient(t.Context(), "conf"))
	_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
	wantCode(t, err, InvalidToken)
}

// TestT132NothingIsCreatedAfterTheEnd: a token that an admin creates beside the end of all of their access is not born, or it
// would outlive it by months.
func TestT132NothingIsCreatedAfterTheEnd(t *testing.T) {
	f := newFlow(t)
	for name, end := range map[string]func(admin *User) error{
		"signed out everywhere": func(admin *User) error { return f.SignOutEverywhere(t.Context(), admin) },
		"revoked":               func(admin *User) error { return f.registry.RevokeUser(t.Context(), admin.ID) },
	} {
		t.Run(name, func(t *testing.T) {
			f.wait(2 * time.Second) // beyond what was revoked before
			admin, token := f.admin("ada", "trusted public")
			f.store.meanwhile("AddFamily", func() { f.must(end(admin)) })
			_, err := f.IssueForUser(t.Context(), admin, token, "u-grace")
			wantReason(t, err, InvalidToken, "token_revoked")
		})
	}
}
