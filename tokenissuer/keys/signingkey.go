package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// rsaBits is the size of generated RSA keys.
const rsaBits = 2048

// VerificationKey is a public key bound to one algorithm. The token's alg must match and selects nothing (RFC 8725 §3.1).
type VerificationKey struct {
	// ID is the kid.
	ID        string
	Algorithm oauth.Algorithm
	public    crypto.PublicKey
}

// Equal reports whether kid, algorithm and public key are equal.
func (k *VerificationKey) Equal(other *VerificationKey) bool {
	public, ok := k.public.(interface{ Equal(crypto.PublicKey) bool })
	return ok && k.ID == other.ID && k.Algorithm == other.Algorithm && public.Equal(other.public)
}

// SigningKey is a private key of the issuer with its public half.
type SigningKey struct {
	VerificationKey
	CreatedAt time.Time
	// ActiveFrom is when the key begins to sign. It is published before.
	ActiveFrom time.Time

	private crypto.Signer
	header  string // the JOSE header in base64url, with its dot
}

// NewSigningKey generates a key that signs from now on. Its kid does not begin with a hyphen, so that it cannot be taken
// for a command line option.
func NewSigningKey(algorithm oauth.Algorithm, now time.Time) (*SigningKey, error) {
	for {
		key, err := newSigningKey(algorithm, now)
		if err != nil || key.ID[0] != '-' {
			return key, err
		}
	}
}

func newSigningKey(algorithm oauth.Algorithm, now time.Time) (*SigningKey, error) {
	var private crypto.Signer
	var err error
	switch algorithm {
	case oauth.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case oauth.RS256:
		private, err = rsa.GenerateKey(rand.Reader, rsaBits)
	case oauth.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		err = fmt.Errorf("algorithm %q is not supported", algorithm)
	}
	if err != nil {
		return nil, fmt.Errorf("generating a signing key: %w", err)
	}
	return signingKeyOf(private, algorithm, now)
}

// signingKeyOf binds a private key to an algorithm and derives kid and header.
func signingKeyOf(private crypto.Signer, algorithm oauth.Algorithm, created time.Time) (*SigningKey, error) {
	if _, err := oauth.ParseAlgorithm(string(algorithm)); err != nil {
		return nil, err
	}
	if err := checkKey(private.Public(), algorithm); err != nil {
		return nil, err
	}
	id, err := thumbprint(private.Public())
	if err != nil {
		return nil, err
	}
	return &SigningKey{
		VerificationKey: VerificationKey{ID: id, Algorithm: algorithm, public: private.Public()},
		CreatedAt:       created,
		ActiveFrom:      created,
		private:         private,
		header:          joseHeaderOf(algorithm, AccessTokenType, id),
	}, nil
}

// joseHeaderOf returns the encoded header of the key's tokens, with its dot.
func joseHeaderOf(algorithm oauth.Algorithm, typ, kid string) string {
	header := `{"alg":"` + string(algorithm) + `","typ":"` + typ + `","kid":"` + kid + `"}`
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "."
}

// Sign returns the compact serialisation of an access token with these claims (RFC 7515 §3.1).
func (k *SigningKey) Sign(claims []byte) (string, error) { return k.Finish(k.Unsigned(claims)) }

// SignAs is Sign for a token of another typ.
func (k *SigningKey) SignAs(typ string, claims []byte) (string, error) {
	return k.Finish(k.unsigned(joseHeaderOf(k.Algorithm, typ, k.ID), claims))
}

// Unsigned returns the signing input of an access token, with capacity for the signature.
func (k *SigningKey) Unsigned(claims []byte) []byte { return k.unsigned(k.header, claims) }

func (k *SigningKey) unsigned(header string, claims []byte) []byte {
	encoding := base64.RawURLEncoding
	token := make([]byte, 0, len(header)+encoding.EncodedLen(len(claims))+1+encoding.EncodedLen(k.signatureLength()))
	token = append(token, header...)
	return encoding.AppendEncode(token, claims)
}

// Finish signs the result of Unsigned and returns the token. It may write beyond the length of its argument.
func (k *SigningKey) Finish(token []byte) (string, error) {
	signature, err := methodOf(k.Algorithm).Sign(oauth.Written(token), k.private)
	if err != nil {
		return "", fmt.Errorf("signing with key %s: %w", k.ID, err)
	}
	token = append(token, '.')
	return oauth.Written(base64.RawURLEncoding.AppendEncode(token, signature)), nil
}

// signatureLength returns the length of a signature in bytes.
func (k *SigningKey) signatureLength() int {
	if public, ok := k.public.(*rsa.PublicKey); ok {
		return public.Size()
	}
	return 64 // ES256 (RFC 7518 §3.4) and Ed25519 (RFC 8032 §5.1.6)
}

// Stored returns the key for a store, sealed unless sealer is nil.
func (k *SigningKey) Stored(sealer *Sealer) (store.StoredKey, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.private)
	if err != nil {
		return store.StoredKey{}, fmt.Errorf("encoding key %s: %w", k.ID, err)
	}
	stored := store.StoredKey{ID: k.ID, Algorithm: k.Algorithm, Private: der, CreatedAt: k.CreatedAt, ActiveFrom: k.ActiveFrom}
	if sealer != nil {
		stored = sealer.seal(stored, der)
	}
	return stored, nil
}

// LoadSigningKey opens a stored key. It fails if the key is sealed under an unknown key-encryption key, damaged, revoked,
// or does not match its id and algorithm. With a sealer, it fails with ErrRefused for an unbound key.
func LoadSigningKey(stored store.StoredKey, sealer *Sealer) (*SigningKey, error) {
	fail := func(err error) (*SigningKey, error) {
		return nil, fmt.Errorf("loading signing key %s: %w", stored.ID, err)
	}
	if !stored.RevokedAt.IsZero() {
		return fail(errors.New("it was revoked"))
	}
	der, err := sealer.open(stored)
	if err != nil {
		return fail(err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err != nil {
		return fail(err)
	}
	private, ok := parsed.(crypto.Signer)
	if !ok {
		return fail(errors.New("not a signing key"))
	}
	key, err := signingKeyOf(private, stored.Algorithm, stored.CreatedAt)
	if err != nil {
		return fail(err)
	}
	if key.ID != stored.ID {
		return fail(errors.New("the key does not belong to its id"))
	}
	key.ActiveFrom = stored.ActiveFrom
	return key, nil
}

// AccessTokenType is the typ of every access token (RFC 9068 §2.1).
const AccessTokenType = "at+jwt"
