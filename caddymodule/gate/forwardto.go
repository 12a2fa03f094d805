package gate

import (
	"net/http"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

const forwardToResponse = "response"

// responseIdentity holds the identity headers of a response, for another proxy that asks us. Handlers behind the gate
// cannot set them. The zero value does nothing.
type responseIdentity struct {
	guard  *identity.Guard
	fields []identity.Field
}

// responseIdentity returns the identity headers for this route's responses. Without fields it only removes them.
func (p *Protect) responseIdentity(fields []identity.Field) responseIdentity {
	if p.ForwardTo != forwardToResponse {
		return responseIdentity{}
	}
	return responseIdentity{p.shared.identityGuard(), fields}
}

// passedIdentity is responseIdentity for a request that passes. The other proxy also learns which cookies to pass on: those without
// ours, in one line, which is empty rather than missing because some proxies keep the client's then.
func (p *Protect) passedIdentity(r *http.Request, fields []identity.Field) responseIdentity {
	if p.ForwardTo != forwardToResponse {
		return responseIdentity{}
	}
	kept := make([]identity.Field, len(fields), len(fields)+1) // a copy: fields are on the stack of ServeHTTP
	copy(kept, fields)
	return p.responseIdentity(append(kept, identity.Field{Name: "Cookie", Value: strings.Join(r.Header["Cookie"], "; ")}))
}

// clean deletes identity headers in every spelling, also from trailers.
func (t responseIdentity) clean(h http.Header) {
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
func (t responseIdentity) write(h http.Header) {
	for _, field := range t.fields {
		h[field.Name] = []string{field.Value}
	}
}

// finish runs after the next handler and removes headers that it left as trailers. It writes the fields again for a
// writer that has buffered the head, except after an error, which Caddy answers anew.
func (t responseIdentity) finish(h http.Header, err error) {
	if t.clean(h); err == nil {
		t.write(h)
	}
}
