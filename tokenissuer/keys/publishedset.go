package keys

import (
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// PublishedSet finds the keys of a JWK Set. It is immutable.
type PublishedSet struct {
	byID map[string][]*VerificationKey // one entry for each algorithm of a key; "" has the keys without kid
	// only maps an algorithm to its key if exactly one has it; nil: several do.
	only map[oauth.Algorithm]*VerificationKey
}

// Reasons why a set has no key for a token.
const (
	// ReasonKeyUnknown: the set has no key with that kid; a newer set may have.
	ReasonKeyUnknown = "key_unknown"
	// ReasonKeyAmbiguous: the token has no kid, and several keys are for its algorithm.
	ReasonKeyAmbiguous = "key_ambiguous"
	// ReasonAlgorithmMismatch: the key with that kid is for another algorithm.
	ReasonAlgorithmMismatch = "algorithm_mismatch"
)

// NewPublishedSet returns the set of these keys.
func NewPublishedSet(published []PublishedKey) *PublishedSet {
	s := &PublishedSet{byID: make(map[string][]*VerificationKey, len(published)), only: make(map[oauth.Algorithm]*VerificationKey)}
	for _, p := range published {
		for _, key := range p.Keys {
			s.byID[key.ID] = append(s.byID[key.ID], key)
			if _, several := s.only[key.Algorithm]; several {
				s.only[key.Algorithm] = nil
			} else {
				s.only[key.Algorithm] = key
			}
		}
	}
	return s
}

// Find returns the key with that kid for that algorithm, or the reason why there is no unique one. For a token without kid it
// returns the only key for its algorithm; it never tries several.
func (s *PublishedSet) Find(kid string, algorithm oauth.Algorithm) (key *VerificationKey, reason string) {
	if kid == "" {
		if key, known := s.only[algorithm]; key != nil || !known {
			return key, ReasonKeyUnknown
		}
		return nil, ReasonKeyAmbiguous
	}
	keys := s.byID[kid]
	for _, key := range keys {
		if key.Algorithm == algorithm {
			return key, ""
		}
	}
	if len(keys) > 0 {
		return nil, ReasonAlgorithmMismatch
	}
	return nil, ReasonKeyUnknown
}

// IsOnly reports whether a token without kid would be verified with the key.
func (s *PublishedSet) IsOnly(key *VerificationKey) bool { return s.only[key.Algorithm] == key }

// Kids returns how many kids the set has, that of keys without one included.
func (s *PublishedSet) Kids() int { return len(s.byID) }

// Equal reports whether both sets have the same keys.
func (s *PublishedSet) Equal(other *PublishedSet) bool {
	if len(s.byID) != len(other.byID) {
		return false
	}
	for kid, ks := range s.byID {
		if !slices.EqualFunc(ks, other.byID[kid], (*VerificationKey).Equal) {
			return false
		}
	}
	return true
}
