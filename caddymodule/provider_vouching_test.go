package caddymodule

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// tellsAt gets tokens of somebody who signs in at a provider, in a new browser, and returns what the ID token says.
func (g *gatehouse) tellsAt(t *testing.T, name string, provider *lyingProvider, claims map[string]any, more ...string) (map[string]any, tokens) {
	t.Helper()
	provider.says(claims)
	b := g.browser()
	b.signsInAt(t, name, provider)
	return g.tellsIn(t, b, more...)
}

// tellsIn is tellsAt for a browser in which somebody is signed in.
func (g *gatehouse) tellsIn(t *testing.T, b *browser, more ...string) (map[string]any, tokens) {
	t.Helper()
	r := openIDRequestOf("conf", "openid email groups", more...)
	got := b.redeem(t, b.authorize(r, ""), r)
	_, told := g.identity(t, got.IDToken)
	return told, got
}

func openIDAt(t *testing.T, signIn string, changes ...string) *gatehouse {
	t.Helper()
	return startOpenID(t, append([]string{"store memory", "store memory\nsign_in {\n" + signIn + "\n}"}, changes...)...)
}

// TestWhatIsKnownOfASignInIsTold, and nothing else: a password was proved here, or what the provider says.
func TestWhatIsKnownOfASignInIsTold(t *testing.T) {
	corp := newLyingProvider(t)
	g := openIDAt(t, "password\n"+atProvider("corp", corp, "create"))
	person := map[string]any{"sub": "1", "email": "eve@corp.example", "email_verified": true}
	for name, c := range map[string]struct{ said, want any }{
		"nothing": {nil, nil}, "its own": {[]string{"otp", "hwk"}, []any{"otp", "hwk"}}, "a password there": {[]string{"pwd"}, []any{"pwd"}},
		"no list": {"pwd", nil}, "numbers": {[]any{"otp", 1}, nil}, "empty": {[]string{""}, nil}, "a space": {[]string{"otp pwd"}, nil},
		"control": {[]string{"a\x00"}, nil}, "many": {strings.Split(strings.Repeat("otp ", 9)+"x", " "), nil}, "long": {[]string{strings.Repeat("x", 33)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			person["amr"] = c.said
			told, got := g.tellsAt(t, "corp", corp, person)
			if told["acr"] != nil || !reflect.DeepEqual(told["amr"], c.want) {
				t.Errorf("acr %v and amr %v, want none and %v", told["acr"], told["amr"], c.want)
			}
			_, again := g.identity(t, g.obtain(requestOf("conf").refresh(got.RefreshToken)).IDToken)
			if again["acr"] != nil || !reflect.DeepEqual(again["amr"], c.want) {
				t.Errorf("after a refresh: acr %v and amr %v", again["acr"], again["amr"])
			}
		})
	}
	b := g.browser()
	b.signIn(b.open("/oauth/login"), "ada@acme.example", peoplePassword)
	if told, _ := g.tellsIn(t, b); told["acr"] != "1" || !reflect.DeepEqual(told["amr"], []any{"pwd"}) {
		t.Errorf("with a password: %v", told)
	}
	// A class that is essential is one that the sign-in has, or the client learns that it has not.
	essential := openIDRequestOf("conf", "openid", "claims", `{"id_token":{"acr":{"essential":true,"values":["1"]}}}`)
	b.codeToClient(t, b.open(essential.path()), essential)
	b = g.browser()
	b.signsInAt(t, "corp", corp)
	p := b.open(essential.path())
	for p.location().Path == "/oauth/authorize" || p.location().Path == "/oauth/login" {
		p = b.open(p.header.Get("Location"))
	}
	b.errorToClient(t, b.atProvider(t, b.chooses(t, p, "corp"), corp), essential, "unmet_authentication_requirements", "")
}

// TestUsersWhomAProviderMakesAreAudited, and whom it changes, once each.
func TestUsersWhomAProviderMakesAreAudited(t *testing.T) {
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "create\nlink verified_email\ngroups claim groups"))
	person := map[string]any{"sub": "1", "email": "eve@corp.example", "email_verified": true}
	signsIn := func() { corp.says(person); g.browser().signsInAt(t, "corp", corp) }
	signsIn()
	signsIn()
	person["groups"] = []string{"secret-group"}
	signsIn()
	person["email"], person["name"] = "eva@corp.example", "Eva"
	signsIn()
	person["email_verified"] = false
	signsIn()
	id := identityOf(t, g, "corp", "1")
	if user := mustUser(t, g, id); user.Email != store.UnknownEmail(id) {
		t.Errorf("became %+v", user)
	}
	corp.says(map[string]any{"sub": "2", "email": "ada@acme.example", "email_verified": true})
	g.browser().signsInAt(t, "corp", corp)
	logs := g.logs()
	for _, want := range []string{
		`"msg":"user added","subject":"` + id + `","by":"provider corp"`,
		`"msg":"user updated","subject":"` + id + `","changed":["provider_groups"],"by":"provider corp"`,
		`"msg":"user updated","subject":"` + id + `","changed":["name","email","email_verified"],"by":"provider corp"`,
		`"msg":"user updated","subject":"` + id + `","changed":["email","email_verified"],"by":"provider corp"`,
	} {
		if strings.Count(logs, `"logger":"oauth.audit",`+want) != 1 {
			t.Errorf("there is not one line with %s", want)
		}
	}
	g.notLogged(t, "secret-group", "eva@corp.example")
}

// userNamed returns the user of an address.
func userNamed(t *testing.T, g *gatehouse, email string) *store.User {
	t.Helper()
	user, err := g.app().registry.People.UserNamed(t.Context(), email)
	check(t, err)
	return user
}

// identityOf returns whose an account is.
func identityOf(t *testing.T, g *gatehouse, provider, subject string) string {
	t.Helper()
	identity, err := g.app().node.Store().Identities.UserByIdentity(t.Context(), provider, subject)
	check(t, err)
	return identity.UserID
}

// TestPersonalTokensLoseTheGroupsOfAProviderThatSaysThemNoMore: somebody who was fired there signs in no more, and has a token for a year.
func TestPersonalTokensLoseTheGroupsOfAProviderThatSaysThemNoMore(t *testing.T) {
	clock := setClock(t)
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "create\ngroups claim groups"), "password_grant", "password_grant\npersonal_tokens {\nscopes groups trusted\nlifetime 365d\n}")
	says := func() {
		now := node.Clock()
		corp.says(map[string]any{
			"sub": "7", "email": "hub@corp.example", "email_verified": true, "groups": []string{"admins"},
			"iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "auth_time": now.Unix(),
		})
	}
	says()
	b := g.browser()
	b.signsInAt(t, "corp", corp)
	_, token := b.makes(t, "of an admin", "groups", "trusted")
	groups := func(days int, want bool) {
		t.Helper()
		clock.advance(time.Duration(days) * store.Day)
		record, err := g.app().personal.Find(t.Context(), token)
		check(t, err)
		if record == nil || slices.Contains(record.Claim("groups"), "admins") != want {
			t.Errorf("%d days later its groups are %q, want those of the provider: %t", days, record.Claim("groups"), want)
		}
	}
	groups(0, true)
	groups(30, true)
	groups(2, false)
	says()
	g.browser().signsInAt(t, "corp", corp) // who is still known there
	groups(0, true)
	own := []string{"founders"}
	check(t, g.app().registry.People.UpdateUser(t.Context(), identityOf(t, g, "corp", "7"), store.UserChange{Edit: func(u *store.User) error { u.Groups = own; return nil }}))
	groups(40, false)
	if record, _ := g.app().personal.Find(t.Context(), token); record == nil || !slices.Equal(record.Claim("groups"), own) {
		t.Errorf("those of the operator: %+v", record)
	}
}
