package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/passkeytest"
)

// asked returns what a page asks the browser for, by the name of the attribute.
func asked(t *testing.T, p page, name string) string {
	t.Helper()
	for n := range nodes(t, p) {
		if options := attributesOf(n)["data-"+name]; options != "" {
			if !strings.Contains(p.header.Get("Content-Security-Policy"), "; script-src 'sha256-") {
				t.Errorf("policy %q", p.header.Get("Content-Security-Policy"))
			}
			return options
		}
	}
	t.Fatalf("%d: no data-%s in the page: Location %q: %.800s", p.status, name, p.header.Get("Location"), p.body)
	return ""
}

// uses answers the question of a page with a passkey.
func (v *visitorOfHosts) uses(a *passkeytest.Authenticator, p answer) (answer, string) {
	v.t.Helper()
	return v.sends(p, "passkey", a.Get(asked(v.t, p, "get")))
}

// posts sends a form of a page of the issuer with one more field, and follows no redirect.
func (v *visitorOfHosts) posts(p answer, name, value string) answer {
	v.t.Helper()
	action, fields := formIn(v.t, p)
	fields.Set(name, value)
	return v.send(http.MethodPost, v.gate.at("auth", action), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
}

// addsPasskey adds a passkey on the account page and returns the page that follows.
func (v *visitorOfHosts) addsPasskey(a *passkeytest.Authenticator) answer {
	v.t.Helper()
	p, _ := v.walk(v.gate.at("auth", "/oauth/account"), "")
	p, _ = v.sends(p, "factor", "add_passkey")
	p, _ = v.sends(p, "passkey", a.Create(asked(v.t, p, "create")))
	return p
}

// TestW68APasskeyAloneServesAllHosts: a passkey added on the account page, and then used alone on the sign-in page → ten recovery codes with
// the first; one sign-in of class 2 at every host and in the tokens of applications, named in the audit log.
func TestW68APasskeyAloneServesAllHosts(t *testing.T) {
	g := startHosts(t, vaultHosts("openid")...)
	a := passkeytest.New(t, g.origin("auth"))
	shownCodes(t, g.signedIn(t, "ada@acme.example").addsPasskey(a))

	v := g.visitor(t)
	p, _ := v.walk(g.at("app", "/deep?x=1"), "")
	if !strings.Contains(p.body, `autocomplete="username webauthn"`) {
		t.Error("the field for the address does not offer passkeys")
	}
	if p, at := v.uses(a, p); p.status != http.StatusOK || at != g.at("app", "/deep?x=1") || p.body != "ok" {
		t.Fatalf("%d at %s: %.400s", p.status, at, p.body)
	}
	for _, target := range []string{g.at("wiki", "/pages/vault/1"), g.at("auth", "/oauth/account")} {
		if p, at := v.walk(target, ""); p.status != http.StatusOK || at != target {
			t.Errorf("%s: %d at %s", target, p.status, at)
		}
	}
	issuer, err := url.Parse(g.origin("auth"))
	check(t, err)
	for _, cookie := range v.jar.Cookies(issuer) {
		if cookie.Name != "accessToken" {
			continue
		}
		if c := claims(t, cookie.Value); c["acr"] != "2" || fmt.Sprint(c["amr"]) != "[hwk mfa]" {
			t.Errorf("claims %v", c)
		}
	}
	if list := g.ok("user", "factors", "list", "u-ada"); !strings.Contains(list, "passkey") || !strings.Contains(list, "recovery_codes (10 left)") {
		t.Errorf("operators see %q", list)
	}
}

// TestW69ARefusedPasskeyIsANotice: a passkey that is unknown, or of another origin → the sign-in page again, with a notice and a new question;
// the browser is told of the first that it does not exist, and the audit log whose the second is; a counter that went back is in the audit log;
// credentials are not.
func TestW69ARefusedPasskeyIsANotice(t *testing.T) {
	g := startHosts(t, vaultHosts("")...)
	a := passkeytest.New(t, g.origin("auth"))
	a.Counter = 9
	g.signedIn(t, "ada@acme.example").addsPasskey(a)
	v := g.visitor(t)
	signInPage := func() answer {
		p, _ := v.walk(g.at("auth", "/oauth/login?switch=1"), "")
		return p
	}
	p := signInPage()
	first := asked(t, p, "get")
	stranger := passkeytest.New(t, g.origin("auth"))
	stranger.Create(`{"challenge":"AAAA","rp":{"id":"auth.localhost"},"user":{"id":"AAAA"}}`)
	p, _ = v.uses(stranger, p)
	var unknown map[string]string
	check(t, json.Unmarshal([]byte(asked(t, p, "unknown")), &unknown))
	if p.status != http.StatusOK || unknown["credentialId"] != stranger.Passkeys[0].Text() || unknown["rpId"] != "auth.localhost" || asked(t, p, "get") == first {
		t.Errorf("%d %v", p.status, unknown)
	}
	a.Origin = "http://evil.localhost"
	p, _ = v.uses(a, p)
	if p.status != http.StatusOK || !strings.Contains(p.body, `role="alert"`) || strings.Contains(p.body, `data-unknown="`) {
		t.Errorf("%d %.600s", p.status, p.body)
	}
	a.Origin, a.Counter = g.origin("auth"), 5
	if p, at := v.uses(a, p); p.status != http.StatusOK || at != g.at("auth", "/oauth/account") {
		t.Errorf("%d at %s", p.status, at)
	}
	logs := g.logs()
	for _, want := range []string{`"passkey_unknown"`, `"passkey_wrong"`, `"counter of a passkey went back"`} {
		if strings.Count(logs, want) != 1 {
			t.Errorf("%d lines with %s", strings.Count(logs, want), want)
		}
	}
	for line := range strings.Lines(logs) {
		if isKnown := strings.Contains(line, `"passkey_wrong"`); isKnown || strings.Contains(line, `"passkey_unknown"`) {
			if strings.Contains(line, `"subject":"u-ada"`) != isKnown || strings.Contains(line, `"factor":"`) != isKnown {
				t.Errorf("whose passkey it is: %s", line)
			}
		}
	}
	if strings.Contains(logs, "clientDataJSON") || strings.Contains(logs, a.Passkeys[0].Text()) {
		t.Error("an answer or a credential id is in the log")
	}
}

// TestW70ARuleWithoutAuthenticators: `second_factor required everybody` without `totp` → a passkey is added during the sign-in; from then on it
// or a recovery code is asked for after the password; no script is needed for the code.
func TestW70ARuleWithoutAuthenticators(t *testing.T) {
	clock := setClock(t)
	g := startHosts(t, vaultHosts("second_factor required everybody")...)
	a := passkeytest.New(t, g.origin("auth"))
	v := g.visitor(t)
	p, _ := v.walk(g.at("app", "/first"), "ada@acme.example")
	if strings.Contains(p.body, `id="secret"`) || !strings.Contains(p.body, `id="passkey-unsupported"`) {
		t.Errorf("the page offers an authenticator, or nothing without script: %.800s", p.body)
	}
	p, _ = v.sends(p, "passkey", a.Create(asked(t, p, "create")))
	codes := shownCodes(t, p)
	if p, at := v.walk(g.at("auth", goesOn(t, p)), ""); p.status != http.StatusOK || at != g.at("app", "/first") {
		t.Fatalf("%d at %s", p.status, at)
	}
	a.Unverified = true // a security key without PIN
	for name, proves := range map[string]func(v *visitorOfHosts, p answer) (answer, string){
		"a passkey":       func(v *visitorOfHosts, p answer) (answer, string) { return v.uses(a, p) },
		"a recovery code": func(v *visitorOfHosts, p answer) (answer, string) { return v.sends(p, "code", codes[0]) },
	} {
		v := g.visitor(t)
		p, _ := v.walk(g.at("app", "/second"), "ada@acme.example")
		if _, at := v.walk(g.at("app", "/second"), ""); !strings.HasPrefix(at, g.origin("auth")+"/oauth/") {
			t.Errorf("%s: the password alone led to %s", name, at)
		}
		if p, at := proves(v, p); p.status != http.StatusOK || at != g.at("app", "/second") {
			t.Errorf("%s: %d at %s", name, p.status, at)
		}
	}
	// Without user verification it is no sign-in.
	other := g.visitor(t)
	p, _ = other.walk(g.at("auth", "/oauth/login"), "")
	if p, _ := other.uses(a, p); p.status != http.StatusOK || !strings.Contains(p.body, `role="alert"`) {
		t.Errorf("%d %.400s", p.status, p.body)
	}
	// A page that was open for too long asks again.
	p, _ = other.walk(g.at("auth", "/oauth/login"), "")
	clock.advance(11 * time.Minute)
	a.Unverified = false
	p, _ = other.uses(a, p)
	if p, at := other.uses(a, p); p.status != http.StatusOK || at != g.at("auth", "/oauth/account") {
		t.Errorf("%d at %s", p.status, at)
	}
}

// TestW71PasskeysOnTheAccountPage: a second passkey, with the first one proved → added without new recovery codes; renamed by its owner alone, to a
// name of one line; removed → it signs in no more, and the browser is told which ones are left; the last one → the recovery codes go too.
func TestW71PasskeysOnTheAccountPage(t *testing.T) {
	g := startHosts(t, vaultHosts("")...)
	one, two := passkeytest.New(t, g.origin("auth")), passkeytest.New(t, g.origin("auth"))
	v := g.signedIn(t, "ada@acme.example")
	shownCodes(t, v.addsPasskey(one))
	if p := v.addsPasskey(two); !strings.Contains(p.body, `role="status"`) || strings.Contains(p.body, `class="codes"`) {
		t.Errorf("the second: %d %.600s", p.status, p.body)
	}
	account := func() answer {
		p, _ := v.walk(g.at("auth", "/oauth/account"), "")
		return p
	}
	accepted := func() (ids []string) {
		var told struct {
			IDs []string `json:"allAcceptedCredentialIds"`
		}
		check(t, json.Unmarshal([]byte(asked(t, account(), "accepted")), &told))
		return told.IDs
	}
	if got := accepted(); len(got) != 2 {
		t.Errorf("told %q", got)
	}
	ids := buttons(t, account(), "rename_factor")
	renames := func(v *visitorOfHosts, id, name string) answer {
		p, _ := v.walk(g.at("auth", "/oauth/account"), "")
		action, fields := formIn(t, p)
		fields.Set("rename_factor", id)
		fields.Set("factor_name", name)
		return v.send(http.MethodPost, g.at("auth", action), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
	}
	for name, status := range map[string]int{"": 400, " ": 400, "a\nb": 400, strings.Repeat("x", 61): 400, "\u202eevil": 400} {
		if a := renames(v, ids[0], name); a.status != status {
			t.Errorf("name %q: %d", name, a.status)
		}
	}
	ben := g.signedIn(t, "ben@acme.example")
	renames(ben, ids[0], "Ben's")
	if a := renames(v, ids[0], " <b>Ada's key "); a.status != http.StatusSeeOther || !strings.HasSuffix(a.header.Get("Location"), "?done=factor_renamed") {
		t.Errorf("%d %s", a.status, a.header.Get("Location"))
	}
	if list := g.ok("user", "factors", "list", "u-ada"); !strings.Contains(list, "<b>Ada's key") || strings.Contains(list, "Ben's") {
		t.Errorf("operators see %q", list)
	}
	if p := v.posts(account(), "factor", ids[0]); p.status != http.StatusSeeOther {
		t.Fatalf("removing: %d", p.status)
	}
	if got := accepted(); len(got) != 1 || got[0] != two.Passkeys[0].Text() {
		t.Errorf("told %q", got)
	}
	other := g.visitor(t)
	p, _ := other.walk(g.at("auth", "/oauth/login"), "")
	p, _ = other.uses(one, p)
	asked(t, p, "unknown")
	if p, at := other.uses(two, p); p.status != http.StatusOK || at != g.at("auth", "/oauth/account") {
		t.Errorf("the other one: %d at %s", p.status, at)
	}
	v.posts(account(), "factor", ids[1])
	if list := g.ok("user", "factors", "list", "u-ada"); strings.Contains(list, "passkey") || strings.Contains(list, "recovery_codes") {
		t.Errorf("left: %q", list)
	}
	if p := account(); !strings.Contains(asked(t, p, "accepted"), "[]") {
		t.Errorf("told %s", asked(t, p, "accepted"))
	}
}
