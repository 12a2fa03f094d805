// Package identity tells an upstream who is calling, in headers that no client can fake: it takes their every spelling from
// requests, and writes them anew.
package identity

import (
	"net/http"
	"slices"
	"strings"
)

// The headers that tell an upstream who is calling, unless `forward` says otherwise.
const (
	Subject      = "X-Auth-Subject"
	Client       = "X-Auth-Client"
	Scope        = "X-Auth-Scope"
	Organisation = "X-Auth-Organisation"
	Role         = "X-Auth-Role"
	Groups       = "X-Auth-Groups"
	// Issuer is there on routes that take tokens of other issuers.
	Issuer = "X-Auth-Issuer"
)

// MaxBytes is the longest encoded value of an identity header. A longer one is refused by whoever sets it, for
// it would be the upstream that chokes on it.
const MaxBytes = 4096

// Field is one identity header. Name is in canonical form.
type Field struct{ Name, Value string }

// Guard takes away what a client must not be able to say. It is immutable after NewGuard.
type Guard struct {
	identity Names
	// foreign has those and what only a trusted proxy may say.
	foreign Names
}

// NewGuard builds the guard from all identity headers that any route of the configuration can set. The six
// default ones and the issuer's are always among them, because an upstream that listens to them does so behind every route.
func NewGuard(names []string) *Guard {
	// Proxy becomes HTTP_PROXY in a CGI program, which takes it for its own proxy (CVE-2016-5385). HTTP2-Settings belongs
	// to one connection only (RFC 7540 §3.2.1); once Connection names it no more, reverse_proxy would pass it on.
	all := []string{Subject, Client, Scope, Organisation, Role, Groups, Issuer, "Proxy", "HTTP2-Settings"}
	all = append(append(all, names...), Overriding...)
	return &Guard{NewNames(all...), NewNames(append(all, forwardingNames.folded...)...)}
}

// Clean works in place on the header of the request that the client sent, because Caddy's error routes get that one. It
// deletes every spelling of every identity header, and reduces Connection to the words that a proxy itself understands:
// reverse_proxy deletes what Connection names after our handler ran, so a client could delete an identity header. From a
// peer that is no trusted proxy it takes the forwarding headers as well; of one that is, it keeps the overriding headers that
// the route trusts, which are in canonical form.
func (g *Guard) Clean(h http.Header, trusted bool, kept ...string) {
	names := &g.foreign
	if trusted {
		names = &g.identity
	}
	for key := range h {
		if names.Has(key) && (!trusted || !slices.Contains(kept, key)) {
			delete(h, key)
		}
	}
	lines, ok := h["Connection"]
	if !ok || len(lines) == 1 && connectionOption(lines[0]) != "" {
		return
	}
	if options := ConnectionOptions(lines); options != "" {
		h["Connection"] = []string{options}
	} else {
		delete(h, "Connection")
	}
}

// Takes reports whether the header is taken from whoever sends it.
func (g *Guard) Takes(name string) bool { return g.identity.Has(name) }

// ConnectionOptions joins what may remain of all Connection lines, each option once.
func ConnectionOptions(lines []string) string {
	var kept []string
	for _, line := range lines {
		for word := range strings.SplitSeq(line, ",") {
			option := connectionOption(strings.Trim(word, " \t"))
			if option != "" && !slices.Contains(kept, option) {
				kept = append(kept, option)
			}
		}
	}
	return strings.Join(kept, ", ")
}

// connectionOption gives the usual spelling of an option that may stay in Connection, or "".
func connectionOption(word string) string {
	for _, option := range [...]string{"keep-alive", "close", "Upgrade", "TE"} {
		if len(word) == len(option) && strings.EqualFold(word, option) {
			return option
		}
	}
	return ""
}

// forwardingNames are the headers by which a proxy tells where the request came from and where it entered. reverse_proxy
// sets X-Forwarded-For, -Proto and -Host itself; these it passes on as they came.
var forwardingNames = NewNames("Forwarded", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Real-Ip")

// Request is a request that goes on to the upstream, and the values of its identity headers: as many as there are by default,
// and one more.
type Request struct {
	http.Request
	values [8]string
}

// Copy returns the request that goes on to the upstream: a copy of r with its own header map, the identity set, and no
// trailers, for a client could announce an identity header as a trailer and send it after everything was checked. r and
// its header stay as they are; the copied map shares its value slices with r, so they are replaced, never written to. The copy
// reuses u's allocation, which must not be in use.
func (u *Request) Copy(r *http.Request, identity []Field) *http.Request {
	r2 := &u.Request
	*r2 = *r
	r2.Trailer = nil
	r2.Header = make(http.Header, len(r.Header)+len(identity))
	for key, values := range r.Header {
		if key == "Trailer" {
			continue
		}
		r2.Header[key] = slices.Clip(values)
	}
	values := u.values[:]
	if len(identity) > len(values) {
		values = make([]string, len(identity))
	}
	for i, field := range identity {
		values[i] = field.Value
		r2.Header[field.Name] = values[i : i+1 : i+1]
	}
	return r2
}

// Encode writes one claim value for a header: every byte that is not visible ASCII, and `%` and `,`, becomes %XX
// with upper-case digits (RFC 3986 §2.1), so that a value ends neither its line nor its place in a list, and an upstream
// gets it back by percent-decoding. Braces stay as they are, since no replacer ever sees the value.
func Encode(value string) string {
	odd := 0
	for i := range len(value) {
		if !isIdentityByte(value[i]) {
			odd++
		}
	}
	if odd == 0 {
		return value
	}
	encoded := make([]byte, 0, len(value)+2*odd)
	for i := range len(value) {
		if c := value[i]; isIdentityByte(c) {
			encoded = append(encoded, c)
		} else {
			encoded = append(encoded, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return string(encoded)
}

const upperHex = "0123456789ABCDEF"

func isIdentityByte(c byte) bool { return '!' <= c && c <= '~' && c != '%' && c != ',' }

// EncodeList writes a claim with several values as a scope is written: encoded, with one space between them, or another
// separator. Empty values are left out.
func EncodeList(values []string, separator byte) string {
	var list strings.Builder
	size := 0
	for _, value := range values {
		size += len(value) + 1
	}
	list.Grow(size)
	for _, value := range values {
		if value == "" {
			continue
		}
		if list.Len() > 0 {
			list.WriteByte(separator)
		}
		list.WriteString(Encode(value))
	}
	return list.String()
}
