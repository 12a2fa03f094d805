package moving

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// mappable are the members of a user that a column may give.
var mappable = []string{"name", "username", "organisation", "role", "groups"}

// maxChosen is how many bytes of a text that people choose are sent. It is more than any of them may have.
const maxChosen = 1 << 10

// Devise turns rows of the table of Devise into what the admin API imports.
type Devise struct {
	Table string
	// Columns have the column of a member of users, beside those that Devise itself has.
	Columns map[string]string
}

// NewDevise returns a Devise with columns in the form member=column.
func NewDevise(table string, mapped []string) (Devise, error) {
	d := Devise{table, make(map[string]string)}
	for _, text := range mapped {
		member, column, found := strings.Cut(text, "=")
		if !found || column == "" || !slices.Contains(mappable, member) {
			return d, fmt.Errorf("--map %s: write it as MEMBER=COLUMN, with %s", text, strings.Join(mappable, ", "))
		}
		d.Columns[member] = column
	}
	return d, nil
}

// User returns the user of a row.
func (d Devise) User(row Row) (admin.UserToImport, error) {
	for member, column := range d.Columns {
		if !row.Has(column) {
			return admin.UserToImport{}, errMap{fmt.Errorf("--map %s=%s: there is no such column", member, column)}
		}
	}
	text := func(member string) string { return row.Text(cmp.Or(d.Columns[member], "\x00")) }
	u := admin.UserToImport{
		ID: row.Text("id"), Email: row.Text("email"), Name: text("name"), Username: text("username"), Organisation: text("organisation"), Role: text("role"),
		Status: string(store.UserActive),
	}
	for _, member := range mappable {
		if d.Columns[member] != "" {
			u.Mapped = append(u.Mapped, member)
		}
	}
	if row.Has("encrypted_password") {
		u.Mapped = append(u.Mapped, "password_hash")
	}
	if column := d.Columns["groups"]; column != "" {
		u.Groups = row.List(column)
	}
	// A person chooses these, and must not keep the whole row from being imported. What is too long is still refused.
	for _, text := range []*string{&u.Email, &u.Name, &u.Username} {
		*text = strings.ToValidUTF8((*text)[:min(len(*text), maxChosen)], "\ufffd")
	}
	confirmed, err := row.Time("confirmed_at")
	if err != nil {
		return u, err
	}
	locked, err := row.Time("locked_at")
	if err != nil {
		return u, err
	}
	switch u.EmailVerified = !confirmed.IsZero(); {
	case !locked.IsZero():
		u.Status, u.Note = string(store.UserLocked), "locked there, and locked here"
	case row.Has("confirmed_at") && confirmed.IsZero():
		u.Status, u.Note = string(store.UserDisabled), "brought over disabled: the address was never confirmed"
	}
	switch hash := row.Text("encrypted_password"); {
	case hash != "":
		u.Hash = passwords.DeviseScheme + hash
	case u.Note == "":
		u.Note = "has no password: invite the user, or let a provider vouch for the address"
	}
	return u, nil
}

// errMap is a --map that no row can follow.
type errMap struct{ error }
