package ldap

import (
	"context"
	"fmt"
	"strings"

	"github.com/go-ldap/ldap/v3"
)

const (
	// maxGroups bounds a person's groups, including groups of groups.
	maxGroups = 1000
	// groupsAtOnce is the number of groups whose parents one search finds.
	groupsAtOnce = 20
)

// knowsGroups reports whether the settings configure groups.
func (p *plan) knowsGroups() bool { return p.GroupBase != "" || p.Attributes.Groups != "" }

// membership collects the groups of one person.
type membership struct {
	plan  *plan
	c     *connection
	names []string
	// seen has the groups by folded name. A group that contains itself indirectly is therefore found once.
	seen map[string]bool
	// level has the groups found in the last step.
	level []string
}

// groups returns the names of a person's groups: the first value in the name of each group's entry, such as staff in
// cn=staff,ou=groups,dc=example,dc=com.
func (p *plan) groups(ctx context.Context, c *connection, person *ldap.Entry) ([]string, error) {
	m := membership{plan: p, c: c, names: []string{}, seen: map[string]bool{foldName(person.DN): true}}
	if err := m.addListed(person); err != nil {
		return nil, err
	}
	if p.GroupBase != "" {
		username := first(person, p.Attributes.Usernames)
		f := p.groupFilter
		if username == "" && f.has(usernamePlaceholder) {
			f = p.nestedFilter
		}
		if err := m.search(ctx, f.expand(dnPlaceholder, person.DN, usernamePlaceholder, username)); err != nil {
			return nil, err
		}
	}
	for depth := 1; depth < p.GroupDepth && len(m.level) > 0; depth++ {
		level := m.level
		m.level = nil
		if err := m.climb(ctx, level); err != nil {
			return nil, err
		}
	}
	return m.names, nil
}

// climb adds the groups that contain the groups of a level.
func (m *membership) climb(ctx context.Context, level []string) error {
	for len(level) > 0 && m.plan.GroupBase != "" {
		some := level[:min(groupsAtOnce, len(level))]
		level = level[len(some):]
		var either strings.Builder
		for _, dn := range some {
			either.WriteString(m.plan.nestedFilter.expand(dnPlaceholder, dn))
		}
		if err := m.search(ctx, "(|"+either.String()+")"); err != nil {
			return err
		}
	}
	for _, dn := range level { // without a base, a group lists its own groups
		found, err := m.c.search(ctx, dn, ldap.ScopeBaseObject, "(objectClass=*)", []string{m.plan.Attributes.Groups}, 1)
		switch {
		case ldap.IsErrorAnyOf(err, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInsufficientAccessRights): // the group need not be readable
			continue
		case err != nil:
			return fmt.Errorf("group %q: %w", dn, withoutReferral(err))
		}
		for _, group := range found {
			if err := m.addListed(group); err != nil {
				return err
			}
		}
	}
	return nil
}

// search adds the groups below the base that match a filter.
func (m *membership) search(ctx context.Context, filter string) error {
	found, err := m.c.search(ctx, m.plan.GroupBase, ldap.ScopeWholeSubtree, filter, []string{"1.1"}, maxGroups)
	if err != nil {
		return fmt.Errorf("groups below %s: %w", m.plan.GroupBase, withoutReferral(err))
	}
	for _, group := range found {
		if err := m.add(group.DN); err != nil {
			return err
		}
	}
	return nil
}

// addListed adds the groups that an entry lists.
func (m *membership) addListed(e *ldap.Entry) error {
	name := m.plan.Attributes.Groups
	if name == "" {
		return nil
	}
	for _, a := range e.Attributes {
		// Active Directory returns long lists in parts (MS-ADTS 3.1.1.3.1.3.3).
		if base, options, cut := strings.Cut(a.Name, ";"); cut && strings.EqualFold(base, name) && strings.HasPrefix(strings.ToLower(options), "range=") {
			return fmt.Errorf("%q is in more groups than the directory lists at once: set group_base", e.DN)
		}
	}
	for _, dn := range e.GetEqualFoldAttributeValues(name) {
		if err := m.add(dn); err != nil {
			return err
		}
	}
	return nil
}

// add adds a group once, if it is below the base. Other people may have created groups elsewhere.
func (m *membership) add(name string) error {
	dn, err := ldap.ParseDN(name)
	if err != nil || len(dn.RDNs) == 0 {
		return fmt.Errorf("%.200q is no name of a group", name)
	}
	if m.plan.groupBase != nil && !m.plan.groupBase.AncestorOfFold(dn) {
		return nil
	}
	key := strings.ToLower(dn.String())
	if m.seen[key] {
		return nil
	}
	if len(m.names) == maxGroups {
		return fmt.Errorf("there are more than %d groups: narrow group_base or group_filter", maxGroups)
	}
	m.seen[key] = true
	m.level = append(m.level, name)
	m.names = append(m.names, dn.RDNs[0].Attributes[0].Value)
	return nil
}
