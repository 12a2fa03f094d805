package keys

import (
	"errors"
	"slices"
)

var errSignature = errors.New("the signature is not that of the key")

// VerifySignature verifies the signature of a JWS (RFC 7515 §5.2) with the key's own algorithm; the token's header
// selects nothing (RFC 8725 §3.1).
func (k *VerificationKey) VerifySignature(signingInput string, signature []byte) error {
	if !slices.Contains(algorithmsOf(k.public), k.Algorithm) || methodOf(k.Algorithm).Verify(signingInput, signature, k.public) != nil {
		return errSignature
	}
	return nil
}
