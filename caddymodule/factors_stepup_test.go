package caddymodule

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"time"
)

// vaultHosts are the changes of hostsSite for second factors: /pages/vault/* needs class 2 and /pages/hall/* class 1.
func vaultHosts(totp string) []string {
	return []string{"store memory", "store memory\n" + totp,
		"forward + X-Name name", "require /pages/vault/* acr 2\n\t\t\trequire /pages/hall/* acr 1\n\t\t\tforward + X-Name name"}
}

// sends fills in the form of a page of the issuer and follows redirects. It returns the last answer and its URL.
func (v *visitorOfHosts) sends(p answer, name, value string) (answer, string) {
	v.t.Helper()
	action, fields := formIn(v.t, p)
	fields.Set(name, value)
	a := v.send(http.MethodPost, v.gate.at("auth", action), fields.Encode(), "Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin")
	if a.status != http.StatusSeeOther && a.status != http.StatusFound {
		return a, action
	}
	next, err := url.Parse(v.gate.at("auth", action))
	check(v.t, err)
	next, err = next.Parse(a.header.Get("Location"))
	check(v.t, err)
	return v.walk(next.String(), "")
}

// TestW24AHostAsksForTheCodeOnly: `require acr 2` at a host and a browser signed in with a password, whose user has a factor → sent once, asked
// for the code and not for the password, and back at the page asked for; signed in with both → not asked; `require acr 1` → not asked.
func TestW24AHostAsksForTheCodeOnly(t *testing.T) {
	clock := setClock(t)
	g := startHosts(t, vaultHosts("totp")...)
	s := &factorScene{g.gatehouse, clock}
	vault, hall := g.at("wiki", "/pages/vault/7?a=b"), g.at("wiki", "/pages/hall/1")
	v := g.signedIn(t, "ada@acme.example")
	if a, at := v.walk(hall, ""); a.status != http.StatusOK || at != hall {
		t.Fatalf("class 1: %d at %s", a.status, at)
	}
	elsewhere := g.signedIn(t, "ada@acme.example") // adds a factor
	p, _ := elsewhere.walk(g.at("auth", "/oauth/account"), "")
	p, _ = elsewhere.sends(p, "factor", "add")
	ada := phone{secret: shownSecret(t, p)}
	p, _ = elsewhere.sends(p, "code", ada.shows(t))
	shownCodes(t, p)

	s.wait(time.Hour)
	g.upstream.seen()
	p = v.navigate(vault)
	if asked := p.location(); asked.Query().Get("acr_values") != "2" || asked.Query().Get("prompt") != "" || asked.Host != "auth.localhost:"+asked.Port() {
		t.Fatalf("%d to %s", p.status, asked)
	}
	p, _ = v.walk(p.header.Get("Location"), "")
	asksFor(t, p, "code")
	if policy := p.header.Get("Content-Security-Policy"); !strings.Contains(policy, "form-action 'self' "+g.origin("wiki")) {
		t.Errorf("policy %q", policy)
	}
	g.upstream.none(t)
	a, at := v.sends(p, "code", s.code(ada))
	if a.status != http.StatusOK || at != vault || a.body != "ok" {
		t.Fatalf("after the code: %d at %s: %.300s", a.status, at, a.body)
	}
	for _, target := range []string{vault, hall, g.at("app", "/"), g.at("auth", "/oauth/account")} {
		if a, at := v.walk(target, ""); a.status != http.StatusOK || at != target {
			t.Errorf("%s: %d at %s", target, a.status, at)
		}
	}
	if a := v.send(http.MethodGet, vault, ""); a.status != http.StatusOK {
		t.Errorf("a fetch: %d", a.status)
	}
	both := g.visitor(t)
	p, _ = both.walk(g.at("app", "/"), "ada@acme.example")
	if a, at := both.sends(asksFor(t, p, "code"), "code", s.code(ada)); a.status != http.StatusOK || at != g.at("app", "/") {
		t.Fatalf("%d at %s", a.status, at)
	}
	if a, at := both.walk(vault, ""); a.status != http.StatusOK || at != vault {
		t.Errorf("signed in with both: %d at %s", a.status, at)
	}
}

// TestW25AHostAsksForAFactorToAdd: `require acr 2` at a host and a user without a factor → adds one, and comes back to the page asked for; when
// the password is more than 15 minutes ago → it is asked for first; a fetch or a form → 401 and no redirect.
func TestW25AHostAsksForAFactorToAdd(t *testing.T) {
	clock := setClock(t)
	g := startHosts(t, vaultHosts("totp")...)
	s := &factorScene{g.gatehouse, clock}
	vault := g.at("wiki", "/pages/vault/1")
	for _, c := range []struct {
		email string
		ago   time.Duration
	}{{"ada@acme.example", 0}, {"ben@acme.example", 16 * time.Minute}} {
		v := g.signedIn(t, c.email)
		if a, _ := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusOK {
			t.Fatalf("%s: %d", c.email, a.status)
		}
		g.upstream.seen()
		a := v.send(http.MethodGet, vault, "")
		if challenge := parameters(t, a.header); a.status != http.StatusUnauthorized || challenge["error"] != "insufficient_user_authentication" || challenge["acr_values"] != "2" {
			t.Errorf("a fetch: %d %v", a.status, challenge)
		}
		if a := v.send(http.MethodPost, vault, "x=1", "Content-Type", urlEncoded, "Origin", g.origin("wiki"), "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate"); a.status != http.StatusUnauthorized || a.header.Get("Location") != "" {
			t.Errorf("a form: %d %q", a.status, a.header.Get("Location"))
		}
		g.upstream.none(t)
		s.wait(c.ago)
		p, _ := v.walk(vault, "")
		if c.ago > 0 {
			p, _ = v.submit(asksFor(t, p, "password"), c.email)
		}
		added := phone{secret: shownSecret(t, p)}
		p, _ = v.sends(p, "code", added.shows(t))
		shownCodes(t, p)
		if a, at := v.walk(g.at("auth", goesOn(t, p)), ""); a.status != http.StatusOK || at != vault {
			t.Errorf("%s: %d at %s", c.email, a.status, at)
		}
	}
}

// TestW26WithoutFactorsNobodyGoesRoundInCircles: `require acr 2` at a host of an issuer without `totp` → 401 and no redirect, however often.
func TestW26WithoutFactorsNobodyGoesRoundInCircles(t *testing.T) {
	g := startHosts(t, vaultHosts("passkeys off")...)
	v := g.visitor(t)
	vault := g.at("wiki", "/pages/vault/1")
	for range 2 {
		if a, at := v.walk(vault, "ada@acme.example"); a.status != http.StatusUnauthorized || at != vault || !strings.Contains(a.header.Get("Content-Type"), "text/html") {
			t.Errorf("%d at %s: %v", a.status, at, a.header)
		}
	}
	g.upstream.none(t)
	if a, at := v.walk(g.at("wiki", "/pages/hall/1"), ""); a.status != http.StatusOK {
		t.Errorf("class 1: %d at %s", a.status, at)
	}
	p, _ := v.walk(g.at("auth", "/oauth/account"), "")
	if len(buttons(t, p, "factor")) != 0 {
		t.Error("the account page offers factors")
	}
	if a, _ := v.sends(p, "factor", "add"); a.status != http.StatusBadRequest {
		t.Errorf("a form that adds one all the same: %d %.300s", a.status, a.body)
	}
}

// TestW27ProgramsAreToldWhichClassIsNeeded: `require acr 2` and an access token of class 1, or without a class → 401
// insufficient_user_authentication with acr_values="2"; of class 2 → 200. `require acr 1` accepts both classes.
func TestW27ProgramsAreToldWhichClassIsNeeded(t *testing.T) {
	s := startFactors(t, "personal_tokens", gatedRoutes...)
	conf := requestOf("conf")
	one := s.userTokens(conf, "ada@acme.example").AccessToken
	b, _ := s.owner(t, "ada@acme.example")
	two := b.redeem(t, b.authorize(conf, ""), conf).AccessToken
	_, personal := b.makes(t, "a script", "trusted")
	server := s.token()
	for _, c := range []struct {
		name, path, token string
		status            int
	}{
		{"class 1", "/two/x", one, 401}, {"class 2", "/two/x", two, 200}, {"a personal token", "/two/x", personal, 401}, {"a server's token", "/two/x", server, 401},
		{"class 1 where it will do", "/one/x", one, 200}, {"class 2 where class 1 will do", "/one/x", two, 200}, {"a server's token where class 1 is needed", "/one/x", server, 401},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, header, body := s.get(c.path, c.token)
			if status != c.status {
				t.Fatalf("%d %s, want %d", status, body, c.status)
			}
			if status == http.StatusOK {
				return
			}
			want := map[string]string{"error": "insufficient_user_authentication", "acr_values": strings.NewReplacer("/two/x", "2", "/one/x", "1").Replace(c.path)}
			for name, value := range want {
				if got := parameters(t, header)[name]; got != value {
					t.Errorf("%s %q, want %q", name, got, value)
				}
			}
		})
	}
}

// TestW28W34AClientAsksForTwoFactors: acr_values=2, or an essential acr claim of 2, in a session of one factor → the code only, and acr 2;
// acr_values or claims that accept class 1 too, unknown classes, and a session of two factors → not asked; prompt=none → login_required.
// The metadata of an issuer with `totp` name the classes 1 and 2; after a reload without it, 1 only.
func TestW28W34AClientAsksForTwoFactors(t *testing.T) {
	s := startFactors(t, "")
	usual := openIDRequestOf("conf", "openid")
	named := func(want string) {
		t.Helper()
		if _, _, body := s.get("/.well-known/openid-configuration", ""); !strings.Contains(body, `"acr_values_supported":`+want) {
			t.Errorf("no %s in %s", want, body)
		}
	}
	named(`["1","2"]`)
	olds := make(map[string]*browser)
	essential := func(values string) []string {
		return []string{"claims", `{"id_token":{"acr":{"essential":true,"values":[` + values + `]}}}`}
	}
	cases := map[string]struct {
		more []string
		asks bool
	}{
		"acr_values":              {[]string{"acr_values", "2"}, true},
		"acr_values with unknown": {[]string{"acr_values", "gold 2"}, true},
		"an essential claim":      {essential(`"2"`), true},
		"either class":            {[]string{"acr_values", "2 1"}, false},
		"either class, claimed":   {essential(`"2","1"`), false},
		"an unknown class":        {[]string{"acr_values", "gold urn:x"}, false},
		"a wish":                  {[]string{"claims", `{"id_token":{"acr":{"values":["2"]}}}`}, false},
	}
	for name := range cases {
		olds[name] = s.inBrowser("ada@acme.example")
		olds[name].redeem(t, olds[name].authorize(usual, ""), usual) // consent is given
	}
	both, ada := s.owner(t, "ada@acme.example")
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r, b := openIDRequestOf("conf", "openid", c.more...), olds[name]
			silent := openIDRequestOf("conf", "openid", append([]string{"prompt", "none"}, c.more...)...)
			p := b.open(silent.path())
			if c.asks {
				b.errorToClient(t, p, silent, "login_required", descriptionOf(p))
			} else {
				b.codeToClient(t, p, silent)
			}
			p, want := b.follow(b.open(r.path())), "1"
			if c.asks {
				p, want = b.follow(b.types(asksFor(t, p, "code"), s.code(ada))), "2"
			}
			_, told := s.identity(t, b.redeem(t, p, r).IDToken)
			if told["acr"] != want {
				t.Errorf("acr %v, want %s", told["acr"], want)
			}
			_, told = s.identity(t, both.redeem(t, both.open(silent.path()), silent).IDToken)
			if told["acr"] != "2" || !reflect.DeepEqual(told["amr"], []any{"pwd", "otp", "mfa"}) {
				t.Errorf("in a session of two factors: acr %v, amr %v", told["acr"], told["amr"])
			}
		})
	}
	fresh := s.browser()
	r := openIDRequestOf("conf", "openid", "acr_values", "2")
	asksFor(t, fresh.follow(fresh.signIn(fresh.open(r.path()), "max@acme.example", peoplePassword)), "enrolment")
	s.reload(openIDSite())
	named(`["1"]`)
	b := s.inBrowser("grace@acme.example")
	_, told := s.identity(t, b.redeem(t, b.authorize(r, ""), r).IDToken)
	if told["acr"] != "1" {
		t.Errorf("without totp: acr %v", told["acr"])
	}
}
