package store

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Role is what a user may do. Roles are compared byte for byte. The empty one stands for none.
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
	// Name is what tokens call it (`role`).
	Name Role `json:"name"`
	// Words tell a person what the role is called. Default: the name.
	Words string `json:"words,omitempty"`
	// Manages are the roles of those for whom a user of this role may create tokens, within the same organisation. Default: none.
	Manages []Role `json:"manages,omitempty"`
}

// defaultRoles are known where none is declared.
var defaultRoles = []RoleDeclaration{
	{Name: RoleAdmin, Manages: []Role{RoleGroupManager, RoleBusinessManager}},
	{Name: RoleGroupManager},
	{Name: RoleBusinessManager},
	{Name: RoleMember},
}

// RoleCatalogue is which roles there are. The zero value has the default set. A user may have been stored with a role that
// is no longer declared: that user keeps everything but the role.
type RoleCatalogue struct{ declared []RoleDeclaration }

// NewRoleCatalogue returns a catalogue of the declared roles, which take the place of the default set, or that set when
// there are none.
func NewRoleCatalogue(declared ...RoleDeclaration) RoleCatalogue { return RoleCatalogue{declared} }

// Validate says what is wrong with one of the declarations that the catalogue was made of.
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

// Names lists the roles in the order of their declaration.
func (c RoleCatalogue) Names() []Role {
	names := make([]Role, 0, len(c.roles()))
	for _, r := range c.roles() {
		names = append(names, r.Name)
	}
	return names
}

// Has reports whether there is a role of that name. The empty name is no role.
func (c RoleCatalogue) Has(name Role) bool { return name != "" && c.find(name).Name == name }

// Check refuses a role that there is not.
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

// Default is the role of a user for whom none is named: member, or none where member is not declared.
func (c RoleCatalogue) Default() Role { return c.find(RoleMember).Name }

// Words are what the declaration calls a role; empty where it says nothing, and for a role of the default set.
func (c RoleCatalogue) Words(name Role) string { return c.find(name).Words }

// ManagesAny reports whether users of a role may create tokens for others.
func (c RoleCatalogue) ManagesAny(name Role) bool { return len(c.find(name).Manages) > 0 }

// Manages reports whether users of one role may create tokens for those of another. An undeclared role manages none, and
// none manages it.
func (c RoleCatalogue) Manages(name, other Role) bool {
	return c.Has(other) && slices.Contains(c.find(name).Manages, other)
}

// maxLabel bounds the name of a role or a group, in bytes.
const maxLabel = 64

// validateLabel refuses names of roles and groups that could not stand in a list or on one line, and those that look like
// another name: with white space around them, or with invisible characters.
func validateLabel(name string) error {
	if name == "" || len(name) > maxLabel || !utf8.ValidString(name) || strings.TrimSpace(name) != name ||
		strings.ContainsFunc(name, func(r rune) bool { return r == ',' || !unicode.IsPrint(r) }) {
		return fmt.Errorf("use 1 to %d bytes of printable text without commas and without spaces around it", maxLabel)
	}
	return nil
}

// MayCreateTokens reports whether a user may create tokens for others of the organisation: an active user who belongs to one, and whose role
// manages others.
func (c RoleCatalogue) MayCreateTokens(user *User) bool {
	return user.IsActive() && user.Organisation != "" && c.ManagesAny(user.Role)
}
