package caddymodule

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// shopRoles replaces the default roles: owners manage clerks and drivers, chiefs manage clerks and each other. The
// declared people get these roles.
var shopRoles = []string{
	"\t\torganisation acme \"Acme Ltd\"\n", "\t\trole owner \"Owner of the shop\" manages clerk driver\n\t\trole chief manages chief clerk\n" +
		"\t\trole clerk\n\t\trole driver\n\t\torganisation acme \"Acme Ltd\"\n",
	"role admin", "role owner", "role group_manager", "role clerk", "role business_manager", "role driver", "role member", "role chief",
}

// role reads the role claim of a new token of the user; nil: it has none.
func (d *adminDoor) role(id string) any {
	d.t.Helper()
	return claims(d.t, d.operatorToken("conf", id, "trusted public"))["role"]
}

// TestM38DeclaredRoles: declared roles with `manages` → tokens for the managed roles alone. The default roles no
// longer exist, and neither do their rights.
func TestM38DeclaredRoles(t *testing.T) {
	d := openAdmin(t, shopRoles...)
	hash := oauth.NewSecret(peopleHash())
	for id, role := range map[string]store.Role{
		"u-chief": "chief", "u-old-admin": store.RoleAdmin, "u-old-manager": store.RoleGroupManager, "u-none": "", "u-Clerk": "Clerk",
	} {
		d.stored(store.User{ID: id, Organisation: "acme", Role: role, PasswordHash: hash})
	}
	for id, want := range map[string]mintRefusal{
		"u-grace": {}, "u-ben": {}, // clerk and driver
		"u-max": roleNotAllowed, "u-ada": roleNotAllowed, "u-chief": roleNotAllowed, "u-old-manager": roleNotAllowed,
		"u-old-admin": roleNotAllowed, "u-none": roleNotAllowed, "u-Clerk": roleNotAllowed, "u-rita": userNotFound,
	} {
		d.sub("an owner for "+id, func(d *adminDoor) {
			if want.status != 0 {
				d.refused(d.admin, mintRequest{id: id}, want)
				return
			}
			if got := claims(d.t, d.mintFor(id).AccessToken); got["sub"] != id || got["org"] != "acme" || got["role"] == nil {
				d.t.Errorf("%v", got)
			}
		})
	}
	d.sub("a role that manages its own", func(d *adminDoor) {
		token := d.operatorToken("conf", "u-max", "trusted public")
		d.created(token, mintRequest{id: "u-chief"})
		d.created(token, mintRequest{id: "u-grace"})
		d.refused(token, mintRequest{id: "u-max"}, roleNotAllowed) // not for oneself
		d.refused(token, mintRequest{id: "u-ben"}, roleNotAllowed)
	})
	for _, id := range []string{"u-grace", "u-old-admin", "u-old-manager", "u-none"} {
		d.sub(id+" asks", func(d *adminDoor) {
			d.refused(d.operatorToken("conf", id, "trusted public"), mintRequest{id: "u-grace"}, adminRequired)
		})
	}
}

// TestM40ARoleThatIsDeclaredNoMore: a stored user whose role is no longer declared → signs in, without role.
func TestM40ARoleThatIsDeclaredNoMore(t *testing.T) {
	d := openAdmin(t, shopRoles...)
	d.stored(store.User{ID: "u-old", Email: "old@acme.example", Organisation: "acme", Role: store.RoleMember, PasswordHash: oauth.NewSecret(peopleHash())})
	got := d.obtain(requestOf("conf").exchange(d.code(requestOf("conf"), "old@acme.example")))
	if claim := claims(t, got.AccessToken); claim["role"] != nil || claim["sub"] != "u-old" || claim["org"] != "acme" {
		t.Errorf("%v", claim)
	}
	if status, _, _ := d.get("/api/x", got.AccessToken); status != http.StatusOK {
		t.Fatalf("the gate: %d", status)
	}
	if seen := d.upstream.one(t); seen.Header[identity.Role] != nil || seen.Header.Get(identity.Organisation) != "acme" {
		t.Errorf("the upstream is told %v", seen.Header)
	}
	for id, want := range map[string]any{"u-ada": "owner", "u-grace": "clerk", "u-max": "chief"} {
		if got := d.role(id); got != want {
			t.Errorf("%s has the role %v, want %v", id, got, want)
		}
	}
	status, _, body := d.operate("GET", "/oauth/users/u-old", "")
	if status != http.StatusOK || member(t, body, "role") != "member" || !strings.Contains(body, `"role_undeclared":true`) {
		t.Errorf("the operator sees %d %s", status, body)
	}
	if _, _, body := d.operate("GET", "/oauth/users/u-ada", ""); strings.Contains(body, "role_undeclared") {
		t.Errorf("the operator sees %s", body)
	}
	for email, want := range map[string]string{"ada@acme.example": "Owner of the shop", "max@acme.example": "chief"} {
		b := d.signedIn(email)
		if p := b.open("/oauth/account"); !strings.Contains(p.body, "<dt>Role</dt><dd><bdi>"+want+"</bdi>") {
			t.Errorf("%s does not see %q: %s", email, want, p.body)
		}
	}
	b := d.signedIn("old@acme.example")
	if p := b.open("/oauth/account"); p.status != http.StatusOK || strings.Contains(p.body, "<dt>Role</dt>") {
		t.Errorf("a role that is none: %d %s", p.status, p.body)
	}
}

// TestUnknownRolesAreRefused: an unknown role is refused wherever a user gets one, and the message lists the declared
// ones.
func TestUnknownRolesAreRefused(t *testing.T) {
	d := openAdmin(t, shopRoles...)
	// Without a role member, a user added without a role has none.
	if body := d.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-plain","email":"plain@acme.example","organisation":"acme","password_hash":"`+peopleHash()+`"}`); member(t, body, "role") != "" {
		t.Error(body)
	}
	if got := d.role("u-plain"); got != nil {
		t.Errorf("role %v", got)
	}
	for _, role := range []string{"member", "Owner", "owner ", "own"} {
		for path, body := range map[string]string{"/oauth/users": fmt.Sprintf(`{"email":"x@acme.example","role":%q}`, role), "/oauth/users/u-plain/role": fmt.Sprintf(`{"role":%q}`, role)} {
			if answer := d.must(http.StatusBadRequest, "POST", path, body); !strings.Contains(answer, "use owner, chief, clerk or driver") {
				t.Errorf("%s %q: %s", path, role, answer)
			}
		}
	}
}

// TestM41RequireDeclaredRole: `require role` or a user with an undeclared role → refused.
func TestM41RequireDeclaredRole(t *testing.T) {
	rule := "\t\tprotect trusted\n"
	d := openAdmin(t, append(slices.Clone(shopRoles), rule, "\t\tprotect trusted {\n\t\t\trequire role owner clerk\n\t\t}\n")...)
	for id, want := range map[string]int{"u-ada": 200, "u-grace": 200, "u-ben": 403, "u-max": 403} {
		if status, _, body := d.get("/api/x", d.operatorToken("conf", id, "trusted")); status != want {
			t.Errorf("%s: %d %s", id, status, body)
		}
	}
	site := func(role string) string {
		return inOAuth("role boss", "role chief", "role clerk") + "http://localhost:1 {\n\thandle /x/* {\n\t\tprotect {\n\t\t\trequire role boss\n\t\t\trequire role " +
			role + "\n\t\t}\n\t}\n}\n"
	}
	if err := refused(t, site("admin")); err == nil || !strings.Contains(err.Error(), `unknown role "admin": use boss, chief or clerk, at Caddyfile:13`) {
		t.Errorf("got %v", err)
	}
	if err := refused(t, site("clerk")); err != nil {
		t.Error(err)
	}
	gate := gateOf(trustLines("corp", "https://login.example"), "role boss") + "http://localhost:1 {\n\tprotect {\n\t\tissuer corp\n\t\trequire role boss\n\t}\n}\n"
	if err := refused(t, gate); err != nil {
		t.Errorf("a gate without an issuer: %v", err)
	}
}

// TestM39WithoutAnOrganisation: a user without an organisation as target or caller → 404, 403. Two users without an
// organisation do not share one.
func TestM39WithoutAnOrganisation(t *testing.T) {
	d := openAdmin(t, "\t\tuser u-rita {\n", "\t\tuser u-free {\n\t\t\temail free@example.com\n\t\t\tpassword HASH\n\t\t\trole admin\n\t\t}\n"+
		"\t\tuser u-loose {\n\t\t\temail loose@example.com\n\t\t\tpassword HASH\n\t\t\trole group_manager\n\t\t}\n\t\tuser u-rita {\n")
	body := d.must(http.StatusCreated, "POST", "/oauth/users", `{"id":"u-solo","email":"solo@example.com","role":"group_manager","password_hash":"`+peopleHash()+`"}`)
	if member(t, body, "organisation") != "" {
		t.Fatal(body)
	}
	for _, id := range []string{"u-loose", "u-solo", "u-free"} {
		d.sub("an admin for "+id, func(d *adminDoor) { d.refused(d.admin, mintRequest{id: id}, userNotFound) })
	}
	for _, id := range []string{"u-loose", "u-solo", "u-grace", "u-free"} {
		d.sub("an admin without organisation for "+id, func(d *adminDoor) {
			d.refused(d.operatorToken("conf", "u-free", "trusted"), mintRequest{id: id}, adminRequired)
		})
	}
	for _, email := range []string{"solo@example.com", "free@example.com"} {
		got := d.obtain(requestOf("conf").exchange(d.code(requestOf("conf"), email)))
		if claim := claims(t, got.AccessToken); claim["org"] != nil || claim["role"] == nil {
			t.Errorf("%v", claim)
		}
		if status, _, _ := d.get("/api/x", got.AccessToken); status != http.StatusOK {
			t.Fatalf("the gate: %d", status)
		}
		if seen := d.upstream.one(t); seen.Header[identity.Organisation] != nil || seen.Header.Get(identity.Role) == "" {
			t.Errorf("the upstream is told %v", seen.Header)
		}
		if p := d.signedIn(email).open("/oauth/account"); p.status != http.StatusOK || strings.Contains(p.body, "Organisation") {
			t.Errorf("the account page: %d %s", p.status, p.body)
		}
	}
	if body := d.must(http.StatusOK, "GET", "/oauth/users?organisation=acme", ""); strings.Contains(body, "u-solo") || strings.Contains(body, "u-free") {
		t.Errorf("acme has %s", body)
	}
}
