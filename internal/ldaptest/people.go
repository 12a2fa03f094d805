package ldaptest

import (
	"fmt"

	"github.com/go-ldap/ldap/v3"
)

// PasswordOf returns a person's password.
func PasswordOf(uid string) string { return uid + "'s password, that nobody guesses" }

// DN returns the name of a person's entry.
func DN(uid string) string { return "uid=" + ldap.EscapeDN(uid) + "," + People }

// fill adds ada, bob, o'*hara (x), whose names need escaping, and twin, who exists twice. Ada is in staff, which is in engineering, which
// is in everybody, which is in staff; in the POSIX group dev; and in admins in another branch. Bob is in writers, next to staff.
func (s *Server) fill() {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	organisation := map[string][]string{"objectClass": {"dcObject", "organization"}, "dc": {"example"}, "o": {"Example"}}
	s.must(add(admin, Base, organisation))
	for _, name := range []string{"people", "groups", "contractors", "elsewhere"} {
		s.must(add(admin, "ou="+name+","+Base, map[string][]string{"objectClass": {"organizationalUnit"}, "ou": {name}}))
	}
	s.must(add(admin, ReaderDN, map[string][]string{
		"objectClass": {"organizationalRole", "simpleSecurityObject"}, "cn": {"reader"}, "userPassword": {ReaderPassword},
	}))
	for _, uid := range []string{"ada", "bob", "twin"} {
		s.AddPerson(DN(uid), uid, uid+"@example.com")
	}
	s.AddPerson(DN("o'*hara (x)"), "o'*hara (x)", "o'hara*@example.com")
	s.AddPerson("uid=twin,ou=contractors,"+Base, "twin", "twin@example.com")
	s.AddGroup("cn=staff,"+Groups, DN("ada"), "cn=everybody,"+Groups)
	s.AddGroup("cn=engineering,"+Groups, "cn=staff,"+Groups)
	s.AddGroup("cn=everybody,"+Groups, "cn=engineering,"+Groups)
	s.AddGroup("cn=writers,"+Groups, DN("bob"))
	s.AddGroup("cn=admins,ou=elsewhere,"+Base, DN("ada"))
	s.must(add(admin, "cn=dev,"+Groups, map[string][]string{
		"objectClass": {"posixGroup"}, "cn": {"dev"}, "gidNumber": {"1000"}, "memberUid": {"ada"},
	}))
}

// Admin returns a connection bound as the administrator. The caller closes it.
func (s *Server) Admin() *ldap.Conn {
	s.t.Helper()
	conn, err := ldap.DialURL(s.URL)
	s.must(err)
	s.must(conn.Bind(AdminDN, AdminPassword))
	return conn
}

// AddPerson adds a person's entry.
func (s *Server) AddPerson(dn, uid string, addresses ...string) {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	s.must(add(admin, dn, map[string][]string{
		"objectClass": {"inetOrgPerson"}, "uid": {uid}, "cn": {"Common " + uid}, "sn": {"Surname"}, "givenName": {"Given"},
		"displayName": {"The one called " + uid}, "mail": addresses, "userPassword": {PasswordOf(uid)},
	}))
}

// AddGroup adds a groupOfNames.
func (s *Server) AddGroup(dn string, members ...string) {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	s.must(add(admin, dn, map[string][]string{"objectClass": {"groupOfNames"}, "member": members}))
}

// Modify replaces one attribute of an entry. Without values it removes the attribute.
func (s *Server) Modify(dn, attribute string, values ...string) {
	s.t.Helper()
	admin := s.Admin()
	defer func() { _ = admin.Close() }()
	request := ldap.NewModifyRequest(dn, nil)
	request.Replace(attribute, values)
	s.must(admin.Modify(request))
}

func add(conn *ldap.Conn, dn string, attributes map[string][]string) error {
	request := ldap.NewAddRequest(dn, nil)
	for name, values := range attributes {
		request.Attribute(name, values)
	}
	if err := conn.Add(request); err != nil {
		return fmt.Errorf("adding %s: %w", dn, err)
	}
	return nil
}
