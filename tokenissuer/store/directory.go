package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Directory finds clients, users and organisations. Callers must not change what it returns.
type Directory interface {
	ClientDirectory
	UserDirectory
}

// Declarations are what a configuration declares.
type Declarations struct {
	Clients       []*Client
	Users         []*User
	Organisations []*Organisation
}

// StaticDirectory holds what the configuration declares. The zero value is empty.
type StaticDirectory struct {
	clients       map[string]*Client
	users         map[string]*User
	byEmail       map[string]*User
	organisations map[string]*Organisation
}

// NewStaticDirectory returns a directory of declarations and sets Declared on each. It returns an error for a malformed or duplicate
// declaration, and for an id that both a client and a user have.
func NewStaticDirectory(all Declarations) (StaticDirectory, error) {
	d := StaticDirectory{
		clients: make(map[string]*Client, len(all.Clients)), users: make(map[string]*User, len(all.Users)),
		byEmail:       make(map[string]*User, len(all.Users)),
		organisations: make(map[string]*Organisation, len(all.Organisations)),
	}
	for _, o := range all.Organisations {
		if err := o.Validate(); err != nil {
			return d, fmt.Errorf("organisation %q: %w", o.ID, err)
		}
		if _, twice := d.organisations[o.ID]; twice {
			return d, fmt.Errorf("organisation %q is declared twice", o.ID)
		}
		declared := *o
		declared.Declared = true
		d.organisations[o.ID] = &declared
	}
	for _, c := range all.Clients {
		if err := c.Validate(); err != nil {
			return d, fmt.Errorf("client %q: %w", c.ID, err)
		}
		if _, twice := d.clients[c.ID]; twice {
			return d, fmt.Errorf("client %q is declared twice", c.ID)
		}
		if c.ID == BuiltInClientID {
			return d, fmt.Errorf("client %q: the id is reserved for tokens that belong to no application", c.ID)
		}
		declared := *c
		declared.Declared = true
		d.clients[c.ID] = &declared
	}
	for _, u := range all.Users {
		if err := d.addUser(u); err != nil {
			return d, fmt.Errorf("user %q: %w", u.ID, err)
		}
	}
	return d, nil
}

func (d *StaticDirectory) addUser(u *User) error {
	if err := u.Validate(); err != nil {
		return err
	}
	if _, twice := d.users[u.ID]; twice {
		return errors.New("it is declared twice")
	}
	if _, client := d.clients[u.ID]; client || u.ID == BuiltInClientID {
		return errors.New("a client has this id: tokens of the one would pass for tokens of the other")
	}
	if other, taken := d.byEmail[u.Email]; taken {
		return fmt.Errorf("user %q has the same e-mail address", other.ID)
	}
	declared := *u
	declared.Declared, declared.Version = true, u.declaredVersion()
	d.users[u.ID], d.byEmail[u.Email] = &declared, &declared
	return nil
}

// Client returns a declared client.
func (d StaticDirectory) Client(_ context.Context, id string) (*Client, error) {
	return find(d.clients, id)
}

// User returns a declared user.
func (d StaticDirectory) User(_ context.Context, id string) (*User, error) { return find(d.users, id) }

// UserByEmail returns a declared user.
func (d StaticDirectory) UserByEmail(_ context.Context, email string) (*User, error) {
	return find(d.byEmail, email)
}

// Organisation returns a declared organisation.
func (d StaticDirectory) Organisation(_ context.Context, id string) (*Organisation, error) {
	return find(d.organisations, id)
}

func find[T any](declared map[string]*T, key string) (*T, error) {
	if found, ok := declared[key]; ok {
		return found, nil
	}
	return nil, ErrNotFound
}

// Clients lists the declared clients in no particular order.
func (d StaticDirectory) Clients() []*Client { return slices.Collect(maps.Values(d.clients)) }

// Users lists the declared users in no particular order.
func (d StaticDirectory) Users() []*User { return slices.Collect(maps.Values(d.users)) }

// Organisations lists the declared organisations in no particular order.
func (d StaticDirectory) Organisations() []*Organisation {
	return slices.Collect(maps.Values(d.organisations))
}

// OverlayDirectory combines declared and stored records, and prefers the declared ones. It always queries the store, because its timing
// must not reveal which ids are declared. An error of the store does not hide what is declared.
type OverlayDirectory struct {
	Declared StaticDirectory
	Stored   Directory
}

// Client returns the declared client, else the stored one.
func (d OverlayDirectory) Client(ctx context.Context, id string) (*Client, error) {
	stored, err := d.Stored.Client(ctx, id)
	return overlay(d.Declared.clients, id, stored, err)
}

// User returns the declared user, else the stored one.
func (d OverlayDirectory) User(ctx context.Context, id string) (*User, error) {
	stored, err := d.Stored.User(ctx, id)
	return overlay(d.Declared.users, id, stored, err)
}

// UserByEmail returns the declared user, else the stored one.
func (d OverlayDirectory) UserByEmail(ctx context.Context, email string) (*User, error) {
	stored, err := d.Stored.UserByEmail(ctx, email)
	found, err := overlay(d.Declared.byEmail, email, stored, err)
	if err != nil {
		return nil, err
	}
	// A stored user whose id is declared with another address has been replaced by the declaration.
	if other, shadowed := d.Declared.users[found.ID]; shadowed && other != found {
		return nil, ErrNotFound
	}
	return found, nil
}

// Organisation returns the declared organisation, else the stored one.
func (d OverlayDirectory) Organisation(ctx context.Context, id string) (*Organisation, error) {
	stored, err := d.Stored.Organisation(ctx, id)
	return overlay(d.Declared.organisations, id, stored, err)
}

func overlay[T any](declared map[string]*T, key string, stored *T, err error) (*T, error) {
	if found, ok := declared[key]; ok {
		return found, nil
	}
	return stored, err
}

// BuiltInClientID is the client of tokens that belong to no application: those of a browser session, and those of the password grant
// without a client. No other client and no user can have this id, and no client can authenticate with it.
const BuiltInClientID = "gatehouse"

// LookupClient returns the declared client with an id, or nil.
func (d StaticDirectory) LookupClient(id string) *Client { return d.clients[id] }

// LookupUser returns the declared user with an id, or nil.
func (d StaticDirectory) LookupUser(id string) *User { return d.users[id] }

// LookupUserByEmail returns the declared user with a canonical address, or nil.
func (d StaticDirectory) LookupUserByEmail(email string) *User { return d.byEmail[email] }

// LookupOrganisation returns the declared organisation with an id, or nil.
func (d StaticDirectory) LookupOrganisation(id string) *Organisation { return d.organisations[id] }

// Declares reports whether an id is a declared client's or user's, or BuiltInClientID.
func (d StaticDirectory) Declares(id string) bool {
	return d.clients[id] != nil || d.users[id] != nil || id == BuiltInClientID
}

// Declarations lists the declared clients and users.
func (d StaticDirectory) Declarations() []Declaration {
	var list []Declaration
	for id := range d.clients {
		list = append(list, Declaration{Kind: RevokeClient, ID: id})
	}
	for id, u := range d.users {
		list = append(list, Declaration{Kind: RevokeUser, ID: id, Version: u.Version})
	}
	return list
}
