package token

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Signed is a JWT signed by another party that is not an access token, such as a client's assertion. It has the strict form of access tokens.
// Nothing in it is verified before Verify.
type Signed struct{ jws jws }

// ReadSigned reads a JWT. It refuses one with a header that could select another key, another payload or another meaning. The error is
// an *oauth.Error, whose reason says what is wrong.
func ReadSigned(text string) (*Signed, error) {
	s := new(Signed)
	if err := s.jws.parse(text, nil); err != nil {
		return nil, err
	}
	if others := s.jws.header.Others; len(others) > 0 && !harmless(others, s.jws.header.media) {
		return nil, errHeaderUnexpected
	}
	return s, nil
}

// Type returns the typ in lower case, without the prefix application/; empty: the header has none.
func (s *Signed) Type() string { return s.jws.header.media }

// Key returns the kid, which may be empty, and the alg.
func (s *Signed) Key() (kid string, algorithm oauth.Algorithm) {
	return s.jws.header.KeyID, oauth.Algorithm(s.jws.header.Algorithm)
}

// Claims reads the claims into a struct, strictly: a member that is there twice is an error.
func (s *Signed) Claims(into any) error {
	if err := readPart(s.jws.payload, into); err != nil {
		return errClaimsMalformed.WithCause(err)
	}
	return nil
}

// Verify verifies the signature with a key. The header's alg must be the key's; it selects nothing (RFC 8725 §3.1).
func (s *Signed) Verify(key *keys.VerificationKey) error { return s.jws.verify(key) }
