// Package identity tells an upstream who is calling, in headers that clients cannot forge: it removes them from requests
// in every spelling, and sets them anew.
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
	// Issuer is set on routes that accept tokens of other issuers.
	Issuer = "X-Auth-Issuer"
)

// MaxBytes is the maximum length of an encoded identity header. A longer value must be refused, since upstreams may fail
// on it.
const MaxBytes = 4096

// Field is one identity header. Name is in canonical form.
type Field struct{ Name, Value string }

// Guard removes the headers that clients must not set. It is immutable.
type Guard struct {
	told Names
	// identity also has the headers that override method or path, and foreign the headers that only a trusted proxy may set.
	identity, foreign Names
}

// NewGuard returns a Guard for all identity headers that any route of the configuration sets. It includes the default
// ones and the issuer's, because an upstream that trusts them does so behind every route.
func NewGuard(names []string) *Guard {
	// CGI programs receive Proxy as HTTP_PROXY and may use it as their proxy (CVE-2016-5385). HTTP2-Settings belongs to
	// one connection (RFC 7540 §3.2.1), but reverse_proxy forwards it if Connection does not name it.
	told := append([]string{Subject, Client, Scope, Organisation, Role, Groups, Issuer}, names...)
	all := append(append(slices.Clip(told), "Proxy", "HTTP2-Settings"), Overriding...)
	return &Guard{NewNames(told...), NewNames(all...), NewNames(append(all, forwardingNames.folded...)...)}
}

// CleanIdentity deletes the identity headers in every spelling and nothing else, in place. It returns their values.
func (g *Guard) CleanIdentity(h http.Header) (removed []string) {
	for key, values := range h {
		if g.told.Has(key) {
			removed = append(removed, values...)
			delete(h, key)
		}
	}
	return removed
}

// Clean edits the header of the client's request in place, because Caddy's error routes use that one. It deletes identity
// headers in every spelling. It reduces Connection to options that proxies understand: reverse_proxy later deletes the
// headers that Connection names, which could be identity headers. From an untrusted peer it also deletes the forwarding
// headers. For a trusted one it keeps the overriding headers in kept, which are in canonical form.
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

// Takes reports whether the guard removes the header.
func (g *Guard) Takes(name string) bool { return g.identity.Has(name) }

// ConnectionOptions joins the allowed options of all Connection lines, without duplicates.
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

// connectionOption returns the canonical spelling of an allowed option, or "".
func connectionOption(word string) string {
	for _, option := range [...]string{"keep-alive", "close", "Upgrade", "TE"} {
		if len(word) == len(option) && strings.EqualFold(word, option) {
			return option
		}
	}
	return ""
}

// forwardingNames are headers that describe the client's side of a proxy. reverse_proxy sets X-Forwarded-For, -Proto and
// -Host itself, but passes these on.
var forwardingNames = NewNames("Forwarded", "X-Forwarded-Prefix", "X-Forwarded-Port", "X-Real-Ip")

// Request is the request for the upstream, with room for the values of the default identity headers.
type Request struct {
	http.Request
	values [6]string
}

// Copy returns the request for the upstream: a copy of r with its own header map, the identity set, and no trailers, in
// which a client could send identity headers later. It does not change r. Both maps share value slices, so replace values
// instead of editing them. Copy reuses u's allocation, which must not be in use.
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

// Encode encodes a claim for a header: every byte that is not visible ASCII, and `%` and `,`, becomes %XX with upper-case
// digits (RFC 3986 §2.1). So a value cannot end its line or list element, and percent-decoding restores it. Braces are
// kept, because no replacer sees the value.
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

// EncodeRaw returns a value of printable ASCII as it is, and any other one like Encode. So that no two values become one, it also encodes
// values with a percent sign, and those that begin or end with a space.
func EncodeRaw(value string) string {
	if strings.Trim(value, " ") != value || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' || r == '%' }) {
		return Encode(value)
	}
	return value
}

// EncodeList encodes the values and joins them with the separator, without empty ones.
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
