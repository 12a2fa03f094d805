package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var keyOperations = map[Route]operation{
	ListKeys:   shows[[]Key]("Lists the signing keys", bare(listKeys)),
	RotateKeys: adds[Key]("Publishes a new signing key", withBody(rotateKeys)),
	RevokeKey:  changes("Withdraws a signing key with everything that it has signed", withBody(revokeKey)),
}

// Key is what an operator sees of a signing key.
type Key struct {
	ID         string          `json:"kid"`
	Algorithm  oauth.Algorithm `json:"algorithm"`
	State      keys.State      `json:"state"`
	CreatedAt  time.Time       `json:"created_at"`
	ActiveFrom time.Time       `json:"active_from"`
	// DueAt is when the next key takes over from a signing one; zero: when an operator rotates.
	DueAt      time.Time `json:"due_at,omitzero"`
	RevokedAt  time.Time `json:"revoked_at,omitzero"`
	SealedWith string    `json:"sealed_with,omitzero"` // the id of the key-encryption key
}

func viewOfKey(k store.StoredKey, state keys.State) Key {
	return Key{
		ID: k.ID, Algorithm: k.Algorithm, State: state, CreatedAt: k.CreatedAt, ActiveFrom: k.ActiveFrom, RevokedAt: k.RevokedAt, SealedWith: k.SealedWith,
	}
}

// listKeys lists the stored keys with their state at this node.
func listKeys(t *Target, r *http.Request) (int, any, error) {
	ring := t.Node.KeyRing()
	stored, err := ring.List(r.Context())
	return listed(stored, err, func(k keys.ListedKey) Key {
		view := viewOfKey(k.StoredKey, k.State)
		if k.State == keys.StateSigning {
			view.DueAt = dueAt(k, stored, ring.Rotation)
		}
		return view
	})
}

// dueAt returns when the next key takes over from a signing one: a published one when it begins to sign, or else one that is made at the end of
// the rotation interval, which is 0 if operators rotate.
func dueAt(signing keys.ListedKey, all []keys.ListedKey, rotation time.Duration) (due time.Time) {
	for _, k := range all {
		if k.State == keys.StatePublished && k.Algorithm == signing.Algorithm && (due.IsZero() || k.ActiveFrom.Before(due)) {
			due = k.ActiveFrom
		}
	}
	if due.IsZero() && rotation > 0 {
		due = signing.ActiveFrom.Add(rotation)
	}
	return due
}

// NewKey is the request to add a signing key.
type NewKey struct {
	// Algorithm is one of the issuer's algorithms; empty: that of access tokens.
	Algorithm oauth.Algorithm `json:"algorithm,omitzero"`
	Now       bool            `json:"now"`
}

// rotateKeys publishes a new key, which signs after ten minutes, or now.
func rotateKeys(t *Target, r *http.Request, request NewKey) (int, any, error) {
	ring := t.Node.KeyRing()
	algorithm := cmp.Or(request.Algorithm, ring.Algorithms[0])
	if !slices.Contains(ring.Algorithms, algorithm) {
		return 0, nil, store.InvalidInput(fmt.Errorf("algorithm %q is not signed with here: use %s", algorithm, oauth.AlgorithmNames(ring.Algorithms)))
	}
	key, err := ring.Rotate(r.Context(), algorithm, request.Now)
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "signing key added", zap.String("kid", key.ID), zap.String("algorithm", string(algorithm)), zap.Time("active_from", key.ActiveFrom))
	t.Node.KeysChanged(r.Context())
	return http.StatusCreated, viewOfKey(key, ring.StateOf(key)), nil
}

// revokedKey is the request to revoke a key.
type revokedKey struct {
	ID string `json:"kid"`
}

// revokeKey ends all tokens that a key has signed.
func revokeKey(t *Target, r *http.Request, request revokedKey) (int, any, error) {
	if request.ID == "" {
		return 0, nil, store.InvalidInput(errors.New("name the key to revoke: kid"))
	}
	revocation, err := t.Node.KeyRing().Revoke(r.Context(), request.ID)
	if err != nil {
		return 0, nil, err
	}
	t.Node.Revocations.Add(revocation)
	t.record(r.Context(), "signing key revoked", zap.String("kid", request.ID))
	t.Node.KeysChanged(r.Context())
	return http.StatusNoContent, nil, nil
}
