package gate

import (
	"net/http"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
)

const forwardToResponse = "response"

// upstreamIdentity is what an answer says of who is calling, for another proxy that asks us. Whoever answers behind us cannot
// say it in our place. The zero value says nothing and changes nothing.
type upstreamIdentity struct {
	guard  *identity.Guard
	fields []identity.Field
}

// tell returns what the answer of this route says. Without fields it says nothing, whatever the upstream does.
func (p *Protect) tell(fields []identity.Field) upstreamIdentity {
	if p.ForwardTo != forwardToResponse {
		return upstreamIdentity{}
	}
	return upstreamIdentity{p.shared.identityGuard(), fields}
}

// clean deletes every spelling of every identity header, and of those that are announced as trailers.
func (t upstreamIdentity) clean(h http.Header) {
	if t.guard == nil {
		return
	}
	for key := range h {
		if t.guard.Takes(strings.TrimPrefix(key, http.TrailerPrefix)) {
			delete(h, key)
		}
	}
}

// write sets the identity headers.
func (t upstreamIdentity) write(h http.Header) {
	for _, field := range t.fields {
		h[field.Name] = []string{field.Value}
	}
}

// finish is for after the next handler: what it left in the header would follow as trailers. The fields are written once
// more, because a writer that holds the head back still has to send them; with an error no head has been written, and Caddy
// makes another answer of it.
func (t upstreamIdentity) finish(h http.Header, err error) {
	if t.clean(h); err == nil {
		t.write(h)
	}
}
