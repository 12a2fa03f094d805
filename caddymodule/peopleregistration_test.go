package caddymodule

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
)

var linkInLetter = regexp.MustCompile(`https?://\S+(/oauth/sign_up/link\?pending=\S+)`)

// asksForAccount asks for an account, and returns the letter.
func (g *gatehouse) asksForAccount(t *testing.T, server *mailtest.Server, email string) mailtest.Parsed {
	t.Helper()
	b := g.browser()
	action, fields := formIn(t, b.open("/oauth/sign_up"))
	fields.Set("email", email)
	if p := b.send(action, fields); p.status != http.StatusOK {
		t.Fatalf("%d %s", p.status, p.body)
	}
	m := server.Next(t)
	if m.To != email {
		t.Errorf("a letter to %s", m.To)
	}
	return m.Parse(t)
}

// registrationLink returns the link of a letter, as a path.
func registrationLink(t *testing.T, letter mailtest.Parsed) string {
	t.Helper()
	found := linkInLetter.FindStringSubmatch(letter.Text)
	if found == nil {
		t.Fatalf("no link in %s", letter.Text)
	}
	return found[1]
}

// TestE88PeopleRegisterByMail: a rule for a domain → the sign-in page leads to the registration, a letter has the link, and it makes a user of
// the rule's organisation, as an operator sees; a person with an account gets a letter that leads to the account; the line is taken away by a
// reload → 404 for a link that was sent before, and no user. No link is in the log.
func TestE88PeopleRegisterByMail(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	t.Setenv("GATEHOUSE_TEST_SMTP_PASSWORD", mailtest.Password)
	s := startFactors(t, mailLines(server)+"\n\tregistration_of_people email_domain new.example {\n\t\torganisation acme\n\t\tgroups staff\n\t}")
	if p := s.browser().open("/oauth/login"); !strings.Contains(p.body, `href="/oauth/sign_up"`) {
		t.Errorf("the sign-in page has no way to the registration: %s", p.body)
	}
	asks := func(email string) mailtest.Parsed { return s.asksForAccount(t, server, email) }
	first := registrationLink(t, asks("ada@new.example"))
	asksFor(t, s.browser().uses(first, "staples in the rain"), "account")
	if user := s.must(http.StatusOK, http.MethodGet, "/oauth/users/ada@new.example", ""); !strings.Contains(user, `"acme"`) || !strings.Contains(user, `"staff"`) {
		t.Errorf("the user is %s", user)
	}
	if p := asks("ada@new.example"); !strings.Contains(p.Subject, "you have an account") || !strings.Contains(p.Text, s.url+"/oauth/account") || strings.Contains(p.Text, "pending=") {
		t.Errorf("%q %s", p.Subject, p.Text)
	}
	late := registrationLink(t, asks("late@new.example"))
	s.reload(factorSite(mailLines(server)))
	for _, path := range []string{late, "/oauth/sign_up"} {
		if p := s.browser().open(path); p.status != http.StatusNotFound {
			t.Errorf("%s without the line: %d", path, p.status)
		}
	}
	s.must(http.StatusNotFound, http.MethodGet, "/oauth/users/late@new.example", "")
	for _, sent := range []string{first, late} {
		_, sealed, _ := strings.Cut(sent, "pending=")
		s.notLogged(t, sealed)
	}
}
