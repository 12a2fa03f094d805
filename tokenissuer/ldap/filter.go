package ldap

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"
)

// The placeholders of a filter. {email} and {username} both stand for the login. {dn} is the name of an entry.
const (
	emailPlaceholder    = "{email}"
	usernamePlaceholder = "{username}"
	dnPlaceholder       = "{dn}"
)

// filter is a search filter (RFC 4515) with placeholders, which stand for whole assertion values or parts of them.
type filter string

// parseFilter checks a filter that may contain those placeholders.
func parseFilter(text string, placeholders ...string) (filter, error) {
	// The mark replaces each placeholder, so that the filter can be compiled and the mark found in it.
	const mark = "gatehouse0placeholder0mark"
	var pairs []string
	want := 0
	for _, p := range placeholders {
		want += strings.Count(text, p)
		pairs = append(pairs, p, mark)
	}
	marked := strings.NewReplacer(pairs...).Replace(text)
	if strings.ContainsAny(marked, "{}") || strings.Contains(text, mark) {
		return "", fmt.Errorf("filter %q: only %s can stand in braces", text, strings.Join(placeholders, ", "))
	}
	compiled, err := ldap.CompileFilter(marked)
	if err != nil {
		return "", fmt.Errorf("filter %q is none of RFC 4515: %w", text, err)
	}
	if err := checkMarks(compiled, mark, want); err != nil {
		return "", fmt.Errorf("filter %q: %w", text, err)
	}
	return filter(text), nil
}

// checkMarks requires that the mark occurs that often in the assertion values of a compiled filter, and nowhere else. It does not count
// values with an asterisk: a login would match other people's names by prefix.
func checkMarks(compiled *ber.Packet, mark string, want int) error {
	found, beside := 0, false
	var walk func(p *ber.Packet, insideSubstrings bool)
	walk = func(p *ber.Packet, insideSubstrings bool) {
		isFilter := p.ClassType == ber.ClassContext && p.TagType == ber.TypeConstructed
		insideSubstrings = insideSubstrings || isFilter && p.Tag == ldap.FilterSubstrings
		if len(p.Children) == 0 {
			n := strings.Count(p.Data.String(), mark)
			beside = beside || insideSubstrings && n > 0
			found += n
		}
		for _, child := range valuesOf(p) {
			walk(child, insideSubstrings)
		}
	}
	walk(compiled, false)
	switch {
	case beside:
		return errors.New("an asterisk beside a placeholder would find people who were not named")
	case found != want:
		return errors.New("a placeholder can only stand behind the = of a comparison")
	}
	return nil
}

// valuesOf returns the children of a compiled filter, except those that name attributes and rules.
func valuesOf(p *ber.Packet) []*ber.Packet {
	if p.ClassType != ber.ClassContext || p.TagType != ber.TypeConstructed {
		return p.Children
	}
	switch p.Tag {
	case ldap.FilterEqualityMatch, ldap.FilterGreaterOrEqual, ldap.FilterLessOrEqual, ldap.FilterApproxMatch, ldap.FilterSubstrings:
		return p.Children[1:]
	case ldap.FilterExtensibleMatch:
		return slices.DeleteFunc(slices.Clone(p.Children), func(c *ber.Packet) bool {
			return c.Tag != ldap.MatchingRuleAssertionMatchValue
		})
	}
	return p.Children
}

// has reports whether a placeholder occurs in the filter.
func (f filter) has(placeholder string) bool { return strings.Contains(string(f), placeholder) }

// expand replaces placeholders by escaped values. pairs are placeholders, each followed by its value.
func (f filter) expand(pairs ...string) string {
	for i := 1; i < len(pairs); i += 2 {
		pairs[i] = ldap.EscapeFilter(pairs[i])
	}
	return strings.NewReplacer(pairs...).Replace(string(f))
}
