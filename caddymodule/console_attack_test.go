package caddymodule

import (
	"bufio"
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
)

// consolePage is a page of the console, as its source lists it.
type consolePage struct {
	path string
	// inOrganisation: operators of one organisation see it. changes: it has a form.
	inOrganisation, changes bool
}

// consolePages returns all pages of the console, and the names of all changes that are asked about.
func consolePages(t *testing.T) (pages []consolePage, actions []string) {
	t.Helper()
	files, err := filepath.Glob("console/*.go")
	check(t, err)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		check(t, err)
		ast.Inspect(parsed, func(n ast.Node) bool {
			table, is := n.(*ast.CompositeLit)
			if !is {
				return true
			}
			of, is := table.Type.(*ast.MapType)
			if !is {
				return true
			}
			kind, _ := of.Value.(*ast.Ident)
			for _, element := range table.Elts {
				entry := element.(*ast.KeyValueExpr)
				name := "/again" // a constant
				if key, is := entry.Key.(*ast.BasicLit); is {
					name, _ = strconv.Unquote(key.Value)
				}
				switch {
				case kind == nil:
				case kind.Name == "action":
					actions = append(actions, name)
				case kind.Name == "route":
					p := consolePage{path: name}
					for _, member := range entry.Value.(*ast.CompositeLit).Elts {
						switch member.(*ast.KeyValueExpr).Key.(*ast.Ident).Name {
						case "inOrganisation":
							p.inOrganisation = true
						case "form":
							p.changes = true
						}
					}
					pages = append(pages, p)
				}
			}
			return true
		})
	}
	if len(pages) < 12 || len(actions) < 12 {
		t.Fatalf("only %d pages and %d actions", len(pages), len(actions))
	}
	return pages, actions
}

// targets returns the addresses of a page about a user: one for each action, where the page has actions.
func (p consolePage) targets(actions []string, about url.Values) (list []string) {
	if !strings.HasSuffix(p.path, "/act") {
		return []string{"/oauth/admin" + p.path + "?" + about.Encode()}
	}
	for _, do := range actions {
		query := maps.Clone(about)
		query.Set("do", do)
		list = append(list, "/oauth/admin"+p.path+"?"+query.Encode())
	}
	return list
}

// everyField is a form that changes whatever it can.
var everyField = url.Values{
	"name": {"Changed"}, "email": {"changed@acme.example"}, "user": {"changed@acme.example"}, "role": {"operator"}, "organisation": {"other"}, "groups": {"admins"},
	"id": {"changed"}, "group": {"admins"}, "users": {"u-ada\nu-ben"}, "change": {"add"}, "email_verified": {"yes"}, "preferred_username": {"changed"}, "identities": {"keep"},
	"status": {"disabled"}, "service": {"yes"}, "password": {"a password of hers"}, "mail": {"yes"}, "kind": {"web"}, "redirect_uris": {"https://evil.example/cb"}, "scopes": {"trusted"},
}

var sentByPage = []string{"Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}

// snapshot returns what operators can change.
func (s *consoleScene) snapshot() string {
	s.t.Helper()
	var b strings.Builder
	for _, path := range []string{"/oauth/users", "/oauth/organisations", "/oauth/clients", "/oauth/keys", "/oauth/sessions?user=u-ada", "/oauth/sessions?user=u-ben", "/oauth/users/u-ben/factors"} {
		b.WriteString(s.must(http.StatusOK, http.MethodGet, path, "") + "\n")
	}
	return b.String()
}

// tries asks for every page of the console, about a user, with a form where it takes one. Each answer is given to hold.
func (s *consoleScene) tries(t *testing.T, about url.Values, send func(method, target, body string, headers ...string) answer, hold func(p consolePage, method, target string, a answer)) {
	t.Helper()
	pages, actions := consolePages(t)
	for _, p := range pages {
		for _, target := range p.targets(actions, about) {
			hold(p, http.MethodGet, target, send(http.MethodGet, s.at("admin", target), "", navigation...))
			hold(p, http.MethodPost, target, send(http.MethodPost, s.at("admin", target), everyField.Encode(), sentByPage...))
		}
	}
}

// leaks returns a name in an answer that only operators may see, or "".
func leaks(a answer, names ...string) string {
	for _, name := range append(names, `class="places"`) {
		if strings.Contains(a.body, name) {
			return name
		}
	}
	return ""
}

// TestO65NobodyElseOpensThePagesOfTheConsole: every page and every change of the console, asked for by nobody, a member, an operator without her
// second factor, one whose role was taken or who was disabled a moment ago, and with an operator's bearer token or personal access token →
// no content, and nothing changes.
func TestO65NobodyElseOpensThePagesOfTheConsole(t *testing.T) {
	s := startConsole(t, "\t\torganisation acme", "\t\tpersonal_tokens {\n\t\t\tscopes public\n\t\t\troles operator\n\t\t}\n\t\torganisation acme")
	for _, name := range []string{"otto", "dora", "gone"} {
		s.ok("user", "add", "--id", "u-"+name, "--email", name+"@acme.example", "--role", "operator", "--password-hash", peopleHash())
	}
	s.signedIn(t, "ben@other.example")
	member, once, was, disabled, removed := s.visitor(t), s.visitor(t), s.operator(t, "otto@acme.example"), s.operator(t, "dora@acme.example"), s.operator(t, "gone@acme.example")
	if a, _ := member.walk(s.at("admin", "/oauth/admin"), "ben@other.example"); a.status == http.StatusOK && leaks(a) != "" {
		t.Fatalf("a member is in: %s", a.body)
	}
	once.walk(s.at("admin", "/oauth/admin"), "olga@acme.example")
	s.ok("user", "update", "u-otto", "--role", "member")
	s.ok("user", "disable", "u-dora")
	s.ok("user", "remove", "u-gone")
	user := s.userNamed(t, "olga@acme.example")
	bearer := s.issue(issuer.Grant{User: user, Scopes: []string{"public"}})
	pat := printed(t, s.ok("pat", "add", "--user", "u-olga", "--name", "x", "--scope", "public"), "token")
	with := func(token string) func(string, string, string, ...string) answer {
		v := s.visitor(t)
		return func(method, target, body string, headers ...string) answer {
			return v.send(method, target, body, append([]string{"Authorization", "Bearer " + token}, headers...)...)
		}
	}
	before := s.snapshot()
	for _, test := range []struct {
		name string
		send func(method, target, body string, headers ...string) answer
	}{
		{"nobody", s.visitor(t).send}, {"a member", member.send}, {"an operator with a password only", once.send}, {"role taken", was.send},
		{"disabled", disabled.send}, {"removed", removed.send}, {"bearer token", with(bearer)}, {"personal access token", with(pat)},
		{"no token", with("x")},
	} {
		t.Run(test.name, func(t *testing.T) {
			s.tries(t, url.Values{"id": {"u-ada"}, "user": {"u-ada"}, "search": {"a"}, "to": {"/oauth/admin/people"}}, test.send, func(_ consolePage, method, target string, a answer) {
				location := a.header.Get("Location")
				if a.status < 300 || a.status >= 500 || strings.HasPrefix(location, "/oauth/admin") || method == http.MethodPost && a.status < 400 {
					t.Errorf("%s %s: %d %s", method, target, a.status, location)
				}
				if name := leaks(a, "ada@acme.example", "Other Inc", "olga@acme.example"); name != "" && (name != "olga@acme.example" || test.name != "an operator with a password only") {
					t.Errorf("%s %s tells of %s", method, target, name)
				}
			})
			if now := s.snapshot(); now != before {
				t.Errorf("changed:\n%s\nwas\n%s", now, before)
			}
		})
	}
}

// TestO66O71AnOrganisationsOperatorReachesNobodyElse: every page and every change of the console, by an operator of one organisation, about a
// person of another by id, by address and by session, and with form fields that no page offers → no word of that person, and nothing
// changes; about a service account and a person without a role (O71), in her organisation → neither changed nor recovered.
func TestO66O71AnOrganisationsOperatorReachesNobodyElse(t *testing.T) {
	t.Setenv("GATEHOUSE_TEST_SMTP_PASSWORD", mailtest.Password)
	s := startConsole(t, "store memory", "store memory\n\t\t"+mailLines(mailtest.Start(t, mailtest.Options{})))
	s.signedIn(t, "ben@other.example")
	s.ok("user", "add", "--id", "u-boss", "--email", "boss@acme.example", "--name", "Boss", "--org", "acme", "--role", "operator", "--password-hash", peopleHash())
	session := member(t, strings.TrimSuffix(strings.TrimPrefix(s.must(http.StatusOK, http.MethodGet, "/oauth/sessions?user=u-ben&limit=1", ""), "["), "]"), "id")
	v := s.operator(t, "owen@acme.example")
	before := s.snapshot()
	for _, about := range []url.Values{
		{"id": {"u-ben"}, "user": {"u-ben"}, "session": {session}, "organisation": {"other"}, "search": {"b"}, "client": {"gatehouse"}, "factor": {"f"}, "token": {"t"}},
		{"id": {"ben@other.example"}, "user": {"BEN@other.example"}, "session": {session}, "group": {"engineering"}, "search": {"ben@other"}, "host": {"app.localhost"}},
		{"id": {"u-olga"}, "user": {"u-olga"}, "search": {"olga"}, "role": {"operator"}},
		{"id": {"gatehouse"}, "client": {"gatehouse"}, "provider": {"x"}, "kid": {"x"}, "event": {"user added"}},
	} {
		s.tries(t, about, v.send, func(p consolePage, method, target string, a answer) {
			if name := leaks(answer{body: strings.NewReplacer(`class="places"`, "").Replace(a.body)}, "ben@other.example\"", "Ben", "olga@acme", "Olga", "Other Inc"); name != "" {
				t.Errorf("%s %s tells of %s: %.600s", method, target, name, a.body)
			}
			if !p.inOrganisation && a.status != http.StatusNotFound {
				t.Errorf("%s %s: %d", method, target, a.status)
			}
			if a.status >= 500 {
				t.Errorf("%s %s: %d", method, target, a.status)
			}
		})
		if now := s.snapshot(); now != before {
			t.Fatalf("changed by %v:\n%s\nwas\n%s", about, now, before)
		}
	}
	// What she may change, with more than the page offers.
	edit := s.at("admin", "/oauth/admin/people/edit?id=u-ada")
	_, fields := s.filled(t, v.navigate(edit))
	for name, values := range map[string]url.Values{
		"another's role": {"role": {"owner"}}, "the operator's role": {"role": {"operator"}}, "an unknown role": {"role": {"x"}},
	} {
		form := maps.Clone(fields)
		maps.Copy(form, values)
		if a := v.send(http.MethodPost, edit, form.Encode(), sentByPage...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	form := maps.Clone(fields)
	maps.Copy(form, url.Values{"organisation": {"other"}, "groups": {"admins"}, "email_verified": {"yes"}, "status": {"disabled"}, "preferred_username": {"root"}, "name": {"Ada L"}})
	if a := v.send(http.MethodPost, edit, form.Encode(), sentByPage...); a.status != http.StatusSeeOther {
		t.Errorf("fields that were not offered: %d %s", a.status, a.body)
	}
	ada := s.must(http.StatusOK, http.MethodGet, "/oauth/users/u-ada", "")
	for _, want := range []string{`"name":"Ada L"`, `"organisation":"acme"`, `"engineering"`} {
		if !strings.Contains(ada, want) {
			t.Errorf("%s is not in %s", want, ada)
		}
	}
	if strings.Contains(ada, "root") || strings.Contains(ada, "admins") || strings.Contains(ada, `"email_verified":true`) {
		t.Errorf("fields that were not offered: %s", ada)
	}
	for _, id := range []string{"u-boss", "boss@acme.example", "u-owen", "OWEN@acme.example"} { // of her organisation, with a role above hers, and herself
		for _, do := range []string{"disable", "lock", "remove", "recover", "remove_factors"} {
			if a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/act?do="+do+"&id="+url.QueryEscape(id)), "", sentByPage...); a.status != http.StatusForbidden && a.status != http.StatusConflict {
				t.Errorf("%s %s: %d", do, id, a.status)
			}
		}
	}
	s.ok("service-account", "add", "--id", "backup", "--org", "acme", "--role", "member")
	s.ok("user", "add", "--id", "u-none", "--email", "none@acme.example", "--org", "acme", "--role", "member", "--password-hash", peopleHash())
	s.must(http.StatusOK, http.MethodPatch, "/oauth/users/u-none", `{"role":""}`)
	before = s.snapshot()
	for _, id := range []string{"backup", "u-none"} { // whom no role manages
		for _, do := range []string{"disable", "remove", "recover", "end_sessions"} {
			if a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/act?do="+do+"&id="+id), "", sentByPage...); a.status != http.StatusForbidden {
				t.Errorf("%s %s: %d", do, id, a.status)
			}
		}
	}
	if now := s.snapshot(); now != before {
		t.Errorf("changed:\n%s\nwas\n%s", now, before)
	}
	for name, form := range map[string]url.Values{
		"somebody of another organisation": {"email": {"ben@other.example"}, "role": {"member"}},
		"somebody with a role above hers":  {"email": {"new@acme.example"}, "role": {"operator"}},
		"somebody of another, by id":       {"email": {"u-ben"}, "role": {"member"}},
	} {
		before := s.must(http.StatusOK, http.MethodGet, "/oauth/users", "")
		a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/new"), form.Encode(), sentByPage...)
		if a.status < 400 || a.status >= 500 || strings.Contains(a.body, "/oauth/link") || s.must(http.StatusOK, http.MethodGet, "/oauth/users", "") != before {
			t.Errorf("inviting %s: %d %.800s", name, a.status, a.body)
		}
	}
	if a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/new"), url.Values{"email": {"new@acme.example"}, "role": {"member"}, "organisation": {"other"}, "groups": {"admins"}}.Encode(), sentByPage...); a.status != http.StatusOK {
		t.Fatalf("inviting: %d %.1500s", a.status, a.body)
	}
	// An address decides at gates and providers. The form is sent as its page has it, with one field more.
	action, fields := s.filled(t, v.navigate(s.at("admin", "/oauth/admin/people/edit?id=u-ada")))
	fields.Set("email", "ada@corp.example")
	v.send(http.MethodPost, s.at("admin", action), fields.Encode(), sentByPage...)
	if ada := s.must(http.StatusOK, http.MethodGet, "/oauth/users/u-ada", ""); !strings.Contains(ada, `"ada@acme.example"`) {
		t.Errorf("her address is another one: %s", ada)
	}
	if a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/act?do=recover&id=u-ada"), "", sentByPage...); a.status != http.StatusOK || strings.Contains(a.body, "pending=") {
		t.Errorf("recovery: %d, and the link is for the person alone: %.1500s", a.status, a.body)
	}
	invited := s.must(http.StatusOK, http.MethodGet, "/oauth/users/new@acme.example", "")
	if !strings.Contains(invited, `"organisation":"acme"`) || strings.Contains(invited, "admins") {
		t.Errorf("invited %s", invited)
	}
}

// filled returns the form of a page that changes something, with what it has filled in.
func (s *consoleScene) filled(t *testing.T, a answer) (action string, fields url.Values) {
	t.Helper()
	fields = make(url.Values)
	found, chosen := false, ""
	for n := range nodes(t, page(a)) {
		attributes := attributesOf(n)
		switch n.Data {
		case "form":
			if found = attributes["method"] == "post"; found {
				action = attributes["action"]
			}
		case "input", "textarea", "select":
			_, checked := attributes["checked"]
			if !found || attributes["type"] == "checkbox" && !checked {
				continue
			}
			chosen = attributes["name"]
			fields.Set(chosen, attributes["value"])
			if n.Data == "textarea" && n.FirstChild != nil {
				fields.Set(chosen, strings.TrimPrefix(n.FirstChild.Data, "\n"))
			}
		case "option":
			if _, is := attributes["selected"]; is && found {
				fields.Set(chosen, attributes["value"])
			}
		}
	}
	if action == "" {
		t.Fatalf("no form in %d %s", a.status, a.body)
	}
	return action, fields
}

// TestO67FormsComeFromThePagesOfTheConsole: a form of another origin, of a neighbour of the same site, without Origin, by a script, in a frame
// or of another media type, with the cookies of an operator who has just signed in → refused, and nothing changes; pages that cannot be
// framed, read or kept, whether they show something or refuse.
func TestO67FormsComeFromThePagesOfTheConsole(t *testing.T) {
	s := startConsole(t)
	v := s.operator(t, "olga@acme.example")
	target := s.at("admin", "/oauth/admin/people/act?do=disable&id=u-ben")
	before := s.snapshot()
	for name, headers := range map[string][]string{
		"nothing":                   {},
		"another origin":            {"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"},
		"another origin only":       {"Origin", "https://evil.example"},
		"a contradiction":           {"Origin", "https://evil.example", "Sec-Fetch-Site", "same-origin"},
		"two origins":               {"Origin", s.origin("admin"), "Origin", "https://evil.example"},
		"a neighbour":               {"Origin", s.origin("wiki"), "Sec-Fetch-Site", "same-site"},
		"the issuer":                {"Origin", s.origin("auth"), "Sec-Fetch-Site", "same-site"},
		"a sandbox":                 {"Origin", "null", "Sec-Fetch-Site", "cross-site"},
		"the address bar":           {"Sec-Fetch-Site", "none"},
		"a script of the origin":    {"Origin", s.origin("admin"), "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"},
		"a beacon of the origin":    {"Origin", s.origin("admin"), "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty"},
		"a frame of the origin":     {"Origin", s.origin("admin"), "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"},
		"JSON":                      append([]string{"Content-Type", "application/json"}, sentByPage[2:]...),
		"plain text":                append([]string{"Content-Type", "text/plain"}, sentByPage[2:]...),
		"early data, not yet known": append([]string{"Early-Data", "1"}, sentByPage...),
	} {
		if !slices.Contains(headers, "Content-Type") {
			headers = append([]string{"Content-Type", urlEncoded}, headers...)
		}
		if a := v.send(http.MethodPost, target, "x=y", headers...); a.status < 400 || a.status >= 500 {
			t.Errorf("%s: %d", name, a.status)
		}
	}
	for name, headers := range map[string][]string{
		"script": {"Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "same-origin"},
		"frame":  {"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe", "Sec-Fetch-Site", "same-origin"},
		"image":  {"Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "cross-site"},
	} {
		if a := v.send(http.MethodGet, s.at("admin", "/oauth/admin/people"), "", headers...); a.status < 400 || leaks(a, "ben@other.example") != "" {
			t.Errorf("read by a %s: %d", name, a.status)
		}
	}
	for _, method := range []string{http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions, "TRACE", "BREW"} {
		if a := v.send(method, target, "", sentByPage[2:]...); a.status < 400 || a.status >= 600 || a.header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %d", method, a.status)
		}
	}
	if now := s.snapshot(); now != before {
		t.Fatalf("changed:\n%s\nwas\n%s", now, before)
	}
	member := s.visitor(t)
	member.walk(s.at("admin", "/oauth/admin"), "ben@other.example")
	for path, want := range map[string]int{"": 200, "/people?search=b": 200, "/people/person?id=u-ben": 200, "/people/person?id=nobody": 404, "/nothing": 404, "/people/act?do=disable&id=u-ben": 200} {
		a := v.navigate(s.at("admin", "/oauth/admin"+path))
		if a.status != want {
			t.Errorf("%s: %d", path, a.status)
		}
		for name, want := range map[string]string{"Cross-Origin-Opener-Policy": "same-origin", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", "Referrer-Policy": "no-referrer"} {
			if got := a.header.Get(name); got != want {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		policy := a.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "frame-ancestors 'none'", "form-action 'self'", "base-uri 'none'"} {
			if !strings.Contains(policy, part) {
				t.Errorf("%s: the policy %q lacks %s", path, policy, part)
			}
		}
		if strings.Contains(policy, "script-src") || strings.Contains(a.body, "<script") {
			t.Errorf("%s has a script", path)
		}
	}
	if a := v.send(http.MethodPost, target, "", sentByPage...); a.status != http.StatusSeeOther || s.snapshot() == before {
		t.Errorf("her own form: %d %s", a.status, a.body)
	}
}

// TestO68NoChangeIsLost: two operators edit one user → the second is shown what the first has saved beside what she typed, and saves both;
// the operator edits, disables or removes herself → refused; ids that are no ids → not found, and nothing of them is markup; a form that was
// sent with an old sign-in → what was typed is kept, and counts after another sign-in.
func TestO68NoChangeIsLost(t *testing.T) {
	s := startConsole(t)
	v := s.operator(t, "olga@acme.example")
	edit := s.at("admin", "/oauth/admin/people/edit?id=u-ada")
	shownFirst := v.navigate(edit)
	if !strings.Contains(shownFirst.body, "signs the person out everywhere") {
		t.Error("the form does not say what ends sessions")
	}
	_, first := s.filled(t, shownFirst)
	second := maps.Clone(first)
	first.Set("name", "Ada First")
	if a := v.send(http.MethodPost, edit, first.Encode(), sentByPage...); a.status != http.StatusSeeOther {
		t.Fatalf("the first: %d %s", a.status, a.body)
	}
	second.Set("name", "Ada Second")
	second.Set("given_name", "Augusta")
	a := v.send(http.MethodPost, edit, second.Encode(), sentByPage...)
	_, shown := s.filled(t, a)
	if a.status != http.StatusConflict || !strings.Contains(a.body, "Ada First") || shown.Get("name") != "Ada Second" || shown.Get("given_name") != "Augusta" {
		t.Fatalf("the second: %d %v %s", a.status, shown, a.body)
	}
	if a := v.send(http.MethodPost, edit, shown.Encode(), sentByPage...); a.status != http.StatusSeeOther {
		t.Fatalf("the second again: %d %s", a.status, a.body)
	}
	if ada := s.must(http.StatusOK, http.MethodGet, "/oauth/users/u-ada", ""); !strings.Contains(ada, `"Ada Second"`) || !strings.Contains(ada, `"Augusta"`) {
		t.Errorf("saved: %s", ada)
	}

	before := s.snapshot()
	for _, id := range []string{"u-olga", "olga@acme.example", "OLGA@ACME.example", " olga@acme.example "} {
		for _, do := range []string{"disable", "lock", "remove", "recover", "remove_factors"} {
			if a := v.send(http.MethodPost, s.at("admin", "/oauth/admin/people/act?do="+do+"&id="+url.QueryEscape(id)), "", sentByPage...); a.status < 400 || a.status >= 500 {
				t.Errorf("%s %s: %d", do, id, a.status)
			}
		}
	}
	pages, actions := consolePages(t)
	asked := make(map[string]bool) // a page that is about nothing has one address
	for _, id := range []string{"../u-ada", "..", ".", "%2e%2e", "u-ada/../u-ben", "u-ada\x00", "\x00", strings.Repeat("a", 255), strings.Repeat("é", 20000), "\u202eada-u", "<script>alert(1)</script>", "\"><img src=x onerror=alert(1)>", "' OR 1=1 --", "\xff\xfe", "u-ada?x=y", "u-ada#x", "a\r\nSet-Cookie: x=y", "{id}", "*"} {
		about := url.Values{"id": {id}, "user": {id}, "session": {id}, "search": {id}, "group": {id}, "after": {id}, "client": {id}, "organisation": {id}, "factor": {id}, "token": {id}}
		for _, p := range pages {
			for i, target := range p.targets(actions, about) {
				if i > 0 { // the same code answers all actions
					break
				}
				if asked[target] {
					continue
				}
				asked[target] = true
				a := v.navigate(s.at("admin", target))
				if a.status >= 500 || strings.Contains(a.body, "<script>") || strings.Contains(a.body, "<img src=x") || a.header.Get("Set-Cookie") != "" {
					t.Errorf("%s about %.40q: %d %.300s", p.path, id, a.status, a.body)
				}
				if p.changes && strings.HasSuffix(p.path, "/act") {
					if a := v.send(http.MethodPost, s.at("admin", target), "", sentByPage...); a.status >= 500 {
						t.Errorf("change at %s about %.40q: %d", p.path, id, a.status)
					}
				}
			}
		}
	}
	if now := s.snapshot(); now != before {
		t.Errorf("changed:\n%s\nwas\n%s", now, before)
	}
	for line := range strings.Lines(s.logs()) {
		if strings.Contains(line, `"level":"error"`) {
			t.Errorf("an operator's mistake is an error: %s", line)
			break
		}
	}

	_, form := s.filled(t, v.navigate(edit))
	(&factorScene{s.gatehouse, s.clock}).wait(16 * time.Minute)
	form.Set("name", "Ada Typed")
	old := s.snapshot()
	a = v.send(http.MethodPost, edit, form.Encode(), sentByPage...)
	_, kept := s.filled(t, a)
	if a.status != http.StatusForbidden || kept.Get("name") != "Ada Typed" || !strings.Contains(a.body, `target="_blank"`) || s.snapshot() != old {
		t.Fatalf("an old sign-in: %d %s", a.status, a.body)
	}
	again := s.at("admin", "/oauth/admin/again?to=%2Foauth%2Fadmin%2Fpeople")
	p, at := v.walk(again, "olga@acme.example")
	if phone, is := s.phones["olga@acme.example"]; is && strings.Contains(p.body, `name="code"`) {
		p, at = v.sends(p, "code", (&factorScene{s.gatehouse, s.clock}).code(phone))
	}
	if p.status != http.StatusOK || at != s.at("admin", "/oauth/admin/people") {
		t.Fatalf("signing in again: %d at %s: %.800s", p.status, at, p.body)
	}
	if a := v.send(http.MethodPost, edit, kept.Encode(), sentByPage...); a.status != http.StatusSeeOther || cmp.Or(a.header.Get("Location"), "") == "" {
		t.Fatalf("sent again: %d %s", a.status, a.body)
	}
	if ada := s.must(http.StatusOK, http.MethodGet, "/oauth/users/u-ada", ""); !strings.Contains(ada, `"Ada Typed"`) {
		t.Errorf("saved: %s", ada)
	}
}

// TestO70AConfirmationNamesWhatItEnds: an address that names one person and the session or token of another, or a client and some words for it →
// no such page, or the name of what would end.
func TestO70AConfirmationNamesWhatItEnds(t *testing.T) {
	s := startConsole(t, "\t\torganisation acme", "\t\tpersonal_tokens {\n\t\t\tscopes public\n\t\t\troles member\n\t\t}\n\t\torganisation acme")
	s.signedIn(t, "ben@other.example")
	session := member(t, strings.TrimSuffix(strings.TrimPrefix(s.must(http.StatusOK, http.MethodGet, "/oauth/sessions?user=u-ben&limit=1", ""), "["), "]"), "id")
	token := member(t, s.ok("pat", "add", "--user", "u-ben", "--name", "x", "--scope", "public", "--json"), "id")
	s.ok("client", "add", "--id", "house", "--name", "House")
	v := s.operator(t, "olga@acme.example")
	for _, thing := range []string{"do=end_session&session=" + session, "do=remove_token&token=" + token} {
		for id, want := range map[string]int{"u-ada": http.StatusNotFound, "u-ben": http.StatusOK} {
			if a := v.navigate(s.at("admin", "/oauth/admin/people/act?"+thing+"&id="+id)); a.status != want {
				t.Errorf("%s of %s: %d", thing, id, a.status)
			}
		}
	}
	if a := v.navigate(s.at("admin", "/oauth/admin/sessions/act?do=end_client_sessions&client=house&user=Old+test")); !strings.Contains(a.body, "House (house)") || strings.Contains(a.body, "Old test") {
		t.Errorf("%d %.1500s", a.status, a.body)
	}
}

// TestO75AReloadMakesNoSecretAnew: the form that has shown the secret of a new client, another secret of it or a link to recover a person is sent
// again, as by a reload → it is refused, there is one client, and what was shown stays good.
func TestO75AReloadMakesNoSecretAnew(t *testing.T) {
	s := startConsole(t, applicationsConsole...)
	v := s.operator(t, "olga@acme.example")
	reloaded := func(path string, values ...string) answer {
		t.Helper()
		(&factorScene{s.gatehouse, s.clock}).wait(time.Second)
		_, form := s.filled(t, v.navigate(s.at("admin", "/oauth/admin"+path)))
		for i := 0; i < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		first := s.change(v, path, form)
		(&factorScene{s.gatehouse, s.clock}).wait(time.Second)
		if again := s.change(v, path, form); again.status != http.StatusConflict || strings.Contains(again.body, `id="copied-`) || !strings.Contains(again.body, `class="notice error"`) {
			t.Errorf("%s, sent again: %d %s", path, again.status, again.body)
		}
		return first
	}
	p := reloaded("/applications/add?kind=service", "name", "Nightly")
	secret, found := copiedText(t, p, "Secret"), s.must(http.StatusOK, http.MethodGet, "/oauth/clients?search=Nightly", "")
	if strings.Count(found, `"id":`) != 1 {
		t.Fatalf("registered: %s", found)
	}
	id := member(t, strings.Trim(found, "[]"), "id")
	holdSecret := func(secret string) {
		t.Helper()
		if a := s.tokenAt(v, url.Values{"grant_type": {"client_credentials"}, "client_id": {id}, "client_secret": {secret}}); a.status != http.StatusOK {
			t.Errorf("the secret that was shown: %d %s", a.status, a.body)
		}
	}
	holdSecret(secret)
	for _, overlap := range []string{"0s", "24h"} {
		holdSecret(copiedText(t, reloaded("/applications/act?do=rotate_secret&id="+id, "overlap", overlap), "Secret"))
	}
	recovery := copiedText(t, reloaded("/people/act?do=recover&id=u-ada"), "Link")
	if a, _ := s.visitor(t).walk(recovery, ""); a.status != http.StatusOK || !strings.Contains(a.body, `type="password"`) {
		t.Errorf("the link that was shown: %d %.1500s", a.status, a.body)
	}
}

// TestO66PeopleOfOtherIssuersAreNoColleagues: a refused token of a trusted issuer that names a person by the id of a member of the organisation → her
// operator finds the event neither under the member nor by its id; an operator of everything finds it, and not under the member.
func TestO66PeopleOfOtherIssuersAreNoColleagues(t *testing.T) {
	p := startProvider(t)
	s := startConsole(t, "\tadmin ADMIN\n", "\tadmin ADMIN\n\tstorage file_system DIR/storage\n", "ROUTES", gated("/corp/*", "issuer self corp", "require group writers"),
		"store memory", "store memory\n\t\ttrust corp "+p.url+" {\n\t\t\taudience http://auth.localhost:TCPPORT\n\t\t\tallow_private_network\n\t\t}")
	f := *p.signer()
	f.audience = s.origin("auth")
	shown := f.user("u-ada", "acme", "member")
	eventually(t, "the gate knows the issuer's keys", func() bool {
		status, _, _ := s.raw("GET /corp/secret-plans HTTP/1.1\nHost: " + strings.TrimPrefix(s.origin("app"), "http://") + "\n" + bearer(shown) + "\n\n")
		return status == http.StatusForbidden
	})
	olga, owen := s.operator(t, "olga@acme.example"), s.operator(t, "owen@acme.example")
	why := linkIn(t, s.eventuallyOn(olga, "/audit?reason=group_missing", "/corp/secret-plans"), "/oauth/admin/gate/why")
	s.opens(olga, http.StatusOK, why)
	s.opens(owen, http.StatusNotFound, why)
	for _, v := range []*visitorOfHosts{olga, owen} {
		for _, path := range []string{"/audit?user=u-ada", "/audit?user=ada%40acme.example&reason=group_missing", "/audit/export?user=u-ada", "/gate/refusals?user=u-ada"} {
			if body := s.opens(v, http.StatusOK, path); strings.Contains(body, "secret-plans") {
				t.Errorf("%s: %.3000s", path, body)
			}
		}
	}
}

// TestO72RightsEndWhileAFormArrives: an operator who is demoted, disabled or signed out after the head of her form and before its body → the
// change is not made.
func TestO72RightsEndWhileAFormArrives(t *testing.T) {
	s := startConsole(t)
	for name, ends := range map[string][]string{
		"demoted": {"user", "update", "u-demoted", "--role", "member"}, "disabled": {"user", "disable", "u-disabled"}, "out": {"session", "end", "--user", "u-out"},
		"kept": nil,
	} {
		s.ok("user", "add", "--id", "u-"+name, "--email", name+"@acme.example", "--role", "operator", "--password-hash", peopleHash())
		v := s.operator(t, name+"@acme.example")
		connection, err := net.Dial("tcp", s.addr)
		check(t, err)
		defer func() { _ = connection.Close() }()
		check(t, connection.SetDeadline(time.Now().Add(patience)))
		const body = "x=1"
		_, err = fmt.Fprintf(connection, "POST /oauth/admin/people/act?do=disable&id=u-ada HTTP/1.1\r\nHost: %s\r\nCookie: %s=%s\r\nOrigin: %s\r\nSec-Fetch-Site: same-origin\r\n"+
			"Content-Type: %s\r\nContent-Length: %d\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n",
			strings.TrimPrefix(s.origin("admin"), "http://"), hostCookie, v.cookie("admin", hostCookie), s.origin("admin"), urlEncoded, len(body))
		check(t, err)
		reader := bufio.NewReader(connection)
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "100") { // the handler waits for the body
			t.Fatalf("%s: %q %v", name, line, err)
		}
		if ends != nil {
			s.ok(ends...)
		}
		_, err = io.WriteString(connection, body)
		check(t, err)
		_, err = reader.ReadString('\n')
		check(t, err)
		status, err := reader.ReadString('\n')
		check(t, err)
		changed := strings.Contains(s.must(http.StatusOK, http.MethodGet, "/oauth/users/u-ada", ""), "disabled")
		if changed != (ends == nil) || strings.Contains(status, " 303 ") != changed {
			t.Errorf("%s: %q, changed %v", name, status, changed)
		}
		if changed {
			s.ok("user", "enable", "u-ada")
		}
	}
}

// TestO73TheAccessLogNamesNobody: a search for a person without a session, with an ended one, and by an operator → no line of the access log has
// the query.
func TestO73TheAccessLogNamesNobody(t *testing.T) {
	s := startConsole(t)
	v, target := s.operator(t, "olga@acme.example"), s.at("admin", "/oauth/admin/people?search=haystack")
	s.visitor(t).send(http.MethodGet, target, "")
	s.visitor(t).navigate(target)
	v.navigate(target)
	s.ok("session", "end", "--user", "u-olga")
	v.navigate(target)
	v.send(http.MethodPost, target, "search=haystack", sentByPage...)
	v.navigate(s.at("admin", "/elsewhere?logged=yes"))
	s.eventually("the access log has a line", func() bool { return strings.Contains(s.logs(), "logged=yes") })
	if strings.Contains(s.logs(), "haystack") {
		t.Error("the log names whom the operator looked for")
	}
}
