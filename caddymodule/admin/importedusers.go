package admin

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The kinds of records whose state is kept; see store.ImportStore.
const (
	importedUser   = "user"
	importedClient = "client"
)

// The state of a record is a digest of what the source says about it, and one of its secret, of stateHalf bytes each: a person who has a new
// password here keeps it when the source changes something else.
const stateHalf = 16

func stateOf(members any, secret string) string {
	text, _ := json.Marshal(members, json.Deterministic(true)) // UTF-8, as the request was
	first, second := sha256.Sum256(text), sha256.Sum256([]byte(secret))
	return string(first[:stateHalf]) + string(second[:stateHalf])
}

// change is what a source has changed since the last import.
type change struct{ members, secret bool }

func changeOf(before, now string) change {
	if len(before) != 2*stateHalf {
		return change{true, true}
	}
	return change{before[:stateHalf] != now[:stateHalf], before[stateHalf:] != now[stateHalf:]}
}

var errNotImported = store.InvalidInput(errors.New("the id is in use here by one that did not come from this source"))

// takeover imports what a source has.
type takeover struct {
	t      *Target
	source string
	dry    bool
}

// put keeps the state of a record.
func (o takeover) put(ctx context.Context, kind, record, state string) error {
	if o.dry {
		return nil
	}
	return o.t.Node.Store().Imports.PutImportState(ctx, o.source, kind, record, state)
}

// users imports users of another server by their ids.
func (o takeover) users(ctx context.Context, asked UsersToImport) (int, any, error) {
	ids := make([]string, len(asked.Users))
	for i, row := range asked.Users {
		ids[i] = row.ID
	}
	states, err := o.t.Node.Store().Imports.ImportStates(sqlstore.WithTimeout(ctx), o.source, importedUser, ids)
	if err != nil {
		return 0, nil, err
	}
	results, errs := make([]Imported, len(asked.Users)), make([]error, len(asked.Users))
	importOne := func(i int) {
		row := asked.Users[i]
		if results[i], errs[i] = o.user(sqlstore.WithTimeout(ctx), row, states[row.ID]); results[i].Reason == "" && results[i].Result != Unchanged {
			results[i].Reason = row.Note
		}
	}
	var importing sync.WaitGroup
	next, seen := make(chan int), make(map[string]bool)
	for range usersAtOnce {
		importing.Go(func() {
			for i := range next {
				importOne(i)
			}
		})
	}
	var later []int // the first of an address gets it
	for i, row := range asked.Users {
		if email, _ := store.CanonicalEmail(row.Email); seen[email] {
			later = append(later, i)
		} else {
			seen[email] = true
			next <- i
		}
	}
	close(next)
	importing.Wait()
	for _, i := range later {
		importOne(i)
	}
	return http.StatusOK, results, errors.Join(errs...)
}

// usersAtOnce is how many users of a batch are imported at a time. Their steps share the waits for the disk.
const usersAtOnce = 16

// user imports a user whose state was before when it was imported last; empty: it was not.
func (o takeover) user(ctx context.Context, row UserToImport, before string) (Imported, error) {
	result := Imported{User: row.Email, ID: row.ID}
	if row.ID == "" {
		return result.becomes(Refused, store.InvalidInput(errors.New("a user of another server needs its id")))
	}
	members := row
	members.Hash = ""
	state := stateOf(members, row.Hash)
	put := func() error { return o.put(ctx, importedUser, row.ID, state) }
	t := o.t
	user, err := t.Registry.People.User(ctx, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		// The state comes first: a user without one did not come from the source.
		if err := put(); err != nil {
			return result, err
		}
		added, err := t.importNew(ctx, row, o.dry)
		added.ID = row.ID
		return added, err
	case err != nil:
		return result.becomes(Refused, err)
	case before == state:
		return result.becomes(Unchanged, nil)
	case before == "":
		return result.becomes(Refused, errNotImported)
	}
	edit, names := row.changes(user, changeOf(before, state))
	result.Members = names
	if o.dry {
		return result.becomes(Updated, people.DryRun{People: t.Registry.People}.UpdateUser(ctx, user, edit))
	}
	if err = t.Registry.People.UpdateUser(ctx, row.ID, edit); err == nil {
		t.record(ctx, "user updated", zap.String("subject", row.ID), zap.Strings("changed", names))
		err = put()
	}
	return result.becomes(Updated, err)
}

// changes returns the change of a user to what the source says, and the names of its members. Tokens are kept unless something changes that
// User.Version depends on.
func (row UserToImport) changes(user *store.User, changed change) (store.UserChange, []string) {
	patch := make(store.Patch)
	if changed.members {
		if patch = row.differences(user); row.SetGroups && len(row.Groups) == 0 && len(user.Groups) > 0 {
			patch["groups"] = []byte("[]")
		}
	}
	names := patch.Names(user)
	email, err := store.CanonicalEmail(row.Email)
	moves := changed.members && email != user.Email
	if moves {
		names = append(names, "email")
	}
	if changed.secret {
		names = append(names, "password_hash")
	}
	return store.UserChange{KeepsTokens: true, VerifiesEmail: changed.members && row.EmailVerified && moves, Edit: func(u *store.User) error {
		if err != nil {
			return err
		}
		if err := patch.Apply(u); err != nil {
			return err
		}
		if moves {
			u.SetEmail(email)
		}
		if changed.secret {
			u.PasswordHash = oauth.NewSecret(row.Hash)
		}
		return nil
	}}, names
}
