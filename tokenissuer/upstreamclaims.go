package tokenissuer

import (
	"fmt"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// upstreamClaims goes on with a claims set that appendClaims has written, for what is told to upstreams alone.
type upstreamClaims struct {
	b      []byte
	failed error
}

// claimsForUpstream begins with the claims of t, whose actors are left to the caller.
func claimsForUpstream(t *AccessToken) *upstreamClaims {
	b, err := appendClaims(make([]byte, 0, 768), t)
	if err != nil {
		return &upstreamClaims{failed: err}
	}
	return &upstreamClaims{b: b[:len(b)-1]} // the brace
}

func (c *upstreamClaims) name(name string) {
	c.b = append(append(append(c.b, `,"`...), name...), `":`...)
}

// quote writes a text. It fails for one that is not UTF-8.
func (c *upstreamClaims) quote(value string) {
	if c.failed == nil {
		c.b, c.failed = jsontext.AppendQuote(c.b, value)
	}
}

// text adds a claim, unless it is empty.
func (c *upstreamClaims) text(name, value string) {
	if value != "" {
		c.name(name)
		c.quote(value)
	}
}

func (c *upstreamClaims) number(name string, value int64) {
	c.name(name)
	c.b = strconv.AppendInt(c.b, value, 10)
}

// list adds a claim that has several values; one value is a text, and appendClaims has written it.
func (c *upstreamClaims) list(name string, values []string) {
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

// actors adds act, the current actor outermost and those before it nested in it (RFC 8693 §4.1).
func (c *upstreamClaims) actors(chain []Actor) {
	for i, actor := range chain {
		if i == 0 {
			c.name("act")
		} else {
			c.b = append(c.b, `,"act":`...)
		}
		c.b = append(c.b, `{"sub":`...)
		c.quote(actor.Subject)
		c.text("client_id", actor.ClientID)
	}
	for range chain {
		c.b = append(c.b, '}')
	}
}

// end returns the claims set.
func (c *upstreamClaims) end() ([]byte, error) {
	if c.failed != nil {
		return nil, NewError(ServerError, "claims_unwritable").WithCause(fmt.Errorf("writing claims for an upstream: %w", c.failed))
	}
	return append(c.b, '}'), nil
}

// actorChain are all who act for the token's subject, the current one first.
func (t *AccessToken) actorChain() []Actor {
	if t.Actor.IsZero() {
		return nil
	}
	return append([]Actor{t.Actor}, t.earlierActors...)
}
