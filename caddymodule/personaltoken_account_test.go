package caddymodule

import (
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
)

// tokenForm returns the completed form for a token on the account page; nil: there is none.
func tokenForm(t *testing.T, p page, name string, scopes ...string) url.Values {
	t.Helper()
	fields, offered := make(url.Values), make(map[string]string)
	found := false
	for n := range nodes(t, p) {
		if n.Data != "form" {
			continue
		}
		fields = make(url.Values)
		for field := range n.Descendants() {
			a := attributesOf(field)
			switch {
			case field.Data == "input" && a["type"] == "checkbox":
				offered[a["value"]] = a["name"]
			case field.Data == "input":
				fields.Set(a["name"], a["value"])
			case field.Data == "option" && field.Type == html.ElementNode:
				if _, chosen := a["selected"]; chosen {
					fields.Set("lifetime", a["value"])
				}
			case field.Data == "button":
				fields.Set(a["name"], a["value"])
			}
		}
		if found = fields.Get("make") == "token"; found {
			break
		}
	}
	if !found {
		return nil
	}
	fields.Set("name", name)
	for _, scope := range scopes {
		if offered[scope] == "" {
			t.Fatalf("the page does not offer %s: %v", scope, offered)
		}
		fields.Set(offered[scope], scope)
	}
	return fields
}

// fills returns the completed form for a token in a browser.
func (b *browser) fills(t *testing.T, name string, scopes ...string) url.Values {
	t.Helper()
	p := b.open("/oauth/account")
	fields := tokenForm(t, p, name, scopes...)
	if fields == nil {
		t.Fatalf("no form for a token: %d %s", p.status, p.body)
	}
	return fields
}

// makes creates a token on the account page, and returns its id and the token.
func (b *browser) makes(t *testing.T, name string, scopes ...string) (id, token string) {
	t.Helper()
	p := b.send("/oauth/account", b.fills(t, name, scopes...))
	holdPage(t, p, http.StatusOK)
	if token = shownToken(p); token == "" {
		t.Fatalf("no token is shown: %s", p.body)
	}
	return buttons(t, p, "personal_token")[0], token
}

// recentSignIn is how long after a sign-in a user can create tokens.
const recentSignIn = 15 * time.Minute

// shownToken returns the token on a page, or "".
func shownToken(p page) string {
	return regexp.MustCompile(`gh_pat_[0-9A-Za-z]{36}`).FindString(p.body)
}

// tokensOf returns the number of a user's tokens, as operators see it.
func (g *gatehouse) tokensOf(user string) int {
	g.t.Helper()
	return strings.Count(g.ok("pat", "list", "--user", user), "\n") - 1
}

// inBrowser returns a new browser in which that user is signed in.
func (g *gatehouse) inBrowser(email string) *browser {
	g.t.Helper()
	b := g.browser()
	b.signIn(b.open("/oauth/login"), email, peoplePassword)
	if !b.isSignedIn() {
		g.t.Fatalf("%s is not signed in", email)
	}
	return b
}

// configured loads patSite with one line of `personal_tokens` replaced.
func (g *gatehouse) configured(old, instead string) {
	g.t.Helper()
	g.reload(strings.ReplaceAll(strings.Replace(patSite, old, instead, 1), "HASH", peopleHash()))
}

// TestQ185WhoIsOfferedTokens: the account page of a person who may not have tokens → no form, and a submitted one is
// refused.
func TestQ185WhoIsOfferedTokens(t *testing.T) {
	g := startPATs(t)
	ada, ben, eve := g.signedIn("ada@acme.example"), g.signedIn("ben@acme.example"), g.signedIn("eve@acme.example")
	offers := func(b *browser) (values []string) {
		for n := range nodes(t, b.open("/oauth/account")) {
			if a := attributesOf(n); n.Data == "option" && n.Type == html.ElementNode || a["type"] == "checkbox" {
				values = append(values, a["value"])
			}
		}
		return values
	}
	if got, want := strings.Join(offers(ada), " "), "public orders.read orders.write groups 604800 2592000 7776000"; got != want {
		t.Errorf("offered is %q, want %q", got, want)
	}
	if got := ada.fills(t, "x").Get("lifetime"); got != "2592000" {
		t.Errorf("the form begins with %s seconds", got)
	}
	id, _ := eve.makes(t, "mine", "orders.read")
	form := eve.fills(t, "another", "orders.read")
	holdNone := func(name string, b *browser, left int) {
		t.Helper()
		p := b.open("/oauth/account")
		if strings.Contains(p.body, `name="make"`) || len(buttons(t, p, "personal_token")) != left || strings.Contains(p.body, "Personal access tokens") != (left > 0) {
			t.Errorf("%s: %s", name, p.body)
		}
		_, fields := formIn(t, p)
		for _, make := range []string{"token", "sign_in"} {
			fields.Set("make", make)
			holdPage(t, b.send("/oauth/account", fields), http.StatusBadRequest)
		}
	}
	holdNone("who may have none", ben, 0)
	g.configured("groups robots\n", "groups robots\n\t\t\toperators_only\n")
	holdNone("operators alone", ada, 0)
	holdNone("operators alone, with a token of before", eve, 1)
	holdPage(t, eve.send("/oauth/account", form), http.StatusBadRequest)
	if _, token := g.pat("u-eve"); token == "" || g.tokensOf("u-eve") != 2 {
		t.Error("an operator makes none, or somebody else does")
	}
	g.configured("roles admin member", "roles admin")
	holdNone("who may have none any more", eve, 2)
	holdPage(t, eve.send("/oauth/account", form), http.StatusBadRequest)
	holdChanged(t, eve.change("personal_token", id), "/oauth/account?done=token")
	if g.tokensOf("u-eve") != 1 {
		t.Error("the token has not ended, or more than that")
	}
	g.reload(withoutPATs())
	holdNone("none at all", ada, 0)
	holdPage(t, ada.send("/oauth/account", form), http.StatusForbidden)
	holdPage(t, eve.change("personal_token", id), http.StatusBadRequest)
}

// TestQ186ToQ192TokensOfTheAccountPage: a personal token made on the account page → shown once; from elsewhere, by a stolen cookie or a
// link, without name or scope, too long, the 101st, another person's → refused; in no log, history or Referer.
func TestQ186ToQ192TokensOfTheAccountPage(t *testing.T) {
	g := startPATs(t)
	eve := g.signedIn("eve@acme.example")
	var every []string // every token created
	t.Run("Q186 made, used and ended", func(t *testing.T) {
		form := eve.fills(t, " backup on host7 ", "orders.read")
		p := eve.send("/oauth/account", form)
		holdPage(t, p, http.StatusOK)
		token := shownToken(p)
		every = append(every, token)
		id := buttons(t, p, "personal_token")[0]
		listed := strings.Split(g.ok("pat", "list", "--user", "u-eve"), "\n")[1]
		if !strings.HasPrefix(listed, id) || !strings.Contains(listed, " backup on host7 ") || !strings.Contains(listed, " orders.read ") {
			t.Errorf("listed is %q", listed)
		}
		holdAnswer(t, "the account page", p, http.StatusOK, "“<bdi>backup on host7</bdi>”", "Never used", "Expires on ", "Read orders")
		g.do("GET", "/orders/1", "", "Authorization", "Bearer "+token)
		if h := g.lastRequest(t).Header; h.Get("X-Auth-Subject") != "u-eve" || h.Get("X-Auth-Scope") != "orders.read" {
			t.Errorf("the upstream sees %v", h)
		}
		p = eve.open("/oauth/account")
		if shownToken(p) != "" || !strings.Contains(p.body, "Last used on ") {
			t.Errorf("the account page afterwards: %s", p.body)
		}
		holdChanged(t, eve.change("personal_token", id), "/oauth/account?done=token")
		g.holdStatus(t, "after it has ended", "/orders/1", token, http.StatusUnauthorized)
		holdAnswer(t, "afterwards", eve.open("/oauth/account?done=token"), http.StatusOK, "The token has ended.", "You have no token.")
		holdWords(t, "the audit log", g.logs(), `"msg":"personal access token added"`, `"token_id":"`+id+`"`, `"subject":"u-eve"`, `"personal_token":"`+id+`"`)
	})
	t.Run("Q187 forged", func(t *testing.T) {
		ada := g.signedIn("ada@acme.example")
		id, token := ada.makes(t, "stays", "orders.read")
		every = append(every, token)
		ours := ada.fills(t, "forged", "orders.read")
		_, ending := formIn(t, ada.open("/oauth/account"))
		ending.Set("personal_token", id)
		for _, headers := range [][]string{{"Origin", "https://evil.tld"}, {"Origin", "null", "Sec-Fetch-Site", "cross-site"}} { // TestA60A63OriginsOfForms has the others
			holdForbidden(t, ada.post("/oauth/account", ours, headers...))
			holdForbidden(t, ada.post("/oauth/account", ending, headers...))
		}
		_, other := formIn(t, ada.open("/oauth/logout"))
		for name, fields := range map[string]url.Values{
			"no token": with(ours, "form_token", ""), "another text": with(ours, "form_token", strings.Repeat("x", len(ours.Get("form_token")))), "with a request": with(ours, "pending", "x"),
			"another page's": with(ours, "form_token", other.Get("form_token")), "another person's": eve.fills(t, "forged", "orders.read"),
			"another browser's": g.signedIn("ada@acme.example").fills(t, "forged", "orders.read"),
		} {
			ada.send("/oauth/account", fields).is(t, http.StatusForbidden, name)
		}
		if p := g.browser().send("/oauth/account", ours); p.location().Path != "/oauth/login" {
			t.Errorf("a stranger: %d %q", p.status, p.header.Get("Location"))
		}
		if p := ada.open("/oauth/account?" + ours.Encode()); p.status != http.StatusOK || shownToken(p) != "" {
			t.Errorf("a link: %d", p.status)
		}
		stolen := g.browser() // a cookie without the browser's secret
		stolen.give(&http.Cookie{Name: "session", Value: ada.cookie("session"), Path: "/"})
		holdForbidden(t, stolen.send("/oauth/account", ours))
		if n := g.tokensOf("u-ada"); n != 1 {
			t.Errorf("ada has %d tokens", n)
		}
		g.holdStatus(t, "her token has ended", "/orders/1", token, http.StatusOK)
	})
	t.Run("Q188 refused", func(t *testing.T) {
		for _, c := range []struct{ name, field, value, says string }{
			{"no name", "name", "  ", "Give the token a short name"},
			{"101 characters", "name", strings.Repeat("ä", people.MaxTokenName+1), "Give the token a short name"},
			{"an escape", "name", "a\x1b[2Jb", "Give the token a short name"},
			{"no scope", "scope_1", "", "Tick at least one thing"},
			{"a scope of the account alone", "scope_1", "trusted", "No token may do what you have chosen"},
			{"a refresh token", "scope_2", "offline_access", "No token may do what you have chosen"},
			{"beyond the maximum", "lifetime", "7776001", "No token can live as long"},
			{"the past", "lifetime", "-604800", "No token can live as long"},
			{"beyond a number", "lifetime", "99999999999999999999", "No token can live as long"},
		} {
			t.Run(c.name, func(t *testing.T) {
				form := eve.fills(t, "refused", "orders.read")
				form.Set(c.field, c.value)
				p := eve.send("/oauth/account", form)
				holdPage(t, p, http.StatusBadRequest)
				if !strings.Contains(p.body, c.says) || shownToken(p) != "" || !strings.Contains(p.body, "<title>Error: ") {
					t.Errorf("the page says %s", p.body)
				}
				again := tokenForm(t, p, "refused now mended")
				if c.field != "scope_1" && !strings.Contains(p.body, `value="orders.read" checked`) || c.field != "name" && !strings.Contains(p.body, `value="refused"`) {
					t.Errorf("the form has lost something: %v", again)
				}
			})
		}
		for _, malformed := range []string{"a\"b", strings.Repeat("x", 5000)} {
			form := eve.fills(t, "refused", "orders.read")
			form.Set("scope_1", malformed)
			holdPage(t, eve.send("/oauth/account", form), http.StatusBadRequest)
		}
		if n := g.tokensOf("u-eve"); n != 0 {
			t.Errorf("eve has %d tokens", n)
		}
		const markup = `<script>alert(1)</script>"'>{{.}}`
		id, token := eve.makes(t, markup, "orders.read")
		every = append(every, token)
		if p := eve.open("/oauth/account"); !strings.Contains(p.body, "&lt;script&gt;alert(1)&lt;/script&gt;") || strings.Contains(p.body, "<script") {
			t.Errorf("the name stands there as %s", p.body)
		}
		if p := eve.send("/oauth/account", eve.fills(t, strings.Repeat("ä", people.MaxTokenName), "public", "orders.write")); p.status != http.StatusOK {
			t.Errorf("a name of %d characters: %d", people.MaxTokenName, p.status)
		} else {
			every = append(every, shownToken(p))
		}
		eve.change("personal_token", id)
	})
	t.Run("Q188 too many", func(t *testing.T) {
		for range 100 - g.tokensOf("u-ada") {
			g.must(http.StatusCreated, "POST", "/oauth/personal_tokens", `{"user":"u-ada","name":"one of many","scope":"public"}`)
		}
		ada := g.signedIn("ada@acme.example")
		p := ada.send("/oauth/account", ada.fills(t, "too many", "public"))
		holdPage(t, p, http.StatusBadRequest)
		if !strings.Contains(p.body, "as many tokens as one person can have") || g.tokensOf("u-ada") != 100 {
			t.Errorf("the page says %s", p.body)
		}
	})
	t.Run("Q189 sent again", func(t *testing.T) {
		before := g.tokensOf("u-eve")
		tab, form := eve.fills(t, "another tab", "orders.read"), eve.fills(t, "once", "orders.read")
		answers := make([]page, 8)
		tokentest.Together(len(answers), func(i int) error { answers[i] = eve.send("/oauth/account", form); return nil })
		shown := slices.DeleteFunc(answers, func(p page) bool { return shownToken(p) == "" })
		if len(shown) != 1 || g.tokensOf("u-eve") != before+1 {
			t.Fatalf("%d of the answers have a token, and there are %d more", len(shown), g.tokensOf("u-eve")-before)
		}
		token := shownToken(shown[0])
		every = append(every, token)
		again := func() {
			t.Helper()
			p := eve.send("/oauth/account", form)
			holdPage(t, p, http.StatusConflict)
			if shownToken(p) != "" || !strings.Contains(p.body, "made its token already") || tokenForm(t, p, "another") == nil {
				t.Errorf("sent again: %s", p.body)
			}
		}
		again()
		p := eve.send("/oauth/account", tab)
		holdPage(t, p, http.StatusOK)
		every = append(every, shownToken(p))
		eve.change("personal_token", buttons(t, shown[0], "personal_token")[0])
		g.holdStatus(t, "after it has ended", "/orders/1", token, http.StatusUnauthorized)
		again()
		if g.tokensOf("u-eve") != before+1 {
			t.Errorf("eve has %d tokens, had %d", g.tokensOf("u-eve"), before)
		}
	})
	t.Run("Q191 other people's", func(t *testing.T) {
		ada := g.signedIn("ada@acme.example")
		id, token := g.pat("backup")
		every = append(every, token)
		hers, theirs := g.tokensOf("u-ada"), g.tokensOf("u-eve")
		for _, which := range append([]string{id, "unknown", "*", "%", "' OR 1=1--", strings.Repeat("x", 5000), token}, buttons(t, eve.open("/oauth/account"), "personal_token")...) {
			holdChanged(t, ada.change("personal_token", which), "/oauth/account?done=token")
		}
		holdPage(t, ada.change("personal_token", ""), http.StatusBadRequest)
		holdPage(t, ada.change("personal_token", "a\x00b"), http.StatusBadRequest)
		if status, _ := g.statusOf("/orders/1", token); status != http.StatusOK || g.tokensOf("u-ada") != hers || g.tokensOf("u-eve") != theirs {
			t.Errorf("something has ended: %d", status)
		}
	})
	t.Run("Q192 nowhere in a log", func(t *testing.T) {
		if len(every) < 6 || slices.Contains(every, "") {
			t.Fatalf("the tokens were %q", every)
		}
		g.notLogged(t, every...)
	})
}

// TestQ190OnlyAfterAFreshSignIn: the form 15 minutes after the sign-in, or with a sign-in of unknown age → a fresh one is asked for.
func TestQ190OnlyAfterAFreshSignIn(t *testing.T) {
	clock := setClock(t)
	g := startPATs(t)
	b := g.signedIn("eve@acme.example")
	form := b.fills(t, "later", "orders.read")
	asks := func(p page) {
		t.Helper()
		if p.status != http.StatusSeeOther || p.location().Path != "/oauth/login" {
			t.Fatalf("%d %q, want the sign-in page: %s", p.status, p.header.Get("Location"), p.body)
		}
	}
	clock.advance(recentSignIn - time.Minute)
	if tokenForm(t, b.open("/oauth/account"), "") == nil {
		t.Error("no form within the time")
	}
	clock.advance(time.Minute)
	p := b.open("/oauth/account")
	if tokenForm(t, p, "") != nil || strings.Join(buttons(t, p, "make"), " ") != "sign_in" {
		t.Errorf("the page of an older sign-in: %s", p.body)
	}
	p = b.send("/oauth/account", form)
	asks(p)
	asks(b.change("make", "token"))
	p = b.change("make", "sign_in")
	asks(p)
	p = b.open(p.header.Get("Location"))
	holdWords(t, "the sign-in page", p.body, "To be sure that it is you")
	p = b.signIn(p, "eve@acme.example", peoplePassword)
	if at := p.header.Get("Location"); at != "/oauth/account#tokens" {
		t.Errorf("after it the browser goes to %q", at)
	}
	if n := g.tokensOf("u-eve"); n != 0 {
		t.Errorf("eve has %d tokens", n)
	}
	if shownToken(b.send("/oauth/account", form)) == "" { // back to the form in another tab
		t.Error("after a fresh sign-in the form makes none")
	}

	form = b.fills(t, "ended meanwhile", "orders.read")
	other := g.signedIn("eve@acme.example")
	other.change("everywhere", "yes")
	asks(b.send("/oauth/account", form))
	b = g.signedIn("eve@acme.example")
	form = b.fills(t, "disabled meanwhile", "orders.read")
	g.ok("user", "disable", "u-eve")
	asks(b.send("/oauth/account", form))
	if n := g.tokensOf("u-eve"); n != 0 { // the first one too
		t.Errorf("eve has %d tokens after she was disabled", n)
	}
}

// TestQ186Q190TokensOfPeopleFromAProvider: creating a token needs no password, but a sign-in whose time the provider
// states. A provider that omits auth_time may return a signed-in browser without a prompt.
func TestQ186Q190TokensOfPeopleFromAProvider(t *testing.T) {
	clock := setClock(t)
	corp := newLyingProvider(t)
	g := startProviders(t, atProvider("corp", corp, "create"), "password_grant", "password_grant\npersonal_tokens")
	says := func(authTime any) {
		now := node.Clock() // not the machine's
		corp.says(map[string]any{
			"sub": "7", "email": "hub@corp.example", "email_verified": true, "iat": now.Unix(), "exp": now.Add(time.Minute).Unix(), "auth_time": authTime,
		})
	}
	says(nil)
	b := g.browser()
	b.signsInAt(t, "corp", corp)
	unproved := func(what string) {
		t.Helper()
		if tokenForm(t, b.open("/oauth/account"), "") != nil || b.change("make", "token").header.Get("Location") == "" {
			t.Errorf("%s makes tokens", what)
		}
	}
	unproved("a first sign-in of unknown age")
	for range 2 { // without a prompt, any number of times
		p := b.atProvider(t, b.chooses(t, b.open(b.change("make", "sign_in").header.Get("Location")), "corp"), corp)
		if at := p.location(); at.Path != "/oauth/login" || at.Query().Get("failed") != "provider_not_fresh" {
			t.Errorf("a sign-in of unknown age leads to %q", p.header.Get("Location"))
		}
		if asked := corp.lastAsked(); asked.Get("prompt") != "login" || asked.Get("max_age") != "0" {
			t.Errorf("the provider was asked %v", asked)
		}
		b.signsInAt(t, "corp", corp)
		unproved("a silent sign-in of unknown age")
	}
	sign := b.change("make", "sign_in").header.Get("Location")
	says(node.Clock().Unix()) // as a provider does that was sent max_age
	b.atProvider(t, b.chooses(t, b.open(sign), "corp"), corp)
	_, token := b.makes(t, "without a password", "trusted")
	g.holdStatus(t, "its token", "/api/x", token, http.StatusOK)
	clock.advance(recentSignIn)

	signedIn := node.Clock().Unix()
	says(signedIn)
	b = g.browser()
	b.signsInAt(t, "corp", corp)
	b.makes(t, "of known age", "public")
	clock.advance(recentSignIn)
	sign = b.change("make", "sign_in").header.Get("Location")
	says(signedIn)
	p := b.atProvider(t, b.chooses(t, b.open(sign), "corp"), corp) // it states the time and has not prompted again
	if at := p.location(); at.Path != "/oauth/login" || at.Query().Get("failed") != "provider_not_fresh" {
		t.Errorf("an old sign-in there leads to %q", p.header.Get("Location"))
	}
	if tokenForm(t, b.open("/oauth/account"), "") != nil {
		t.Error("an old sign-in makes tokens")
	}
	says(node.Clock().Unix())
	b.atProvider(t, b.chooses(t, b.open(sign), "corp"), corp)
	b.makes(t, "after a fresh one", "public")
	g.notLogged(t, token)
}
