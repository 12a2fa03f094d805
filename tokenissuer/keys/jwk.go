package keys

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

const (
	minRSABits     = 2048  // RFC 7518 §3.3
	maxRSABits     = 8192  // larger keys make verification slow
	minRSAExponent = 65537 // small exponents make padding forgeries easier
)

// jwk is a public key on the wire (RFC 7517 §4). Other members are ignored.
type jwk struct {
	KeyType   string   `json:"kty"`
	Use       string   `json:"use,omitzero"`
	KeyOps    []string `json:"key_ops,omitzero"`
	Algorithm string   `json:"alg,omitzero"`
	KeyID     string   `json:"kid,omitzero"`
	Curve     string   `json:"crv,omitzero"`
	X         string   `json:"x,omitzero"`
	Y         string   `json:"y,omitzero"`
	N         string   `json:"n,omitzero"`
	E         string   `json:"e,omitzero"`
	D         string   `json:"d,omitzero"` // private
}

// PublishedKey is a key of a JWK Set, and its possible uses.
type PublishedKey struct {
	// ID is the kid; empty: none.
	ID string
	// Type is the kty with the crv, as in "EC P-256".
	Type string
	// Keys has the key once for each algorithm.
	Keys []*VerificationKey
	// Unusable explains why Keys is empty.
	Unusable error
}

// verificationKeys returns the public key for signatures (RFC 7517 §4), bound to its alg or, without one, once to each algorithm for its type
// and curve. It refuses keys with another purpose by use, key_ops or alg, symmetric keys, RSA keys under 2048 bits or with an exponent
// under 65537, and points off the curve. Of a private key it reads the public half.
func (k *jwk) verificationKeys(algorithms []oauth.Algorithm) ([]*VerificationKey, error) {
	if k.Use != "" && k.Use != "sig" {
		return nil, fmt.Errorf("the key's use is %q, not sig", k.Use)
	}
	if len(k.KeyOps) > 0 && !slices.Contains(k.KeyOps, "verify") {
		return nil, errors.New("the key's key_ops do not allow verify")
	}
	public, err := k.publicKey()
	if err != nil {
		return nil, err
	}
	fitting := algorithmsOf(public)
	if k.Algorithm != "" {
		named := oauth.Algorithm(k.Algorithm).Canonical()
		if !slices.Contains(fitting, named) {
			return nil, fmt.Errorf("the key's alg is %q: a key of its type is for %s", k.Algorithm, oauth.AlgorithmNames(fitting))
		}
		fitting = []oauth.Algorithm{named}
	}
	var list []*VerificationKey
	for _, algorithm := range fitting {
		if !slices.Contains(algorithms, algorithm) {
			continue
		}
		if err := checkKey(public, algorithm); err != nil {
			return nil, err
		}
		list = append(list, &VerificationKey{ID: k.KeyID, Algorithm: algorithm, public: public})
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("the key is for %s, and %s may be used", oauth.AlgorithmNames(fitting), oauth.AlgorithmNames(algorithms))
	}
	return list, nil
}

// ParseJWKS parses a JWK Set (RFC 7517 §5) for these algorithms. It refuses the whole set if it has a symmetric or
// private key, a duplicate kid, or a duplicate key, because its intent is then unclear. Other unusable keys are returned
// with the reason; a set without any usable key is an error.
func ParseJWKS(data []byte, algorithms []oauth.Algorithm) ([]PublishedKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := strictjson.Object(data, &set); err != nil {
		return nil, fmt.Errorf("not a JWK Set: %w", err)
	}
	var list []PublishedKey
	usable := 0
	kids, keys := make(map[string]bool), make(map[string]bool)
	for _, raw := range set.Keys {
		var k jwk
		if err := strictjson.Object(raw, &k); err != nil {
			return nil, fmt.Errorf("not a JWK Set: %w", err)
		}
		if k.KeyType == "oct" {
			return nil, errors.New("the set holds a symmetric key")
		}
		if k.D != "" {
			return nil, fmt.Errorf("the set shows the private half of kid %q: whoever has read it can sign", k.KeyID)
		}
		if k.KeyID != "" && kids[k.KeyID] {
			return nil, fmt.Errorf("the set holds kid %q twice", k.KeyID)
		}
		kids[k.KeyID] = true
		if public, err := k.publicKey(); err == nil {
			id, err := thumbprint(public)
			if err != nil {
				return nil, err
			}
			if keys[id] {
				return nil, fmt.Errorf("the set lists the key of kid %q twice", k.KeyID)
			}
			keys[id] = true
		}
		published := PublishedKey{ID: k.KeyID, Type: strings.TrimSpace(k.KeyType + " " + k.Curve)}
		published.Keys, published.Unusable = k.verificationKeys(algorithms)
		usable += len(published.Keys)
		list = append(list, published)
	}
	if usable == 0 {
		return nil, noUsableKey(list)
	}
	return list, nil
}

// noUsableKey returns an error that explains why the first keys are unusable.
func noUsableKey(list []PublishedKey) error {
	const enough = 3
	failed := errors.New("the set holds no key that can be used")
	for i, key := range list {
		if i == enough {
			break
		}
		failed = fmt.Errorf("%w; kid %q: %w", failed, key.ID, key.Unusable)
	}
	return failed
}

// curves are those of ECDSA (RFC 7518 §6.2.1.1), with the length of a coordinate in bytes.
var curves = map[string]struct {
	elliptic.Curve
	size int
}{"P-256": {elliptic.P256(), 32}, "P-384": {elliptic.P384(), 48}, "P-521": {elliptic.P521(), 66}}

// publicKey builds the key.
func (k *jwk) publicKey() (crypto.PublicKey, error) {
	curve, isCurve := curves[k.Curve]
	switch {
	case k.KeyType == "EC" && isCurve:
		x, err1 := coordinate(k.X, curve.size)
		y, err2 := coordinate(k.Y, curve.size)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		point := slices.Concat([]byte{4}, x, y) // SEC 1 §2.3.3: uncompressed
		return ecdsa.ParseUncompressedPublicKey(curve.Curve, point)
	case k.KeyType == "OKP" && k.Curve == "Ed25519":
		x, err := coordinate(k.X, ed25519.PublicKeySize)
		return ed25519.PublicKey(x), err
	case k.KeyType == "RSA":
		n, err1 := oauth.DecodeBase64URL(nil, k.N)
		e, err2 := oauth.DecodeBase64URL(nil, k.E)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		exponent := new(big.Int).SetBytes(e)
		if !exponent.IsInt64() || exponent.Int64() > 1<<31-1 {
			return nil, errors.New("the RSA exponent is too large")
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}, nil
	}
	return nil, fmt.Errorf("key type %q with curve %q is not supported", k.KeyType, k.Curve)
}

func coordinate(text string, size int) ([]byte, error) {
	b, err := oauth.DecodeBase64URL(nil, text)
	if err == nil && len(b) != size {
		err = fmt.Errorf("a coordinate has %d bytes, not %d", len(b), size)
	}
	return b, err
}

// publicJWK returns the public members of a key.
func publicJWK(public crypto.PublicKey) (jwk, error) {
	encode := base64.RawURLEncoding.EncodeToString
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		point, err := key.Bytes() // 0x04 ‖ X ‖ Y
		if err != nil {
			return jwk{}, err
		}
		size := (len(point) - 1) / 2
		return jwk{KeyType: "EC", Curve: key.Params().Name, X: encode(point[1 : 1+size]), Y: encode(point[1+size:])}, nil
	case ed25519.PublicKey:
		return jwk{KeyType: "OKP", Curve: "Ed25519", X: encode(key)}, nil
	case *rsa.PublicKey:
		return jwk{KeyType: "RSA", N: encode(key.N.Bytes()), E: encode(big.NewInt(int64(key.E)).Bytes())}, nil
	}
	return jwk{}, fmt.Errorf("a %T has no JWK", public)
}

// thumbprint returns the kid: the SHA-256 JWK thumbprint (RFC 7638 §3).
func thumbprint(public crypto.PublicKey) (string, error) {
	k, err := publicJWK(public)
	if err != nil {
		return "", err
	}
	var members string
	switch k.KeyType {
	case "EC":
		members = `{"crv":"` + k.Curve + `","kty":"EC","x":"` + k.X + `","y":"` + k.Y + `"}`
	case "OKP":
		members = `{"crv":"` + k.Curve + `","kty":"OKP","x":"` + k.X + `"}`
	case "RSA":
		members = `{"e":"` + k.E + `","kty":"RSA","n":"` + k.N + `"}`
	}
	digest := sha256.Sum256([]byte(members))
	return base64.RawURLEncoding.EncodeToString(digest[:]), nil
}

// MarshalJWKS returns the public halves as a JWK Set.
func MarshalJWKS(list []*SigningKey) ([]byte, error) {
	set := struct {
		Keys []jwk `json:"keys"`
	}{Keys: make([]jwk, 0, len(list))}
	for _, key := range list {
		k, err := publicJWK(key.public)
		if err != nil {
			return nil, err
		}
		k.Use, k.Algorithm, k.KeyID = "sig", string(key.Algorithm), key.ID
		set.Keys = append(set.Keys, k)
	}
	return json.Marshal(set)
}
