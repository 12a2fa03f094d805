package store

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Role is what a user may do. Roles are compared byte for byte. The empty role means none.
type Role string

// The roles of the default set.
const (
	RoleAdmin           Role = "admin"
	RoleGroupManager    Role = "group_manager"
	RoleBusinessManager Role = "business_manager"
	RoleMember          Role = "member"
)

// RoleDeclaration declares a role.
type RoleDeclaration struct {
	// Name is the value of the role claim.
	Name Role `json:"name"`
	// Words is the name that people see. Default: Name.
	Words string `json:"words,omitempty"`
	// Manages lists the roles whose users, in the same organisation, a user of this role may create tokens for. Default: none.
	Manages []Role `json:"manages,omitempty"`
}

// defaultRoles apply when no role is declared.
var defaultRoles = []RoleDeclaration{
	{Name: RoleAdmin, Manages: []Role{RoleGroupManager, RoleBusinessManager}},
	{Name: RoleGroupManager},
	{Name: RoleBusinessManager},
	{Name: RoleMember},
}

// RoleCatalogue is the set of roles that exist. The zero value is the default set. A stored user may have a role that is no longer
// declared: that user keeps everything but the role.
type RoleCatalogue struct{ declared []RoleDeclaration }

// NewRoleCatalogue returns a catalogue of the declared roles, or of the default set when there are none.
func NewRoleCatalogue(declared ...RoleDeclaration) RoleCatalogue { return RoleCatalogue{declared} }

// Validate returns an error if r, a declaration of this catalogue, is invalid.
func (c RoleCatalogue) Validate(r RoleDeclaration) error {
	if err := validateLabel(string(r.Name)); err != nil {
		return fmt.Errorf("role %q: %w", r.Name, err)
	}
	if err := validateName(r.Words); err != nil {
		return fmt.Errorf("role %s: the words: %w", r.Name, err)
	}
	times := 0
	for _, other := range c.declared {
		if other.Name == r.Name {
			times++
		}
	}
	if times > 1 {
		return fmt.Errorf("role %s is declared twice", r.Name)
	}
	for _, managed := range r.Manages {
		if err := c.Check(managed); err != nil {
			return fmt.Errorf("role %s manages: %w", r.Name, err)
		}
	}
	return nil
}

func (c RoleCatalogue) roles() []RoleDeclaration {
	if len(c.declared) == 0 {
		return defaultRoles
	}
	return c.declared
}

// find returns the declaration of a role, or the zero value.
func (c RoleCatalogue) find(name Role) RoleDeclaration {
	for _, r := range c.roles() {
		if r.Name == name {
			return r
		}
	}
	return RoleDeclaration{}
}

// Names lists the roles in order of declaration.
func (c RoleCatalogue) Names() []Role {
	names := make([]Role, 0, len(c.roles()))
	for _, r := range c.roles() {
		names = append(names, r.Name)
	}
	return names
}

// Has reports whether the role exists. The empty name does not.
func (c RoleCatalogue) Has(name Role) bool { return name != "" && c.find(name).Name == name }

// Check returns an error for a role that does not exist.
func (c RoleCatalogue) Check(name Role) error {
	if c.Has(name) {
		return nil
	}
	var names strings.Builder
	for i, known := range c.Names() {
		switch {
		case i == 0:
		case i == len(c.Names())-1:
			names.WriteString(" or ")
		default:
			names.WriteString(", ")
		}
		names.WriteString(string(known))
	}
	return fmt.Errorf("unknown role %q: use %s", name, names.String())
}

// Default returns the role of a user for whom none is set: member, or none if member is not declared.
func (c RoleCatalogue) Default() Role { return c.find(RoleMember).Name }

// Words returns the declared Words of a role, or "".
func (c RoleCatalogue) Words(name Role) string { return c.find(name).Words }

// ManagesAny reports whether users of the role may create tokens for others.
func (c RoleCatalogue) ManagesAny(name Role) bool { return len(c.find(name).Manages) > 0 }

// Manages reports whether users of one role may create tokens for users of another. An undeclared role manages none, and no role manages
// it.
func (c RoleCatalogue) Manages(name, other Role) bool {
	return c.Has(other) && slices.Contains(c.find(name).Manages, other)
}

// maxLabel is the longest name of a role or a group, in bytes.
const maxLabel = 64

// validateLabel returns an error for a name of a role or group that does not fit in a list or on one line, or that looks like another
// name because of surrounding white space or invisible characters.
func validateLabel(name string) error {
	if name == "" || len(name) > maxLabel || !utf8.ValidString(name) || strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }) {
		return fmt.Errorf("use 1 to %d bytes of printable text without commas and without spaces around it", maxLabel)
	}
	return nil
}

// MayCreateTokens reports whether a user may create tokens for others: the user is active, belongs to an organisation and has a role that
// manages others.
func (c RoleCatalogue) MayCreateTokens(user *User) bool {
	return user.IsActive() && user.Organisation != "" && c.ManagesAny(user.Role)
}
