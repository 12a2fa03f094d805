package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// consoleScene is a console at the host admin.localhost, with operators u-olga (everything) and u-owen (the organisation acme), who have an
// authenticator each. u-ada, a member of acme, and u-ben, one of other, are in the store.
type consoleScene struct {
	*hostsGate
	clock  *testClock
	phones map[string]phone
}

const consoleBlock = `totp
		audit {
			keep 30d
		}
		console {
			organisation_role owner
		}
		role operator "Operator"
		role owner "Owner" manages member
		role member "Member"
		organisation other "Other Inc"
		user u-olga {
			email olga@acme.example
			name "Olga Operator"
			password HASH
			role operator
		}
		user u-owen {
			email owen@acme.example
			name "Owen Owner"
			password HASH
			organisation acme
			role owner
		}
		limits {`

// startConsole serves the console. Changes are replacements in the configuration.
func startConsole(t *testing.T, changes ...string) *consoleScene {
	t.Helper()
	clock := setClock(t)
	declared := hostsSite[strings.Index(hostsSite, "\t\tuser u-ada"):strings.Index(hostsSite, "\t}\n}\nhttp://auth")]
	site := append([]string{
		"limits {", consoleBlock, declared, "",
		"http://wiki.localhost", "http://admin.localhost:TCPPORT {\n\tlog\n\toauth_console\n}\nhttp://wiki.localhost",
	}, changes...)
	s := &consoleScene{startHosts(t, site...), clock, map[string]phone{}}
	s.awaitServing()
	s.ok("user", "add", "--id", "u-ada", "--email", "ada@acme.example", "--name", "Ada", "--org", "acme", "--role", "member", "--group", "engineering", "--password-hash", peopleHash())
	s.ok("user", "add", "--id", "u-ben", "--email", "ben@other.example", "--name", "Ben", "--org", "other", "--role", "member", "--password-hash", peopleHash())
	return s
}

// operator returns a browser in which a user is signed in to the console, with two factors.
func (s *consoleScene) operator(t *testing.T, email string) *visitorOfHosts {
	t.Helper()
	v := s.visitor(t)
	p, _ := v.walk(s.at("admin", "/oauth/admin"), email)
	var at string
	if own, has := s.phones[email]; has {
		p, at = v.sends(asksFor(t, p, "code"), "code", (&factorScene{s.gatehouse, s.clock}).code(own))
	} else {
		added := phone{secret: shownSecret(t, p)}
		s.phones[email] = added
		p, _ = v.sends(p, "code", added.shows(t))
		shownCodes(t, p)
		p, at = v.walk(s.at("auth", goesOn(t, p)), "")
	}
	if p.status != http.StatusOK || at != s.at("admin", "/oauth/admin") {
		t.Fatalf("signing in to the console: %d at %s: %.600s", p.status, at, p.body)
	}
	return v
}
