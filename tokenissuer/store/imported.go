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
	// Access and Refresh are SHA-256 digests of the tokens; zero: there is none.
	Access, Refresh [sha256.Size]byte
	ClientID        string
	// FamilyID is the family that was made for the token. The refresh token is the family's first one. Empty: the token acts for its
	// client alone.
	FamilyID  string
	Scopes    oauth.Scopes
	CreatedAt time.Time
	// ExpiresAt is the end of the access token. KeptUntil is when neither token can be used any longer.
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
	// DryRun changes nothing. The outcomes are then those of users who are all active.
	DryRun bool
}

// ImportOutcome is what ImportTokens has done.
type ImportOutcome struct {
	// Tokens has the outcome of each token of the batch: Done, Replayed for one that was imported before, or UserChanged for one whose user
	// is not stored or not active.
	Tokens []Outcome
	// Ended is the number of tokens that were imported before and are not valid in the source any more.
	Ended int
	// Revocations are those that were recorded for them.
	Revocations []Revocation
}

// ImportStore stores what another authorization server has issued, and what has been imported of its records.
type ImportStore interface {
	// ImportTokens stores the tokens of a batch with their families, in one step. A token that was imported before is left as it is,
	// whatever has become of it since. Tokens that were imported before, lie between After and Upto, are not in the batch and have not
	// expired at end.At are deleted, and their families end.
	ImportTokens(ctx context.Context, batch ImportBatch, end Ending) (ImportOutcome, error)
	// ImportedAccess returns the token with a digest of the access token, and ImportedRefresh that with one of the refresh token, expired
	// or not. The error is ErrNotFound if there is none, or more than one.
	ImportedAccess(ctx context.Context, digest [sha256.Size]byte) (*ImportedToken, error)
	ImportedRefresh(ctx context.Context, digest [sha256.Size]byte) (*ImportedToken, error)
	// HasImported reports whether any imported token is stored.
	HasImported(ctx context.Context) (bool, error)
	// ImportStates returns the states of those records of a kind that have one.
	ImportStates(ctx context.Context, source, kind string, records []string) (map[string]string, error)
	// PutImportState replaces the state of a record.
	PutImportState(ctx context.Context, source, kind, record, state string) error
}
