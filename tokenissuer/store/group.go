package store

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// The bounds of a user's groups. Groups within them fit into a token and an assertion with all other claims, and into one header.
const (
	maxGroups      = 100
	maxGroupsClaim = 2048 // bytes of the claim, in JSON
	maxGroupsField = 4096 // bytes of the list in a header, which encodes everything but visible ASCII as %XX
)

// ValidateGroups returns an error if a user cannot have these groups.
func ValidateGroups(groups []string) error {
	if len(groups) > maxGroups {
		return fmt.Errorf("%d groups: a user can be in %d", len(groups), maxGroups)
	}
	var claim []byte
	field := 0
	for i, name := range groups {
		if err := validateLabel(name); err != nil {
			return fmt.Errorf("group %q: %w", name, err)
		}
		if slices.Contains(groups[:i], name) {
			return fmt.Errorf("group %q is there twice", name)
		}
		claim, _ = jsontext.AppendQuote(append(claim, ','), name) // a label is UTF-8
		field += 1 + fieldBytes(name)
	}
	if len(claim) > maxGroupsClaim || field > maxGroupsField {
		return errors.New("the groups take more than fits a token: use fewer, or shorter names (" +
			fmt.Sprintf("%d of %d bytes in a token, %d of %d in a header)", len(claim), maxGroupsClaim, field, maxGroupsField))
	}
	return nil
}

// fieldBytes returns the length of a name in which everything but visible ASCII is encoded as %XX.
func fieldBytes(name string) (n int) {
	for i := range len(name) {
		n++
		if c := name[i]; c <= ' ' || c > '~' || c == '%' {
			n += 2
		}
	}
	return n
}
