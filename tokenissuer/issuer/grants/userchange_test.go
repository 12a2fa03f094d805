package grants_test

import (
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// declare adds a configuration with one user over the store. Like a new configuration, it has an empty cache.
func (f *flow) declare(u store.User) error {
	u.SetDefaults(store.RoleCatalogue{})
	declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{&u}})
	f.registry.Clients.Declared, f.registry.People.Declared = declared, declared
	f.Directory, f.Remembered = store.OverlayDirectory{Declared: declared, Stored: f.store.Directory()}, token.NewFamilyCache()
	return err
}

// TestT91AChangeRacesARefresh: a change of role, organisation or password races a refresh → once it is acknowledged, nothing issued before
// it is valid.
func TestT91AChangeRacesARefresh(t *testing.T) {
	f := newFlow(t)
	for i := range 100 {
		tokens, err := f.redeem("conf", f.codeOf("grace", "conf", parameters("refresh_token")))
		f.must(err)
		role := []store.Role{store.RoleGroupManager, store.RoleMember}[i%2]
		var next issuer.Tokens
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				return f.registry.People.SetRole(t.Context(), "u-grace", role)
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

// TestT96AChangeRacesASignIn: a session opened concurrently with the change belongs to the user before or after it. Nothing of the former
// user lives.
func TestT96AChangeRacesASignIn(t *testing.T) {
	f := newFlow(t)
	for range 100 {
		before := f.user("grace")
		var cookie oauth.Secret
		errs := tokentest.Together(2, func(i int) (err error) {
			if i == 0 {
				return f.registry.People.SetPasswordHash(t.Context(), "u-grace", cheapHash())
			}
			_, cookie, err = f.OpenSession(t.Context(), signin.SignedIn{User: before}, "", "")
			return err
		})
		f.must(errs[0])
		if errs[1] == nil && f.signedIn(cookie) {
			t.Fatal("a session outlives the password that opened it")
		}
	}
}

// TestT61ADeclaredUserIsHeldAgainstTheConfiguration: a code of a declared user is checked against the current configuration.
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
		"password": f.registry.People.SetPassword(ctx, "u-decl", oauth.NewSecret("another long password")), "hash": f.registry.People.SetPasswordHash(ctx, "u-decl", cheapHash()),
		"role": f.registry.People.SetRole(ctx, "u-decl", store.RoleAdmin), "status": f.registry.People.SetUserStatus(ctx, "u-decl", store.UserDisabled), "remove": f.registry.People.RemoveUser(ctx, "u-decl"),
	} {
		if !errors.Is(err, store.ErrDeclared) {
			t.Errorf("%s: %v", name, err)
		}
	}
	// A sign-in does not rehash a password that is not in the store.
	f.store.asked()
	_, err := f.signInFor("", "decl@acme.example", userPassword)
	f.must(err)
	for _, step := range f.store.asked() {
		if step == "RehashPassword" {
			t.Error("a declared user's hash was replaced")
		}
	}
	f.must(f.registry.People.RevokeUser(ctx, "u-decl"))
}
