package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/faultproxy"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// opens returns a page of the console, which has to be answered with that status.
func (s *consoleScene) opens(v *visitorOfHosts, status int, path string) string {
	v.t.Helper()
	a := v.navigate(s.at("admin", "/oauth/admin"+path))
	if a.status != status {
		v.t.Fatalf("%s: %d %.2000s", path, a.status, a.body)
	}
	return a.body
}

// eventuallyOn waits until a page of the console has a text: what is in the audit log is there a moment later.
func (s *consoleScene) eventuallyOn(v *visitorOfHosts, path, text string) (body string) {
	v.t.Helper()
	eventually(v.t, path+" has "+text, func() bool {
		body = s.opens(v, http.StatusOK, path)
		return strings.Contains(body, text)
	})
	return body
}

// change sends a form of the console as its page does, and returns where the browser is sent.
func (s *consoleScene) change(v *visitorOfHosts, path string, values url.Values) answer {
	v.t.Helper()
	return v.send(http.MethodPost, s.at("admin", "/oauth/admin"+path), values.Encode(),
		"Content-Type", urlEncoded, "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document", "Origin", s.origin("admin"))
}

// linkIn returns the address in a link of a page, by what it begins with.
func linkIn(t *testing.T, body, prefix string) string {
	t.Helper()
	found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(prefix) + `[^"]*)"`).FindStringSubmatch(body)
	if found == nil {
		t.Fatalf("no link to %s: %.3000s", prefix, body)
	}
	return strings.TrimPrefix(strings.ReplaceAll(found[1], "&amp;", "&"), "/oauth/admin")
}

// TestO40WhyAPersonIsRefused: a person without the group that a gate requires → in three steps from the person's page the operator sees the
// reason with the group, and the form that mends it, after which the gate lets the person in. A disabled person who tries to sign in is told no more
// than others, and the operator's pages say it and lead to what enables the person.
func TestO40WhyAPersonIsRefused(t *testing.T) {
	s := startConsole(t, "forward + X-Name name", "require group writers")
	ada, olga := s.visitor(t), s.operator(t, "olga@acme.example")
	wiki := s.at("wiki", "/pages/plans")
	if a, _ := ada.walk(wiki, "ada@acme.example"); a.status != http.StatusForbidden {
		t.Fatalf("without the group: %d %.500s", a.status, a.body)
	}
	refusals := linkIn(t, s.opens(olga, http.StatusOK, "/people/person?id=u-ada"), "/oauth/admin/gate/refusals?user=u-ada")
	list := s.eventuallyOn(olga, refusals, "group writers")
	why := s.opens(olga, http.StatusOK, linkIn(t, list, "/oauth/admin/gate/why"))
	for _, text := range []string{"group_missing", "group writers", "The person is in none of the groups", "/pages/plans"} {
		if !strings.Contains(why, text) {
			t.Errorf("the page does not say %q: %s", text, why)
		}
	}
	edit := linkIn(t, why, "/oauth/admin/people/edit?id=u-ada")
	for path, status := range map[string]int{"/audit?user=nobody@acme.example": http.StatusNotFound, "/audit?since=yesterday": http.StatusBadRequest, "/sessions?user=nobody@acme.example": http.StatusNotFound} {
		_, typed, _ := strings.Cut(path, "=")
		if body := s.opens(olga, status, path); !strings.Contains(body, `value="`+typed+`"`) || !strings.Contains(body, `class="notice error"`) {
			t.Errorf("%s loses its form: %.3000s", path, body)
		}
	}
	if body := s.opens(olga, http.StatusOK, "/audit?user=u-ada"); strings.Contains(body, "id=gatehouse") {
		t.Errorf("a link to the issuer's own client: %.3000s", body)
	}
	s.ok("user", "add", "--id", "u-oda", "--email", "oda@acme.example", "--role", "operator", "--password-hash", peopleHash())
	for name, operator := range map[string]*visitorOfHosts{"herself": s.operator(t, "oda@acme.example"), "another one": olga} {
		body := s.opens(operator, http.StatusOK, "/people/person?id=u-oda")
		if offered := strings.Contains(body, "do=disable"); !strings.Contains(body, "/people/edit?id=u-oda") || offered == (name == "herself") {
			t.Errorf("an operator is offered to disable %s: %v", name, offered)
		}
	}
	_, fields := formIn(t, page{body: s.opens(olga, http.StatusOK, edit)})
	for name, value := range map[string]string{"role": "member", "organisation": "acme", "groups": "engineering\nwriters"} {
		fields.Set(name, value)
	}
	if a := s.change(olga, edit, fields); a.status != http.StatusSeeOther {
		t.Fatalf("saving: %d %.2000s", a.status, a.body)
	}
	if a, at := s.visitor(t).walk(wiki, "ada@acme.example"); a.status != http.StatusOK || at != wiki {
		t.Errorf("with the group: %d at %s", a.status, at)
	}

	t.Run("the audit log has it all, and only what is asked for", func(t *testing.T) {
		body := s.eventuallyOn(olga, "/audit?event=user+updated", "groups")
		for id, name := range map[string]string{"u-ada": "Ada", "u-olga": "Olga Operator"} {
			if !regexp.MustCompile(`person\?id=` + id + `"[^>]*>(<[^>]*>)*` + name + `<(.|\n){1,200}>` + id + `<`).MatchString(body) {
				t.Errorf("%s is not there by the name and the id: %s", id, body)
			}
		}
		s.ok("user", "add", "--id", "u-gone", "--email", "gone@acme.example", "--name", "Gone Already", "--password-hash", peopleHash())
		s.ok("user", "remove", "u-gone")
		if body := s.eventuallyOn(olga, "/audit?event=user+removed", "u-gone"); strings.Contains(body, "Gone") {
			t.Error("a removed person has a name: " + body)
		}
		body = s.opens(olga, http.StatusOK, "/audit?reason=group_missing&user=ada%40acme.example&since=24h")
		if !strings.Contains(body, "request refused at the gate") || strings.Contains(body, "user updated") {
			t.Error(body)
		}
		for path, want := range map[string]string{
			"/audit?reason=none&user=u-ada": "No event matches.", "/audit?since=tomorrow": "write it as 24h", "/gate/refusals?kind=sign_in": "Nobody was refused.",
			"/gate/refusals?host=" + strings.TrimPrefix(s.origin("wiki"), "http://"): "group writers",
		} {
			a := olga.navigate(s.at("admin", "/oauth/admin"+path))
			if !strings.Contains(a.body, want) {
				t.Errorf("%s: %d, no %q: %.3000s", path, a.status, want, a.body)
			}
		}
	})
	t.Run("an export while the log is written", func(t *testing.T) {
		done := make(chan bool)
		go func() {
			defer close(done)
			for range 200 {
				s.do("GET", "/oauth/login?x", "")
			}
		}()
		for range 5 {
			a := olga.navigate(s.at("admin", "/oauth/admin/audit/export?user=u-ada"))
			if a.status != http.StatusOK || a.header.Get("Content-Type") != "application/jsonl" || !strings.HasPrefix(a.header.Get("Content-Disposition"), "attachment; filename=\"audit-") {
				t.Fatalf("%d %v", a.status, a.header)
			}
			for line := range strings.Lines(a.body) {
				var event struct{ Subject string }
				if err := json.Unmarshal([]byte(line), &event); err != nil || event.Subject != "u-ada" {
					t.Errorf("%s: %v", line, err)
				}
			}
			if !strings.Contains(a.body, "group_missing") {
				t.Error(a.body)
			}
		}
		<-done
	})
	t.Run("an operator of one organisation", func(t *testing.T) {
		owen := s.operator(t, "owen@acme.example")
		s.eventuallyOn(owen, "/gate/refusals?user=u-ada", "group writers")
		mine := linkIn(t, s.opens(owen, http.StatusOK, "/audit?user=u-ada&reason=group_missing"), "/oauth/admin/gate/why")
		s.opens(owen, http.StatusOK, mine)
		s.eventuallyOn(olga, "/audit?user=u-ben", "user added")
		var ofBen struct {
			ID string `json:"event_id"`
		}
		export := s.must(http.StatusOK, "GET", "/oauth/audit/export?user=u-ben&limit=1", "")
		check(t, json.Unmarshal([]byte(export), &ofBen))
		for path, status := range map[string]int{
			"/audit?user=u-ben": 404, "/audit/export": 403, "/audit/export?user=u-ben": 404, "/audit/export?event=signed+in": 403, "/gate/refusals?user=u-ben": 404,
			"/gate/why?id=" + ofBen.ID: 404, "/gate/why?id=x": 404, "/gate/why": 404, "/gate": 404, "/providers": 404, "/keys": 404, "/keys/rotate": 404, "/nodes": 404,
			"/audit": 200, "/gate/refusals": 200, "": 200,
		} {
			if body := s.opens(owen, status, path); strings.Contains(body, "u-ben") && status != 404 {
				t.Errorf("%s: %s", path, body)
			}
		}
		s.opens(olga, http.StatusOK, "/gate/why?id="+ofBen.ID)
	})
	t.Run("a disabled person", func(t *testing.T) {
		s.ok("user", "disable", "u-ben")
		defer s.ok("user", "enable", "u-ben")
		if a, _ := s.visitor(t).walk(wiki, "ben@other.example"); strings.Contains(a.body, "disabled") || !strings.Contains(a.body, `type="password"`) {
			t.Errorf("at the sign-in page: %d %.1500s", a.status, a.body)
		}
		list := s.eventuallyOn(olga, "/gate/refusals?user=u-ben", "/oauth/admin/gate/why")
		for _, path := range []string{linkIn(t, list, "/oauth/admin/gate/why"), "/people/person?id=u-ben"} {
			body := s.opens(olga, http.StatusOK, path)
			if !strings.Contains(body, "This person is disabled") {
				t.Errorf("%s does not say it: %s", path, body)
			}
			s.opens(olga, http.StatusOK, linkIn(t, body, "/oauth/admin/people/act?do=enable&amp;id=u-ben"))
		}
		if body := s.opens(olga, http.StatusOK, "/people/person?id=u-ada"); strings.Contains(body, "This person is disabled") {
			t.Error("it is said of an active person: " + body)
		}
	})
}

// TestO41KeysAndStateInTheConsole: keys are rotated and revoked, and the pages of gate, providers, node and overview are read → what the admin
// API says, in words; a warning is on the overview until it is mended.
func TestO41KeysAndStateInTheConsole(t *testing.T) {
	s := startConsole(t)
	olga := s.operator(t, "olga@acme.example")
	kids := func() (list []string) {
		for _, found := range regexp.MustCompile(`/oauth/admin/keys/act\?do=revoke_key&amp;id=([^"]*)"`).FindAllStringSubmatch(s.opens(olga, http.StatusOK, "/keys"), -1) {
			list = append(list, found[1])
		}
		return list
	}
	before := kids()
	if a := s.change(olga, "/keys/rotate", url.Values{"when": {"now"}}); a.status != http.StatusSeeOther {
		t.Fatalf("rotating: %d %.2000s", a.status, a.body)
	}
	after := kids()
	if len(after) != len(before)+1 {
		t.Fatalf("%q after %q", after, before)
	}
	revoke := "/keys/act?do=revoke_key&id=" + before[0]
	if body := s.opens(olga, http.StatusOK, revoke); !strings.Contains(body, "Every token that it has signed is refused at once") {
		t.Error(body)
	}
	if a := s.change(olga, revoke, nil); a.status != http.StatusSeeOther {
		t.Fatalf("revoking: %d %.2000s", a.status, a.body)
	}
	if left := kids(); len(left) == 0 || slices.Contains(left, before[0]) {
		t.Errorf("%q can be revoked", left)
	}
	if body := s.eventuallyOn(olga, "/audit?event=signing+key+revoked", before[0]); !strings.Contains(body, "/oauth/admin/people/person?id=u-olga") {
		t.Error("the log does not name the operator: " + body)
	}
	for path, texts := range map[string][]string{
		"/gate":      {"app.localhost", "/public/*", "Open", "Protected", "needs no token", "A sign-in at, or a token of"},
		"/providers": {"People sign in here alone", "There is no mail server"},
		"/nodes":     {"It can serve", "memory", "this node", "Sessions and grants"},
		"":           {"Let somebody in", "/oauth/admin/gate/refusals", "open to everybody", "Sign-ins: 2", "Refusals: "},
	} {
		body := s.opens(olga, http.StatusOK, path)
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q: %s", path, text, body[strings.Index(body, "<main"):])
			}
		}
	}
	for path, texts := range map[string][]string{
		"/gate":                      {"Nothing, or a token of"},
		"/people/person?id=u-ada":    {"not declared any more"},
		"":                           {"need a second factor and have none"},
		"/applications/add?kind=web": {"post_logout_redirect_uris", "backchannel_logout_uri"},
	} {
		body := s.opens(olga, http.StatusOK, path)
		for _, text := range texts {
			if strings.Contains(body, text) {
				t.Errorf("%s says %q: %s", path, text, body[strings.Index(body, "<main"):])
			}
		}
	}
	for path, status := range map[string]int{"/providers/test?name=none": 404, "/providers/test": 404, "/providers/mail": 200, "/keys/act?do=none": 404} {
		s.opens(olga, status, path)
	}
	if a := s.change(olga, "/providers/mail", url.Values{"to": {"a@b.example"}}); a.status != http.StatusConflict || !strings.Contains(a.body, "there is no mail") {
		t.Errorf("a mail without a server: %d %.2000s", a.status, a.body)
	}
	if logs := s.logs(); strings.Contains(logs, `"msg":"console request refused"`) && strings.Contains(logs, `"reason":"internal_error"`) {
		t.Error("what an operator mistypes is logged as a fault of the server")
	}
}

// TestO43TheDatabaseIsAway: pages and changes while the database is away → 503 that says so, and nothing is changed; once it is back, the same
// form works.
func TestO43TheDatabaseIsAway(t *testing.T) {
	server := pgtest.Start(t)
	proxy := faultproxy.Start(t, server.Addr())
	s := startConsole(t, "store memory", "store postgres "+pgtest.Via(server.Database(t), proxy.Addr()))
	olga := s.operator(t, "olga@acme.example")
	s.opens(olga, http.StatusOK, "/people/person?id=u-ada")
	proxy.Cut()
	for _, path := range []string{"", "/audit", "/gate/refusals", "/people/person?id=u-ada", "/people/act?do=disable&id=u-ada"} {
		if a := olga.navigate(s.at("admin", "/oauth/admin"+path)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" || !strings.Contains(a.body, "<h1>") {
			t.Errorf("%s: %d %.500s", path, a.status, a.body)
		}
	}
	if a := s.change(olga, "/people/act?do=disable&id=u-ada", nil); a.status != http.StatusServiceUnavailable {
		t.Errorf("a change: %d %.500s", a.status, a.body)
	}
	proxy.Restore()
	eventually(t, "the database is back", func() bool {
		return olga.navigate(s.at("admin", "/oauth/admin/people/person?id=u-ada")).status == http.StatusOK
	})
	if body := s.opens(olga, http.StatusOK, "/people/person?id=u-ada"); strings.Contains(body, "Disabled") {
		t.Error("half of the change was made: " + body)
	}
	eventually(t, "the change is made", func() bool {
		return s.change(olga, "/people/act?do=disable&id=u-ada", nil).status == http.StatusSeeOther
	})
	if body := s.opens(olga, http.StatusOK, "/people/person?id=u-ada"); !strings.Contains(body, "Disabled") {
		t.Error(body)
	}
}

// TestO44WhereTheConsoleIsServed: a console at the issuer's host, at the host of an application or of files, or in no site → a warning at a start
// that says so; on a host of its own → none.
func TestO44WhereTheConsoleIsServed(t *testing.T) {
	for name, test := range map[string]struct{ from, to, want string }{
		"host of its own":       {"", "", ""},
		"host of the issuer":    {"\toauth_server\n", "\toauth_console\n\toauth_server\n", "oauth_console is at a host with the issuer, "},
		"beside an application": {"\tlog\n\tROUTES\n", "\tlog\n\toauth_console\n", "oauth_console is at a host with reverse_proxy to UPSTREAM, "},
		"beside files":          {"\toauth_console\n}\n", "\toauth_console\n\tfile_server\n}\n", "oauth_console is at a host with file_server, "},
		"nowhere":               {"http://admin.localhost:TCPPORT {\n\toauth_console\n}\n", "", "no site has oauth_console, so nobody can open the console"},
	} {
		t.Run(name, func(t *testing.T) {
			declared := hostsSite[strings.Index(hostsSite, "\t\tuser u-ada"):strings.Index(hostsSite, "\t}\n}\nhttp://auth")]
			site := strings.NewReplacer("limits {", consoleBlock, declared, "", "http://wiki.localhost", "http://admin.localhost:TCPPORT {\n\toauth_console\n}\nhttp://wiki.localhost").Replace(hostsSite)
			if test.from != "" {
				site = strings.Replace(site, test.from, test.to, 1)
			}
			g := startGatehouse(t, strings.NewReplacer("ROUTES", "", "HASH", peopleHash()).Replace(site))
			warnings := g.must(http.StatusOK, "GET", "/oauth/warnings", "")
			var found []string
			check(t, json.Unmarshal([]byte(warnings), &found))
			about := slices.DeleteFunc(found, func(w string) bool { return !strings.Contains(w, "console") })
			want := strings.ReplaceAll(test.want, "UPSTREAM", g.upstream.addr)
			if (want == "") != (len(about) == 0) || len(about) > 0 && !strings.Contains(about[0], "Caddyfile:") || want != "" && !strings.Contains(about[0], want) {
				t.Errorf("%q, want %q", about, want)
			}
		})
	}
}
