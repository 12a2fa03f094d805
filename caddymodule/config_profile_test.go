package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA145ProfilesOnTheCommandLine: one member of a profile changed → that alone, tokens stay valid, the audit line has its name and no
// value; a new address → not verified; malformed → 400.
func TestA145ProfilesOnTheCommandLine(t *testing.T) {
	g := startGatehouse(t, durableStaffed)
	if _, err := g.run("bobs-password\n", "user", "add", "--id", "u-bob", "--email", "bob@acme.example", "--org", "acme", "--password-stdin", "--email-verified",
		"--given-name", "Bob", "--family-name", "Builder", "--preferred-username", "bob", "--locale", "de", "--zoneinfo", "Europe/Berlin",
		"--picture", "https://acme.example/bob.png", "--phone", "+49 30 1", "--phone-verified", "--address-formatted", "Street 1\nBerlin",
		"--address-street", "Street 1", "--address-locality", "Berlin", "--address-region", "BE", "--address-postal-code", "10115", "--address-country", "DE"); err != nil {
		t.Fatal(err)
	}
	want := userView{EmailVerified: true, Profile: store.Profile{
		GivenName: "Bob", FamilyName: "Builder", PreferredUsername: "bob", Locale: "de", Zoneinfo: "Europe/Berlin", Picture: "https://acme.example/bob.png",
		Phone: "+49 30 1", PhoneVerified: true, Address: store.Address{
			Formatted: "Street 1\nBerlin", StreetAddress: "Street 1", Locality: "Berlin", Region: "BE", PostalCode: "10115", Country: "DE",
		},
	}}
	show := func() userView {
		t.Helper()
		return decoded[userView](t, g.ok("user", "show", "u-bob", "--json"))
	}
	if got := show(); got.Profile != want.Profile || !got.EmailVerified {
		t.Errorf("added %+v, verified %v", got.Profile, got.EmailVerified)
	}
	if out := g.ok("user", "show", "u-bob"); !strings.Contains(out, "Street 1 Berlin, Street 1, 10115, Berlin, BE, DE") || !strings.Contains(out, "Europe/Berlin") {
		t.Errorf("show prints\n%s", out)
	}
	access, _ := g.staffTokens("bob@acme.example", "bobs-password")
	for _, step := range []struct {
		name    string
		args    []string
		as      func(*userView)
		changed string
	}{
		{"given name", []string{"--given-name", "Rob"}, func(u *userView) { u.GivenName = "Rob" }, `["given_name"]`},
		{"names taken away", []string{"--given-name", "", "--family-name", "", "--preferred-username", ""}, func(u *userView) {
			u.GivenName, u.FamilyName, u.PreferredUsername = "", "", ""
		}, `["given_name","family_name","preferred_username"]`},
		{"locale and zone", []string{"--locale", "en-GB", "--zoneinfo", "UTC"}, func(u *userView) { u.Locale, u.Zoneinfo = "en-GB", "UTC" }, `["locale","zoneinfo"]`},
		{"picture", []string{"--picture", ""}, func(u *userView) { u.Picture = "" }, `["picture"]`},
		{"the same number again", []string{"--phone", "+49 30 1"}, func(*userView) {}, `["phone_number"]`},
		{"another number", []string{"--phone", "+49 30 2"}, func(u *userView) { u.Phone, u.PhoneVerified = "+49 30 2", false }, `["phone_number"]`},
		{"a number that is verified", []string{"--phone", "+49 30 3", "--phone-verified"}, func(u *userView) { u.Phone, u.PhoneVerified = "+49 30 3", true }, `["phone_number","phone_number_verified"]`},
		{"no number", []string{"--phone", ""}, func(u *userView) { u.Phone, u.PhoneVerified = "", false }, `["phone_number"]`},
		{"a part of the address", []string{"--address-locality", "Bonn"}, func(u *userView) { u.Address.Locality = "Bonn" }, `["address"]`},
		{"another e-mail address", []string{"--email", "rob@acme.example"}, func(u *userView) { u.EmailVerified = false }, `["email"]`},
		{"which is verified", []string{"--email-verified"}, func(u *userView) { u.EmailVerified = true }, `["email_verified"]`},
		{"one that is verified at once", []string{"--email", "bob@acme.example", "--email-verified"}, func(*userView) {}, `["email","email_verified"]`},
		{"not verified", []string{"--email-verified=false"}, func(u *userView) { u.EmailVerified = false }, `["email_verified"]`},
	} {
		g.ok(append([]string{"user", "update", "u-bob"}, step.args...)...)
		step.as(&want)
		if got := show(); got.Profile != want.Profile || got.EmailVerified != want.EmailVerified {
			t.Errorf("%s: %+v, verified %v; want %+v, %v", step.name, got.Profile, got.EmailVerified, want.Profile, want.EmailVerified)
		}
		if line := `"msg":"user updated","subject":"u-bob","changed":` + step.changed + `,"by":"operator"`; !strings.Contains(g.logs(), line) {
			t.Errorf("%s: no line with %s", step.name, line)
		}
		if status := g.gateOf(access); status != http.StatusOK {
			t.Fatalf("%s: the gate says %d", step.name, status)
		}
	}
	if strings.Contains(g.logs(), "+49 30") || strings.Contains(g.logs(), "Bonn") {
		t.Error("the log tells the profile")
	}
	g.must(http.StatusOK, "PATCH", "/oauth/users/u-bob", `{"address":{"country":null},"locale":null,"name":null}`)
	if got := show(); got.Address.Country != "" || got.Address.Locality != "Bonn" || got.Locale != "" || got.Name != got.Email {
		t.Errorf("reset to %+v", got)
	}
	before := g.must(http.StatusOK, "GET", "/oauth/users/u-bob", "")
	for name, body := range map[string]string{
		"locale": `{"locale":"en_GB"}`, "picture": `{"picture":"http://a.example/"}`, "verified without a number": `{"phone_number_verified":true}`,
		"unknown member": `{"nickname":"Bob"}`, "unknown member of the address": `{"address":{"city":"Bonn"}}`, "control character": `{"given_name":"a\u0007"}`,
	} {
		if answer := g.must(http.StatusBadRequest, "PATCH", "/oauth/users/u-bob", body); g.must(http.StatusOK, "GET", "/oauth/users/u-bob", "") != before {
			t.Errorf("%s: changed something, and answers %s", name, answer)
		}
		g.must(http.StatusBadRequest, "POST", "/oauth/users", `{"email":"new@acme.example",`+body[1:])
	}
}

// TestA146IdsOfUsersThatApplicationsKnowThemBy: with `openid`, a user id beyond ASCII → 400; the id of a user removed 40 days ago → 409,
// since `sub` is never reused.
func TestA146IdsOfUsersThatApplicationsKnowThemBy(t *testing.T) {
	provider := strings.Replace(durableStaffed, "store sqlite", "openid\n\t\tstore sqlite", 1)
	clock := runningClock(t)
	g := startGatehouse(t, provider)
	const foreign = `{"id":"u-ädä","email":"aedae@acme.example","password":"some-password"}`
	if answer := g.must(http.StatusBadRequest, "POST", "/oauth/users", foreign); !strings.Contains(answer, `user id \"u-ädä\": applications know a user by it (sub), and OpenID Connect has ASCII there`) {
		t.Errorf("added with %s", answer)
	}
	const eve = `{"id":"u-eve","email":"eve@acme.example","password":"some-password"}`
	g.must(http.StatusCreated, "POST", "/oauth/users", eve)
	g.ok("user", "remove", "u-eve")
	clock.advance(40 * 24 * time.Hour)
	g.must(http.StatusConflict, "POST", "/oauth/users", eve)
	g.reload(durableStaffed)
	g.must(http.StatusConflict, "POST", "/oauth/users", eve) // an application had this sub
	g.must(http.StatusCreated, "POST", "/oauth/users", foreign)
}
