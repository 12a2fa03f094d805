package configuration

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// LDAP are the settings of a provider that is an LDAP directory.
type LDAP struct {
	// BindDN is the service account that searches. Default: searches are anonymous.
	BindDN string `json:"bind_dn,omitempty"`
	// BindPassword is its password. Give it as a placeholder to keep it out of the configuration.
	BindPassword string `json:"bind_password,omitempty"`
	// UserBase is the entry below which people are. Required.
	UserBase string `json:"user_base,omitempty"`
	// UserFilter finds the entry of the person who signs in: {email} and {username} are the typed text. Default: (mail={email}).
	UserFilter string `json:"user_filter,omitempty"`
	// GroupBase is the entry below which groups are. Groups elsewhere do not count then. Default: groups are not searched for.
	GroupBase string `json:"group_base,omitempty"`
	// GroupFilter finds the groups of an entry by its {dn}, or by the {username} in it. Default:
	// (|(member={dn})(uniqueMember={dn})(memberUid={username})).
	GroupFilter string `json:"group_filter,omitempty"`
	// GroupDepth bounds the depth of nested groups. Default: 5.
	GroupDepth int `json:"group_depth,omitempty"`
	// Attributes are the attributes of a person's entry.
	Attributes *LDAPAttributes `json:"attributes,omitempty"`
	// EmailUnverified reports that people can change the address in their entry. Default: it counts as verified.
	EmailUnverified bool `json:"email_unverified,omitempty"`
	// StartTLS secures a connection of ldap://.
	StartTLS bool `json:"start_tls,omitempty"`
	// Insecure allows passwords in the clear to hosts that are not loopback.
	Insecure bool `json:"insecure,omitempty"`
	// CA is a file with the certificates of the directory's authorities, in PEM. Default: those of the system count.
	CA string `json:"ca,omitempty"`
	// DialTimeout bounds connecting, and Timeout each operation. Default: 5 seconds.
	DialTimeout caddy.Duration `json:"dial_timeout,omitempty"`
	Timeout     caddy.Duration `json:"timeout,omitempty"`
	// Connections bounds the sign-ins at a time. Default: 8.
	Connections int `json:"connections,omitempty"`
}

// LDAPAttributes are the attributes of a person's entry.
type LDAPAttributes struct {
	// Subject identifies a person permanently. Default: entryUUID, objectGUID, nsUniqueId or ipaUniqueID.
	Subject string `json:"subject,omitempty"`
	// Email is the address. Default: mail.
	Email string `json:"email,omitempty"`
	// Names are attributes with a person's name; the first one that is present counts. Default: displayName, cn.
	Names []string `json:"names,omitempty"`
	// Usernames are attributes with the short name; the first one that is present counts. Default: uid, sAMAccountName.
	Usernames []string `json:"usernames,omitempty"`
	// Groups is an attribute that lists the entries of groups, as memberOf does. Default: none.
	Groups string `json:"groups,omitempty"`
}

// options are the lines of a directory.
//
//	ldap <name> <url> {
//		bind_dn       <dn>
//		bind_password <password> | {env.NAME} | {file./path}
//		user_base     <dn>
//		user_filter   <filter>
//		group_base    <dn>
//		group_filter  <filter>
//		group_depth   <steps>
//		attributes {
//			subject  <attribute>
//			email    <attribute>
//			name     <attribute>...
//			username <attribute>...
//			groups   <attribute>
//		}
//		email_unverified
//		start_tls
//		insecure
//		ca            <file>
//		dial_timeout  <duration>
//		timeout       <duration>
//		connections   <number>
//	}
func (l *LDAP) options(c *Provider) options {
	return options{
		"bind_dn": checkedText(&l.BindDN, nil), "bind_password": func(d *caddyfile.Dispenser) error { return l.parsePassword(d, "provider "+c.Name) },
		"user_base": checkedText(&l.UserBase, nil), "user_filter": checkedText(&l.UserFilter, nil),
		"group_base": checkedText(&l.GroupBase, nil), "group_filter": checkedText(&l.GroupFilter, nil), "group_depth": number(&l.GroupDepth),
		"attributes": l.parseAttributes, "email_unverified": flag(&l.EmailUnverified),
		"start_tls": flag(&l.StartTLS), "insecure": flag(&l.Insecure), "ca": checkedText(&l.CA, nil),
		"dial_timeout": func(d *caddyfile.Dispenser) error { return parsePositive(d, &l.DialTimeout) },
		"timeout":      func(d *caddyfile.Dispenser) error { return parsePositive(d, &l.Timeout) },
		"connections":  number(&l.Connections),
	}
}

// number is an option whose value is a whole number above zero.
func number(value *int) func(*caddyfile.Dispenser) error {
	return func(d *caddyfile.Dispenser) error {
		name := d.Val()
		if err := setting.Once(d, name, *value != 0); err != nil {
			return err
		}
		text, err := setting.OneArg(d)
		if err != nil {
			return err
		}
		if *value, err = strconv.Atoi(text); err != nil || *value < 1 {
			return d.Errf("%s %q: use a whole number above zero", name, text)
		}
		return nil
	}
}

// parsePassword reads the service account's password.
func (l *LDAP) parsePassword(d *caddyfile.Dispenser, owner string) error {
	if err := setting.Text(d, &l.BindPassword); err != nil {
		return err
	}
	return checkReference(d, owner, "password", l.BindPassword, 1)
}

func (l *LDAP) parseAttributes(d *caddyfile.Dispenser) error {
	a := orNew(&l.Attributes)
	return options{
		"subject": checkedText(&a.Subject, nil), "email": checkedText(&a.Email, nil), "groups": checkedText(&a.Groups, nil),
		"name": checkedList(&a.Names, nil), "username": checkedList(&a.Usernames, nil),
	}.parseAlone(d, "unknown attribute %q")
}

// The names of settings for which standIn needs other values than a URL.
const (
	directoryURL = "directory"
	directoryDN  = "bind_dn"
	directoryCA  = "ca"
)

// readLDAP reads a directory.
func (c *Provider) readLDAP(lookup lookup) (*ldap.Settings, error) {
	l := c.LDAP
	if l == nil {
		l = new(LDAP)
	}
	switch {
	case c.ClientID != "" || len(c.Scopes) > 0 || c.GroupsClaim != "" || c.GitHubGroups != "":
		return nil, errors.New("a directory has neither a client nor scopes nor claims")
	case c.Default || len(c.Domains) > 0:
		return nil, errors.New("people are not sent to a directory, they type its password here: take default and domains away")
	case c.AllowPrivateNetwork:
		return nil, errors.New("a directory may be at any address, private ones too: take allow_private_network away")
	}
	s := &ldap.Settings{
		Name: c.Name,
		Server: ldap.Server{
			StartTLS: l.StartTLS, Insecure: l.Insecure, Connections: l.Connections, DialTimeout: time.Duration(l.DialTimeout), Timeout: time.Duration(l.Timeout),
		},
		People: ldap.People{UserBase: l.UserBase, UserFilter: l.UserFilter, EmailUnverified: l.EmailUnverified},
		Groups: ldap.Groups{GroupBase: l.GroupBase, GroupFilter: l.GroupFilter, GroupDepth: l.GroupDepth},
	}
	if a := l.Attributes; a != nil {
		s.Attributes = ldap.Attributes(*a)
	}
	if len(c.AllowGroups) > 0 && l.GroupBase == "" && s.Attributes.Groups == "" {
		return nil, errors.New("allow group needs to know people's groups: add group_base, or groups in attributes")
	}
	var password string
	for what, from := range map[string]struct {
		configured string
		to         *string
	}{
		directoryURL: {c.URL, &s.URL}, directoryDN: {l.BindDN, &s.BindDN}, "bind_password": {l.BindPassword, &password}, directoryCA: {fileReference(l.CA), &s.CA},
	} {
		if from.configured == "" {
			continue
		}
		value, err := lookup(what, from.configured)
		if err != nil {
			return nil, err
		}
		*from.to = value
	}
	s.BindPassword = oauth.NewSecret(password)
	return s, s.Check()
}

// fileReference returns the placeholder for the content of a file.
func fileReference(path string) string {
	if path == "" {
		return ""
	}
	return fmt.Sprintf("{file.%s}", path)
}
