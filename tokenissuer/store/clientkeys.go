package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// AuthMethod is how a client proves who it is: a token_endpoint_auth_method (RFC 7591 §2).
type AuthMethod string

const (
	// SecretAuth is by a secret in either of two places; a public client has none to prove.
	SecretAuth AuthMethod = ""
	// PrivateKeyJWT is by a JWT that the client signs with its own key (RFC 7523 §2.2).
	PrivateKeyJWT AuthMethod = "private_key_jwt"
)

// maxJWKS is how many bytes the keys of a client may have.
const maxJWKS = 64 << 10

// ClientKeys is how a client proves who it is without a secret of ours. The zero value is a client that has a secret, or that is
// public. Its JSON form is that of client metadata, but for JWKS, which is a text there.
type ClientKeys struct {
	// AuthMethod is PrivateKeyJWT when there are keys. Then no secret is good for the client, and it is not public.
	AuthMethod AuthMethod `json:"token_endpoint_auth_method,omitempty"`
	// JWKS is a JWK Set with the client's public keys (RFC 7517 §5), as it was given; empty: JWKSURI has them.
	JWKS string `json:"jwks,omitempty"`
	// JWKSURI is the URL of such a set.
	JWKSURI string `json:"jwks_uri,omitempty"`
}

// SignsAssertions reports whether the client proves who it is with a key of its own, and in no other way.
func (k *ClientKeys) SignsAssertions() bool { return k.AuthMethod == PrivateKeyJWT }

// InferMethod sets the method that the keys make, where none is named.
func (k *ClientKeys) InferMethod() {
	if k.AuthMethod == SecretAuth && (k.JWKS != "" || k.JWKSURI != "") {
		k.AuthMethod = PrivateKeyJWT
	}
}

// Validate says what is wrong with a registration's keys. Whether the set can be used is for package keys to say.
func (k *ClientKeys) Validate() error {
	switch {
	case k.AuthMethod == SecretAuth && k.JWKS == "" && k.JWKSURI == "":
		return nil
	case k.AuthMethod != PrivateKeyJWT:
		return fmt.Errorf("unknown authentication method %q: use %s, or leave it out for a client with a secret", k.AuthMethod, PrivateKeyJWT)
	case k.JWKS == "" && k.JWKSURI == "":
		return fmt.Errorf("%s needs the client's public keys: give jwks or jwks_uri", PrivateKeyJWT)
	case k.JWKS != "" && k.JWKSURI != "":
		return errors.New("give jwks or jwks_uri, not both (RFC 7591 §2)")
	case len(k.JWKS) > maxJWKS || k.JWKS != "" && !json.Valid([]byte(k.JWKS)):
		return fmt.Errorf("jwks: use a JSON Web Key Set of at most %d bytes", maxJWKS)
	case k.JWKSURI != "":
		return checkJWKSURI(k.JWKSURI)
	}
	return nil
}

// checkJWKSURI refuses what could not be fetched, or not safely. Where the host leads is looked at when it is dialled.
func checkJWKSURI(uri string) error {
	u, err := url.Parse(uri)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || strings.Contains(uri, "#") || len(uri) > 2048 {
		return fmt.Errorf("jwks_uri %.200q is no URL: write it as https://app.example.com/jwks.json", uri)
	}
	if u.Scheme == "https" || u.Scheme == "http" && oauth.IsLoopback(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("jwks_uri %.200q: use https, or http on loopback", uri)
}
