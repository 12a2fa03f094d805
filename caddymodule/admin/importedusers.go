package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// said has a digest of each member of a record, as its source says it: what the source changes is changed here, and nothing else.
type said map[string]string

// saidBytes is the length of a digest. It tells one value of a member from the one before.
const saidBytes = 9

func saidOf(members map[string]any) said {
	s := make(said, len(members))
	for name, value := range members {
		text, _ := json.Marshal(value) // UTF-8, as the request was
		sum := sha256.Sum256(text)
		s[name] = base64.RawURLEncoding.EncodeToString(sum[:saidBytes])
	}
	return s
}

// text is the stored form.
func (s said) text() string {
	text, _ := json.Marshal(s, json.Deterministic(true)) // of base64
	return string(text)
}

// since returns what the source has changed since it was stored as before. A member that was not known then has not changed.
func (s said) since(before string) changed {
	var old said
	_ = json.Unmarshal([]byte(before), &old) // of a damaged one nothing is known
	c := make(changed)
	for name, digest := range s {
		if was, known := old[name]; known && was != digest {
			c[name] = true
		}
	}
	return c
}

// changed are the names of members.
type changed map[string]bool

var (
	errNotImported = store.InvalidInput(errors.New("the id is in use here by one that did not come from this source"))
	// errImportRuns is the error of an import while another one of the same source runs, which may have read older rows.
	errImportRuns = errors.New("another import of this source is running, or broke off less than two minutes ago")
)

// importLease is how long an import that broke off keeps others away.
const importLease = 2 * time.Minute

// ImportRun is a run of an import, in which batches follow each other.
type ImportRun struct {
	Source string `json:"source,omitzero"`
	// Run is chosen by the caller at random. Runs of one source exclude each other.
	Run    string `json:"run,omitzero"`
	DryRun bool   `json:"dry_run,omitzero"`
}

// begin refuses a batch of a run while another run of the source is under way.
func (r ImportRun) begin(ctx context.Context, t *Target) error {
	if err := store.ValidateID(r.Source); err != nil { // it is part of keys
		return store.InvalidInput(fmt.Errorf("source: %w", err))
	}
	if r.DryRun {
		return nil
	}
	if r.Run == "" {
		return store.InvalidInput(errors.New("run: a random name of the import is missing"))
	}
	return r.lease(ctx, t, importLease)
}

// lease keeps other runs away for a while; 0: not any longer.
func (r ImportRun) lease(ctx context.Context, t *Target, length time.Duration) error {
	now := t.Issuer.Families.Now()
	held, err := t.Node.Store().Housekeeping.Lease(ctx, "import "+r.Source, r.Run, now.Add(length), now)
	if err == nil && !held {
		err = errImportRuns
	}
	return err
}

func endImport(t *Target, r *http.Request, run ImportRun) (int, any, error) {
	if err := run.lease(r.Context(), t, 0); err != nil {
		return 0, nil, err
	}
	return http.StatusNoContent, nil, nil
}

// removedHere is the reason why a record of a source is left out.
const removedHere = "it was removed here, and stays away"

// takeover imports what a source has.
type takeover struct {
	t      *Target
	source string
	dry    bool
}

// put keeps what the source says of a record that was imported before.
func (o takeover) put(ctx context.Context, kind store.ImportKind, key string, now said) error {
	if o.dry {
		return nil
	}
	return o.t.Node.Store().Imports.PutImportState(ctx, store.ImportRecord{Source: o.source, Kind: kind, Key: key}, now.text())
}

// users imports users of another server by their ids.
func (o takeover) users(ctx context.Context, asked UsersToImport) (int, any, error) {
	ids := make([]string, len(asked.Users))
	for i, row := range asked.Users {
		ids[i] = row.ID
	}
	states, err := o.t.Node.Store().Imports.ImportStates(sqlstore.WithTimeout(ctx), o.source, store.ImportedUser, ids)
	if err != nil {
		return 0, nil, err
	}
	results, errs := make([]Imported, len(asked.Users)), make([]error, len(asked.Users))
	importOne := func(i int) {
		row := asked.Users[i]
		if results[i], errs[i] = o.user(sqlstore.WithTimeout(ctx), row, states); results[i].Reason == "" && results[i].Result != Unchanged {
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

// importing is a store of users that adds one with what its source says.
type importing struct {
	people.Store
	imports      store.ImportStore
	source, said string
}

func (s importing) AddUser(ctx context.Context, u *store.User, organisationDeclared bool, _ ...store.Identity) error {
	return s.imports.AddImportedUser(ctx, s.source, s.said, u, organisationDeclared)
}

// said returns the digests of a row.
func (row UserToImport) said() said {
	return saidOf(map[string]any{
		"email": row.Email, "email_verified": row.EmailVerified, "name": row.Name, "preferred_username": row.Username, "organisation": row.Organisation,
		"role": row.Role, "groups": row.Groups, "status": row.Status, "password_hash": row.Hash,
	})
}

// user imports a user, of whom states has what was imported before.
func (o takeover) user(ctx context.Context, row UserToImport, states map[string]store.ImportState) (Imported, error) {
	result := Imported{User: row.Email, ID: row.ID}
	if row.ID == "" {
		return result.becomes(Refused, store.InvalidInput(errors.New("a user of another server needs its id")))
	}
	if err := row.checkHash(); err != nil {
		return result.becomes(Refused, err)
	}
	t, now := o.t, row.said()
	before, known := states[row.ID]
	user, err := t.Registry.People.User(ctx, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && known:
		result.Result, result.Reason = Unchanged, removedHere
		return result, nil
	case errors.Is(err, store.ErrNotFound):
		g := *t.Registry.People
		g.Stored = importing{g.Stored, t.Node.Store().Imports, o.source, now.text()}
		added, err := t.importNew(ctx, &g, row, o.dry)
		added.ID = row.ID
		return added, err
	case err != nil:
		return result.becomes(Refused, err)
	case !known || !before.AddedAt.Equal(user.CreatedAt):
		return result.becomes(Refused, errNotImported)
	}
	edit, names := row.changes(user, now.since(before.Said))
	switch {
	case now.text() == before.Said:
		return result.becomes(Unchanged, nil)
	case len(names) == 0:
		return result.becomes(Unchanged, o.put(ctx, store.ImportedUser, row.ID, now))
	}
	result.Members = names
	if o.dry {
		return result.becomes(Updated, people.DryRun{People: t.Registry.People}.UpdateUser(ctx, user, edit))
	}
	if err = t.Registry.People.UpdateUser(ctx, row.ID, edit); err == nil {
		t.record(ctx, "user updated", zap.String("subject", row.ID), zap.Strings("changed", names))
		err = o.put(ctx, store.ImportedUser, row.ID, now)
	}
	return result.becomes(Updated, err)
}

// changes returns the change of a user to what the source has changed, and the names of its members. Tokens are kept unless something changes
// that User.Version depends on. The source vouches for the address that it has confirmed, and for no later one: Devise keeps confirmed_at
// when an address changes, unless it is told otherwise.
func (row UserToImport) changes(user *store.User, changed changed) (store.UserChange, []string) {
	patch := row.differences(user)
	if row.SetGroups && len(row.Groups) == 0 && len(user.Groups) > 0 {
		patch["groups"] = []byte("[]")
	}
	maps.DeleteFunc(patch, func(name string, _ jsontext.Value) bool { return !changed[name] })
	names := patch.Names(user)
	email, err := store.CanonicalEmail(row.Email)
	moves := changed["email"] && email != user.Email
	verifies := changed["email_verified"] && row.EmailVerified && !changed["email"] && email == user.Email && user.EmailVerifiedBy == ""
	for _, member := range []struct {
		name  string
		found bool
	}{{"email", moves}, {"email_verified", verifies}, {"password_hash", changed["password_hash"] && row.Hash != ""}} {
		if member.found {
			names = append(names, member.name)
		}
	}
	return store.UserChange{KeepsTokens: true, VerifiesEmail: verifies, Edit: func(u *store.User) error {
		if moves && err != nil {
			return err
		}
		if err := patch.Apply(u); err != nil {
			return err
		}
		if moves {
			u.SetEmail(email)
		}
		if changed["password_hash"] && row.Hash != "" {
			u.PasswordHash = oauth.NewSecret(row.Hash)
		}
		return nil
	}}, names
}
