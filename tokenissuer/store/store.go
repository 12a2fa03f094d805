package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

var (
	// ErrNotFound is returned when there is no record of that key.
	ErrNotFound = errors.New("not found")
	// ErrTaken is returned when an id is already in use, by a client or by a user, or an e-mail address by another user.
	ErrTaken = errors.New("the id is already taken")
	// ErrEmailTaken is the ErrTaken of an e-mail address.
	ErrEmailTaken error = emailTakenError{}
	// ErrInUse is returned for removing an organisation that has users.
	ErrInUse = errors.New("it still has users")
	// ErrLastWayIn is returned for taking an identity from a user who could not sign in without it.
	ErrLastWayIn = errors.New("the user could not sign in any more")
)

type emailTakenError struct{}

func (emailTakenError) Error() string        { return "another user has the e-mail address" }
func (emailTakenError) Is(target error) bool { return target == ErrTaken }

// RemovedError is the ErrTaken of an id that belonged to a client or a user who was removed.
type RemovedError struct {
	// FreeAt is when the last token of the former owner has expired for certain, and the id may be used again.
	FreeAt time.Time
}

// Error says until when the id is taken.
func (e RemovedError) Error() string {
	return "the id belonged to a client or user who was removed, and whose tokens may still be valid: it is taken until " +
		e.FreeAt.UTC().Format(time.RFC3339)
}

// Is reports whether target is ErrTaken.
func (RemovedError) Is(target error) bool { return target == ErrTaken }

// IsAnswer reports whether an error is one of these, which say how things stand. Any other says that the store could not do
// what it was asked for.
func IsAnswer(err error) bool {
	for _, answer := range []error{ErrNotFound, ErrTaken, ErrInUse, ErrLastWayIn} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// Unavailable returns the temporarily_unavailable of a store that could not do what it was asked for, with the cause. Answers
// stay as they are, and so does an error that is translated already. Stores call it themselves, and callers pass errors on.
// The error wraps its cause, so errors.Is finds context.Canceled when the caller has left.
func Unavailable(err error) error {
	if err == nil || IsAnswer(err) {
		return err
	}
	if e, ok := errors.AsType[*oauth.Error](err); ok && e.Code == oauth.TemporarilyUnavailable {
		return err
	}
	return oauth.Unavailable("store_unavailable", err)
}

// Store is what happens: the protocol's steps, each atomic and durable when it returns nil. An error other than the
// sentinels is one of Unavailable: the step did not happen, or its outcome is unknown, and no caller treats it as success. Stores keep no
// rule about time: expiry is decided by the core, and eviction of what has expired is the store's housekeeping.
// The package storetest proves the contract on every database.
type Store interface {
	ClientStore
	UserStore
	IdentityStore
	PersonalTokenStore
	FamilyStore
	LogoutStore
	KeyStore
	RevocationStore
	DeclarationStore
	AttemptStore
	Housekeeper
	// Ping reports whether the store can be asked now.
	Ping(ctx context.Context) error
	// Close ends the store; a second call does nothing. Calls that are under way may fail.
	Close() error
}

// ClientStore keeps the clients that are registered at run time.
type ClientStore interface {
	ClientDirectory
	// Clients lists every stored client, by id.
	Clients(ctx context.Context) ([]*Client, error)
	// AddClient registers a client; Declared is not kept. ErrTaken when the id belongs to a client or a user, and RemovedError
	// when it belonged to one whose tokens may still live when the client is created. Consents to a client that had the id
	// before are gone. Of concurrent calls with one id exactly one succeeds.
	AddClient(ctx context.Context, client *Client) error
	// ChangeClient reads the client, has change edit its members and keeps them, in one step: of concurrent changes of different members
	// none is lost. State stays as it was. An error of change is returned, and nothing is kept then; change may be called again.
	// ErrNotFound when there is no such client.
	ChangeClient(ctx context.Context, clientID string, change func(*Client) error) error
	// RotateClientSecret adds a secret and, in the same step, ends every older secret at othersUntil unless it ends
	// before; a zero othersUntil leaves them. Secrets that had ended when the new one was made are dropped. ErrNotFound
	// when there is no such client.
	RotateClientSecret(ctx context.Context, clientID string, secret ClientSecret, othersUntil time.Time) error
	// DisableClient marks the client and records the revocation of its tokens, in one step. ErrNotFound when there is
	// no such client.
	DisableClient(ctx context.Context, clientID string, tokens Revocation) error
	// EnableClient takes the mark away. Tokens stay revoked. ErrNotFound when there is no such client.
	EnableClient(ctx context.Context, clientID string) error
	// TouchClient sets LastUsedAt, and never moves it back. ErrNotFound when there is no such client.
	TouchClient(ctx context.Context, clientID string, at time.Time) error
	// CountClients returns how many clients have come to be known in that way.
	CountClients(ctx context.Context, origin ClientOrigin) (int, error)
	// RemoveClient deletes the client with its secrets and records the revocation of its tokens, in one step. The id stays
	// taken until tokens.FreeAt. ErrNotFound when there is no such client.
	RemoveClient(ctx context.Context, clientID string, tokens Revocation) error
}

// UserStore keeps the users and organisations that are registered at run time.
type UserStore interface {
	UserDirectory
	// Users lists the stored users, by id; of one organisation, unless its id is empty.
	Users(ctx context.Context, organisation string) ([]*User, error)
	// AddUser registers a user; Declared and Version are not kept. ErrTaken when the id belongs to a client or a user, ErrEmailTaken when
	// the address belongs to a user, and RemovedError as for AddClient. ErrNotFound when the organisation is not stored, unless organisationDeclared.
	// Identities, whose UserID is the user's, are linked in the same step: the user is External then. ErrTaken when an identity is linked.
	AddUser(ctx context.Context, user *User, organisationDeclared bool, identities ...Identity) error
	// ChangeUser reads the user, applies the change, sets UpdatedAt to end.At and keeps the result; if tokens end, it moves the user's
	// version on and ends every family of the user, and every one of which the user is the actor. All is one step: of concurrent changes
	// of different members none is lost. Id, Version and CreatedAt stay. It returns the revocations that it recorded. ErrNotFound when there
	// is no such user, or another organisation is not stored and not declared. ErrEmailTaken when another user has the address. An error
	// of Edit is returned as it is.
	ChangeUser(ctx context.Context, userID string, change UserChange, end Ending) ([]Revocation, error)
	// RehashPassword replaces a hash by another one of the same password, unless it has changed since: then nothing
	// happens and the result is nil. The version stays.
	RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error
	// RemoveUser deletes the user with its consents and identities and ends the same families as ChangeUser, in one step. The id stays
	// taken until end.Until, and for ever with end.KeepsID. It returns the revocations that it recorded. ErrNotFound when there is no such user.
	RemoveUser(ctx context.Context, userID string, end Ending) ([]Revocation, error)
	// HadUser reports whether the id is a stored user's, or was one's who has been removed.
	HadUser(ctx context.Context, userID string) (bool, error)
	// PasswordSchemes lists the distinct schemes of the stored hashes, as passwords.SchemeOf names them, in no order.
	PasswordSchemes(ctx context.Context) ([]string, error)
	// Organisations lists the stored organisations, by id.
	Organisations(ctx context.Context) ([]*Organisation, error)
	// AddOrganisation registers an organisation; Declared is not kept. ErrTaken when there is one of that id.
	AddOrganisation(ctx context.Context, organisation *Organisation) error
	// RemoveOrganisation deletes an organisation without users. ErrInUse when it has some, ErrNotFound when there is none.
	RemoveOrganisation(ctx context.Context, id string) error
}

// UserChange is a change of a user: an edit, and what follows from it beside the user.
type UserChange struct {
	// Edit edits the user, if it is not nil. It may be called again, and must not use the store. An error of it ends the change.
	Edit func(*User) error
	// KeepsTokens: tokens and sessions go on, provided that nothing of which User.Version depends has changed.
	KeepsTokens bool
	// OrganisationDeclared: another organisation that Edit sets need not be stored.
	OrganisationDeclared bool
	// VerifiesEmail: an operator vouches for the address that the user has then, and so do all identities of the user.
	VerifiesEmail bool
	// UnlinkIdentities takes all identities from the user, who is no longer External, with what their providers have said, and ends the
	// personal access tokens.
	UnlinkIdentities bool
	// KeepIdentities: all identities of the user are one person's. They count as linked at the same time, now.
	KeepIdentities bool
}

// MergeUser is the change that merges a patch. Tokens go on if the patch changes only what applications are told about the user.
func MergeUser(p Patch, roles RoleCatalogue) UserChange {
	return UserChange{
		Edit:        func(u *User) error { return u.Merge(p, roles) },
		KeepsTokens: !p.Has("role") && !p.Has("status") && !p.Has("organisation") && !p.Has("groups"),
	}
}

// Apply makes the change to u, as far as it is in the user's record, and reports whether tokens end.
func (c UserChange) Apply(u *User) (endsTokens bool, err error) {
	before := *u
	if c.Edit != nil {
		if err := c.Edit(u); err != nil {
			return false, err
		}
	}
	if c.UnlinkIdentities {
		u.External, u.ProviderGroups, u.GroupsBy = false, nil, ""
		if u.EmailVerifiedBy != VerifiedByOperator {
			u.EmailVerifiedBy = ""
		}
	}
	if c.VerifiesEmail {
		u.EmailVerifiedBy = VerifiedByOperator
	}
	if u.Profile.IsZero() {
		u.Profile = nil
	}
	kept := c.KeepsTokens && !c.UnlinkIdentities && u.PasswordHash.Digest() == before.PasswordHash.Digest() && u.Organisation == before.Organisation &&
		u.Role == before.Role && u.Status == before.Status && slices.Equal(u.Groups, before.Groups) && slices.Equal(u.ProviderGroups, before.ProviderGroups)
	return !kept, nil
}

// Ending is when families end, and until when their revocations are kept, unless the family says more: longer than any access token
// can live. See TokenFamily.RevokedUntil.
type Ending struct {
	At    time.Time
	Until time.Time
	// KeepsID: the id of a user who is removed is never given to another, because applications know users by it.
	KeepsID bool
}

// FeedPosition is how far a caller has read the feed of revocations. The zero value is its beginning.
type FeedPosition struct {
	// At is where the caller goes on.
	At int64
	// End and Tag are where the feed ended when it was read last. By them a store notices that it was put back to an older state.
	End, Tag int64
	// Lost: the store no longer has what the caller had seen. The whole feed follows.
	Lost bool
}

// FeedPage is how many revocations a store may hold back for the next question; see RevocationStore.Revocations.
const FeedPage = 20000

// RevocationStore keeps what has been revoked, until the last token that it could hit has expired.
type RevocationStore interface {
	// Revoke records the revocations. Recording one again widens it, and never narrows it.
	Revoke(ctx context.Context, revocations ...Revocation) error
	// Revocations lists what was recorded after a position, and returns the position to ask from next time. A position that the
	// store no longer knows, as after a restore, asks for everything. A caller that goes on from the returned position
	// never misses what was acknowledged; when FeedPage or more are returned, there may be more already.
	Revocations(ctx context.Context, after FeedPosition) (revocations []Revocation, next FeedPosition, err error)
}

// DeclarationStore remembers what the configuration declared, so that what it no longer declares can be ended.
type DeclarationStore interface {
	// Declarations lists what was put last, in no order.
	Declarations(ctx context.Context) (declared []Declaration, ended []EndedDeclaration, err error)
	// PutDeclarations replaces both lists, in one step.
	PutDeclarations(ctx context.Context, declared []Declaration, ended []EndedDeclaration) error
}

// Declaration is a client or a user of a configuration. Two are the same when every member is.
type Declaration struct {
	Kind RevocationKind // RevokeClient or RevokeUser
	ID   string
	// Version is the user's.
	Version string
}

// EndedDeclaration is one that a configuration has taken out. It is remembered, because another node may go by an older
// configuration for a while.
type EndedDeclaration struct {
	Declaration
	At time.Time // when it was taken out first
}

// Housekeeper deletes what no rule needs any longer, a bounded number of records at a time, so that other callers do not wait long. More
// reports whether there may be more.
type Housekeeper interface {
	// Lease gives the task of that name to the holder until then, and reports whether the holder has it now. The holder
	// keeps it by asking again. Another gets it once it has expired; it has expired at the moment that it names as its end.
	// Of concurrent callers at most one gets it. The callers' clocks may differ, so what a lease guards must be safe to be
	// done twice: it only keeps several nodes from working at the same thing.
	Lease(ctx context.Context, name, holder string, until, now time.Time) (bool, error)
	// DropRevocations deletes those that expired before then.
	DropRevocations(ctx context.Context, expiredBefore time.Time) (more bool, err error)
	// DropFamilies deletes families that expired before then, and decided requests, session clients and personal access tokens that did.
	DropFamilies(ctx context.Context, expiredBefore time.Time) (more bool, err error)
	// DropAttempts deletes the counts of windows that ended before then.
	DropAttempts(ctx context.Context, endedBefore time.Time) (more bool, err error)
	// Sizes returns how many records there are. Large numbers may be estimates, and asking may take long.
	Sizes(ctx context.Context) (Sizes, error)
}

// Sizes are how many records a store holds.
type Sizes struct {
	Families, Revocations, Requests, Clients, Users int64
}

// AttemptStore counts failed attempts for all nodes that share the store.
type AttemptStore interface {
	// CountAttempt adds by to the failures in the bucket's current window and returns the sum, and when that window ends.
	// A window that has no failure or is over, which it is in the moment that it names as its end, is followed by a new one
	// of that length when by is positive. A negative by takes failures back, down to none, and begins no window: then the
	// result is zero, as it is when there is none to tell of with by 0. Of concurrent calls none is lost.
	CountAttempt(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (n int, until time.Time, err error)
}

// AttemptCounter counts failed attempts in buckets, each over a window that begins with the first failure. What it
// keeps is bounded, whatever names the buckets have.
type AttemptCounter interface {
	// Failures returns the failures in the bucket's current window and when that window ends.
	Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time)
	// Fail counts a failure and returns the same, the failure included.
	Fail(ctx context.Context, bucket string, window time.Duration, now time.Time) (n int, until time.Time)
	// Forgive takes back one failure of the bucket's current window: the attempt that was counted beforehand went well.
	Forgive(ctx context.Context, bucket string, now time.Time)
}

// ClientDirectory answers which clients exist.
type ClientDirectory interface {
	// Client returns the client of exactly that id, byte for byte, disabled ones too. ErrNotFound when there is none.
	Client(ctx context.Context, id string) (*Client, error)
}

// UserDirectory answers which users and organisations exist. ErrNotFound when there is none.
type UserDirectory interface {
	// User returns the user of exactly that id, whatever its status.
	User(ctx context.Context, id string) (*User, error)
	// UserByEmail returns the user of that canonical address, with the same work whether there is one or not.
	UserByEmail(ctx context.Context, email string) (*User, error)
	// Organisation returns the organisation of exactly that id.
	Organisation(ctx context.Context, id string) (*Organisation, error)
}
