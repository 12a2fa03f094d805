package caddymodule

import (
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestW29FactorsChangeAfterARecentSignIn: factors added, removed or renewed on the account page → only after a sign-in of at most 15 minutes
// ago, and with the factor if there is one; otherwise the sign-in page, and back to the section. A reload of the page with new recovery codes makes no others.
func TestW29FactorsChangeAfterARecentSignIn(t *testing.T) {
	s := startFactors(t, "")
	one := s.inBrowser("ada@acme.example") // a session of one factor, from before
	b, ada := s.owner(t, "ada@acme.example")
	ids := buttons(t, b.open("/oauth/account"), "factor") // of the phone, of the recovery codes, and `codes`
	if len(ids) != 3 || ids[2] != "codes" {
		t.Fatalf("buttons %q", ids)
	}
	refused := func(b *browser, what string) {
		t.Helper()
		p := b.change("factor", what)
		if location := p.location(); p.status != http.StatusSeeOther || location.Path != "/oauth/login" || location.Query().Get("pending") != "factors" {
			t.Errorf("%s: %d %q", what, p.status, p.header.Get("Location"))
		}
		asksFor(t, b.open(p.header.Get("Location")), "password")
	}
	holdOnly := func(b *browser, want ...string) {
		t.Helper()
		if got := buttons(t, b.open("/oauth/account"), "factor"); !slices.Equal(got, want) {
			t.Errorf("buttons %q, want %q", got, want)
		}
	}
	holdOnly(one, "sign_in")
	for _, what := range []string{ids[0], ids[1], "codes", "add", "sign_in"} {
		refused(one, what)
	}
	s.wait(recentSignIn)
	holdOnly(b, "sign_in")
	for _, what := range []string{ids[0], ids[1], "codes", "add", "sign_in"} {
		refused(b, what)
	}
	s.holdFactors(t, "u-ada", true)
	p := b.follow(b.signIn(b.open(b.change("factor", "sign_in").header.Get("Location")), "ada@acme.example", peoplePassword))
	if p := b.types(asksFor(t, p, "code"), s.code(ada)); p.header.Get("Location") != "/oauth/account#factors" {
		t.Errorf("not back to the section: %d %q", p.status, p.header.Get("Location"))
	}
	holdOnly(b, ids...)
	old := ada.recovery
	action, fields := formIn(t, b.open("/oauth/account"))
	fields.Set("factor", "codes")
	ada.recovery = shownCodes(t, b.send(action, fields))
	holdChanged(t, b.send(action, fields), "/oauth/account") // a reload: the codes stay good
	if slices.ContainsFunc(old, func(code string) bool { return slices.Contains(ada.recovery, code) }) {
		t.Error("new codes are old ones")
	}
	again := s.browser()
	p = asksFor(t, again.types(again.firstFactor("ada@acme.example"), old[0]), "code")
	asksFor(t, again.follow(again.types(p, ada.recovery[0])), "account")

	holdChanged(t, b.change("factor", s.factorsOf(t, "u-ada")["totp"]), "/oauth/account?done=factor")
	s.holdFactors(t, "u-ada", false) // the last factor takes the recovery codes along
	asksFor(t, s.browser().firstFactor("ada@acme.example"), "account")
	holdOnly(b, "add")
	holdPage(t, b.change("factor", "codes"), http.StatusBadRequest) // codes of no factor
	if p := b.open("/oauth/account?done=factor"); !strings.Contains(p.body, `class="notice"`) {
		t.Error("no notice")
	}
}

// TestW30FormsForFactorsComeFromOurPages: a form for factors without its token, with another browser's, or from another origin → 403 and no
// change; the id of another user's factor, or of none → nothing changes, and the answer does not tell them apart.
func TestW30FormsForFactorsComeFromOurPages(t *testing.T) {
	s := startFactors(t, "")
	ada, _ := s.owner(t, "ada@acme.example")
	grace, _ := s.owner(t, "grace@acme.example")
	hers := buttons(t, grace.open("/oauth/account"), "factor")
	_, foreign := formIn(t, grace.open("/oauth/account"))
	for _, what := range buttons(t, ada.open("/oauth/account"), "factor") {
		holdForbidden(t, ada.send("/oauth/account", url.Values{"factor": {what}}))
		holdForbidden(t, ada.send("/oauth/account", url.Values{"factor": {what}, "form_token": foreign["form_token"]}))
		_, fields := formIn(t, ada.open("/oauth/account"))
		fields.Set("factor", what)
		holdForbidden(t, ada.post("/oauth/account", fields, "Origin", "https://evil.tld"))
	}
	for _, id := range []string{hers[0], hers[1], "unknown", "*", "' OR 1=1--", strings.Repeat("x", 5000)} {
		holdChanged(t, ada.change("factor", id), "/oauth/account?done=factor")
	}
	s.holdFactors(t, "u-ada", true)
	s.holdFactors(t, "u-grace", true)
}

// TestW31AFactorAddedAgain: a phone removed and another added in the same session, or a second one added in another tab → acr 2 and each amr
// once; the second tab is led back to the account page, and its secret proves nothing.
func TestW31AFactorAddedAgain(t *testing.T) {
	s := startFactors(t, "")
	b, old := s.owner(t, "ada@acme.example")
	b.change("factor", s.factorsOf(t, "u-ada")["totp"])
	first, second := b.follow(b.change("factor", "add")), b.follow(b.change("factor", "add"))
	added, _ := s.adds(b, first)
	late := phone{secret: shownSecret(t, second)}
	asksFor(t, b.follow(b.types(second, s.code(late))), "account")
	if added.secret == late.secret || added.secret == old.secret {
		t.Error("two tabs have one secret")
	}
	told, _ := s.tellsIn(t, b)
	if amr, _ := told["amr"].([]any); told["acr"] != "2" || len(amr) != 3 {
		t.Errorf("acr %v, amr %v", told["acr"], told["amr"])
	}
	next := s.browser()
	p := asksFor(t, next.types(next.firstFactor("ada@acme.example"), s.code(old)), "code")
	p = asksFor(t, next.types(p, late.shows(t)), "code")
	asksFor(t, next.follow(next.types(p, added.shows(t))), "account")
}

// TestW32OperatorsSeeAndRemoveFactors: the admin API and `caddy oauth user factors` list and remove one factor or all, without any secret;
// an unknown user or factor, or another user's → 404; no factor and no --all → an error. Sessions go on.
func TestW32OperatorsSeeAndRemoveFactors(t *testing.T) {
	s := startFactors(t, "")
	b, ada := s.owner(t, "ada@acme.example")
	s.owner(t, "grace@acme.example")
	listed := s.must(http.StatusOK, "GET", "/oauth/users/u-ada/factors", "")
	for _, want := range []string{`"kind":"totp"`, `"kind":"recovery_codes"`, `"codes_left":10`, `"last_used_at"`, `"created_at"`} {
		if !strings.Contains(listed, want) {
			t.Errorf("no %s in %s", want, listed)
		}
	}
	table := s.ok("user", "factors", "list", "ada@acme.example")
	if !strings.Contains(table, "recovery_codes (10 left)") {
		t.Errorf("the table is\n%s", table)
	}
	for place, text := range map[string]string{"the list": listed, "the table": table, "JSON": s.ok("user", "factors", "list", "u-ada", "--json"), "the user": s.must(http.StatusOK, "GET", "/oauth/users/u-ada", "")} {
		ada.holdNotIn(t, place, text)
	}
	hers := s.factorsOf(t, "u-grace")["totp"]
	for _, path := range []string{"/oauth/users/u-ada/factors/" + hers, "/oauth/users/u-ada/factors/unknown", "/oauth/users/u-max/factors", "/oauth/users/nobody/factors"} {
		s.must(http.StatusNotFound, "DELETE", path, "")
	}
	s.must(http.StatusNotFound, "GET", "/oauth/users/nobody/factors", "")
	for _, args := range [][]string{{"u-ada"}, {"u-ada", hers, "--all"}, {"u-ada", hers}, {"u-max", "--all"}} {
		if _, err := s.run("", append([]string{"user", "factors", "remove"}, args...)...); err == nil {
			t.Errorf("%q succeeds", args)
		}
	}
	s.holdFactors(t, "u-ada", true)
	s.holdFactors(t, "u-grace", true)
	s.ok("user", "factors", "remove", "grace@acme.example", hers)
	s.must(http.StatusNoContent, "DELETE", "/oauth/users/u-ada/factors", "")
	s.holdFactors(t, "u-ada", false)
	s.holdFactors(t, "u-grace", false)
	asksFor(t, s.browser().firstFactor("ada@acme.example"), "account")
	if !b.isSignedIn() {
		t.Error("the session has ended")
	}
}

// TestW33FactorsAreAuditedWithoutSecrets: each step with a factor → one audit line with the user; neither a secret nor a code, whether right
// or wrong, is in the log at level debug, in the configuration, in metrics or in the database.
func TestW33FactorsAreAuditedWithoutSecrets(t *testing.T) {
	s := startFactors(t, "second_factor required role admin", "store memory", "store sqlite DIR/state/oauth.db")
	s.awaitServing()
	d := &door{gatehouse: s.gatehouse}
	b := s.browser()
	var ada phone
	var p page
	typed := []string{"BADC-ODEB-ADCO-DEAA"}
	send := func(code string) {
		t.Helper()
		typed = append(typed, code)
		p = b.types(p, code)
	}
	p = b.firstFactor("ada@acme.example")
	ada.secret = shownSecret(t, p)
	for _, step := range []struct {
		name string
		do   func()
		want []map[string]any
	}{
		{"a wrong code of a new phone", func() { send(ada.wrongCode(t)) },
			[]map[string]any{{"msg": "second factor refused", "reason": "factor_wrong", "subject": "u-ada"}}},
		{"a new phone", func() { send(ada.shows(t)); ada.recovery = shownCodes(t, p) },
			[]map[string]any{{"msg": "factor added", "kind": "totp", "subject": "u-ada"}, {"msg": "signed in", "subject": "u-ada"}}},
		{"the next password", func() { b = s.browser(); p = b.firstFactor("ada@acme.example") }, nil},
		{"a wrong code", func() { send(typed[0]) }, []map[string]any{{"msg": "second factor refused", "reason": "factor_wrong", "subject": "u-ada"}}},
		{"a used code", func() { send(ada.shows(t)) }, []map[string]any{{"msg": "second factor refused", "subject": "u-ada"}}},
		{"a recovery code", func() { send(ada.recovery[3]) },
			[]map[string]any{{"msg": "recovery code used", "subject": "u-ada"}, {"msg": "signed in", "subject": "u-ada"}}},
		{"new recovery codes", func() { ada.recovery = append(ada.recovery, shownCodes(t, b.change("factor", "codes"))...) },
			[]map[string]any{{"msg": "recovery codes replaced", "subject": "u-ada"}}},
		{"the removal of the codes", func() { b.change("factor", s.factorsOf(t, "u-ada")["recovery_codes"]) },
			[]map[string]any{{"msg": "factor removed", "subject": "u-ada"}}},
		{"an unknown factor", func() { b.change("factor", typed[0]) }, nil},
		{"the removal by an operator", func() { s.ok("user", "factors", "remove", "u-ada", "--all") },
			[]map[string]any{{"msg": "factor removed", "subject": "u-ada"}}},
	} {
		d.decisions(t)
		step.do()
		lines := d.decisions(t)
		if len(lines) != len(step.want) {
			t.Errorf("%s: %d lines, want %d: %v", step.name, len(lines), len(step.want), lines)
			continue
		}
		for i, want := range step.want {
			for member, value := range want {
				if lines[i][member] != value {
					t.Errorf("%s: %s is %v, want %v, in %v", step.name, member, lines[i][member], value, lines[i])
				}
			}
		}
	}
	_, _, config := s.operate("GET", "/config/", "")
	if logs := s.logs(); !strings.Contains(logs, `"level":"debug"`) || !strings.Contains(logs, "recovery code used") {
		t.Fatal("the log is not the whole log")
	}
	database, err := os.ReadFile(s.database())
	check(t, err)
	ahead, err := os.ReadFile(s.database() + "-wal")
	check(t, err)
	if !strings.Contains(string(database)+string(ahead), "recovery_codes") {
		t.Fatal("the database is elsewhere")
	}
	for place, text := range map[string]string{
		"the log": s.logs(), "the database": string(database) + string(ahead), "the configuration": config, "metrics": s.scrape(), "the answers": s.must(http.StatusOK, "GET", "/oauth/users/u-ada/factors", ""),
	} {
		ada.holdNotIn(t, place, text)
		for _, code := range typed {
			if len(code) > 6 && strings.Contains(text, code) || strings.Contains(text, `"`+code+`"`) || strings.Contains(text, "code="+code) {
				t.Errorf("%s holds the code %s", place, code)
			}
		}
	}
}
