package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// externalAudience is the audience of the other issuer's tokens.
const externalAudience = "https://api.bench.example"

// provider is another issuer, on loopback. This program signs its tokens.
type provider struct {
	issuer string
	keys   map[string]externalKey // by algorithm
	serial atomic.Int64
	// delay is how long a request for the keys waits for its response; asked counts those requests.
	delay time.Duration
	asked atomic.Int64
}

// externalKey is a key of the provider.
type externalKey struct {
	public map[string]any // as in the JWK Set
	key    crypto.PublicKey
	sign   func(text []byte) ([]byte, error)
}

// startProvider makes a key for each algorithm and publishes them until the scenario ends. Each response takes delay.
func (b *bench) startProvider(delay time.Duration) *provider {
	listener := must(net.Listen("tcp", "127.0.0.1:0"))
	p := &provider{issuer: "http://" + listener.Addr().String(), delay: delay, keys: externalKeys()}
	var set struct {
		Keys []map[string]any `json:"keys"`
	}
	for algorithm, key := range p.keys {
		key.public["alg"], key.public["kid"], key.public["use"] = algorithm, "bench-"+algorithm, "sig"
		set.Keys = append(set.Keys, key.public)
	}
	document := must(json.Marshal(set))
	server := &http.Server{ReadHeaderTimeout: headerTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		time.Sleep(p.delay)
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_, _ = w.Write(document)
	})}
	go func() { _ = server.Serve(listener) }()
	b.cleanup = append(b.cleanup, func() { _ = server.Close() })
	return p
}

func encodeBytes(text []byte) string { return base64.RawURLEncoding.EncodeToString(text) }

// externalKeys makes a key for each algorithm.
func externalKeys() map[string]externalKey {
	return map[string]externalKey{"RS256": rsaKey(), "ES256": ecdsaKey(), "EdDSA": ed25519Key()}
}

func rsaKey() externalKey {
	key := must(rsa.GenerateKey(rand.Reader, 2048))
	public := map[string]any{"kty": "RSA", "n": encodeBytes(key.N.Bytes()), "e": encodeBytes(big.NewInt(int64(key.E)).Bytes())}
	return externalKey{public, key.Public(), func(text []byte) ([]byte, error) {
		digest := sha256.Sum256(text)
		return rsa.SignPKCS1v15(nil, key, crypto.SHA256, digest[:])
	}}
}

func ecdsaKey() externalKey {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	point := must(key.PublicKey.Bytes()) // 4, x, y
	public := map[string]any{"kty": "EC", "crv": "P-256", "x": encodeBytes(point[1:33]), "y": encodeBytes(point[33:])}
	return externalKey{public, key.Public(), func(text []byte) ([]byte, error) {
		digest := sha256.Sum256(text)
		r, s, err := ecdsa.Sign(rand.Reader, key, digest[:])
		if err != nil {
			return nil, err
		}
		signature := make([]byte, 64)
		r.FillBytes(signature[:32])
		s.FillBytes(signature[32:])
		return signature, nil
	}}
}

func ed25519Key() externalKey {
	public, key, err := ed25519.GenerateKey(rand.Reader)
	check(err)
	return externalKey{map[string]any{"kty": "OKP", "crv": "Ed25519", "x": encodeBytes(public)}, public, func(text []byte) ([]byte, error) {
		return ed25519.Sign(key, text), nil
	}}
}

// token signs a token that differs from every other.
func (p *provider) token(algorithm string) string { return must(p.sign(algorithm)) }

func (p *provider) sign(algorithm string) (string, error) {
	now := time.Now().Unix()
	text := encode(map[string]any{"alg": algorithm, "typ": "at+jwt", "kid": "bench-" + algorithm}) + "." + encode(map[string]any{
		"iss": p.issuer, "aud": externalAudience, "sub": "u-eve", "client_id": "partner", "scope": "public",
		"iat": now, "exp": now + 7200, "jti": fmt.Sprintf("ext%019d", p.serial.Add(1)),
	})
	signature, err := p.keys[algorithm].sign([]byte(text))
	return text + "." + encodeBytes(signature), err
}

// tokens signs count tokens on all processors that this process may use.
func (p *provider) tokens(algorithm string, count int) []string {
	tokens := make([]string, count)
	var next atomic.Int64
	var signing errgroup.Group
	for range runtime.GOMAXPROCS(0) {
		signing.Go(func() (err error) {
			for i := int(next.Add(1)) - 1; i < count && err == nil; i = int(next.Add(1)) - 1 {
				tokens[i], err = p.sign(algorithm)
			}
			return err
		})
	}
	check(signing.Wait())
	return tokens
}
