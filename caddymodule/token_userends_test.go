package caddymodule

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// endings are the operator's actions on a user that invalidate everything issued before.
func (g *gatehouse) endings() map[string]func(id string) error {
	registry, ctx := g.app().registry, context.Background()
	return map[string]func(id string) error{
		"disabled": func(id string) error { return registry.People.SetUserStatus(ctx, id, store.UserDisabled) },
		"disabled-and-enabled": func(id string) error {
			if err := registry.People.SetUserStatus(ctx, id, store.UserDisabled); err != nil {
				return err
			}
			return registry.People.SetUserStatus(ctx, id, store.UserActive)
		},
		"another-password": func(id string) error {
			return registry.People.SetPassword(ctx, id, oauth.NewSecret("another "+peoplePassword))
		},
		"demoted": func(id string) error { return registry.People.SetRole(ctx, id, store.RoleMember) },
		"revoked": func(id string) error { return registry.People.RevokeUser(ctx, id) },
		"removed": func(id string) error { return registry.People.RemoveUser(ctx, id) },
	}
}

// unrevoked returns a token of an admin that no revocation of the user's families affects.
func (d *adminDoor) unrevoked(id, organisation string) string {
	return d.issue(issuer.Grant{
		Type: oauth.AuthorizationCode, User: &store.User{ID: id, Organisation: organisation, Role: store.RoleAdmin},
		Scopes: oauth.Scopes{"trusted", "public"}, Family: &store.TokenFamily{ID: "none of the user's"},
	})
}

// TestT61T91A71A83M24M25WhatEndsAUserEndsAllOfTheirs: a user is disabled, deleted, moved or gets another password or role → codes,
// refresh tokens, sessions, open consent pages and what admins created for them, or they as admins, are dead.
func TestT61T91A71A83M24M25WhatEndsAUserEndsAllOfTheirs(t *testing.T) {
	d := openAdmin(t, passwordRefresh...)
	r := requestOf("conf")
	bystander, waiting := d.mintFor("u-grace"), r.exchange(d.code(r, ada))
	for name, end := range d.endings() {
		d.sub(name, func(d *adminDoor) {
			manager, admin := name+"@acme.example", name+"-admin@acme.example"
			id, adminID := d.addUser(manager, "acme", store.RoleGroupManager), d.addUser(admin, "acme", store.RoleAdmin)
			own := d.userTokens(r, admin)
			session := d.browserOf(admin).cookie("accessToken")
			ofClient := []tokens{
				d.userTokens(r, manager), d.gives(r.asPassword(manager, peoplePassword)), d.mintFor(id), d.gives(r.refresh(d.mintFor(id).RefreshToken)),
				own, d.created(own.AccessToken, mintRequest{id: "u-grace"}),
				d.gives(r.refresh(d.created(own.AccessToken, mintRequest{id: "u-grace"}).RefreshToken)),
			}
			inSession := d.gives(nobodysClient.refresh(d.created(session, mintRequest{id: "u-grace"}).RefreshToken))
			living := []string{session, inSession.AccessToken}
			for _, held := range ofClient {
				living = append(living, held.AccessToken)
			}
			for i, token := range living {
				if !d.alive(token) {
					d.t.Fatalf("token %d is dead before the end", i)
				}
			}
			code, b := d.code(r, manager), d.browserOf(manager)
			page := b.consentFor(d.t, r)

			for _, id := range []string{id, adminID} {
				if err := end(id); err != nil {
					d.t.Fatal(err)
				}
			}

			d.gone(living...)
			for _, held := range ofClient {
				d.denied(r.refresh(held.RefreshToken), badGrant("refresh_token_revoked"))
			}
			d.denied(nobodysClient.refresh(inSession.RefreshToken), badGrant("refresh_token_revoked"))
			d.denied(r.exchange(code), badGrant("code_expired"))
			d.refused(own.AccessToken, mintRequest{id: "u-grace"}, revokedToken)
			b.signsInAgain(d.t, b.decide(page, "allow"))
			if name == "another-password" {
				for password, want := range map[string]int{peoplePassword: http.StatusOK, "another " + peoplePassword: http.StatusSeeOther} {
					if p := d.browser().signInPage(manager, password); p.status != want {
						d.t.Errorf("signing in: %d, want %d", p.status, want)
					}
				}
			}
		})
	}
	d.gives(r.refresh(bystander.RefreshToken))
	d.gives(waiting)
}

// TestT61T91M25WhatIsDeclaredOtherwiseEnds: an operator takes a user or a client out of the Caddyfile, or changes a
// user's role or organisation there. Their tokens, including those that an admin created for them, then end with the
// reload, and not at their own expiry weeks later. Unchanged users and clients keep theirs.
func TestT61T91M25WhatIsDeclaredOtherwiseEnds(t *testing.T) {
	now := setClock(t)
	d := openAdmin(t)
	r := requestOf("conf")
	stays, waiting := d.userTokens(r, ada), d.code(r, ada)
	ended := map[string]tokens{
		"another role": d.userTokens(r, "grace@acme.example"), "created for another role": d.mintFor("u-grace"),
		"removed": d.userTokens(r, "ben@acme.example"), "created for one who is removed": d.mintFor("u-ben"),
		"another organisation": d.userTokens(r, maxim),
	}
	ofClient, code := d.userTokens(requestOf("pub"), ada), d.code(r, maxim)

	text := peopleSite("organisation acme\n\t\t\trole member", "organisation rival\n\t\t\trole member")
	text = strings.Replace(text, "role group_manager", "role member", 1)
	d.reload(cutBlock(t, cutBlock(t, text, "user u-ben {"), "client pub {"))

	for name, held := range ended {
		d.sub(name, func(d *adminDoor) {
			if d.alive(held.AccessToken) {
				d.t.Error("the access token lives on")
			}
			d.denied(r.refresh(held.RefreshToken), badGrant(""))
		})
	}
	if d.alive(ofClient.AccessToken) {
		t.Error("the token of a client that is removed lives on")
	}
	d.denied(r.exchange(code), badGrant(""))
	d.refused(d.admin, mintRequest{id: "u-ben"}, userNotFound)
	d.refused(d.admin, mintRequest{id: "u-grace"}, roleNotAllowed)
	if !d.alive(stays.AccessToken) || !d.browserOf(ada).isSignedIn() {
		t.Error("the token, or the session, of a user who stays is dead")
	}
	d.gives(r.refresh(stays.RefreshToken))
	d.gives(r.exchange(waiting))

	// A user who is declared again starts anew, but not in the same second.
	d.wait(now, 2*time.Second)
	d.reload(peopleSite())
	if d.alive(ended["removed"].AccessToken) || !d.alive(d.userTokens(r, "ben@acme.example").AccessToken) {
		t.Error("the old token of a user who came back lives again, or the new one is dead")
	}
}

// cutBlock removes a block from a Caddyfile.
func cutBlock(t *testing.T, text, head string) string {
	t.Helper()
	start := strings.Index(text, "\t\t"+head)
	if start < 0 {
		t.Fatalf("no block %q", head)
	}
	length := strings.Index(text[start:], "\n\t\t}\n")
	return text[:start] + text[start+length+len("\n\t\t}\n"):]
}

// signsInAgain checks that an answer leads to the sign-in page without a session.
func (b *browser) signsInAgain(t *testing.T, p page) {
	t.Helper()
	if p.status != http.StatusSeeOther || p.location().Path != "/oauth/login" || p.location().Host != "" {
		t.Fatalf("%d %q", p.status, p.header.Get("Location"))
	}
	p = b.open(p.header.Get("Location"))
	if _, fields := formIn(t, p); !fields.Has("password") || b.isSignedIn() {
		t.Errorf("no sign-in page, or still signed in: %d", p.status)
	}
}
