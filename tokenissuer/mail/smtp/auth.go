package smtp

import (
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/wneessen/go-mail/smtp"
)

// authentication proves user and password to a server (RFC 4954) in the best way that the server announces.
type authentication struct {
	settings *Settings
	host     string
	// chosen is set by Start.
	chosen smtp.Auth
}

// mechanisms returns the ways to prove user and password, best first. The last three are good over TLS alone: PLAIN and LOGIN show the
// password to the server, and CRAM-MD5 lets who listens try passwords. To this machine they are sent without TLS where the operator says
// insecure.
func (a *authentication) mechanisms() []mechanism {
	user, password, clear := a.settings.User, a.settings.Password.Reveal(), a.settings.Insecure
	return []mechanism{
		{"SCRAM-SHA-256", smtp.ScramSHA256Auth(user, password)}, {"SCRAM-SHA-1", smtp.ScramSHA1Auth(user, password)},
		{"PLAIN", smtp.PlainAuth("", user, password, a.host, clear)}, {"LOGIN", smtp.LoginAuth(user, password, a.host, clear)},
		{"CRAM-MD5", smtp.CRAMMD5Auth(user, password)},
	}
}

// mechanism is a SASL mechanism (RFC 4422 §3).
type mechanism struct {
	name string
	auth smtp.Auth
}

// Start chooses a mechanism of those that the server announces.
func (a *authentication) Start(server *smtp.ServerInfo) (string, []byte, error) {
	if !server.TLS && !a.settings.Insecure {
		return "", nil, errors.New("the connection has no TLS") // STARTTLS has failed before
	}
	known := a.mechanisms()
	for _, m := range known {
		if slices.ContainsFunc(server.Auth, func(name string) bool { return strings.EqualFold(name, m.name) }) {
			a.chosen = m.auth
			return m.auth.Start(server)
		}
	}
	if len(server.Auth) == 0 {
		return "", nil, errors.New("the server takes no password here: use its port for submission (587, or smtps:// and 465), or take user and password away")
	}
	names := make([]string, len(known))
	for i, m := range known {
		names[i] = m.name
	}
	return "", nil, fmt.Errorf("the server takes a password in none of the ways known here: turn on one of %s for this account, or use another server (it announces %s)",
		strings.Join(names, ", "), strings.Join(server.Auth, ", "))
}

// Next answers a challenge.
func (a *authentication) Next(challenge []byte, more bool) ([]byte, error) {
	return a.chosen.Next(challenge, more)
}

// credentials returns every form in which a server that was given the credentials could repeat the password.
func (s *Settings) credentials() []string {
	password := s.Password.Reveal()
	if password == "" {
		return nil
	}
	encode := base64.StdEncoding.EncodeToString
	return []string{encode([]byte("\x00" + s.User + "\x00" + password)), encode([]byte(password)), password}
}
