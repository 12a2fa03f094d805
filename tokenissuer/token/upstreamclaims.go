package token

import (
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// UpstreamClaims extends a claims set of AppendClaims with claims for upstreams.
type UpstreamClaims struct {
	b      []byte
	failed error
}

// NewUpstreamClaims begins with the claims of t. The caller adds the actors.
func NewUpstreamClaims(t *AccessToken) *UpstreamClaims {
	b, err := AppendClaims(make([]byte, 0, 768), t)
	if err != nil {
		return &UpstreamClaims{failed: err}
	}
	return &UpstreamClaims{b: b[:len(b)-1]} // drop the closing brace
}

func (c *UpstreamClaims) name(name string) {
	c.b = append(append(append(c.b, `,"`...), name...), `":`...)
}

// quote appends a string. It fails if that is not UTF-8.
func (c *UpstreamClaims) quote(value string) {
	if c.failed == nil {
		c.b, c.failed = jsontext.AppendQuote(c.b, value)
	}
}

// Text adds a claim, unless it is empty.
func (c *UpstreamClaims) Text(name, value string) {
	if value != "" {
		c.name(name)
		c.quote(value)
	}
}

// List adds a claim with several values. It ignores a single value, which AppendClaims has written.
func (c *UpstreamClaims) List(name string, values []string) {
	if len(values) < 2 {
		return
	}
	c.name(name)
	for i, value := range values {
		c.b = append(c.b, "[,"[min(i, 1)])
		c.quote(value)
	}
	c.b = append(c.b, ']')
}

// Actors adds act, with the current actor outermost (RFC 8693 §4.1).
func (c *UpstreamClaims) Actors(chain []store.Actor) {
	if c.failed == nil {
		c.b, c.failed = appendActors(c.b, chain)
	}
}

// JSON returns the claims set.
func (c *UpstreamClaims) JSON() ([]byte, error) {
	if c.failed != nil {
		return nil, oauth.NewError(oauth.ServerError, "claims_unwritable").WithCause(fmt.Errorf("writing claims for an upstream: %w", c.failed))
	}
	return append(c.b, '}'), nil
}

// appendActors appends act, with the current actor outermost (RFC 8693 §4.1).
func appendActors(b []byte, chain []store.Actor) (_ []byte, err error) {
	for _, actor := range chain {
		if b, err = jsontext.AppendQuote(append(b, `,"act":{"sub":`...), actor.Subject); err != nil {
			return nil, err
		}
		if actor.ClientID == "" {
			continue
		}
		if b, err = jsontext.AppendQuote(append(b, `,"client_id":`...), actor.ClientID); err != nil {
			return nil, err
		}
	}
	for range chain {
		b = append(b, '}')
	}
	return b, nil
}

// ActorClaim returns a JSON object with act, or nil if the token has no actor.
func (t *AccessToken) ActorClaim() jsontext.Value {
	object, err := appendActors(nil, t.Actors)
	if err != nil || len(object) == 0 {
		return nil
	}
	object[0] = '{' // replaces the comma
	return append(object, '}')
}
