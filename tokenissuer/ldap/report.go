package ldap

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// note records the health of the directory after a sign-in. A refusal counts as healthy.
func (d *Directory) note(err error) {
	switch {
	case err == nil || oauth.AsError(err).Code != oauth.TemporarilyUnavailable:
		d.health.Note(d.plan.Now(), nil)
	case !errors.Is(err, context.Canceled):
		d.health.Note(d.plan.Now(), err)
	}
}

// State returns the health of the directory.
func (d *Directory) State() signin.State { return d.health.State() }

// namesAsSubjects advises the operator what to change.
const namesAsSubjects = "the entries have none of entryUUID, objectGUID, nsUniqueId and ipaUniqueID that we can read: whoever gets the entry of " +
	"somebody who has left gets that account too. Name a permanent attribute as `subject` in `attributes`"

// Test checks the directory as a sign-in would use it, in these steps: address, connection, tls, bind, user_base, user_filter, groups.
// login is a person to look up, or empty.
func (d *Directory) Test(ctx context.Context, login string) []signin.Step {
	var s signin.Steps
	host, port, _ := net.SplitHostPort(d.plan.address) // we joined it
	lookup, cancel := context.WithTimeout(ctx, d.plan.DialTimeout)
	addresses, err := net.DefaultResolver.LookupNetIP(lookup, "ip", host)
	cancel()
	if err != nil {
		s.Fail("address", err)
		return s
	}
	texts := make([]string, len(addresses))
	for i, ip := range addresses {
		texts[i] = ip.Unmap().String()
	}
	s.Pass("address", "%s is %s", host, strings.Join(texts, ", "))
	c, err := d.plan.dial(ctx)
	if err != nil {
		s.Fail("connection", err)
		return s
	}
	defer c.close()
	s.Pass("connection", "connected to port %s", port)
	if d.plan.overTLS || d.plan.StartTLS {
		s.Pass("tls", "the certificate is valid for %s", host)
	} else {
		s.Advise("tls", "the connection is in the clear")
	}
	if d.plan.BindDN == "" {
		s.Advise("bind", "searches are anonymous: bind_dn and bind_password name a service account")
	} else if err := c.bind(ctx, d.plan.BindDN, d.plan.BindPassword); err != nil {
		s.Fail("bind", withoutReferral(err))
		return s
	} else {
		s.Pass("bind", "bound as %s", d.plan.BindDN)
	}
	if !d.testBase(ctx, &s, c, "user_base", d.plan.UserBase) {
		return s
	}
	person := d.testFilter(ctx, &s, c, login)
	if d.plan.GroupBase == "" || d.testBase(ctx, &s, c, "group_base", d.plan.GroupBase) {
		d.testGroups(ctx, &s, c, person)
	}
	return s
}

// testBase reports whether an entry can be read.
func (d *Directory) testBase(ctx context.Context, s *signin.Steps, c *connection, name, dn string) bool {
	found, err := c.search(ctx, dn, ldap.ScopeBaseObject, "(objectClass=*)", []string{"1.1"}, 1)
	if err == nil && len(found) == 0 {
		err = errors.New("it cannot be read")
	}
	if err != nil {
		s.Fail(name, fmt.Errorf("%s: %w", dn, withoutReferral(err)))
		return false
	}
	s.Pass(name, "%s can be read", dn)
	return true
}

// testFilter looks up a person and checks the entry. It returns nil if it finds none.
func (d *Directory) testFilter(ctx context.Context, s *signin.Steps, c *connection, login string) *ldap.Entry {
	if login == "" {
		login = "gatehouse-test@gatehouse.invalid"
		filter := d.plan.userFilter.expand(emailPlaceholder, login, usernamePlaceholder, login)
		if _, err := c.search(ctx, d.plan.UserBase, ldap.ScopeWholeSubtree, filter, d.plan.userAttributes(), 1); err != nil {
			s.Fail("user_filter", withoutReferral(err))
			return nil
		}
		s.Advise("user_filter", "the directory takes the filter; give the address of somebody to see whether it finds them")
		return nil
	}
	filter := d.plan.userFilter.expand(emailPlaceholder, login, usernamePlaceholder, login)
	found, err := c.search(ctx, d.plan.UserBase, ldap.ScopeWholeSubtree, filter, d.plan.userAttributes(), 1)
	switch {
	case errors.Is(err, errTooMany):
		s.Fail("user_filter", errors.New(filter+" finds several entries: nobody is let in"))
		return nil
	case err != nil:
		s.Fail("user_filter", withoutReferral(err))
		return nil
	case len(found) == 0:
		s.Fail("user_filter", errors.New(filter+" finds nobody below "+d.plan.UserBase))
		return nil
	}
	subject, isName, err := d.plan.subject(found[0])
	switch {
	case err != nil:
		s.Fail("subject", err)
		return nil
	case isName:
		s.Advise("subject", "%s is known by the name of the entry: no permanent identifier can be read", subject)
	}
	a := d.plan.account(found[0], subject, login)
	s.Pass("user_filter", "found %s: subject %s, e-mail %q, name %q, username %q", found[0].DN, subject, a.Email, a.Name, a.Profile.PreferredUsername)
	if isDisabled(found[0]) {
		s.Advise("user_filter", "the account is disabled")
	}
	return found[0]
}

// testGroups finds the groups of a person.
func (d *Directory) testGroups(ctx context.Context, s *signin.Steps, c *connection, person *ldap.Entry) {
	switch {
	case !d.plan.knowsGroups():
		s.Advise("groups", "people's groups are not asked for: group_base, or groups in attributes, says where they are")
	case person != nil:
		groups, err := d.plan.groups(ctx, c, person)
		if err != nil {
			s.Fail("groups", err)
			return
		}
		s.Pass("groups", "%q", groups)
	}
}
