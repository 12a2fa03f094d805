package tokenissuer

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

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	minRSABits     = 2048  // RFC 7518 §3.3
	maxRSABits     = 8192  // a larger key is a way to make us slow
	minRSAExponent = 65537 // small exponents invite padding forgeries
)

// jwk is a public key on the wire (RFC 7517 §4). Members that it has no field for are not read.
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

// ParseJWK reads one public key (RFC 7517 §4) for signatures. It refuses keys whose use, key_ops or alg say that they
// are for something else, symmetric keys, curves other than P-256 and Ed25519, RSA keys under 2048 bits or with an
// exponent under 65537, and points off the curve. A private key is read for its public half.
func ParseJWK(data []byte) (*VerificationKey, error) {
	var k jwk
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, fmt.Errorf("not a JWK: %w", err)
	}
	if k.Use != "" && k.Use != "sig" {
		return nil, fmt.Errorf("the key's use is %q, not sig", k.Use)
	}
	if len(k.KeyOps) > 0 && !slices.Contains(k.KeyOps, "verify") {
		return nil, errors.New("the key's key_ops do not allow verify")
	}
	public, algorithm, err := k.publicKey()
	if err != nil {
		return nil, err
	}
	if k.Algorithm != "" && k.Algorithm != string(algorithm) {
		return nil, fmt.Errorf("the key's alg is %q, not %s", k.Algorithm, algorithm)
	}
	if err := checkKey(public, algorithm); err != nil {
		return nil, err
	}
	return &VerificationKey{ID: k.KeyID, Algorithm: algorithm, public: public}, nil
}

// ParseJWKS reads a JWK Set (RFC 7517 §5). A symmetric key, a private one, a kid that occurs twice, and a key that is listed twice, as
// for two algorithms, refuse the whole set: there is no telling what was meant. Other keys that cannot be used are left
// out, as §5 asks.
func ParseJWKS(data []byte) ([]*VerificationKey, error) {
	var set struct {
		Keys []jsontext.Value `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("not a JWK Set: %w", err)
	}
	var list []*VerificationKey
	kids, keys := make(map[string]bool), make(map[string]bool)
	for _, raw := range set.Keys {
		var k jwk
		if err := json.Unmarshal(raw, &k); err != nil {
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
		if public, _, err := k.publicKey(); err == nil {
			id, err := thumbprint(public)
			if err != nil {
				return nil, err
			}
			if keys[id] {
				return nil, fmt.Errorf("the set lists the key of kid %q twice", k.KeyID)
			}
			keys[id] = true
		}
		if key, err := ParseJWK(raw); err == nil {
			list = append(list, key)
		}
	}
	if len(list) == 0 {
		return nil, errors.New("the set holds no key that can be used")
	}
	return list, nil
}

// publicKey builds the key and says which algorithm its type is for.
func (k *jwk) publicKey() (crypto.PublicKey, Algorithm, error) {
	switch {
	case k.KeyType == "EC" && k.Curve == "P-256":
		x, err1 := coordinate(k.X, 32)
		y, err2 := coordinate(k.Y, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, "", err
		}
		point := slices.Concat([]byte{4}, x, y) // SEC 1 §2.3.3: uncompressed
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), point)
		return public, ES256, err
	case k.KeyType == "OKP" && k.Curve == "Ed25519":
		x, err := coordinate(k.X, ed25519.PublicKeySize)
		return ed25519.PublicKey(x), EdDSA, err
	case k.KeyType == "RSA":
		n, err1 := decodePart(nil, k.N)
		e, err2 := decodePart(nil, k.E)
		if err := errors.Join(err1, err2); err != nil {
			return nil, "", err
		}
		exponent := new(big.Int).SetBytes(e)
		if !exponent.IsInt64() || exponent.Int64() > 1<<31-1 {
			return nil, "", errors.New("the RSA exponent is too large")
		}
		return &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(exponent.Int64())}, RS256, nil
	}
	return nil, "", fmt.Errorf("key type %q with curve %q is not supported", k.KeyType, k.Curve)
}

func coordinate(text string, size int) ([]byte, error) {
	b, err := decodePart(nil, text)
	if err == nil && len(b) != size {
		err = fmt.Errorf("a coordinate has %d bytes, not %d", len(b), size)
	}
	return b, err
}

// checkKey holds a public key against the algorithm that it is to be bound to.
func checkKey(public crypto.PublicKey, algorithm Algorithm) error {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		if algorithm == ES256 && key.Curve == elliptic.P256() {
			return nil
		}
	case ed25519.PublicKey:
		if algorithm == EdDSA && len(key) == ed25519.PublicKeySize {
			return nil
		}
	case *rsa.PublicKey:
		if algorithm != RS256 {
			break
		}
		if key.N.BitLen() > maxRSABits {
			return fmt.Errorf("an RSA key has at most %d bits", maxRSABits)
		}
		if key.N.BitLen() < minRSABits || key.E < minRSAExponent || key.E%2 == 0 || key.N.Bit(0) == 0 {
			return fmt.Errorf("an RSA key needs at least %d bits and an odd exponent of at least %d", minRSABits, minRSAExponent)
		}
		return nil
	}
	return fmt.Errorf("a %T is no key for %s", public, algorithm)
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

// thumbprint is the kid: the SHA-256 JWK thumbprint (RFC 7638 §3) over the required members in lexical order.
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

// marshalJWKS returns the public halves as a JWK Set.
func marshalJWKS(list []*SigningKey) ([]byte, error) {
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
