package grants_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT68NoIDIsAClientsAndAUsers: a client and a user cannot have the same id, whichever came first, even after removal, in the store and
// in the configuration.
func TestT68NoIDIsAClientsAndAUsers(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	addUser := func(id, email string) error {
		_, err := f.registry.People.AddUser(ctx, store.User{ID: id, Email: email, Organisation: "acme"}, oauth.Secret{})
		return err
	}
	addClient := func(id string) error {
		_, _, err := f.registry.Clients.AddClient(ctx, store.Client{ID: id})
		return err
	}
	f.must(addUser("admin", "admin@acme.example"))
	f.must(f.registry.People.RemoveUser(ctx, "u-mia"))
	f.must(f.registry.Clients.RemoveClient(ctx, "legacy"))
	declared, err := store.NewStaticDirectory(store.Declarations{
		Clients: []*store.Client{{ID: "declared-client", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}},
		Users:   []*store.User{{ID: "declared-user", Email: "declared@acme.example", Organisation: "acme", Role: store.RoleMember, Status: store.UserActive}},
	})
	f.must(err)
	f.registry.Clients.Declared, f.registry.People.Declared = declared, declared
	for name, err := range map[string]error{
		"client of a user's id": addClient("u-ada"), "client called admin": addClient("admin"), "user of a client's id": addUser("conf", "x1@acme.example"),
		"client of a removed user's id": addClient("u-mia"), "user of a removed user's id": addUser("u-mia", "x2@acme.example"), "user of a removed client's id": addUser("legacy", "x3@acme.example"),
		"client of a declared user's id": addClient("declared-user"), "user of a declared client's id": addUser("declared-client", "x4@acme.example"), "user of a declared user's id": addUser("declared-user", "x5@acme.example"),
		"address of another": addUser("x6", "ADA@acme.example"), "address of a declared one": addUser("x7", "declared@acme.example."),
	} {
		if !errors.Is(err, store.ErrTaken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := store.NewStaticDirectory(store.Declarations{
		Clients: []*store.Client{{ID: "same", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}},
		Users:   []*store.User{{ID: "same", Email: "same@acme.example", Organisation: "acme", Role: store.RoleMember, Status: store.UserActive}},
	}); err == nil {
		t.Error("a client and a user of one id were declared")
	}
	// If both exist all the same, no token is issued that would be taken for the other's.
	_, err = f.Issue(issuer.Grant{Type: oauth.AuthorizationCode, Client: f.client("conf"), User: &store.User{ID: "conf"}, Scopes: oauth.Scopes{oauth.ScopePublic}, Family: &store.TokenFamily{ID: "f"}})
	tokentest.WantCode(t, err, oauth.ServerError)
	s := f.session("ada")
	s.User = &store.User{ID: "conf"}
	if got := f.wants(t, "conf", parameters(""), s); got != issuer.AskSignIn {
		t.Errorf("a user with the client's id is asked for %v", got)
	}
}

func TestUsersThatCannotBeRegistered(t *testing.T) {
	f := newFlow(t)
	good := store.User{ID: "u-good", Email: "good@acme.example", Organisation: "acme", Role: store.RoleMember, Status: store.UserActive}
	for name, edit := range map[string]func(*store.User){
		"id": func(u *store.User) { u.ID = "a\n" }, "long id": func(u *store.User) { u.ID = strings.Repeat("a", 256) }, "no address": func(u *store.User) { u.Email = "" }, "two @": func(u *store.User) { u.Email = "a@b@acme.example" }, "no local part": func(u *store.User) { u.Email = "@acme.example" },
		"space in the address": func(u *store.User) { u.Email = "a b@acme.example" }, "control in the name": func(u *store.User) { u.Name = "a\x1b" }, "unknown organisation": func(u *store.User) { u.Organisation = "nobody" },
		"role": func(u *store.User) { u.Role = "Admin" }, "status": func(u *store.User) { u.Status = "gone" }, "hash": func(u *store.User) { u.PasswordHash = oauth.NewSecret("plain text") },
	} {
		u := good
		edit(&u)
		if _, err := f.registry.People.AddUser(t.Context(), u, oauth.Secret{}); !store.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, password := range map[string]string{"short": "1234567", "long": strings.Repeat("a", 1025), "NUL": "12345678\x00"} {
		if _, err := f.registry.People.AddUser(t.Context(), good, oauth.NewSecret(password)); !store.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
		if err := f.registry.People.SetPassword(t.Context(), "u-ada", oauth.NewSecret(password)); !store.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := f.registry.People.SetRole(t.Context(), "u-ada", "root"); !store.IsInvalidInput(err) {
		t.Errorf("role: %v", err)
	}
	if err := f.registry.People.SetUserStatus(t.Context(), "u-ada", "x"); !store.IsInvalidInput(err) {
		t.Errorf("status: %v", err)
	}
	if err := f.registry.People.SetPasswordHash(t.Context(), "u-ada", oauth.NewSecret("x")); !store.IsInvalidInput(err) {
		t.Errorf("hash: %v", err)
	}
	if err := f.registry.People.SetRole(t.Context(), "u-nobody", store.RoleAdmin); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("unknown user: %v", err)
	}
}

func TestAUserFromInvitationToRemoval(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	added, err := f.registry.People.AddUser(ctx, store.User{Email: " New@Acme.Example. ", Organisation: "acme"}, oauth.Secret{})
	f.must(err)
	if added.Email != "new@acme.example" || added.Name != added.Email || added.Role != store.RoleMember || added.Status != store.UserActive || len(added.ID) != 22 || !added.CreatedAt.Equal(tokentest.Start) || added.IsActive() {
		t.Errorf("%+v", added)
	}
	_, err = f.signInFor("", "new@acme.example", "a password of hers")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	f.must(f.registry.People.SetPassword(ctx, added.ID, oauth.NewSecret("a password of hers")))
	tokens, err := f.signInFor("", "new@acme.example", "a password of hers")
	f.must(err)
	f.must(f.registry.People.SetPassword(ctx, added.ID, oauth.NewSecret("another password")))
	f.dead(tokens)
	_, err = f.signInFor("", "new@acme.example", "a password of hers")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	f.must(f.registry.People.SetUserStatus(ctx, added.ID, store.UserLocked))
	_, err = f.signInFor("", "new@acme.example", "another password")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	f.must(f.registry.People.SetUserStatus(ctx, added.ID, store.UserActive))
	tokens, err = f.signInFor("", "new@acme.example", "another password")
	f.must(err)
	f.must(f.registry.People.RemoveUser(ctx, added.ID))
	f.dead(tokens)
	_, err = f.signInFor("", "new@acme.example", "another password")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	if _, err := f.registry.People.User(ctx, added.ID); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestOrganisationsAndTheirUsers(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	declared, err := store.NewStaticDirectory(store.Declarations{
		Organisations: []*store.Organisation{{ID: "declared"}},
		Users:         []*store.User{{ID: "u-decl", Email: "decl@acme.example", Organisation: "acme", Role: store.RoleMember, Status: store.UserActive}},
	})
	f.must(err)
	f.registry.Clients.Declared, f.registry.People.Declared = declared, declared
	if err := f.registry.People.RemoveOrganisation(ctx, "acme"); !errors.Is(err, store.ErrInUse) {
		t.Errorf("%v", err)
	}
	if err := f.registry.People.RemoveOrganisation(ctx, "declared"); !errors.Is(err, store.ErrDeclared) {
		t.Errorf("%v", err)
	}
	for _, id := range []string{"acme", "declared"} {
		if _, err := f.registry.People.AddOrganisation(ctx, store.Organisation{ID: id}); !errors.Is(err, store.ErrTaken) {
			t.Errorf("%s: %v", id, err)
		}
	}
	if _, err := f.registry.People.AddOrganisation(ctx, store.Organisation{ID: "a\n"}); !store.IsInvalidInput(err) {
		t.Errorf("%v", err)
	}
	_, err = f.registry.People.AddUser(ctx, store.User{ID: "u-of-declared", Email: "of@acme.example", Organisation: "declared"}, oauth.Secret{})
	f.must(err)
	var ids []string
	organisations, err := f.registry.People.Organisations(ctx)
	f.must(err)
	for _, o := range organisations {
		ids = append(ids, o.ID)
	}
	if got := strings.Join(ids, " "); got != "acme declared rival" {
		t.Errorf("organisations %s", got)
	}
	for organisation, want := range map[string]string{"acme": "u-ada u-bob u-decl u-eve u-grace u-mia", "rival": "u-rex", "declared": "u-of-declared", "nobody": ""} {
		users, err := f.registry.People.Users(ctx, organisation)
		f.must(err)
		ids = nil
		for _, u := range users {
			ids = append(ids, u.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s: %s", organisation, got)
		}
	}
	f.must(f.registry.People.RemoveUser(ctx, "u-rex"))
	f.must(f.registry.People.RemoveOrganisation(ctx, "rival"))
}

// TestAStoredUserDoesNotShowBehindADeclaredOne: a declared user hides a stored one with the same id or address.
func TestAStoredUserDoesNotShowBehindADeclaredOne(t *testing.T) {
	f := newFlow(t)
	f.must(f.declare(store.User{ID: "u-ada", Email: "moved@acme.example", Organisation: "acme", PasswordHash: cheapHash()}))
	_, err := f.signInFor("", "ada@acme.example", userPassword)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	_, err = f.signInFor("", "moved@acme.example", userPassword)
	f.must(err)
	f.must(f.declare(store.User{ID: "u-new", Email: "ada@acme.example", Organisation: "acme", PasswordHash: cheapHash()}))
	tokens, err := f.signInFor("", "ada@acme.example", userPassword)
	f.must(err)
	if tokens.Claims.Subject != "u-new" {
		t.Errorf("signed in as %s", tokens.Claims.Subject)
	}
	if _, err := f.Directory.UserByEmail(t.Context(), "moved@acme.example"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

func TestAnOperatorMintsAUserToken(t *testing.T) {
	f := newFlow(t)
	ctx := t.Context()
	tokens, err := f.minted().MintUserToken(ctx, "conf", "u-grace", "trusted", 0)
	f.must(err)
	f.alive(tokens)
	if tokens.Claims.Subject != "u-grace" || tokens.Claims.ClientID != "conf" || tokens.ExpiresIn.Hours() != 6 || !tokens.RefreshToken.IsEmpty() || !tokens.Claims.AuthTime.IsZero() {
		t.Errorf("%+v", tokens)
	}
	for name, mint := range map[string]func() error{
		"unknown user": func() error { _, err := f.minted().MintUserToken(ctx, "conf", "u-nobody", "", 0); return err },
		"long lifetime": func() error {
			_, err := f.minted().MintUserToken(ctx, "conf", "u-grace", "", store.MaxLifetime+1)
			return err
		},
		"inactive": func() error {
			f.must(f.registry.People.SetUserStatus(ctx, "u-bob", store.UserDisabled))
			_, err := f.minted().MintUserToken(ctx, "conf", "u-bob", "", 0)
			return err
		},
	} {
		if err := mint(); !store.IsInvalidInput(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, err = f.minted().MintUserToken(ctx, "conf", "u-grace", "reports", 0)
	tokentest.WantCode(t, err, oauth.InvalidScope)
	f.must(f.registry.People.SetRole(ctx, "u-grace", store.RoleMember))
	f.dead(tokens)
}
