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

// Settings configure a directory.
type Settings struct {
	// Name is the provider's name. It is part of its people's identifiers, so a new name means a new directory.
	Name string
	Server
	People
	Groups
	Now func() time.Time
	// Warn reports to the operator what sign-ins revealed. It may be nil.
	Warn func(message string, err error)
}

// Server configures the connection to the directory.
type Server struct {
	// URL is ldaps://host or ldap://host. The port defaults to 636 or 389.
	URL string
	// StartTLS secures an ldap:// connection before its first operation (RFC 4511 §4.14).
	StartTLS bool
	// Insecure allows ldap:// without StartTLS to hosts other than loopback. Passwords are then sent unencrypted.
	Insecure bool
	// CA has the certificates of the accepted authorities, as PEM. If it is empty, the system's authorities are accepted.
	CA string
	// BindDN and BindPassword are the service account for searches. If both are empty, searches are anonymous.
	BindDN       string
	BindPassword oauth.Secret
	// DialTimeout bounds connecting, including the TLS handshake. Timeout bounds each operation. Default: 5 seconds.
	DialTimeout, Timeout time.Duration
	// Connections is the maximum number of concurrent sign-ins. Further ones wait. Default: 8.
	Connections int
}

// People configures how a person's entry is found and read.
type People struct {
	// UserBase is the entry below which people are searched for.
	UserBase string
	// UserFilter finds the entry of a person by {email} or {username}. Default: (mail={email}).
	UserFilter string
	Attributes Attributes
	// EmailUnverified means that people can change the address in their entry, so that it proves nothing.
	EmailUnverified bool
}

// Groups configures how a person's groups are found.
type Groups struct {
	// GroupBase is the entry below which groups are searched for. Groups elsewhere do not count. If it is empty, groups are not searched
	// for.
	GroupBase string
	// GroupFilter finds the groups of an entry by its {dn}, or by the {username} of a person. Default:
	// (|(member={dn})(uniqueMember={dn})(memberUid={username})).
	GroupFilter string
	// GroupDepth is the maximum number of steps from a person to a group of groups. 1 means direct membership alone. Default: 5.
	GroupDepth int
}

// Place identifies the directory permanently by its host and the domain of its people (RFC 2247), such as
// ldap://ldap.example.com/dc=example,dc=com. Changing the port, TLS or the branch below the domain does not change it.
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
	if first == len(base.RDNs) { // no domain: the root of the tree is unknown
		first = 0
	}
	root := ldap.DN{RDNs: base.RDNs[first:]}
	return "ldap://" + strings.ToLower(u.Hostname()) + "/" + root.String()
}

// Attributes names the attributes of a person's entry. The zero value means the defaults.
type Attributes struct {
	// Subject identifies a person permanently. Default: entryUUID, objectGUID, nsUniqueId or ipaUniqueID, whichever the entry has, or else
	// the name of the entry.
	Subject string
	// Email is the address. Default: mail.
	Email string
	// Names are the attributes with a person's name. The first one that the entry has is used. Default: displayName, cn.
	Names []string
	// Usernames are the attributes with the short name. The first one that the entry has is used. Default: uid, sAMAccountName.
	Usernames []string
	// Groups has the names of the groups' entries, as memberOf does. Default: none; GroupBase is the alternative.
	Groups string
}

const (
	defaultUserFilter  = "(mail=" + emailPlaceholder + ")"
	nestedGroupFilter  = "(|(member=" + dnPlaceholder + ")(uniqueMember=" + dnPlaceholder + "))"
	defaultGroupFilter = "(|(member=" + dnPlaceholder + ")(uniqueMember=" + dnPlaceholder + ")(memberUid=" + usernamePlaceholder + "))"
	defaultGroupDepth  = 5
	// MaxGroupDepth is the maximum GroupDepth.
	MaxGroupDepth      = 20
	defaultTimeout     = 5 * time.Second
	defaultConnections = 8
	// MaxConnections is the maximum of Connections.
	MaxConnections = 256
)

// plan holds checked Settings with defaults and derived values.
type plan struct {
	Settings
	address      string // host:port
	overTLS      bool   // from the first byte on
	tls          *tls.Config
	userFilter   filter
	groupFilter  filter
	nestedFilter filter
	groupBase    *ldap.DN // nil: any base
}

// Check returns an error if the settings are invalid.
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
		p.groupBase, _ = ldap.ParseDN(s.GroupBase) // parsed above
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

// readURL sets the directory's address and how connections to it are secured.
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
