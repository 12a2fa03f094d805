package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// linkOf returns the link of a JSON answer, as a path of the issuer.
func (g *gatehouse) linkOf(t *testing.T, answer string) string {
	t.Helper()
	var link struct {
		Link   string `json:"link"`
		Mailed bool   `json:"mailed"`
	}
	check(t, json.Unmarshal([]byte(answer), &link))
	_, path, found := strings.Cut(link.Link, "/oauth/link?")
	if !found || link.Mailed {
		t.Fatalf("no link in %s", answer)
	}
	return "/oauth/link?" + path
}

// uses sets a password with a link.
func (b *browser) uses(link, password string) page {
	b.t.Helper()
	action, fields := formIn(b.t, b.open(link))
	fields.Set("new_password", password)
	fields.Set("new_password_again", password)
	return b.follow(b.send(action, fields))
}

// TestE59LinksFromOperators: `user invite` of a new and of an invited person, `user recover`, and the same by the admin API, without mail → a
// link that sets the password and signs in; members beside a user who exists, a password in an invitation, an unknown user and --mail without
// mail → an error and no link. Each is audited without the link, and an invitation's link is not in the log.
func TestE59LinksFromOperators(t *testing.T) {
	s := startFactors(t, "")
	const password = "staples in the rain"
	first := s.linkOf(t, s.ok("user", "invite", "new@acme.example", "--name", "New", "--org", "acme", "--json"))
	if _, fields := formIn(t, s.browser().open(first)); !fields.Has("new_password") {
		t.Error("the link of an invited person does not open")
	}
	again := s.linkOf(t, s.must(http.StatusCreated, "POST", "/oauth/invitations", `{"user":"new@acme.example"}`))
	asksFor(t, s.browser().uses(again, password), "account")
	if p := s.browser().open(first); p.status != http.StatusBadRequest {
		t.Errorf("an earlier link: %d", p.status)
	}
	b := s.browser()
	asksFor(t, b.follow(b.signIn(b.open("/oauth/login"), "new@acme.example", password)), "account")
	text := s.ok("user", "recover", "new@acme.example")
	if !strings.Contains(text, "/oauth/link?pending=") || b.isSignedIn() {
		t.Errorf("the session goes on, or no link: %s", text)
	}
	recovery := s.linkOf(t, s.must(http.StatusCreated, "POST", "/oauth/users/new@acme.example/recovery", `{}`))
	asksFor(t, s.browser().uses(recovery, password+"!"), "account")
	for _, bad := range []struct {
		status     int
		path, body string
	}{
		{http.StatusBadRequest, "/oauth/invitations", `{"user":"new@acme.example"}`}, {http.StatusNotFound, "/oauth/invitations", `{"user":"nobody"}`},
		{http.StatusBadRequest, "/oauth/invitations", `{"user":"ada@acme.example","role":"admin"}`},
		{http.StatusBadRequest, "/oauth/invitations", `{"user":"x@acme.example","password":"` + password + `"}`},
		{http.StatusBadRequest, "/oauth/invitations", `{"user":"x@acme.example","unknown":1}`},
		{http.StatusNotFound, "/oauth/users/nobody/recovery", `{}`}, {http.StatusBadRequest, "/oauth/users/new@acme.example/recovery", `{"mail":true}`},
	} {
		s.must(bad.status, "POST", bad.path, bad.body)
	}
	if p := s.browser().open("/oauth/forgotten"); p.status != http.StatusNotFound {
		t.Errorf("a forgotten password without mail: %d", p.status)
	}
	logs := s.logs()
	for _, want := range []string{`"user invited"`, `"user recovery begun"`, `"password set"`} {
		if !strings.Contains(logs, want) {
			t.Errorf("no line %s", want)
		}
	}
	for _, link := range []string{first, again, recovery} {
		if _, sealed, _ := strings.Cut(link, "pending="); strings.Contains(logs, sealed) {
			t.Error("a link is in the log")
		}
	}
	if strings.Contains(logs, password) {
		t.Error("a password is in the log")
	}
}
