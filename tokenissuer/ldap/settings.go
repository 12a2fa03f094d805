package ldap

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Settings are what an operator says of a directory.
type Settings struct {
	// Name is the provider's name, which is a part of what identifies its people: another name is another directory.
	Name string
	// URL is where it is: ldaps://host or ldap://host, with a port unless that is 636 or 389.
	URL string
	// StartTLS secures a connection of ldap:// before anything else is said on it (RFC 4511 §4.14).
	StartTLS bool
	// Insecure allows ldap:// without StartTLS to hosts that are not loopback. Passwords are then sent in the clear.
	Insecure bool
	// CA has the certificates of the directory's authorities, as PEM; empty: those of the system count.
	CA string
	// BindDN and BindPassword are the service account that searches; both empty: the searches are anonymous.
	BindDN       string
	BindPassword oauth.Secret
	// UserBase is the entry below which people are.
	UserBase string
	// UserFilter finds the entry of somebody by {email} or {username}. Default: (mail={email}).
	UserFilter string
	// GroupBase is the entry below which groups are. If it is set, only groups below it count. Empty: no group is searched for.
	GroupBase string
	// GroupFilter finds the groups of an entry by its {dn}, or by the {username} of a person. Default:
	// (|(member={dn})(uniqueMember={dn})(memberUid={username})).
	GroupFilter string
	// GroupDepth is how many steps lead from a person to a group of groups at most; 1: a person's own groups alone. Default: 5.
	GroupDepth int
	Attributes Attributes
	// EmailUnverified says that people can write the address in their entry themselves, so that nothing follows from it.
	EmailUnverified bool
	// DialTimeout bounds how long a connection and its TLS handshake take, Timeout each operation on it. Default: 5 seconds.
	DialTimeout, Timeout time.Duration
	// Connections is how many people can be signing in at once; others wait in turn. Default: 8.
	Connections int
	Now         func() time.Time
	// Warn tells the operator what came up while people signed in; nil: nobody is told.
	Warn func(message string, err error)
}

// Place names the directory for good: its host and the domain below which its people are (RFC 2247), as
// ldap://ldap.example.com/dc=example,dc=com. Port, TLS and the branch below the domain can change without making it another.
func (s Settings) Place() string {
	u, err := url.Parse(s.URL)
	base, errBase := ldap.ParseDN(strings.ToLower(s.UserBase))
	if err != nil || errBase != nil {
		return ""
	}
	first := len(base.RDNs)
	for first > 0 && strings.HasPrefix(base.RDNs[first-1].String(), "dc=") {
		first--
	}
	if first == len(base.RDNs) { // no domain: nobody knows where the tree begins
		first = 0
	}
	root := ldap.DN{RDNs: base.RDNs[first:]}
	return "ldap://" + strings.ToLower(u.Hostname()) + "/" + root.String()
}

// Attributes are the attributes of a person's entry. The zero value means the usual ones.
type Attributes struct {
	// Subject is what identifies a person for good. Default: entryUUID, objectGUID, nsUniqueId or ipaUniqueID, whichever the entry
	// has, else the name of the entry itself.
	Subject string
	// Email is the address. Default: mail.
	Email string
	// Names are what a person is called; the first that the entry has. Default: displayName, cn.
	Names []string
	// Usernames are the short name; the first that the entry has. Default: uid, sAMAccountName.
	Usernames []string
	// Groups lists the names of the groups' entries, as memberOf does. Default: none; GroupBase is another way to find them.
	Groups string
}

const (
	defaultUserFilter  = "(mail=" + emailPlaceholder + ")"
	nestedGroupFilter  = "(|(member=" + dnPlaceholder + ")(uniqueMember=" + dnPlaceholder + "))"
	defaultGroupFilter = "(|(member=" + dnPlaceholder + ")(uniqueMember=" + dnPlaceholder + ")(memberUid=" + usernamePlaceholder + "))"
	defaultGroupDepth  = 5
	// MaxGroupDepth is the greatest GroupDepth.
	MaxGroupDepth      = 20
	defaultTimeout     = 5 * time.Second
	defaultConnections = 8
	// MaxConnections is the greatest number of Connections.
	MaxConnections = 256
)

// plan is Settings that were checked, with their defaults, and what follows from them.
type plan struct {
	Settings
	address      string // host:port
	overTLS      bool   // from the first byte on
	tls          *tls.Config
	userFilter   filter
	groupFilter  filter
	nestedFilter filter
	groupBase    *ldap.DN // nil: any
}

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	_, err := s.plan()
	return err
}

func (s Settings) plan() (*plan, error) {
	p := &plan{Settings: s}
	if err := p.readURL(); err != nil {
		return nil, err
	}
	if (s.BindDN == "") != s.BindPassword.IsEmpty() {
		return nil, errors.New("bind_dn and bind_password belong together: a name without a password is an anonymous bind")
	}
	if s.UserBase == "" {
		return nil, errors.New("user_base is missing: name the entry below which people are, as ou=people,dc=example,dc=com")
	}
	for what, name := range map[string]string{"bind_dn": s.BindDN, "user_base": s.UserBase, "group_base": s.GroupBase} {
		if _, err := ldap.ParseDN(name); err != nil {
			return nil, fmt.Errorf("%s %q is not a distinguished name: write one, as ou=people,dc=example,dc=com", what, name)
		}
	}
	if s.GroupBase != "" {
		p.groupBase, _ = ldap.ParseDN(s.GroupBase) // it was parsed above
	}
	if err := p.readFilters(); err != nil {
		return nil, err
	}
	p.GroupDepth = cmp.Or(s.GroupDepth, defaultGroupDepth)
	p.DialTimeout, p.Timeout = cmp.Or(s.DialTimeout, defaultTimeout), cmp.Or(s.Timeout, defaultTimeout)
	p.Connections = cmp.Or(s.Connections, defaultConnections)
	switch {
	case p.GroupDepth < 1 || p.GroupDepth > MaxGroupDepth:
		return nil, fmt.Errorf("group_depth %d: use 1 to %d", p.GroupDepth, MaxGroupDepth)
	case p.Connections < 1 || p.Connections > MaxConnections:
		return nil, fmt.Errorf("connections %d: use 1 to %d", p.Connections, MaxConnections)
	case p.DialTimeout < 0 || p.Timeout < 0:
		return nil, errors.New("a timeout must be more than nothing")
	}
	return p, p.readAttributes()
}

// readURL finds out where the directory is and how connections to it are secured.
func (p *plan) readURL() error {
	u, err := url.Parse(p.URL)
	if err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return fmt.Errorf("%q is no address of a directory: write it as ldaps://ldap.example.com", p.URL)
	}
	port := "389"
	switch {
	case u.Scheme == "ldaps" && p.StartTLS:
		return errors.New("start_tls is for ldap://: ldaps:// is secured from the first byte on")
	case u.Scheme == "ldaps":
		p.overTLS, port = true, "636"
	case u.Scheme != "ldap":
		return fmt.Errorf("%q: the directory must be at ldaps:// or ldap://", p.URL)
	case !p.StartTLS && !p.Insecure && !oauth.IsLoopback(u.Hostname()):
		return fmt.Errorf("%q would send passwords in the clear: use ldaps://, or say start_tls; insecure allows it", p.URL)
	}
	if p.Insecure && (p.overTLS || p.StartTLS) {
		return errors.New("insecure is for connections without TLS: take it or start_tls away")
	}
	p.address = net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), port))
	p.tls = &tls.Config{ServerName: u.Hostname(), MinVersion: tls.VersionTLS12}
	if p.CA != "" {
		p.tls.RootCAs = x509.NewCertPool()
		if !p.tls.RootCAs.AppendCertsFromPEM([]byte(p.CA)) {
			return errors.New("ca: the file has no certificate in PEM")
		}
	}
	return nil
}

func (p *plan) readFilters() (err error) {
	p.userFilter, err = parseFilter(cmp.Or(p.UserFilter, defaultUserFilter), emailPlaceholder, usernamePlaceholder)
	if err != nil {
		return fmt.Errorf("user_filter: %w", err)
	}
	if !p.userFilter.has(emailPlaceholder) && !p.userFilter.has(usernamePlaceholder) {
		return fmt.Errorf("user_filter %q finds the same people whoever signs in: it must have {email} or {username}", p.UserFilter)
	}
	p.groupFilter, err = parseFilter(cmp.Or(p.GroupFilter, defaultGroupFilter), dnPlaceholder, usernamePlaceholder)
	if err != nil {
		return fmt.Errorf("group_filter: %w", err)
	}
	if !p.groupFilter.has(dnPlaceholder) && !p.groupFilter.has(usernamePlaceholder) {
		return fmt.Errorf("group_filter %q finds the same groups for everybody: it must have {dn} or {username}", p.GroupFilter)
	}
	p.nestedFilter = p.groupFilter
	if p.groupFilter.has(usernamePlaceholder) { // groups have no username
		p.nestedFilter = nestedGroupFilter
	}
	return nil
}

func (p *plan) readAttributes() error {
	a := &p.Attributes
	a.Email = cmp.Or(a.Email, "mail")
	if len(a.Names) == 0 {
		a.Names = []string{"displayName", "cn"}
	}
	if len(a.Usernames) == 0 {
		a.Usernames = []string{"uid", "sAMAccountName"}
	}
	for _, name := range p.userAttributes() {
		if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-.") != "" {
			return fmt.Errorf("%q is no name of an attribute", name)
		}
	}
	return nil
}

// TakesUsernames reports whether people can sign in with something that is no e-mail address.
func (p *plan) TakesUsernames() bool { return p.userFilter.has(usernamePlaceholder) }
