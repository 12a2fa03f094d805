package ldap

import (
	"net"
	"strings"
	"testing"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

// TestP51Filters: a filter that is no RFC 4515, or with a misplaced or no placeholder → configuration error.
func TestP51Filters(t *testing.T) {
	for _, test := range []struct {
		filter string
		ok     bool
	}{
		{"(mail={email})", true},
		{"(|(mail={email})(uid={username}))", true},
		{"(&(objectClass=person)(!(nsAccountLock=TRUE))(sAMAccountName={username}))", true},
		{"(memberOf:1.2.840.113556.1.4.1941:={username})", true},
		{"(mail=prefix-{email}@example.com)", true},
		{"(mail>={email})", true},
		{"mail={email}", false},
		{"(mail={email}", false},
		{"({email}=x)", false},
		{"(mail:{email}:=x)", false},
		{"(mail={email}*)", false},
		{"(mail=*{email})", false},
		{"(mail=a*{email}*b)", false},
		{"(mail={user})", false},
		{"(mail={dn})", false},
		{"(&(mail={email})(uid={user}))", false},
		{"{email}", false},
		{"(&{email})", false},
		{"(mail=ada@example.com)", false},
		{"", false},
	} {
		s := Settings{Name: "corp", Server: Server{URL: "ldaps://ldap.example.com"}, People: People{UserBase: "dc=example,dc=com", UserFilter: test.filter}}
		if test.filter == "" {
			s.UserFilter = "()"
		}
		if err := s.Check(); (err == nil) != test.ok {
			t.Errorf("%s: %v", test.filter, err)
		}
	}
}

// remote is a connection to a remote address.
type remote struct {
	net.Conn
	address net.TCPAddr
}

func (r remote) RemoteAddr() net.Addr { return &r.address }

// TestP37ANameThatIsNotLoopback: a name taken for loopback that resolves elsewhere → refused at the dial.
func TestP37ANameThatIsNotLoopback(t *testing.T) {
	for address, ok := range map[string]bool{"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.0.0.1": false, "2001:db8::1": false, "0.0.0.0": false} {
		plan, err := Settings{Name: "corp", Server: Server{URL: "ldap://localhost"}, People: People{UserBase: "dc=example,dc=com"}}.plan()
		if err != nil {
			t.Fatal(err)
		}
		here, there := net.Pipe()
		w := &wire{Conn: remote{here, net.TCPAddr{IP: net.ParseIP(address), Port: 389}}}
		if _, err := plan.secure(t.Context(), w); (err == nil) != ok {
			t.Errorf("%s: %v", address, err)
		}
		_, _ = here.Close(), there.Close()
	}
}

func FuzzFilter(f *testing.F) {
	for _, login := range []string{"ada", "*", "*)(uid=*", `\`, "\x00", "{email}", "{username}", "ä", "\xff", "(", "a)b", strings.Repeat("*", 300)} {
		f.Add("(&(objectClass=person)(|(mail={email})(uid={username})))", login)
	}
	f.Add("(cn:caseExactMatch:={username})", "x")
	f.Add("(a=b{email}c)", "*")
	f.Fuzz(func(t *testing.T, template, login string) {
		parsed, err := parseFilter(template, emailPlaceholder, usernamePlaceholder)
		if err != nil {
			return
		}
		plain, err := ldap.CompileFilter(parsed.expand(emailPlaceholder, "x", usernamePlaceholder, "x"))
		if err != nil {
			t.Fatalf("%q does not compile with a plain name: %v", template, err)
		}
		filled, err := ldap.CompileFilter(parsed.expand(emailPlaceholder, login, usernamePlaceholder, login))
		if err != nil {
			t.Fatalf("%q does not compile with %q: %v", template, login, err)
		}
		sameShape(t, plain, filled)
		if template == "(a=b{email}c)" && filled.Children[1].Data.String() != "b"+login+"c" {
			t.Fatalf("%q became %q", login, filled.Children[1].Data.String())
		}
	})
}

// sameShape fails unless two compiled filters differ only in their assertion values.
func sameShape(t *testing.T, a, b *ber.Packet) {
	t.Helper()
	if a.ClassType != b.ClassType || a.TagType != b.TagType || a.Tag != b.Tag || len(a.Children) != len(b.Children) {
		t.Fatalf("another filter: %v, %v", a, b)
	}
	for i := range a.Children {
		sameShape(t, a.Children[i], b.Children[i])
	}
}

// TestP152ADirectoryIsItsHostAndDomain: a directory with another port, TLS or branch → the same; another host or domain → another.
func TestP152ADirectoryIsItsHostAndDomain(t *testing.T) {
	const place = "ldap://ldap.example.com/dc=example,dc=com"
	for _, s := range []struct{ url, base, want string }{
		{"ldaps://ldap.example.com", "ou=people,dc=example,dc=com", place}, {"ldap://LDAP.example.com:3389", "dc=Example, DC=com", place},
		{"ldaps://ldap.example.com:636/", "OU=dc=x,ou=people,dc=example,dc=com", place},
		{"ldaps://ldap2.example.com", "ou=people,dc=example,dc=com", "ldap://ldap2.example.com/dc=example,dc=com"},
		{"ldaps://ldap.example.com", "ou=people,dc=other,dc=com", "ldap://ldap.example.com/dc=other,dc=com"},
		{"ldaps://ldap.example.com", "ou=people,dc=emea,dc=example,dc=com", "ldap://ldap.example.com/dc=emea,dc=example,dc=com"},
		{"ldaps://ldap.example.com", "ou=people,o=Acme,c=DE", "ldap://ldap.example.com/ou=people,o=acme,c=de"},
		{"ldaps://[::1]:636", "o=acme", "ldap://::1/o=acme"},
	} {
		if got := (Settings{Server: Server{URL: s.url}, People: People{UserBase: s.base}}).Place(); got != s.want {
			t.Errorf("%s, %s: %q, want %q", s.url, s.base, got, s.want)
		}
	}
}
