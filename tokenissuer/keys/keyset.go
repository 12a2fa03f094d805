package keys

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Set holds the issuer's keys: one of each algorithm signs; all verify, including those that do not sign yet. The zero value is empty. It
// is safe for concurrent use.
type Set struct {
	keySetState atomic.Pointer[keySetState]
	generation  atomic.Uint64
}

// keySetState is an immutable state of a Set. Each list is ordered by when its keys begin to sign.
type keySetState struct {
	signers map[oauth.Algorithm][]*SigningKey // of each algorithm that is signed with
	own     []*SigningKey                     // of the issuer's algorithm
	others  []*SigningKey                     // of all other algorithms
	byID    map[string]*SigningKey
	jwks    []byte
}

// Replace sets the keys. Those of each algorithm sign, one after the other. The first algorithm, which there always is, is the
// issuer's; without a key of it, Signing fails.
func (s *Set) Replace(list []*SigningKey, algorithms ...oauth.Algorithm) error {
	next := &keySetState{byID: make(map[string]*SigningKey, len(list)), signers: make(map[oauth.Algorithm][]*SigningKey)}
	for _, key := range slices.SortedFunc(slices.Values(list), func(a, b *SigningKey) int {
		return compareTurns(a.ActiveFrom, a.ID, b.ActiveFrom, b.ID)
	}) {
		next.byID[key.ID] = key
		if slices.Contains(algorithms, key.Algorithm) {
			next.signers[key.Algorithm] = append(next.signers[key.Algorithm], key)
		}
		if key.Algorithm != algorithms[0] {
			next.others = append(next.others, key)
		}
	}
	next.own = next.signers[algorithms[0]]
	var err error
	if next.jwks, err = MarshalJWKS(list); err != nil {
		return err
	}
	s.keySetState.Store(next)
	s.generation.Add(1)
	return nil
}

// Generation changes whenever the keys are replaced.
func (s *Set) Generation() uint64 { return s.generation.Load() }

// compareTurns orders keys by when they begin to sign. Ties, as when two nodes rotate at once, are ordered the same on
// every node.
func compareTurns(from time.Time, id string, otherFrom time.Time, otherID string) int {
	return cmp.Or(from.Compare(otherFrom), cmp.Compare(id, otherID))
}

// Signing returns the key that signs access tokens at that time: of the issuer's algorithm, the one that began last. If none of
// them signs yet, a key of another algorithm does. If the clock was set back to before every key, the first one signs.
func (s *Set) Signing(now time.Time) (*SigningKey, error) {
	k := s.keySetState.Load()
	if k == nil || len(k.own) == 0 {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	if key := lastActive(k.own, now); key != nil {
		return key, nil
	}
	if key := lastActive(k.others, now); key != nil {
		return key, nil
	}
	return k.own[0], nil
}

// SigningWith returns the key that signs with an algorithm at that time: the one that began last, or else the first one. So
// an algorithm that is new to the issuer can be used at once, by clients that have asked for it.
func (s *Set) SigningWith(algorithm oauth.Algorithm, now time.Time) (*SigningKey, error) {
	k := s.keySetState.Load()
	if k == nil || len(k.signers[algorithm]) == 0 {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	if key := lastActive(k.signers[algorithm], now); key != nil {
		return key, nil
	}
	return k.signers[algorithm][0], nil
}

// StateOf returns the state of one of the keys at that time.
func (s *Set) StateOf(key *SigningKey, now time.Time) State {
	return s.stateOf(key.ID, key.Algorithm, key.ActiveFrom, now)
}

func (s *Set) stateOf(id string, algorithm oauth.Algorithm, from, now time.Time) State {
	own, err1 := s.Signing(now)
	same, err2 := s.SigningWith(algorithm, now)
	switch {
	case err1 == nil && own.ID == id, err2 == nil && same.ID == id:
		return StateSigning
	case from.After(now):
		return StatePublished
	}
	return StateSuperseded
}

func lastActive(keys []*SigningKey, now time.Time) *SigningKey {
	for _, key := range slices.Backward(keys) {
		if !now.Before(key.ActiveFrom) {
			return key
		}
	}
	return nil
}

// Find returns the key with that kid; it never tries several. The token's algorithm is ignored.
func (s *Set) Find(kid string, _ oauth.Algorithm) (*VerificationKey, error) {
	k := s.keySetState.Load()
	if k == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	if key, ok := k.byID[kid]; ok {
		return &key.VerificationKey, nil
	}
	return nil, oauth.NewError(oauth.InvalidToken, "key_unknown")
}

// FindHeader returns the key that signs tokens of the typ with this encoded JOSE header; nil: none does.
func (s *Set) FindHeader(typ, header string) (*VerificationKey, error) {
	k := s.keySetState.Load()
	if k == nil {
		return nil, oauth.Unavailable("keys_not_loaded", nil)
	}
	for _, key := range k.byID {
		if joseHeaderOf(key.Algorithm, typ, key.ID) == header+"." {
			return &key.VerificationKey, nil
		}
	}
	return nil, nil
}

// signingKey returns the key with that id and its private half, or nil.
func (s *Set) signingKey(id string) *SigningKey {
	if k := s.keySetState.Load(); k != nil {
		return k.byID[id]
	}
	return nil
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5).
func (s *Set) JWKS() ([]byte, error) {
	if k := s.keySetState.Load(); k != nil {
		return k.jwks, nil
	}
	return nil, oauth.Unavailable("keys_not_loaded", nil)
}

// List returns the keys, oldest first.
func (s *Set) List() []*SigningKey {
	k := s.keySetState.Load()
	if k == nil {
		return nil
	}
	list := make([]*SigningKey, 0, len(k.byID))
	for _, key := range k.byID {
		list = append(list, key)
	}
	slices.SortFunc(list, func(a, b *SigningKey) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list
}
