package tokenissuer_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// userChanges are what happens to a user after which nothing that was granted before is worth anything.
var userChanges = map[string]func(f *flow, ctx context.Context) error{
	"disabled": func(f *flow, ctx context.Context) error {
		return f.registry.SetUserStatus(ctx, "u-grace", store.UserDisabled)
	},
	"locked": func(f *flow, ctx context.Context) error {
		return f.registry.SetUserStatus(ctx, "u-grace", store.UserLocked)
	},
	"disabled and active": disabledAndActive,
	"deleted":             func(f *flow, ctx context.Context) error { return f.registry.RemoveUser(ctx, "u-grace") },
	"password changed": func(f *flow, ctx context.Context) error {
		return f.registry.SetPassword(ctx, "u-grace", oauth.NewSecret("another long password"))
	},
	"password set again": func(f *flow, ctx context.Context) error {
		return f.registry.SetPasswordHash(ctx, "u-grace", cheapHash())
	},
	"role changed": func(f *flow, ctx context.Context) error { return f.registry.SetRole(ctx, "u-grace", store.RoleMember) },
	"role set again": func(f *flow, ctx context.Context) error {
		return f.registry.SetRole(ctx, "u-grace", store.RoleGroupManager)
	},
	"revoked by an admin":   func(f *flow, ctx context.Context) error { return f.registry.RevokeUser(ctx, "u-grace") },
	"signed out everywhere": func(f *flow, ctx context.Context) error { return f.SignOutEverywhere(ctx, f.user("grace")) },
	"declared elsewhere": func(f *flow, _ context.Context) error {
		return f.declare(store.User{ID: "u-grace", Email: "grace@acme.example", Organisation: "rival", Role: store.RoleGroupManager, PasswordHash: cheapHash()})
	},
}

func disabledAndActive(f *flow, ctx context.Context) error {
	if err := f.registry.SetUserStatus(ctx, "u-grace", store.UserDisabled); err != nil {
		return err
	}
	return f.registry.SetUserStatus(ctx, "u-grace", store.UserActive)
}

// declare lays a configuration with one user over the store. It remembers no families, as a new configuration.
func (f *flow) declare(u store.User) error {
	u.SetDefaults(store.RoleCatalogue{})
	declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{&u}})
	f.registry.Declared = declared
	f.Directory, f.Families = store.OverlayDirectory{Declared: declared, Stored: f.store}, NewFamilyCache()
	return err
}

// TestT61T91T96M25NothingOutlivesItsUsersState: codes, refresh tokens, sessions and access tokens, those that an admin
// has created included.
func TestT61T91T96M25NothingOutlivesItsUsersState(t *testing.T) {
	for name, change := range userChanges {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			tokens, err := f.redeem("conf", f.codeOf("grace", "conf", parameters("refresh_token")))
			f.must(err)
			minted, err := f.mint("grace")
			f.must(err)
			code := f.codeOf("grace", "conf", parameters(""))
			s, cookie := f.open("grace")
			before := f.user("grace")
			neighbour := f.tokens("conf", "refresh_token")

			f.must(change(f, t.Context()))

			_, err = f.redeem("conf", code)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
			for _, held := range []Tokens{tokens, minted} {
				_, err = f.refresh("conf", held.RefreshToken)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
			}
			if f.signedIn(cookie) {
				t.Error("the session lives")
			}
			if name != "declared elsewhere" { // the families have ended with the change; Settle ends what a configuration changes
				f.dead(tokens)
				f.dead(minted)
			}
			// What was read before the change makes nothing any more.
			if name != "revoked by an admin" && name != "signed out everywhere" && name != "declared elsewhere" {
				r, err := f.read("conf", parameters(""))
				f.must(err)
				_, err = f.Approve(t.Context(), &r, f.client("conf"), s, r.Scopes)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
				_, _, err = f.OpenSession(t.Context(), before, "", "")
				tokentest.WantCode(t, err, oauth.InvalidGrant)
			}
			f.alive(neighbour)
			_, err = f.refresh("conf", neighbour.RefreshToken)
			f.must(err)
		})
	}
}

// TestT91AChangeRacesARefresh: whatever comes first, after the change is acknowledged nothing lives.
func TestT91AChangeRacesARefresh(t *testing.T) {
	f := newFlow(t)
	for i := range 100 {
		tokens, err := f.redeem("conf", f.codeOf("grace", "conf", parameters("refresh_token")))
		f.must(err)
		role := []store.Role{store.RoleGroupManager, store.RoleMember}[i%2]
		var next Tokens
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				return f.registry.SetRole(t.Context(), "u-grace", role)
			}
			next, err = f.refresh("conf", tokens.RefreshToken)
			return err
		})
		f.must(errs[0])
		f.dead(tokens)
		if errs[1] == nil {
			f.dead(next)
			_, err = f.refresh("conf", next.RefreshToken)
			tokentest.WantCode(t, err, oauth.InvalidGrant)
		}
	}
}

// TestT96AChangeRacesASignIn: a session that was opened beside the change is of the user before or after it, and of the
// one before nothing lives.
func TestT96AChangeRacesASignIn(t *testing.T) {
	f := newFlow(t)
	for range 100 {
		before := f.user("grace")
		var cookie oauth.Secret
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				return f.registry.SetPasswordHash(t.Context(), "u-grace", cheapHash())
			}
			_, cookie, err = f.OpenSession(t.Context(), before, "", "")
			return err
		})
		f.must(errs[0])
		if errs[1] == nil && f.signedIn(cookie) {
			t.Fatal("a session outlives the password that opened it")
		}
	}
}

// TestT61ADeclaredUserIsHeldAgainstTheConfiguration.
func TestT61ADeclaredUserIsHeldAgainstTheConfiguration(t *testing.T) {
	base := store.User{ID: "u-decl", Email: "decl@acme.example", Organisation: "acme", Role: store.RoleGroupManager, PasswordHash: cheapHash()}
	for name, v := range map[string]struct {
		edit  func(*store.User)
		lives bool
	}{
		"nothing": {func(*store.User) {}, true}, "name": {func(u *store.User) { u.Name = "Another" }, true}, "role": {func(u *store.User) { u.Role = store.RoleAdmin }, false}, "organisation": {func(u *store.User) { u.Organisation = "rival" }, false},
		"status": {func(u *store.User) { u.Status = store.UserDisabled }, false}, "password taken away": {func(u *store.User) { u.PasswordHash = oauth.Secret{} }, false},
		"password": {func(u *store.User) {
			u.PasswordHash = oauth.NewSecret("$2a$04$xuJPAaEElfM/5KMM.ZXTpuhUTkENPz1Cf9lvNmGnwSnhdlMBpHmvK")
		}, false},
		"gone": {func(u *store.User) { u.ID, u.Email = "u-other", "other@acme.example" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			f.must(f.declare(base))
			tokens, err := f.redeem("conf", f.codeOf("decl", "conf", parameters("refresh_token")))
			f.must(err)
			code := f.codeOf("decl", "conf", parameters(""))
			_, cookie := f.open("decl")
			changed := base
			v.edit(&changed)
			f.must(f.declare(changed))
			if f.signedIn(cookie) != v.lives {
				t.Errorf("the session lives: %v", !v.lives)
			}
			if _, err := f.redeem("conf", code); (err == nil) != v.lives {
				t.Errorf("code: %v", err)
			}
			if _, err := f.refresh("conf", tokens.RefreshToken); (err == nil) != v.lives {
				t.Errorf("refresh: %v", err)
			}
		})
	}
}

func TestWhatTheConfigurationDeclaresIsLeftAlone(t *testing.T) {
	f := newFlow(t)
	f.must(f.declare(store.User{ID: "u-decl", Email: "decl@acme.example", Organisation: "acme", PasswordHash: cheapHash()}))
	ctx := t.Context()
	for name, err := range map[string]error{
		"password": f.registry.SetPassword(ctx, "u-decl", oauth.NewSecret("another long password")), "hash": f.registry.SetPasswordHash(ctx, "u-decl", cheapHash()),
		"role": f.registry.SetRole(ctx, "u-decl", store.RoleAdmin), "status": f.registry.SetUserStatus(ctx, "u-decl", store.UserDisabled), "remove": f.registry.RemoveUser(ctx, "u-decl"),
	} {
		if !errors.Is(err, ErrDeclared) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sign-in does not rehash what no store keeps.
	f.store.asked()
	_, err := f.signInFor("", "decl@acme.example", userPassword)
	f.must(err)
	for _, step := range f.store.asked() {
		if step == "RehashPassword" {
			t.Error("a declared user's hash was replaced")
		}
	}
	f.must(f.registry.RevokeUser(ctx, "u-decl"))
}
