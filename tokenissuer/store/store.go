package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

var (
	// ErrNotFound is returned when no record has the key.
	ErrNotFound = errors.New("not found")
	// ErrTaken is returned when a client or a user already has the id, or another user has the e-mail address.
	ErrTaken = errors.New("the id is already taken")
	// ErrEmailTaken is an ErrTaken about an e-mail address.
	ErrEmailTaken error = emailTakenError{}
	// ErrInUse is returned when an organisation that still has users is to be removed.
	ErrInUse = errors.New("it still has users")
	// ErrFull is returned when no more records of a kind may be added.
	ErrFull = errors.New("the queue is full")
	// ErrLastWayIn is returned when an identity is to be unlinked from a user who could not sign in without it.
	ErrLastWayIn = errors.New("the user could not sign in any more")
)

type emailTakenError struct{}

func (emailTakenError) Error() string        { return "another user has the e-mail address" }
func (emailTakenError) Is(target error) bool { return target == ErrTaken }

// RemovedError is an ErrTaken about the id of a removed client or user.
type RemovedError struct {
	// FreeAt is when the id may be used again: the last token of the former owner has expired by then.
	FreeAt time.Time
}

// Error includes when the id may be used again.
func (e RemovedError) Error() string {
	return "the id belonged to a client or user who was removed, and whose tokens may still be valid: it is taken until " +
		e.FreeAt.UTC().Format(time.RFC3339)
}

// Is reports whether target is ErrTaken.
func (RemovedError) Is(target error) bool { return target == ErrTaken }

// IsAnswer reports whether err is one of the sentinel errors of this package, which describe the stored state. Any other error means that
// the store could not do what it was asked to do.
func IsAnswer(err error) bool {
	for _, answer := range []error{ErrNotFound, ErrTaken, ErrInUse, ErrFull, ErrLastWayIn} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// Unavailable wraps an error of a store as temporarily_unavailable. It returns sentinel errors, and errors that are
// temporarily_unavailable already, unchanged. Stores call it themselves, and callers pass the errors on. The result wraps its cause:
// errors.Is finds context.Canceled when the caller has gone away.
func Unavailable(err error) error {
	if err == nil || IsAnswer(err) {
		return err
	}
	if e, ok := errors.AsType[*oauth.Error](err); ok && e.Code == oauth.TemporarilyUnavailable {
		return err
	}
	return oauth.Unavailable("store_unavailable", err)
}

// Store is the state of an issuer, in parts. Each method that changes something is atomic, and durable when it returns nil. An error other
// than a sentinel is one of Unavailable: the change was not made, or its outcome is unknown, and no caller treats it as success. The store
// does not decide whether something has expired; its caller does. It only deletes expired records, through Housekeeping. Package storetest
// tests this contract on every database.
//
// Callers take the parts that they need. The parts are of one database: a step of one may change records of another.
type Store struct {
	Clients ClientStore
	People
	Issued
	Outgoing
	Keys         KeyStore
	Revocations  RevocationStore
	Declarations DeclarationStore
	Attempts     AttemptStore
	Audit        AuditStore
	Housekeeping Housekeeper
	Connection
}

// Issued is the part of a Store with what was issued: token families, device authorizations, and tokens of other servers.
type Issued struct {
	Families FamilyStore
	Devices  DeviceStore
	Imports  ImportStore
}

// Outgoing is the part of a Store with what waits to be sent.
type Outgoing struct {
	Logouts LogoutStore
	Mails   MailStore
}

// People is the part of a Store about people: their accounts, and what they prove them with.
type People struct {
	Users          UserStore
	Identities     IdentityStore
	Factors        FactorStore
	PersonalTokens PersonalTokenStore
}

// Connection is the connection to the database of a store.
type Connection interface {
	// Ping returns an error unless the store can be used now.
	Ping(ctx context.Context) error
	// Close closes the store. A second call does nothing. Calls in progress may fail.
	Close() error
}

// Directory returns the stored clients, users and organisations.
func (s Store) Directory() Directory {
	return struct {
		ClientDirectory
		UserDirectory
	}{s.Clients, s.Users}
}

// ClientStore stores the clients that are registered at run time.
type ClientStore interface {
	ClientDirectory
	// Clients lists all stored clients, sorted by id.
	Clients(ctx context.Context) ([]*Client, error)
	// FindClients returns a page of the stored clients that a query selects, as UserStore.FindUsers does of users.
	FindClients(ctx context.Context, which ClientQuery) (ClientPage, error)
	// Names returns the names of stored clients and users by id; ids are unique across both. The name of a user without one is the address.
	// Ids of nothing are left out. There are at most MaxPage ids.
	Names(ctx context.Context, ids []string) (map[string]string, error)
	// AddClient registers a client. It does not store Declared. It returns ErrTaken when the id belongs to a client or a user, and
	// RemovedError when it belonged to one whose tokens may still be valid at client.CreatedAt. Consents to a former client of that id
	// are deleted. Of concurrent calls with one id exactly one succeeds.
	AddClient(ctx context.Context, client *Client) error
	// ChangeClient reads the client, applies the change, stores the result and records the revocations of the change. All of this is one
	// step: no concurrent change of other members is lost. ID, Origin and CreatedAt cannot be edited. It returns ErrNotFound when the client
	// does not exist, and an error of Edit unchanged.
	ChangeClient(ctx context.Context, clientID string, change ClientChange) error
	// CountClients returns the number of stored clients with that origin.
	CountClients(ctx context.Context, origin ClientOrigin) (int, error)
	// RemoveClient deletes the client with its secrets and records the revocation of its tokens, in one step. The id stays taken until
	// tokens.FreeAt. It returns ErrNotFound when the client does not exist.
	RemoveClient(ctx context.Context, clientID string, tokens Revocation) error
}

// UserStore stores the users and organisations that are registered at run time.
type UserStore interface {
	UserDirectory
	// Users lists the stored users of an organisation, or all if the organisation is empty, sorted by id.
	Users(ctx context.Context, organisation string) ([]*User, error)
	// FindUsers returns a page of the stored users that a query selects, in an order that stays: by the text that the search found, and by
	// id. The work for a page is bounded, whatever the query selects. A user who changes while pages are read may be in none or in two.
	FindUsers(ctx context.Context, which UserQuery) (UserPage, error)
	// AddUser registers a user. It does not store Declared and Version. It returns ErrTaken when the id belongs to a client or a user,
	// ErrEmailTaken when the address belongs to a user, and RemovedError as AddClient does. It returns ErrNotFound when the organisation
	// is not stored, unless organisationDeclared. It links identities, whose UserID must be the user's, in the same step, which makes the
	// user External. It returns ErrTaken when one of them is already linked.
	AddUser(ctx context.Context, user *User, organisationDeclared bool, identities ...Identity) error
	// ChangeUser reads the user, applies the change, sets UpdatedAt to end.At and stores the result. If the change ends tokens, it also
	// gives the user a new version and ends every family of the user and every family whose actor is the user. All of this is one step:
	// no concurrent change of other members is lost. A NewHolder of a user whose address is Unvouched is Apart, and ends the personal access
	// tokens; if factors are left, the address stays Unvouched. ID, Version and CreatedAt cannot be edited. It returns the revocations that it
	// recorded. It returns ErrNotFound when the user does not exist, or the new organisation is neither stored nor declared, and
	// ErrEmailTaken when another user has the address. It returns an error of Edit unchanged.
	ChangeUser(ctx context.Context, userID string, change UserChange, end Ending) ([]Revocation, error)
	// RehashPassword replaces a hash with another hash of the same password. When the stored hash is no longer old, it does nothing and
	// returns nil. The version does not change.
	RehashPassword(ctx context.Context, userID string, old, hash oauth.Secret) error
	// RemoveUser deletes the user with its consents and identities and ends the same families as ChangeUser, in one step. The id stays
	// taken until end.Until, or for ever if end.KeepsID. It returns the revocations that it recorded, and ErrNotFound when the user does
	// not exist.
	RemoveUser(ctx context.Context, userID string, end Ending) ([]Revocation, error)
	// HadUser reports whether a stored user has the id, or a removed one had it.
	HadUser(ctx context.Context, userID string) (bool, error)
	// PasswordSchemes lists the distinct schemes of the stored hashes, as passwords.SchemeOf names them, in no particular order.
	PasswordSchemes(ctx context.Context) ([]string, error)
	// Organisations lists the stored organisations, sorted by id.
	Organisations(ctx context.Context) ([]*Organisation, error)
	// AddOrganisation registers an organisation. It does not store Declared. It returns ErrTaken when an organisation has the id.
	AddOrganisation(ctx context.Context, organisation *Organisation) error
	// RemoveOrganisation deletes an organisation. It returns ErrInUse when the organisation has users, and ErrNotFound when it does not
	// exist.
	RemoveOrganisation(ctx context.Context, id string) error
}

// UserChange is a change of a user and its consequences for the user's tokens and identities.
type UserChange struct {
	// Edit edits the user, if it is not nil. It may be called several times and must not use the store. An error aborts the change.
	Edit func(*User) error
	// KeepsTokens keeps tokens and sessions valid, unless the change affects something that User.Version depends on.
	KeepsTokens bool
	// OrganisationDeclared permits Edit to set an organisation that is not stored.
	OrganisationDeclared bool
	// VerifiesEmail records that an operator, and every identity of the user, vouches for the address that the user has after Edit.
	VerifiesEmail bool
	// UnlinkIdentities unlinks all identities from the user, removes what their providers said about the user, and ends what a person who
	// came by one of them may have added: factors and personal access tokens. The user is then not External.
	UnlinkIdentities bool
	// KeepIdentities records that all identities of the user belong to one person. It sets their LinkedAt to the time of the change.
	KeepIdentities bool
	// RemoveFactors deletes all factors of the user, and RemovePasskeys the passkeys.
	RemoveFactors, RemovePasskeys bool
	// NewHolder says that the change gives the user to a person who has not signed in as the user, by a link or a password of an operator.
	NewHolder bool
}

// MergeUser returns the change that merges a patch. It keeps tokens if the patch changes only what applications learn about the user.
func MergeUser(p Patch, roles RoleCatalogue) UserChange {
	return UserChange{
		Edit:        func(u *User) error { return u.Merge(p, roles) },
		KeepsTokens: !p.Has("role") && !p.Has("status") && !p.Has("organisation") && !p.Has("groups"),
	}
}

// Apply applies the change to the user's own record and reports whether tokens end.
func (c UserChange) Apply(u *User) (endsTokens bool, err error) {
	before := *u
	if c.Edit != nil {
		if err := c.Edit(u); err != nil {
			return false, err
		}
	}
	if c.UnlinkIdentities {
		u.External, u.ProviderGroups, u.GroupsBy = false, nil, ""
		if u.EmailVerified() && u.EmailVerifiedBy != VerifiedByOperator {
			u.EmailVerifiedBy = ""
		}
	}
	if c.VerifiesEmail {
		u.EmailVerifiedBy = VerifiedByOperator
	}
	if c.NewHolder && before.EmailVerifiedBy == Unvouched {
		u.Apart = true
	}
	if u.Profile.IsZero() {
		u.Profile = nil
	}
	kept := c.KeepsTokens && !c.UnlinkIdentities && u.PasswordHash.Digest() == before.PasswordHash.Digest() && u.Organisation == before.Organisation &&
		u.Role == before.Role && u.Status == before.Status && slices.Equal(u.Groups, before.Groups) && slices.Equal(u.ProviderGroups, before.ProviderGroups)
	return !kept, nil
}

// Ending says when families end, and until when their revocations are kept unless TokenFamily.RevokedUntil says later. Until must be
// later than any access token can expire.
type Ending struct {
	At    time.Time
	Until time.Time
	// KeepsID keeps the id of a removed user taken for ever, because applications identify users by it.
	KeepsID bool
}

// FeedPosition is a position in the feed of revocations. The zero value is the beginning.
type FeedPosition struct {
	// At is where reading continues.
	At int64
	// End and Tag identify the end of the feed at the last read. With them the store notices that it was restored to an older state.
	End, Tag int64
	// Lost reports that the store no longer has what the caller had read. The whole feed follows.
	Lost bool
}

// FeedPage is how many revocations one call of RevocationStore.Revocations may return before more are left for the next call.
const FeedPage = 20000

// RevocationStore stores revocations until the last token that they could match has expired.
type RevocationStore interface {
	// Revoke records revocations. Recording one again can widen it, and never narrows it.
	Revoke(ctx context.Context, revocations ...Revocation) error
	// Revocations lists the revocations recorded after a position, and returns the position for the next call. For a position that the
	// store no longer knows, as after a restore, it lists all. A caller that continues from the returned position never misses an
	// acknowledged revocation. When it returns FeedPage or more, there may be more already.
	Revocations(ctx context.Context, after FeedPosition) (revocations []Revocation, next FeedPosition, err error)
}

// DeclarationStore remembers what the configuration declared, which lets nodes end what it no longer declares.
type DeclarationStore interface {
	// Declarations returns the lists that were stored last, in no particular order.
	Declarations(ctx context.Context) (declared []Declaration, ended []EndedDeclaration, err error)
	// PutDeclarations replaces both lists, in one step.
	PutDeclarations(ctx context.Context, declared []Declaration, ended []EndedDeclaration) error
}

// Declaration is a declared client or user. Two are the same when all fields are equal.
type Declaration struct {
	Kind RevocationKind // RevokeClient or RevokeUser
	ID   string
	// Version is the user's version.
	Version string
}

// EndedDeclaration is a declaration that was removed from the configuration. It is remembered because another node may still use an older
// configuration.
type EndedDeclaration struct {
	Declaration
	At time.Time // when it was first missing
}

// Housekeeper deletes records that are no longer needed. Each call deletes a bounded number of records, because other callers wait for
// it. The result more reports whether there may be more to delete.
type Housekeeper interface {
	// Lease gives the named task to holder until the given time, and reports whether holder has it now. The holder keeps the task by
	// asking again. Another holder gets it once the lease has expired, at its end exactly or later. Of concurrent callers at most one
	// gets it. The callers' clocks may differ. A lease only avoids duplicate work, and the task must be safe to run twice.
	Lease(ctx context.Context, name, holder string, until, now time.Time) (bool, error)
	// Drop deletes records of a kind that expired before the given time.
	Drop(ctx context.Context, kind Expiring, before time.Time) (more bool, err error)
	// Sizes returns how many records there are. Large numbers may be estimates, and the call may take long.
	Sizes(ctx context.Context) (Sizes, error)
}

// Expiring is a kind of records that expire.
type Expiring string

// The kinds of records that expire.
const (
	// ExpiringRevocations are revocations.
	ExpiringRevocations Expiring = "revocations"
	// ExpiringFamilies are families, decided requests, session clients, personal access tokens and imported tokens.
	ExpiringFamilies Expiring = "families"
	// ExpiringAttempts are counts of failed attempts, which expire when their window ends, and device authorizations.
	ExpiringAttempts Expiring = "attempts"
	// ExpiringAuditEvents are events of the audit log. The time before which they are dropped is that of the event.
	ExpiringAuditEvents Expiring = "audit events"
)

// Sizes are the numbers of records in a store.
type Sizes struct {
	Families, Revocations, Requests, Clients, Users, Mails, AuditEvents int64
}

// AttemptStore counts failed attempts for all nodes that share the store.
type AttemptStore interface {
	// CountAttempt adds by to the failures in the bucket's current window and returns the sum and when the window ends. At its end
	// exactly, a window is over. When there is no current window, a positive by begins one of that length. A negative by takes failures
	// back, at most to zero, and begins no window. The result is zero when there is no window. No concurrent call is lost.
	CountAttempt(ctx context.Context, bucket string, window time.Duration, now time.Time, by int) (n int, until time.Time, err error)
}

// AttemptCounter counts failed attempts in buckets, each over a window that begins with the first failure. The memory that it uses is
// bounded, however many buckets are named.
type AttemptCounter interface {
	// Failures returns the failures in the bucket's current window and when that window ends.
	Failures(ctx context.Context, bucket string, now time.Time) (n int, until time.Time)
	// Fail counts a failure and returns the same results, including that failure.
	Fail(ctx context.Context, bucket string, window time.Duration, now time.Time) (n int, until time.Time)
	// Forgive takes back one failure of the bucket's current window, for an attempt that was counted in advance and then succeeded.
	Forgive(ctx context.Context, bucket string, now time.Time)
}

// ClientDirectory finds clients.
type ClientDirectory interface {
	// Client returns the client whose id is equal byte for byte, also when it is disabled. It returns ErrNotFound when there is none.
	Client(ctx context.Context, id string) (*Client, error)
}

// UserDirectory finds users and organisations. Its methods return ErrNotFound when there is none.
type UserDirectory interface {
	// User returns the user whose id is equal byte for byte, whatever its status.
	User(ctx context.Context, id string) (*User, error)
	// UserByEmail returns the user with that canonical address. Its timing does not reveal whether there is one.
	UserByEmail(ctx context.Context, email string) (*User, error)
	// Organisation returns the organisation whose id is equal byte for byte.
	Organisation(ctx context.Context, id string) (*Organisation, error)
}
