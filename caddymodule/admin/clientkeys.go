package admin

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// clientKeys are how a client proves who it is without a secret, with the names of client metadata (RFC 7591 §2).
type clientKeys struct {
	AuthMethod store.AuthMethod `json:"token_endpoint_auth_method,omitzero"`
	JWKS       jsontext.Value   `json:"jwks,omitzero"`
	JWKSURI    string           `json:"jwks_uri,omitzero"`
}

func keysOf(c *store.Client) clientKeys {
	k := clientKeys{AuthMethod: c.AuthMethod, JWKSURI: c.JWKSURI}
	if c.JWKS != "" {
		k.JWKS = jsontext.Value(c.JWKS)
	}
	return k
}

// keys is the change of a client's keys; nil: they stay. One kind takes the place of the other, and an empty one takes the keys away.
func (m *clientMembers) keys() *store.ClientKeys {
	if len(m.JWKS) == 0 && m.JWKSURI == nil {
		return nil
	}
	var k store.ClientKeys
	if len(m.JWKS) > 0 && m.JWKS.Kind() != 'n' {
		k.JWKS = string(m.JWKS)
	}
	if m.JWKSURI != nil {
		k.JWKSURI = *m.JWKSURI
	}
	k.InferMethod()
	return &k
}
