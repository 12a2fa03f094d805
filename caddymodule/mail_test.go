package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// startMail serves people who get letters by the mail server.
func startMail(t *testing.T, server *mailtest.Server) *factorScene {
	t.Helper()
	t.Setenv("GATEHOUSE_TEST_SMTP_PASSWORD", mailtest.Password)
	return startFactors(t, mailLines(server))
}

// mailLines configure the mail server.
func mailLines(server *mailtest.Server) string {
	return "mail " + server.URL + " {\n\t\tfrom \"Acme <id@acme.example>\"\n\t\tuser " + mailtest.User +
		"\n\t\tpassword {env.GATEHOUSE_TEST_SMTP_PASSWORD}\n\t\tca " + server.CAFile + "\n\t}"
}

// TestE30PeopleAreToldOfChanges: an authenticator added on the account page, recovery codes replaced, a recovery code used, a factor removed by
// the user, all factors removed, accounts unlinked and the password set by an operator → one letter each, to the user; a change that is refused → none. The password of the mail server is in no log, neither are recovery codes in a letter.
func TestE30PeopleAreToldOfChanges(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	s := startMail(t, server)
	told := func(what string, lines ...string) {
		t.Helper()
		m := server.Next(t)
		p := m.Parse(t)
		if m.To != "ada@acme.example" && m.To != "zoe@acme.example" || m.From != "id@acme.example" || !m.TLS || !strings.Contains(p.Subject, what) {
			t.Errorf("%q to %q by %q, want %q", p.Subject, m.To, m.From, what)
		}
		holdWords(t, "the answer", p.Text, append(lines, s.url+"/oauth/account")...)
	}
	b, ada := s.owner(t, "ada@acme.example")
	told("a second factor was added")
	old := ada
	ada.recovery = shownCodes(t, b.change("factor", "codes"))
	told("new recovery codes", "no longer work")
	again := s.browser()
	p := asksFor(t, again.types(again.firstFactor("ada@acme.example"), old.recovery[0]), "code")
	asksFor(t, again.follow(again.types(p, ada.recovery[0])), "account")
	told("a recovery code was used", "Codes left: 9")
	holdChanged(t, b.change("factor", s.factorsOf(t, "u-ada")["totp"]), "/oauth/account?done=factor")
	told("a second factor was removed")
	_, _ = s.owner(t, "ada@acme.example")
	told("a second factor was added")
	s.ok("user", "factors", "remove", "u-ada", "--all")
	told("a second factor was removed", "were removed from your account")
	s.must(http.StatusCreated, http.MethodPost, "/oauth/users", `{"id":"u-zoe","email":"zoe@acme.example","organisation":"acme","password":"`+peoplePassword+`"}`)
	_, _ = s.owner(t, "zoe@acme.example")
	told("a second factor was added")
	check(t, s.app().node.Store().Identities.LinkIdentity(t.Context(), store.Identity{Provider: "corp", Subject: "1", UserID: "u-zoe"}))
	s.ok("user", "update", "u-zoe", "--identities", "unlink")
	told("a second factor was removed", "were removed from your account")
	if _, err := s.run("short\n", "user", "set-password", "u-zoe", "--password-stdin"); err == nil {
		t.Error("a short password was set")
	}
	if _, err := s.run("another long password\n", "user", "set-password", "u-zoe", "--password-stdin"); err != nil {
		t.Fatal(err)
	}
	told("your password was changed")
	if n := server.Waiting(); n != 0 {
		t.Errorf("%d letters too many", n)
	}
	s.notLogged(t, mailtest.Password)
	for _, code := range append(old.recovery, ada.recovery...) {
		s.notLogged(t, code)
	}
	if _, _, config := s.adminRequest(http.MethodGet, "/config/"); strings.Contains(config, mailtest.Password) {
		t.Error("the configuration shows the password")
	}
}

// TestE31MailTestSaysWhatTheServerSays: `caddy oauth mail test` → the server's answer, or its refusal and an exit code; a bad address, or no mail
// configured → what to do.
func TestE31MailTestSaysWhatTheServerSays(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	server.Answer = func(step, argument string) error {
		if step == "RCPT" && strings.HasPrefix(argument, "eve") {
			return mailtest.Reply(550, "nobody of that name")
		}
		return nil
	}
	s := startMail(t, server)
	if out := s.ok("mail", "test", "ada@acme.example"); !strings.Contains(out, "took the mail: ") || !strings.Contains(out, strings.TrimPrefix(server.URL, "smtp://")) {
		t.Errorf("%q", out)
	}
	if p := server.Next(t).Parse(t); !strings.Contains(p.Subject, "a test") {
		t.Errorf("%q", p.Subject)
	}
	if out, err := s.run("", "mail", "test", "eve@acme.example"); err == nil || !strings.Contains(out, "550 5.1.1 nobody of that name") {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := s.run("", "mail", "test", "Ada <ada@acme.example>"); err == nil || !strings.Contains(err.Error(), "write it as ada@example.com") {
		t.Errorf("%v", err)
	}
	s.reload(factorSite(""))
	if _, err := s.run("", "mail", "test", "ada@acme.example"); err == nil || !strings.Contains(err.Error(), "add `mail smtp://…`") {
		t.Errorf("%v", err)
	}
}

// TestE32ALetterOutlivesAReload: the mail server puts a letter off, the configuration is loaded again, and the server takes mail → the letter
// arrives, once, and the counters and the status say so.
func TestE32ALetterOutlivesAReload(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	refusing := make(chan struct{})
	server.Answer = func(step, _ string) error {
		select {
		case <-refusing:
			return nil
		default:
		}
		if step == "RCPT" {
			return mailtest.Reply(451, "come back later")
		}
		return nil
	}
	s := startMail(t, server)
	_, _ = s.owner(t, "ada@acme.example")
	s.eventually("the letter is put off", func() bool { return strings.Contains(s.logs(), "come back later") })
	if status := s.ok("status"); !strings.Contains(strings.Join(strings.Fields(status), " "), "stored mails 1") {
		t.Errorf("the letter is not in the status: %s", status)
	}
	close(refusing)
	s.reload(factorSite(mailLines(server) + "\nstrict_assertions"))
	s.wait(10 * time.Second)
	if p := server.Next(t).Parse(t); !strings.Contains(p.Subject, "a second factor was added") {
		t.Errorf("%q", p.Subject)
	}
	s.eventually("the letter leaves the queue", func() bool { return strings.Contains(s.logs(), "mail sent") })
	if n := server.Waiting(); n != 0 {
		t.Errorf("%d letters too many", n)
	}
	s.notLogged(t, mailtest.Password)
}

// TestE33AnOperatorsNewAddressIsTold: an operator gives a user another address by `caddy oauth user update` or the admin API → one letter to the
// former address, which names the new one; another name, the same address, an address that is taken, or a service account → none.
func TestE33AnOperatorsNewAddressIsTold(t *testing.T) {
	server := mailtest.Start(t, mailtest.Options{})
	s := startMail(t, server)
	s.must(http.StatusCreated, http.MethodPost, "/oauth/users", `{"id":"u-zoe","email":"zoe@acme.example","organisation":"acme"}`)
	s.must(http.StatusCreated, http.MethodPost, "/oauth/users", `{"id":"robot","service":true}`)
	s.ok("user", "update", "u-zoe", "--name", "Zoe")
	s.ok("user", "update", "u-zoe", "--email", "Zoe@acme.example")
	s.must(http.StatusConflict, http.MethodPatch, "/oauth/users/u-zoe", `{"email":"ada@acme.example"}`)
	s.ok("user", "update", "robot", "--email", "robot@acme.example")
	s.ok("user", "update", "u-zoe", "--email", "zoe@new.example")
	s.must(http.StatusOK, http.MethodPatch, "/oauth/users/u-zoe", `{"email":"zoe@newer.example"}`)
	letters := map[string]string{}
	for range 2 {
		m := server.Next(t)
		letters[m.To] = m.Parse(t).Text
	}
	for former, next := range map[string]string{"zoe@acme.example": "zoe@new.example", "zoe@new.example": "zoe@newer.example"} {
		holdWords(t, "the letter", letters[former], next, s.url+"/oauth/account")
	}
	if n := server.Waiting(); n != 0 {
		t.Errorf("%d letters too many", n)
	}
}
