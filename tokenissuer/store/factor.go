package store

import (
	"context"
	"time"
)

// FactorKind is a kind of Factor.
type FactorKind string

// The kinds of factors. A user has at most one of each but for passkeys.
const (
	// TOTP is a shared secret for time-based one-time passwords (RFC 6238).
	TOTP FactorKind = "totp"
	// RecoveryCodes is a set of codes, each of which can be used once.
	RecoveryCodes FactorKind = "recovery_codes"
	// Passkey is a WebAuthn credential.
	Passkey FactorKind = "passkey"
)

// Factor is something with which a user proves the user's identity besides a password. It belongs to one user.
type Factor struct {
	// ID identifies the factor in lists and in the audit log.
	ID     string
	UserID string
	// DeclaredEmail is the address of a declared user when the factor was added; empty: the user is stored. See Identity.
	DeclaredEmail string
	Kind          FactorKind
	// Name is the name that the user gave it.
	Name string
	// Data is sealed: the secret of TOTP, the digests of RecoveryCodes that were not used, or the public key of a Passkey. Packages signin
	// and webauthn read it.
	Data []byte
	// Credential is the credential id of a Passkey in base64url; empty for other kinds.
	Credential string
	CreatedAt  time.Time
	// LastUsedAt is when the user last signed in with it; zero: never.
	LastUsedAt time.Time
}

// IsOf reports whether the factor belongs to u: a user with its UserID who is the person it was added for.
func (f *Factor) IsOf(u *User) bool { return f.UserID == u.ID && f.DeclaredEmail == u.DeclaredEmail() }

// IsSecond reports whether the factor alone makes a sign-in one of two factors. Recovery codes are there for the day on which it is lost.
func (f *Factor) IsSecond() bool { return f.Kind != RecoveryCodes }

// FactorStore stores factors. RemoveUser deletes those of the user, and AddUser deletes those of a former owner of the id.
type FactorStore interface {
	// Factors lists the factors of a user, oldest first.
	Factors(ctx context.Context, userID string) ([]*Factor, error)
	// FactorByCredential returns the passkey with that credential id, or ErrNotFound.
	FactorByCredential(ctx context.Context, credential string) (*Factor, error)
	// AddFactor stores a factor, and others of the same user with it, in one step. RecoveryCodes replace the user's earlier ones. It deletes
	// the factors of another declared user with the same id. It returns ErrTaken when the user has TOTP already or a passkey has the credential id, and ErrNotFound unless the user is
	// declared, or is stored, active and in that version. Of concurrent calls for one user's TOTP exactly one succeeds.
	AddFactor(ctx context.Context, f *Factor, userVersion string, others ...*Factor) error
	// ChangeFactor reads the factor, calls change to edit Name, Data and LastUsedAt and stores them, in one step: of concurrent changes
	// each sees the result of the one before. When change returns an error, ChangeFactor stores nothing and returns it. It may call change
	// several times. It returns ErrNotFound when the factor does not exist.
	ChangeFactor(ctx context.Context, id string, change func(*Factor) error) error
	// RemoveFactors deletes the factors that match. It returns ErrNotFound when there is none.
	RemoveFactors(ctx context.Context, which FactorFilter) error
}

// FactorFilter matches factors by every member that is set. Without UserID it matches none.
type FactorFilter struct{ UserID, ID string }
