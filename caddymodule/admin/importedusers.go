package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
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
		s[name] = saidAs(value)
	}
	return s
}

// saidAs returns the digest of a value.
func saidAs(value any) string {
	text, _ := json.Marshal(value) // UTF-8, as the request was
	sum := sha256.Sum256(text)
	return base64.RawURLEncoding.EncodeToString(sum[:saidBytes])
}

// Beside what a source says, there is the status that it last set here, and the address of the first import.
const (
	statusSet  = "status set"
	firstEmail = "first email"
)

// readSaid reads the stored form. Of a damaged one nothing is known.
func readSaid(text string) said {
	s := make(said)
	_ = json.Unmarshal([]byte(text), &s) // see above
	return s
}

// text is the stored form.
func (s said) text() string {
	text, _ := json.Marshal(s, json.Deterministic(true)) // of base64
	return string(text)
}

// since returns what the source has changed since it was stored as before. A member that was not known then has not changed.
func (s said) since(old said) changed {
	c := make(changed)
	for name, digest := range s {
		if was, known := old[name]; known && was != digest {
			c[name] = true
		}
	}
	return c
}

// with returns what a source said, and of some members what it says now.
func (s said) with(now said, members changed) said {
	all := maps.Clone(s)
	for name := range members {
		all[name] = now[name]
	}
	return all
}

// changed are the names of members.
type changed map[string]bool

// only returns those that are among others.
func (c changed) only(names ...string) changed {
	some := make(changed)
	for _, name := range names {
		if c[name] {
			some[name] = true
		}
	}
	return some
}

var (
	errOvertaken   = store.InvalidInput(errors.New("the user has changed meanwhile: import again"))
	errNotImported = store.InvalidInput(errors.New("the id is in use here by one that did not come from this source"))
	// errImportRuns is the error of an import while another one of the same source runs, which may have read older rows.
	errImportRuns = errors.New("another import of this source is running, or broke off less than two minutes ago")
)

// ImportLease is how long an import that broke off keeps others away. One that has not called for as long must not go on.
const ImportLease = 2 * time.Minute

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
	return r.lease(ctx, t, ImportLease)
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

// user imports a user. States holds what was imported before.
func (o takeover) user(ctx context.Context, row UserToImport, states map[string]store.ImportState) (Imported, error) {
	result := Imported{User: row.Email, ID: row.ID}
	if row.ID == "" {
		return result.becomes(Refused, store.InvalidInput(errors.New("a user of another server needs its id")))
	}
	before, known := states[row.ID]
	user, err := o.t.Registry.People.User(ctx, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && known:
		result.Result, result.Reason = Unchanged, removedHere
		return result, nil
	case errors.Is(err, store.ErrNotFound):
		if err := row.checkHash(); err != nil {
			return result.becomes(Refused, err)
		}
		now := row.said()
		now[statusSet], now[firstEmail] = now["status"], now["email"]
		g := *o.t.Registry.People
		g.Stored = importing{g.Stored, o.t.Node.Store().Imports, o.source, now.text()}
		added, err := o.t.importNew(ctx, &g, row, o.dry)
		added.ID = row.ID
		return added, err
	case err != nil:
		return result.becomes(Refused, err)
	case !known || !before.AddedAt.Equal(user.CreatedAt):
		return result.becomes(Refused, errNotImported)
	}
	return o.takeChanges(ctx, user, row, readSaid(before.Said), result)
}

// takeChanges changes what the source has changed. If that is refused, it changes alone what a person must not be able to hold up, with a name that
// is too long or an address that is taken: status, password, role, organisation and groups, or else the status.
func (o takeover) takeChanges(ctx context.Context, user *store.User, row UserToImport, old said, result Imported) (Imported, error) {
	now := row.said()
	for _, kept := range []string{statusSet, firstEmail} {
		now[kept] = old[kept]
	}
	if now.text() == old.text() {
		return result.becomes(Unchanged, nil)
	}
	all := now.since(old)
	var refusal error
	for _, members := range []changed{all, all.only("status", "password_hash", "role", "organisation", "groups"), all.only("status")} {
		c := o.changes(row, user, old, members)
		say := now
		if refusal != nil {
			say = old.with(now, members)
		}
		if slices.Contains(c.names, "status") {
			say[statusSet] = now["status"]
		}
		err := o.apply(ctx, user, c)
		if err == nil && (refusal == nil || len(c.names) > 0) {
			err = o.put(ctx, store.ImportedUser, row.ID, say)
		}
		if result.Reason = c.note; refusal == nil && err == nil {
			result.Members = c.names
			return result.becomes(map[bool]Outcome{true: Unchanged, false: Updated}[len(c.names) == 0], nil)
		}
		switch refused, failed := result.becomes(Updated, err); {
		case failed != nil:
			return refused, failed
		case err == nil && len(c.names) > 0:
			refusal = fmt.Errorf("%w; %s changed all the same", refusal, strings.Join(c.names, ", "))
			return result.becomes(Refused, store.InvalidInput(refusal))
		case refusal == nil:
			refusal = err
		}
	}
	return result.becomes(Refused, refusal)
}

// apply makes a change of a user, or only checks it.
func (o takeover) apply(ctx context.Context, user *store.User, c userChange) error {
	switch {
	case len(c.names) == 0:
		return nil
	case o.dry:
		return people.DryRun{People: o.t.Registry.People}.UpdateUser(ctx, user, c.UserChange)
	}
	err := o.t.Registry.People.UpdateUser(ctx, user.ID, c.UserChange)
	if err == nil {
		o.t.record(ctx, "user updated", zap.String("subject", user.ID), zap.Strings("changed", c.names))
	}
	return err
}

// userChange is a change with the names of its members, and what the operator has to know.
type userChange struct {
	store.UserChange
	names []string
	note  string
}

// changes returns the change of a user to what the source has changed. Tokens are kept unless something changes that User.Version depends on.
// The source vouches for the address that it had when the user was imported, and for no later one: Devise keeps confirmed_at when an address changes,
// unless it is told otherwise.
func (o takeover) changes(row UserToImport, user *store.User, old said, changed changed) userChange {
	patch := row.differences(user)
	var c userChange
	empties := func(member string, has bool) bool {
		return changed[member] && !has && slices.Contains(row.Mapped, member)
	}
	if empties("groups", len(row.Groups) > 0) && len(user.Groups) > 0 {
		patch["groups"] = []byte("[]")
	}
	for _, m := range []struct{ name, value, is, otherwise string }{
		{"role", row.Role, string(user.Role), string(o.t.Issuer.Roles.Default())}, {"organisation", row.Organisation, user.Organisation, ""},
	} {
		if empties(m.name, m.value != "") && m.is != m.otherwise {
			patch[m.name], _ = json.Marshal(m.otherwise) // of our own settings
			c.note = "its role or organisation is empty there, and the default here"
		}
	}
	maps.DeleteFunc(patch, func(name string, _ jsontext.Value) bool { return !changed[name] })
	if patch.Has("status") && !mayFollow(user.Status, row.Status, old) {
		delete(patch, "status")
		c.note = "stays " + string(user.Status) + ", as it was set here"
	}
	c.names = patch.Names(user)
	email, err := store.CanonicalEmail(row.Email)
	apart := user.Apart
	moves := changed["email"] && email != user.Email && !apart
	verifies := changed["email_verified"] && row.EmailVerified && email == user.Email && !user.EmailVerified() && saidAs(row.Email) == old[firstEmail] && !apart
	takesPassword := empties("password_hash", row.Hash != "") && !user.PasswordHash.IsEmpty() && !apart
	if takesPassword {
		c.note = "its password is gone there, and was taken away here"
	}
	setsPassword := changed["password_hash"] && row.Hash != "" && !apart || takesPassword
	if apart && (changed["email"] || changed["password_hash"]) {
		c.note = "another person may have come to this user here, as its address is not verified there: address and password stay as they are here"
	}
	for _, member := range []struct {
		name  string
		found bool
	}{{"email", moves}, {"email_verified", verifies}, {"password_hash", setsPassword}} {
		if member.found {
			c.names = append(c.names, member.name)
		}
	}
	c.UserChange = store.UserChange{KeepsTokens: true, VerifiesEmail: verifies, Edit: func(u *store.User) error {
		if moves && err != nil {
			return err
		}
		if err := patch.Apply(u); err != nil {
			return err
		}
		if u.Apart != apart { // a person came since it was read
			return errOvertaken
		}
		if moves {
			u.Email, u.EmailVerifiedBy = email, store.Unvouched
		}
		if setsPassword {
			u.PasswordHash = oauth.NewSecret(row.Hash)
			return row.checkHash()
		}
		return nil
	}}
	return c
}

// mayFollow reports whether a status follows that of the source. A user whom an operator has disabled or locked here stays so, whatever the source
// says, and a disabled user does not become a locked one.
func mayFollow(is store.UserStatus, wanted string, old said) bool {
	switch store.UserStatus(wanted) {
	case store.UserActive:
		return saidAs(string(is)) == old[statusSet]
	case store.UserLocked:
		return is == store.UserActive
	}
	return true
}
