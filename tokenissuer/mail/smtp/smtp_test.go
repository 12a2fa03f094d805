package smtp

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/mailtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// letter is a message with all that may go wrong on the way: long lines, dots at their beginnings, and letters beyond ASCII.
var letter = mail.Message{
	ID: "letter-1", To: "ada@example.com", Date: time.Date(2026, 11, 28, 6, 0, 0, 0, time.UTC), Subject: "Schöne Grüße, ein langer Betreff mit vielen Wörtern 🦊 " + strings.Repeat("wörter ", 20),
	Text: ".\r\n..dots\r\nGrüße " + strings.Repeat("x", 2000) + " https://id.example/oauth/reset?link=a=b&c\r\n", HTML: "<p>Grüße</p>\r\n",
}

// settingsFor returns the settings for a server.
func settingsFor(s *mailtest.Server) Settings {
	return Settings{
		URL: s.URL, CA: s.CA, From: `"Acme, Söhne" <id@example.com>`, User: mailtest.User, Password: oauth.NewSecret(mailtest.Password), Hello: "id.example.com",
		Timeout: 10 * time.Second,
	}
}

func newSender(t *testing.T, s Settings) *Sender {
	t.Helper()
	sender, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

// TestE20WhatArrives: a letter by STARTTLS, by TLS from the beginning, and in the clear where the operator allows it → it arrives whole, with
// its Message-ID and Date, marked as automatic, from the sender and to the one recipient; no version of ours.
func TestE20WhatArrives(t *testing.T) {
	t.Parallel()
	for name, options := range map[string]mailtest.Options{"STARTTLS": {}, "implicit": {Implicit: true}, "clear": {NoTLS: true, Open: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mailtest.Start(t, options)
			s := settingsFor(server)
			if options.NoTLS {
				s.Insecure, s.User, s.Password = true, "", oauth.Secret{}
			}
			answer, err := newSender(t, s).Send(t.Context(), letter)
			if err != nil || answer == "" {
				t.Fatalf("%q, %v", answer, err)
			}
			m := server.Next(t)
			p := m.Parse(t)
			if m.From != "id@example.com" || m.To != letter.To || m.TLS == options.NoTLS {
				t.Errorf("%q to %q, TLS %v", m.From, m.To, m.TLS)
			}
			if p.Text != letter.Text || p.HTML != letter.HTML || p.Subject != letter.Subject {
				t.Errorf("%q\n%q\n%q", p.Subject, p.Text, p.HTML)
			}
			for header, want := range map[string]string{"To": "<ada@example.com>", "Message-Id": "<letter-1@example.com>", "Auto-Submitted": "auto-generated",
				"Date": "Sat, 28 Nov 2026 06:00:00 +0000", "User-Agent": "", "X-Mailer": "", "Bcc": ""} {
				if got := p.Header.Get(header); got != want {
					t.Errorf("%s is %q, want %q", header, got, want)
				}
			}
			if from, err := p.Header.AddressList("From"); err != nil || len(from) != 1 || from[0].Name != "Acme, Söhne" || from[0].Address != "id@example.com" {
				t.Errorf("from %v, %v", from, err)
			}
			if steps := server.Steps(); !slices.Contains(steps, "HELO id.example.com") || slices.Contains(steps, "AUTH gatehouse") == options.Open {
				t.Errorf("steps %q", steps)
			}
			for line := range strings.SplitSeq(m.Raw, "\r\n") {
				if len(line) > 998 { // RFC 5322 §2.1.1
					t.Errorf("a line of %d bytes", len(line))
				}
			}
		})
	}
}

// TestE21NothingInTheClear: a server without STARTTLS, with a certificate of another authority or for another host → an error, and it has
// seen neither user, password, address nor letter.
func TestE21NothingInTheClear(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options mailtest.Options
		change  func(*Settings)
		want    string
	}{
		"no STARTTLS":                      {mailtest.Options{NoTLS: true}, func(*Settings) {}, "STARTTLS"},
		"another authority":                {mailtest.Options{}, func(s *Settings) { s.CA = mailtest.NewAuthority(t).CA }, "certificate"},
		"another authority, TLS at once":   {mailtest.Options{Implicit: true}, func(s *Settings) { s.CA = mailtest.NewAuthority(t).CA }, "certificate"},
		"authorities of the system":        {mailtest.Options{}, func(s *Settings) { s.CA = "" }, "certificate"},
		"another host":                     {mailtest.Options{}, func(s *Settings) { s.URL = strings.Replace(s.URL, "127.0.0.1", "localhost", 1) }, "localhost"},
		"TLS at once where there is none":  {mailtest.Options{}, func(s *Settings) { s.URL = strings.Replace(s.URL, "smtp:", "smtps:", 1) }, "tls"},
		"none where there is TLS at once":  {mailtest.Options{Implicit: true}, func(s *Settings) { s.URL, s.Timeout = strings.Replace(s.URL, "smtps:", "smtp:", 1), time.Second }, "the connection"},
		"password for a server without it": {mailtest.Options{Open: true, NoTLS: true}, func(*Settings) {}, "STARTTLS"},
	} {
		t.Run(name, func(t *testing.T) {
			server := mailtest.Start(t, test.options)
			s := settingsFor(server)
			test.change(&s)
			_, err := newSender(t, s).Send(t.Context(), letter)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, want %q in it", err, test.want)
			}
			for _, step := range server.Steps() {
				if !strings.HasPrefix(step, "HELO") {
					t.Errorf("the server has seen %q", step)
				}
			}
		})
	}
}

// TestE22WhatAServerRefuses: 5xx to the recipient or the letter → permanent; 4xx, or 5xx to the sender or to the password → to be tried again;
// each error has the server's words, and neither the recipient's address nor the password.
func TestE22WhatAServerRefuses(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		step      string
		code      int
		change    func(*Settings)
		permanent bool
	}{
		"unknown recipient":  {step: "RCPT", code: 550, permanent: true},
		"mailbox full":       {step: "RCPT", code: 452},
		"greylisted":         {step: "RCPT", code: 451},
		"sign in first":      {step: "RCPT", code: 530},
		"letter refused":     {step: "DATA", code: 554, permanent: true},
		"letter put off":     {step: "DATA", code: 451},
		"sender refused":     {step: "MAIL", code: 553},
		"wrong password":     {code: 535, change: func(s *Settings) { s.Password = oauth.NewSecret("wrong-password") }},
		"unknown user":       {code: 535, change: func(s *Settings) { s.User = "nobody" }},
		"no password at all": {code: 502, change: func(s *Settings) { s.User, s.Password = "", oauth.Secret{} }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := mailtest.Start(t, mailtest.Options{})
			server.Answer = func(step, argument string) error {
				if step != test.step {
					return nil
				}
				return mailtest.Reply(test.code, "no thanks for <ada@example.com>: "+argument)
			}
			s := settingsFor(server)
			if test.change != nil {
				test.change(&s)
			}
			_, err := newSender(t, s).Send(t.Context(), letter)
			var refusal *mail.Refusal
			if !errors.As(err, &refusal) || refusal.Permanent != test.permanent || refusal.Code != test.code {
				t.Fatalf("%v: %+v", err, refusal)
			}
			if text := err.Error(); strings.Contains(text, "ada@") || strings.Contains(text, "password\"") || strings.Contains(text, mailtest.Password) ||
				strings.Contains(text, "wrong-password") || test.step != "" && !strings.Contains(text, "no thanks") {
				t.Errorf("%q", text)
			}
			if server.Waiting() != 0 {
				t.Error("the server has taken it")
			}
		})
	}
}

// TestE27WaysToAuthenticate: a server that announces LOGIN, CRAM-MD5 or SCRAM → the letter arrives by the best of them, by PLAIN rather than by
// LOGIN; a wrong password → the server's refusal, without the password even where the server repeats it; none that is usable, or none at all →
// what to do, and the server has seen no user. All this before STARTTLS, too, where nothing is sent.
func TestE27WaysToAuthenticate(t *testing.T) {
	t.Parallel()
	const wrong = "wrong-password"
	for name, test := range map[string]struct {
		announced []string
		want      string // of the mechanisms, or in the error
	}{
		"PLAIN":          {[]string{"PLAIN"}, "PLAIN"},
		"LOGIN":          {[]string{"LOGIN"}, "LOGIN"},
		"CRAM-MD5":       {[]string{"CRAM-MD5"}, "CRAM-MD5"},
		"SCRAM-SHA-1":    {[]string{"SCRAM-SHA-1"}, "SCRAM-SHA-1"},
		"SCRAM-SHA-256":  {[]string{"SCRAM-SHA-256"}, "SCRAM-SHA-256"},
		"of all":         {[]string{"LOGIN", "PLAIN", "CRAM-MD5", "SCRAM-SHA-1", "XOAUTH2", "SCRAM-SHA-256"}, "SCRAM-SHA-256"},
		"of the old":     {[]string{"NTLM", "CRAM-MD5", "LOGIN", "PLAIN"}, "PLAIN"},
		"tokens":         {[]string{"XOAUTH2", "OAUTHBEARER"}, "turn on one of SCRAM-SHA-256, SCRAM-SHA-1, PLAIN, LOGIN, CRAM-MD5 for this account"},
		"no password":    {[]string{}, "use its port for submission (587, or smtps:// and 465), or take user and password away"},
		"like one of us": {[]string{"PLAINER", "SCRAM-SHA-256-PLUS"}, "turn on one of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, implicit := range []bool{false, true} {
				server := mailtest.Start(t, mailtest.Options{Implicit: implicit, Mechanisms: test.announced})
				s := settingsFor(server)
				_, err := newSender(t, s).Send(t.Context(), letter)
				if !slices.Contains(test.announced, test.want) {
					if err == nil || !strings.Contains(err.Error(), test.want) {
						t.Errorf("%v, want %q in it", err, test.want)
					}
				} else if err != nil {
					t.Error(err)
				} else if m := server.Next(t); m.Mechanism != test.want || !m.TLS {
					t.Errorf("by %s, TLS %t", m.Mechanism, m.TLS)
				}
				s.Password = oauth.NewSecret(wrong)
				server.Repeats = base64.StdEncoding.EncodeToString([]byte("\x00"+mailtest.User+"\x00"+wrong)) + " " + wrong
				_, err = newSender(t, s).Send(t.Context(), letter)
				if err == nil || strings.Contains(err.Error(), wrong) || strings.Contains(err.Error(), server.Repeats[:20]) {
					t.Errorf("a wrong password: %v", err)
				}
				var refusal *mail.Refusal
				if slices.Contains(test.announced, test.want) && (!errors.As(err, &refusal) || refusal.Code != 535 || refusal.Permanent) {
					t.Errorf("a wrong password: %v", err)
				}
				for _, step := range server.Steps() {
					if strings.HasPrefix(step, "AUTH") && (step != "AUTH "+mailtest.User || !slices.Contains(test.announced, test.want)) {
						t.Errorf("the server has seen %q", step)
					}
				}
			}
		})
	}
}

// TestE23AServerThatStalls: a server that does not accept, is silent from the beginning, stops in the middle, or closes the connection anywhere
// → an error within the timeout, which says whether the server may have the letter, and the connection is closed; the context ends → at once.
func TestE23AServerThatStalls(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]string{
		"silent": {}, "after the greeting": {"220 hi"}, "after EHLO": {"220 hi", "250 hi"}, "after MAIL": {"220 hi", "250 hi", "250 ok"},
		"after RCPT": {"220 hi", "250 hi", "250 ok", "250 ok"}, "in the letter": {"220 hi", "250 hi", "250 ok", "250 ok", "354 go on"},
		"nonsense": {"hello?"}, "endless greeting": {strings.Repeat("220-hi\r\n", 1000)},
	} {
		for _, cut := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				url, closed := stalling(t, script, cut)
				s := Settings{URL: url, From: "id@example.com", Insecure: true, Timeout: 300 * time.Millisecond, AcceptTimeout: 300 * time.Millisecond}
				began := time.Now()
				_, err := newSender(t, s).Send(t.Context(), letter)
				if err == nil || strings.Contains(err.Error(), "ada@") || time.Since(began) > 5*time.Second {
					t.Errorf("%v after %s", err, time.Since(began))
				}
				var refusal *mail.Refusal
				if errors.As(err, &refusal) && refusal.Permanent {
					t.Errorf("permanent: %v", err)
				}
				if mayHaveIt := errors.As(err, new(*mail.Unanswered)); !cut && mayHaveIt != (name == "in the letter") {
					t.Errorf("the server may have the letter: %t, %v", mayHaveIt, err)
				}
				select {
				case <-closed:
				case <-time.After(10 * time.Second):
					t.Error("the connection is open")
				}
			})
		}
	}
	t.Run("the context ends", func(t *testing.T) {
		t.Parallel()
		url, closed := stalling(t, []string{"220 hi", "250 hi"}, false)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := newSender(t, Settings{URL: url, From: "id@example.com", Insecure: true}).Send(ctx, letter); err == nil {
			t.Error("no error")
		}
		<-closed
	})
}

// stalling starts a server that gives these answers, one after each line, and then nothing, or cuts the connection. Closed is closed when the
// client has closed the connection, or cut.
func stalling(t *testing.T, script []string, cut bool) (url string, closed chan struct{}) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	closed = make(chan struct{})
	go func() {
		defer close(closed)
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		lines := bufio.NewReader(connection)
		for i, answer := range script {
			if i > 0 {
				if _, err := lines.ReadString('\n'); err != nil {
					return
				}
			}
			if _, err := connection.Write([]byte(answer + "\r\n")); err != nil {
				return
			}
		}
		if cut {
			return
		}
		for {
			if _, err := lines.ReadString('\n'); err != nil {
				return
			}
		}
	}()
	return "smtp://" + listener.Addr().String(), closed
}

// TestE24NoHeaderIsInjected: a message whose recipient or subject has line breaks or NUL → refused, or one header of one line; the mail has no
// header and no recipient more than any other.
func TestE24NoHeaderIsInjected(t *testing.T) {
	t.Parallel()
	server := mailtest.Start(t, mailtest.Options{})
	sender := newSender(t, settingsFor(server))
	for _, to := range []string{"ada@example.com\r\nBcc: eve@example.com", "ada@example.com>\r\nRCPT TO:<eve@example.com", "a\x00@example.com", "x <ada@example.com>", "ada@example.com,eve@example.com"} {
		m := letter
		m.To = to
		if _, err := sender.Send(t.Context(), m); err == nil {
			t.Errorf("%q is sent", to)
		}
	}
	for _, subject := range []string{"a\r\nBcc: eve@example.com", "a\nX: y", "a\r\n\r\nbody", "a\x00b", "=?utf-8?q?a=0D=0ABcc:_eve@example.com?=", strings.Repeat("ß", 2000)} {
		m := letter
		m.Subject = subject
		if _, err := sender.Send(t.Context(), m); err != nil {
			continue
		}
		p := server.Next(t).Parse(t)
		var names []string
		for name := range p.Header {
			names = append(names, name)
		}
		slices.Sort(names)
		if want := []string{"Auto-Submitted", "Content-Type", "Date", "From", "Message-Id", "Mime-Version", "Subject", "To"}; !slices.Equal(names, want) {
			t.Errorf("%.40q: headers %q", subject, names)
		}
		if p.Text != letter.Text {
			t.Errorf("%.40q: the text is %.80q", subject, p.Text)
		}
	}
	for _, step := range server.Steps() {
		if strings.Contains(step, "eve@") {
			t.Errorf("the server has seen %q", step)
		}
	}
}

// TestE25SettingsThatCannotWork: a URL of another scheme, with a path or with credentials, a sender that is no address, a user without a
// password, TLS turned off for a password or for smtps, an authority that is no certificate, a long timeout → refused with what to write.
func TestE25SettingsThatCannotWork(t *testing.T) {
	t.Parallel()
	good := Settings{URL: "smtp://mail.example.com", From: "id@example.com"}
	for name, test := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"no scheme":             {func(s *Settings) { s.URL = "mail.example.com:587" }, "write it as smtp://"},
		"another scheme":        {func(s *Settings) { s.URL = "https://mail.example.com" }, "write it as smtp://"},
		"a path":                {func(s *Settings) { s.URL = "smtp://mail.example.com/x" }, "write it as smtp://"},
		"no host":               {func(s *Settings) { s.URL = "smtp://:587" }, "write it as smtp://"},
		"a port that is none":   {func(s *Settings) { s.URL = "smtp://mail.example.com:70000" }, "write it as smtp://"},
		"credentials":           {func(s *Settings) { s.URL = "smtp://u:hunter2@mail.example.com" }, "write them as user and password"},
		"no sender":             {func(s *Settings) { s.From = "" }, "write it as \"Acme <id@example.com>\""},
		"a name alone":          {func(s *Settings) { s.From = "Acme" }, "write it as \"Acme <id@example.com>\""},
		"two senders":           {func(s *Settings) { s.From = "a@example.com, b@example.com" }, "write it as \"Acme <id@example.com>\""},
		"a line break":          {func(s *Settings) { s.From = "Acme <id@example.com>\r\nBcc: eve@example.com" }, "write it as \"Acme <id@example.com>\""},
		"a user alone":          {func(s *Settings) { s.User = "u" }, "both user and password"},
		"a password alone":      {func(s *Settings) { s.Password = oauth.NewSecret("hunter2") }, "both user and password"},
		"password in the clear": {func(s *Settings) { s.User, s.Password, s.Insecure = "u", oauth.NewSecret("hunter2"), true }, "in the clear"},
		"insecure with TLS":     {func(s *Settings) { s.URL, s.Insecure = "smtps://mail.example.com", true }, "take it away"},
		"no certificate":        {func(s *Settings) { s.CA = "-----BEGIN" }, "no certificate"},
		"a long timeout":        {func(s *Settings) { s.Timeout = time.Hour }, "at most 2m0s"},
	} {
		s := good
		test.change(&s)
		if _, err := New(s); err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q in it", name, err, test.want)
		}
	}
	for url, want := range map[string]string{"smtp://mail.example.com": "mail.example.com:587", "smtps://mail.example.com": "mail.example.com:465", "smtp://[::1]:25": "[::1]:25"} {
		good.URL = url
		if got := newSender(t, good).Address(); got != want {
			t.Errorf("%s is %s, want %s", url, got, want)
		}
	}
}

// TestE26PostfixDeliversIt: Postfix on loopback that insists on STARTTLS, with a certificate of a private authority → it delivers the letter
// whole into a Maildir; a recipient whom it does not serve → a permanent refusal; another authority → nothing is sent.
func TestE26PostfixDeliversIt(t *testing.T) {
	t.Parallel()
	server := mailtest.StartPostfix(t)
	s := Settings{URL: server.URL, CA: server.CA, From: "Acme <id@example.com>", Hello: "id.example.com"}
	m := letter
	m.To = mailtest.Recipient
	if _, err := newSender(t, s).Send(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	p := server.Next(t).Parse(t)
	if p.Text != m.Text || p.HTML != m.HTML || p.Subject != m.Subject || p.Header.Get("Message-Id") != "<letter-1@example.com>" {
		t.Errorf("%q\n%q\n%q\n%v", p.Subject, p.Text, p.HTML, p.Header)
	}
	var refusal *mail.Refusal
	if _, err := newSender(t, s).Send(t.Context(), letter); !errors.As(err, &refusal) || !refusal.Permanent || strings.Contains(err.Error(), letter.To) {
		t.Errorf("another recipient: %v", err)
	}
	s.CA = mailtest.NewAuthority(t).CA
	if _, err := newSender(t, s).Send(t.Context(), m); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("another authority: %v", err)
	}
}
