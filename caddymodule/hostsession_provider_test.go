package caddymodule

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// directSite has no issuer. Browsers sign in at a provider, at two hosts. SIGNIN are its providers, and MORE are further lines of the oauth
// block.
var directSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		store memory
		limits {
			login off
			grants off
		}
		MORE
		sign_in {
			SIGNIN
		}
	}
}
http://app.localhost:TCPPORT {
` +
	handled("handle /public/*", "reverse_proxy UPSTREAM") +
	gated("", "challenge browser corp", "forward + X-Email email", "forward + X-Issuer iss") + `}
http://wiki.localhost:TCPPORT {
` +
	gated("", "challenge browser") + `}
`

// startDirect serves directSite for the users of a provider.
func startDirect(t *testing.T, p *lyingProvider, changes ...string) *hostsGate {
	t.Helper()
	return &hostsGate{startGatehouse(t, directCaddyfile(p, changes...))}
}

func directCaddyfile(p *lyingProvider, changes ...string) string {
	site := strings.NewReplacer(changes...).Replace(directSite)
	return strings.NewReplacer("SIGNIN", atProviderCorp(p, "create\ngroups claim groups"), "MORE", "").Replace(site)
}

func atProviderCorp(p *lyingProvider, lines string) string {
	return "provider corp " + p.URL + " {\nclient gw 0123456789abcdef\nallow_private_network\n" + lines + "\n}"
}

// walkAt opens a page and follows redirects to and from a provider. It returns the last answer, its URL and the visited URLs.
func (v *visitorOfHosts) walkAt(p *lyingProvider, target string) (a answer, at string, way []string) {
	v.t.Helper()
	for range 12 {
		way = append(way, target)
		if strings.HasPrefix(target, p.URL+"/") {
			target = p.follow(target)
			continue
		}
		a = v.navigate(target)
		if a.status != http.StatusSeeOther && a.status != http.StatusFound {
			return a, target, way
		}
		next, err := url.Parse(target)
		check(v.t, err)
		next, err = next.Parse(a.header.Get("Location"))
		check(v.t, err)
		target = next.String()
	}
	v.t.Fatalf("%s: round in circles", target)
	return a, target, way
}

// arrivesBy is like arrives by way of a provider.
func (v *visitorOfHosts) arrivesBy(t *testing.T, p *lyingProvider, target string) {
	t.Helper()
	v.endsBy(t, p, target, target)
}

// endsBy is like ends by way of a provider.
func (v *visitorOfHosts) endsBy(t *testing.T, p *lyingProvider, from, want string) {
	t.Helper()
	if a, at, _ := v.walkAt(p, from); a.status != http.StatusOK || at != want {
		t.Errorf("%d at %s, want %s: %s", a.status, at, want, a.body)
	}
}

// TestS80WithoutAnIssuerAHostSignsInAtTheProvider: no issuer, `challenge browser <provider>` → signed in at the provider, back at the page,
// a user as any other, no endpoint and no key. Internal names of the core appear nowhere.
func TestS80WithoutAnIssuerAHostSignsInAtTheProvider(t *testing.T) {
	p := newLyingProvider(t)
	p.says(map[string]any{"sub": "1001", "email": "ada@acme.example", "email_verified": true, "name": "Ada", "groups": []string{"engineering"}})
	g := startDirect(t, p)
	v := g.visitor(t)
	deep := g.at("app", "/deep/link%20x?q=1")
	a, at, way := v.walkAt(p, deep)
	if a.status != http.StatusOK || at != deep {
		t.Fatalf("%d at %s: %s", a.status, at, a.body)
	}
	if asked := p.lastAsked(); asked.Get("redirect_uri") != g.at("app", "/oauth/callback/corp") || asked.Get("code_challenge_method") != "S256" || asked.Get("nonce") == "" {
		t.Errorf("the provider was asked %v", asked)
	}
	seen := g.upstream.one(t)
	seen.has(t, identity.Groups, "engineering").has(t, "X-Email", "ada@acme.example").has(t, "Cookie").has(t, "Authorization")
	v.arrivesBy(t, p, g.at("wiki", "/"))
	list := g.ok("user", "list")
	if !strings.Contains(list, "ada@acme.example") {
		t.Errorf("the user is not listed: %s", list)
	}
	if shown := g.ok("user", "show", "ada@acme.example"); !strings.Contains(shown, "corp as 1001") {
		t.Errorf("%s", shown)
	}
	refused := v.send(http.MethodGet, g.at("app", "/x"), "", "Cookie", hostCookie+"=x")
	anonymous := g.visitor(t).send(http.MethodGet, g.at("app", "/x"), "")
	for name, text := range map[string]string{
		"on the way": strings.Join(way, " "), "in a refusal": anonymous.header.Get("WWW-Authenticate") + refused.body, "in status": g.ok("status"), "in users": list,
		"in the providers": g.ok("provider", "list"), "in the routes": g.ok("routes"),
	} {
		if strings.Contains(text, ".invalid") {
			t.Errorf("%s: %s", name, text)
		}
	}
	if anonymous.status != http.StatusUnauthorized || !strings.HasPrefix(anonymous.header.Get("WWW-Authenticate"), "Bearer") {
		t.Errorf("without a session: %d %v", anonymous.status, anonymous.header)
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/oauth/jwks", "/oauth/login", "/oauth/token"} {
		g.visitor(t).send(http.MethodGet, g.at("wiki", path), "").is(t, http.StatusUnauthorized, path)
	}
	for _, host := range []string{"app", "wiki"} {
		if list := g.ok("provider", "list"); !strings.Contains(list, g.at(host, "/oauth/callback/corp")) {
			t.Errorf("%s is not in %s", host, list)
		}
	}
}

// TestS85SessionsWithoutAnIssuerThatCannotWork: no issuer: no or an unknown provider named among several, settings of tokens or passwords
// → refused by `caddy validate`.
func TestS85SessionsWithoutAnIssuerThatCannotWork(t *testing.T) {
	emptyHome(t)
	two := "provider a https://a.example {\nclient x {env.HOME}\ncreate\n}\ngithub b {\nclient x {env.HOME}\ncreate\n}\n"
	for _, c := range []struct{ name, oauth, protect, want string }{
		{"no name among two", "sign_in {\n" + two + "}", "challenge browser", "challenge browser: name a provider, or mark one as default: there are 2 in sign_in"},
		{"an unknown provider", "sign_in {\n" + two + "}", "challenge browser c", "challenge browser c: sign_in has no provider of that name"},
		{"an unknown provider, with an issuer", "issuer http://localhost:1\nsign_in {\n" + two + "}", "challenge browser c", "challenge browser c: sign_in has no provider of that name to which browsers can be sent"},
		{"a directory, with an issuer", "issuer http://localhost:1\nsign_in {\n" + two + "ldap people ldaps://ldap.example {\nuser_base dc=example\ncreate\n}\n}", "challenge browser people", "challenge browser people: sign_in has no provider of that name to which browsers can be sent"},
		{"passwords alone, with an issuer", "issuer http://localhost:1", "challenge browser a", "challenge browser a: sign_in has no provider of that name to which browsers can be sent"},
		{"no sessions", "sign_in {\n" + two + "}", "", "there is no issuer of our own"},
		{"an assertion", "sign_in {\n" + two + "}", "challenge browser a\nforward assertion X-Assertion", "issuer"},
		{"a client", "sign_in {\n" + two + "}\nclient x {env.HOME}", "challenge browser a", "client needs an issuer"},
		{"password", "sign_in {\npassword\n" + two + "}", "challenge browser a", "password, for which our own page asks, needs an issuer"},
		{"a directory", "sign_in {\n" + two + "ldap people ldaps://ldap.example {\nuser_base dc=example\ncreate\n}\n}", "challenge browser a", "ldap, for whose passwords our own page asks, needs an issuer"},
		{"the cookie of an issuer", "sign_in {\n" + two + "}", "challenge browser a\ntoken_from cookie accessToken", "leave `token_from cookie` out"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			config, err := adapt("{\nadmin off\noauth {\n" + c.oauth + "\n}\n}\nhttp://localhost:1 {\nprotect {\n" + c.protect + "\n}\nrespond 204\n}\n")
			if err == nil {
				err = validateJSON(t, config)
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

// TestS81SigningOutEndsTheSessionsOfTheProvider: no issuer: a sign-out or `token revoke --user` → all sessions of the user by that
// provider end, at every host.
func TestS81SigningOutEndsTheSessionsOfTheProvider(t *testing.T) {
	p := newLyingProvider(t)
	g := startDirect(t, p)
	signedIn := func() *visitorOfHosts {
		t.Helper()
		v := g.visitor(t)
		for _, target := range []string{g.at("app", "/"), g.at("wiki", "/")} {
			v.arrivesBy(t, p, target)
		}
		return v
	}
	status := func(v *visitorOfHosts, host string) int {
		return v.send(http.MethodGet, g.at(host, "/"), "").status
	}
	for _, c := range []struct {
		name string
		end  func(*visitorOfHosts)
	}{
		{"signed out at a host", func(v *visitorOfHosts) {
			v.send(http.MethodPost, g.at("app", "/oauth/sign_out"), "", "Sec-Fetch-Site", "same-origin").is(t, http.StatusSeeOther)
		}},
		{"tokens revoked", func(*visitorOfHosts) { g.ok("token", "revoke", "--user", "ada@acme.example") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			v, other := signedIn(), signedIn()
			c.end(v)
			for _, host := range []string{"app", "wiki"} {
				if a, b := status(v, host), status(other, host); a != http.StatusUnauthorized || b != http.StatusUnauthorized {
					t.Errorf("%s: %d, in another browser %d", host, a, b)
				}
			}
		})
	}
}

// TestS82NobodyButTheProvidersRulesLetsIn: no issuer: an account that `allow`, `link` or `create` refuse, or a wrong nonce or issuer → a
// 403 page, no session, no user.
func TestS82NobodyButTheProvidersRulesLetsIn(t *testing.T) {
	p := newLyingProvider(t)
	g := startDirect(t, p, "SIGNIN", atProviderCorp(p, "link verified_email\nallow email_domain acme.example"), "MORE", "user u-ben {\nemail ben@acme.example\ngroups ops\n}")
	for _, c := range []struct {
		name   string
		claims map[string]any
		want   int
	}{
		{"a stranger", map[string]any{"sub": "1", "email": "eve@acme.example", "email_verified": true}, http.StatusForbidden},
		{"another nonce", map[string]any{"sub": "4", "email": "ben@acme.example", "email_verified": true, "nonce": "x"}, http.StatusForbidden},
		{"the declared user", map[string]any{"sub": "5", "email": "ben@acme.example", "email_verified": true}, http.StatusOK},
		{"the declared user once again", map[string]any{"sub": "5", "email": "ben@acme.example", "email_verified": true}, http.StatusOK},
	} {
		t.Run(c.name, func(t *testing.T) {
			p.says(c.claims)
			g.upstream.seen()
			v := g.visitor(t)
			a, at, _ := v.walkAt(p, g.at("app", "/x"))
			if a.status != c.want {
				t.Fatalf("%d at %s: %s", a.status, at, a.body)
			}
			if c.want == http.StatusOK {
				g.upstream.one(t).has(t, identity.Subject, "u-ben").has(t, identity.Groups, "ops")
				return
			}
			g.upstream.none(t)
			if v.cookie("app", hostCookie) != "" || !strings.Contains(a.body, "/oauth/sign_in?") {
				t.Errorf("%s", a.body)
			}
		})
	}
	if list := g.ok("user", "list"); strings.Contains(list, "eve@") || strings.Contains(list, "evil") {
		t.Errorf("%s", list)
	}
}

// TestS83AnAnswerOfAProviderCountsOnce: no issuer: the answer at another host, for another provider, with a broken state, late or twice →
// refused, or the sign-in starts again.
func TestS83AnAnswerOfAProviderCountsOnce(t *testing.T) {
	c := setClock(t)
	p := newLyingProvider(t)
	other := "provider other " + p.URL + " {\nclient gw 0123456789abcdef\nallow_private_network\ncreate\n}"
	g := startDirect(t, p, "SIGNIN", atProviderCorp(p, "create\ndefault")+"\n"+other)
	v := g.visitor(t)
	begun := func(v *visitorOfHosts) (answered string) {
		t.Helper()
		a := v.navigate(g.at("app", "/page"))
		if a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), p.URL+"/authorize?") {
			t.Fatalf("%d %v", a.status, a.header)
		}
		return p.follow(a.header.Get("Location"))
	}
	for name, change := range map[string]func(string) string{
		"at another host":          func(to string) string { return strings.Replace(to, "//app.", "//wiki.", 1) },
		"for another provider":     func(to string) string { return strings.Replace(to, "/callback/corp?", "/callback/other?", 1) },
		"as the issuer's":          func(to string) string { return strings.Replace(to, "/callback/corp?", "/callback?", 1) },
		"with a broken state":      func(to string) string { return strings.Replace(to, "state=", "state=A", 1) },
		"without a code":           func(to string) string { return strings.Replace(to, "code=", "x=", 1) },
		"of another issuer (9207)": func(to string) string { return strings.Replace(to, "iss=", "iss=https%3A%2F%2Fevil.example", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			a := v.navigate(change(begun(v)))
			if a.status < 400 && a.header.Get("Location") != "/oauth/callback" || v.cookie("app", hostCookie) != "" || v.cookie("wiki", hostCookie) != "" {
				t.Errorf("%d %v %s", a.status, a.header, a.body)
			}
		})
	}
	t.Run("another browser's", func(t *testing.T) {
		victim := g.visitor(t)
		victim.navigate(g.at("app", "/mine"))
		if a := victim.navigate(begun(v)); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), p.URL+"/authorize?") || victim.cookie("app", hostCookie) != "" {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("twice", func(t *testing.T) {
		answered := begun(v)
		if a := v.navigate(answered); a.status != http.StatusSeeOther || a.header.Get("Location") != g.at("app", "/page") {
			t.Fatalf("%d %v %s", a.status, a.header, a.body)
		}
		first := v.cookie("app", hostCookie)
		if a := v.navigate(answered); a.status != http.StatusSeeOther || a.header.Get("Location") != g.at("app", "/page") || v.cookie("app", hostCookie) != first {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("twice, with another code", func(t *testing.T) {
		v := g.visitor(t)
		asked := v.navigate(g.at("app", "/page")).header.Get("Location")
		first, second := p.follow(asked), p.follow(asked)
		v.navigate(first)
		session := v.cookie("app", hostCookie)
		if a := v.navigate(second); session == "" || a.header.Get("Location") != g.at("app", "/page") || v.cookie("app", hostCookie) != session {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	t.Run("late", func(t *testing.T) {
		v := g.visitor(t)
		answered := begun(v)
		c.advance(11 * time.Minute)
		if a := v.navigate(answered); a.status != http.StatusSeeOther || !strings.HasPrefix(a.header.Get("Location"), p.URL+"/authorize?") || v.cookie("app", hostCookie) != "" {
			t.Errorf("%d %v", a.status, a.header)
		}
	})
	g.upstream.none(t)
}

// TestS84AProviderThatIsAwayHereAlone: no issuer and the provider down → sessions continue, others get a 503 page until it is back.
func TestS84AProviderThatIsAwayHereAlone(t *testing.T) {
	p := newLyingProvider(t)
	g := startDirect(t, p)
	v := g.visitor(t)
	v.walkAt(p, g.at("app", "/"))
	p.change(func() { p.down = true })
	v.send(http.MethodGet, g.at("app", "/"), "").is(t, http.StatusOK, "a session")
	late := g.visitor(t)
	if a := late.navigate(g.at("wiki", "/")); a.status != http.StatusSeeOther { // the metadata is cached
		t.Errorf("%d", a.status)
	}
	from := late.navigate(g.at("wiki", "/")).header.Get("Location")
	p.change(func() { p.down = false })
	back := p.follow(from)
	p.change(func() { p.down = true })
	if a := late.explained(t, "wiki", late.navigate(back)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || late.cookie("wiki", hostCookie) != "" {
		t.Errorf("%d %v %s", a.status, a.header, a.body)
	}
	p.change(func() { p.down = false })
	late.arrivesBy(t, p, g.at("wiki", "/"))
}

// TestP142AProviderThatARouteNames: `challenge browser <provider>` on a host of an issuer → redirected there at once unless signed in; an
// unknown or doubled `provider` → the same as without it.
func TestP142AProviderThatARouteNames(t *testing.T) {
	corp, other := newLyingProvider(t), newLyingProvider(t)
	g := startHosts(t, "store memory", "store memory\nsign_in {\npassword\n"+atProviderCorp(corp, "link verified_email\ngroups claim groups")+"\n"+
		strings.Replace(atProviderCorp(other, "link verified_email\ndefault"), "corp", "other", 1)+"\n}",
		"protect {\n\t\t\tchallenge browser\n\t\t}", "protect {\nchallenge browser corp\n}")
	leadsTo := func(v *visitorOfHosts, target string) string {
		t.Helper()
		next := v.navigate(target).header.Get("Location")
		return v.navigate(next).header.Get("Location")
	}
	t.Run("there and back", func(t *testing.T) {
		v := g.visitor(t)
		a, at, way := v.walkAt(corp, g.at("app", "/deep/link?q=1"))
		if a.status != http.StatusOK || at != g.at("app", "/deep/link?q=1") || !strings.Contains(strings.Join(way, " "), g.at("auth", "/oauth/callback/corp?")) {
			t.Fatalf("%d at %s, by %q", a.status, at, way)
		}
		if asked := corp.lastAsked(); asked.Get("redirect_uri") != g.at("auth", "/oauth/callback/corp") || asked.Get("prompt") != "" {
			t.Errorf("the provider was asked %v", asked)
		}
		if a, at, way := v.walkAt(other, g.at("wiki", "/pages/1")); a.status != http.StatusOK || at != g.at("wiki", "/pages/1") || len(way) != 4 {
			t.Errorf("the second host: %d at %s, by %q", a.status, at, way)
		}
	})
	t.Run("the default one elsewhere", func(t *testing.T) {
		if to := leadsTo(g.visitor(t), g.at("wiki", "/pages/1")); !strings.HasPrefix(to, other.URL+"/authorize?") {
			t.Errorf("led to %s", to)
		}
	})
	t.Run("signed in by password", func(t *testing.T) {
		v := g.visitor(t)
		if a, _ := v.walk(g.at("auth", "/oauth/login?switch=1"), "ada@acme.example"); a.status != http.StatusOK {
			t.Fatalf("%d", a.status)
		}
		if a, at, way := v.walkAt(corp, g.at("app", "/x")); a.status != http.StatusOK || at != g.at("app", "/x") || len(way) != 4 {
			t.Errorf("%d at %s, by %q", a.status, at, way)
		}
	})
	t.Run("the person says no", func(t *testing.T) {
		corp.change(func() { corp.answer = map[string]string{"code": "", "error": "access_denied"} })
		defer corp.change(func() { corp.answer = nil })
		v := g.visitor(t)
		a, at, _ := v.walkAt(corp, g.at("app", "/x"))
		if a.status != http.StatusOK || !strings.Contains(at, "failed=provider_cancelled") || len(buttons(t, page(a), "provider")) != 2 || !strings.Contains(a.body, `name="password"`) {
			t.Errorf("%d at %s: %s", a.status, at, a.body)
		}
	})
	t.Run("an answer in another browser begins there anew, at the same provider", func(t *testing.T) {
		v, thief := g.visitor(t), g.visitor(t)
		v.walkAt(corp, g.at("app", "/x"))
		v.give("app", &http.Cookie{Name: hostCookie, MaxAge: -1})
		answered := leadsTo(v, g.at("app", "/mine"))
		if !strings.HasPrefix(answered, g.at("app", "/oauth/callback?")) {
			t.Fatalf("led to %s", answered)
		}
		if to := leadsTo(thief, answered); !strings.HasPrefix(to, corp.URL+"/authorize?") || thief.cookie("app", hostCookie) != "" {
			t.Errorf("led to %s", to)
		}
	})
	t.Run("a link", func(t *testing.T) {
		for name, c := range map[string]struct {
			query string
			to    *lyingProvider
		}{
			"to one that is known": {"provider=corp", corp}, "to one that is not": {"provider=evil", other}, "to two": {"provider=corp&provider=other", other},
		} {
			v := g.visitor(t)
			sent, err := url.Parse(v.navigate(g.at("wiki", "/pages/1")).header.Get("Location"))
			check(t, err)
			sent.RawQuery += "&" + c.query
			if to := v.navigate(sent.String()).header.Get("Location"); !strings.HasPrefix(to, c.to.URL+"/authorize?") {
				t.Errorf("%s: led to %s", name, to)
			}
		}
	})
}
