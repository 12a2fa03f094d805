package store

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// PrivateKeyJWT is the token_endpoint_auth_method of a client that signs a JWT with its own key (RFC 7523 §2.2).
const PrivateKeyJWT = "private_key_jwt"

// maxJWKS is the largest size of a client's key set, in bytes.
const maxJWKS = 64 << 10

// KeySet is the text of a JWK Set (RFC 7517 §5), as given. Its JSON form is that object. In a configuration it may be a string instead, a
// placeholder for the object.
type KeySet string

// MarshalJSON writes the object, or a string if the text is not an object.
func (k KeySet) MarshalJSON() ([]byte, error) {
	if text := jsontext.Value(k); text.Kind() == '{' && text.IsValid() {
		return text, nil
	}
	return json.Marshal(string(k))
}

// UnmarshalJSON reads an object, a string or null.
func (k *KeySet) UnmarshalJSON(text []byte) error {
	switch jsontext.Value(text).Kind() {
	case 'n':
		*k = ""
		return nil
	case '"':
		if err := json.Unmarshal(text, (*string)(k)); err != nil {
			return err
		}
		if jsontext.Value(*k).IsValid() {
			return errors.New("write the JSON Web Key Set as an object, not as a text")
		}
		return nil
	}
	*k = KeySet(text)
	return nil
}

// ClientKeys are the keys with which a client authenticates instead of a secret. A client with keys signs assertions, cannot authenticate
// with a secret, and is not public. The zero value is a client that has a secret or is public. Its JSON form is that of client metadata.
type ClientKeys struct {
	// JWKS contains the client's public keys; empty: they are at JWKSURI.
	JWKS KeySet `json:"jwks,omitzero" help:"File with the client's public keys, a JSON Web Key Set: the client proves who it is with a JWT that it signs (private_key_jwt), and has no secret"`
	// JWKSURI is the URL of such a set.
	JWKSURI string `json:"jwks_uri,omitzero" help:"URL at which the client publishes its keys, in place of --jwks"`
}

// SignsAssertions reports whether the client authenticates with its own key, and in no other way.
func (k *ClientKeys) SignsAssertions() bool { return *k != ClientKeys{} }

// Validate returns an error if the registration of the keys is invalid. Package keys checks whether the set is usable.
func (k *ClientKeys) Validate() error {
	switch {
	case k.JWKS != "" && k.JWKSURI != "":
		return errors.New("give jwks or jwks_uri, not both (RFC 7591 §2)")
	case len(k.JWKS) > maxJWKS || k.JWKS != "" && !jsontext.Value(k.JWKS).IsValid():
		return fmt.Errorf("jwks: use a JSON Web Key Set of at most %d bytes", maxJWKS)
	case k.JWKSURI != "":
		return checkJWKSURI(k.JWKSURI)
	}
	return nil
}

// checkJWKSURI returns an error for a URL that cannot be fetched safely. The addresses of the host are checked when it is dialled.
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
