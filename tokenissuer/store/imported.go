package store

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ImportedToken is an access token that another authorization server issued, with its refresh token. Stores keep only digests of them.
type ImportedToken struct {
	// Source names the other server, and Record is the key of the token's row there. Records are compared byte for byte.
	Source, Record string
	// ID identifies the token here; see token.AccessToken.
	ID string
	// Access and Refresh are SHA-256 digests of the tokens; zero: there is none, or it has ended.
	Access, Refresh [sha256.Size]byte
	ClientID        string
	// FamilyID is the family that was made for the token. The refresh token is the family's first one. Empty: the token acts for its
	// client alone.
	FamilyID  string
	Scopes    oauth.Scopes
	CreatedAt time.Time
	// ExpiresAt is the end of the access token. Until KeptUntil the record is kept, so that the token is not imported anew.
	ExpiresAt, KeptUntil time.Time
}

// NewImport is a token to import. Family is nil for a token of a client alone. The store sets the version of its user.
type NewImport struct {
	ImportedToken
	Family *TokenFamily
}

// ImportBatch has the tokens of a source that are still valid there, for the records after After and up to Upto, in their order.
type ImportBatch struct {
	Source string
	// After is the last record of the batch before; empty: there is none. Upto is the last record of this one; empty: all that follow.
	After, Upto string
	Tokens      []NewImport
	// Kept are the other records that are valid there, and cannot be imported now. What was imported of them before is left as it is.
	Kept []string
	// DryRun changes nothing. The outcomes are then those of users who are all active, and come from the source.
	DryRun bool
}

// ImportOutcome is what ImportTokens has done.
type ImportOutcome struct {
	// Tokens has the outcome of each token of the batch: Done, Replayed for one that was imported before, or UserChanged for one whose user
	// is not stored, not active, or was not added by AddImportedUser with that source.
	Tokens []Outcome
	// Ended is the number of tokens that were imported before and are not valid in the source any more.
	Ended int
	// Revocations are those that were recorded for them.
	Revocations []Revocation
	// DoneUpto is the last record that the step dealt with, if there was too much for one step: Tokens then has the outcomes of the tokens up to
	// that record, and the caller goes on after it. Empty: all of the batch is done.
	DoneUpto string
}

// ImportKind is a kind of records that are imported one by one.
type ImportKind string

// The kinds.
const (
	ImportedUser   ImportKind = "user"
	ImportedClient ImportKind = "client"
)

// ImportRecord names a record of a source. The user or client that is made of it has its key as id.
type ImportRecord struct {
	Source string
	Kind   ImportKind
	Key    string
}

// ImportState is what is known of a record that was imported. It is kept for ever, so that one that is removed here stays removed.
type ImportState struct {
	// Said is what the source said about the record when it was imported last, in a form of the caller's.
	Said string
	// AddedAt is the CreatedAt of the user or client that was made of it. One with the same id and another CreatedAt came from elsewhere.
	AddedAt time.Time
}

// ImportStore stores what another authorization server has issued, and what has been imported of its records.
type ImportStore interface {
	// ImportTokens stores the tokens of a batch with their families, in one step. A token that was imported before is left as it is,
	// whatever has become of it since. Of tokens that were imported before, lie between After and Upto, are neither in the batch nor Kept,
	// and have not expired at end.At, the digests are deleted, and their families end. One step ends a few hundred; see DoneUpto.
	ImportTokens(ctx context.Context, batch ImportBatch, end Ending) (ImportOutcome, error)
	// Imported returns the token with a digest of its access token or of its refresh token, expired or not. The error is ErrNotFound if
	// there is none, or more than one.
	Imported(ctx context.Context, digest [sha256.Size]byte) (*ImportedToken, error)
	// HasImported reports whether any imported token is stored.
	HasImported(ctx context.Context) (bool, error)
	// ImportStates returns the states of those records of a kind that have one.
	ImportStates(ctx context.Context, source string, kind ImportKind, keys []string) (map[string]ImportState, error)
	// AddImportedUser is UserStore.AddUser for a user from a source, and AddImportedClient is ClientStore.AddClient. Both store in the same
	// step what the source said.
	AddImportedUser(ctx context.Context, source, said string, user *User, organisationDeclared bool) error
	AddImportedClient(ctx context.Context, source, said string, client *Client) error
	// PutImportState replaces what the source said about a record that has a state.
	PutImportState(ctx context.Context, record ImportRecord, said string) error
}
