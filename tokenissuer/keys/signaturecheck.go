package keys

import (
	"errors"
	"slices"
)

// errSignature says all that there is to say of a signature.
var errSignature = errors.New("the signature is not that of the key")

// VerifySignature checks a signature over the signing input of a JWS (RFC 7515 §5.2) as the key's own algorithm has it: the header
// of the token selects nothing (RFC 8725 §3.1).
func (k *VerificationKey) VerifySignature(signingInput string, signature []byte) error {
	if !slices.Contains(algorithmsOf(k.public), k.Algorithm) || methodOf(k.Algorithm).Verify(signingInput, signature, k.public) != nil {
		return errSignature
	}
	return nil
}
