package caddymodule

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
)

// One description of a request for all versions of HTTP. A gate that was started with startBoth gets each request over HTTP/1.1 and over
// each other transport. Its decisions and the upstream's requests must be equal.

// transport is a way of sending a request other than over HTTP/1.1.
type transport struct {
	name string
	tls  bool // and over IPv6, where the machine has it
	send func(g *gateway, t *testing.T, fields [][2]string, data ...string) (int, http.Header, string)
}

var transports = []transport{
	{"HTTP/2", false, (*gateway).h2},
	{"HTTP/2 with TLS", true, (*gateway).h2TLS},
	{"HTTP/3", true, (*gateway).h3},
}

// startBoth is like startGate for tests that send each request over all transports.
func startBoth(t *testing.T, caddyfile string) *gateway {
	t.Helper()
	g := watchedGate(t, startGatehouseAt(t, freeTLSAddr(t), speakingH2(caddyfile)))
	g.others = transports
	t.Cleanup(func() {
		if g.said == 0 && !t.Failed() {
			t.Error("no request of this test could be said but in HTTP/1.1")
		}
	})
	return g
}

// speakingH2 makes the servers of a configuration speak HTTP/2 without TLS as well as HTTP/1.1.
func speakingH2(caddyfile string) string {
	const protocols = "\t\tprotocols h1 h2c\n"
	switch {
	case strings.Contains(caddyfile, "\t\tprotocols "):
		return caddyfile
	case strings.Contains(caddyfile, "\tservers {\n"):
		return strings.Replace(caddyfile, "\tservers {\n", "\tservers {\n"+protocols, 1)
	}
	return strings.Replace(caddyfile, "\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n"+protocols+"\t}\n", 1)
}

// said is a request as sent over a transport, and its answer.
type said struct {
	transport
	fields [][2]string
	status int
	header http.Header
	body   string
}

// isTurnedAway reports whether the server refused a request that violates HTTP/2 or HTTP/3, before any handler.
func (s said) isTurnedAway() bool {
	return isMalformedH2(s.fields) && (s.status == 0 || s.status == http.StatusBadRequest)
}

// overOthers sends a request of HTTP/1.1 over each of the gate's other transports that can express it, one after the other.
func (g *gateway) overOthers(t *testing.T, request string, judge func(said)) {
	t.Helper()
	if len(g.others) == 0 {
		return
	}
	fields, data, ok := g.inH2(request)
	if !ok {
		return
	}
	g.said++
	for _, other := range g.others {
		answer := said{transport: other, fields: slices.Clone(fields)}
		if other.tls {
			answer.fields[1][1] = "https" // the scheme
		}
		answer.status, answer.header, answer.body = other.send(g, t, answer.fields, data...)
		judge(answer)
	}
}

// refusedAlike repeats a refused request over the other transports.
func (g *gateway) refusedAlike(t *testing.T, request string, status int, header http.Header, body string) {
	t.Helper()
	g.overOthers(t, request, func(s said) {
		t.Helper()
		if s.isTurnedAway() {
			g.upstream.none(t)
			g.audited()
			return
		}
		g.checkRefused(t, s.status, s.body, status)
		g.answersAlike(t, s, header, body)
	})
}

// answersAlike compares the body and the relevant headers of the answers over HTTP/1.1 and over another version. It ignores the port and
// scheme of the address that was used.
func (g *gateway) answersAlike(t *testing.T, s said, header http.Header, body string) {
	t.Helper()
	there := regexp.MustCompile(`https://([^/:"]+)` + g.tlsAddr[strings.LastIndexByte(g.tlsAddr, ':'):])
	here := func(text string) string {
		return there.ReplaceAllString(text, "http://${1}"+g.addr[strings.LastIndexByte(g.addr, ':'):])
	}
	if errorID.ReplaceAllString(here(s.body), "") != errorID.ReplaceAllString(body, "") {
		t.Errorf("over %s the answer is %s, and over HTTP/1.1 %s", s.name, s.body, body)
	}
	for _, name := range []string{"Www-Authenticate", "Content-Type", "Cache-Control", "Vary", "Allow", "Retry-After", "Set-Cookie", "Location",
		"Access-Control-Allow-Origin", "Access-Control-Allow-Credentials", "Access-Control-Expose-Headers"} {
		one, two := slices.Clone(header.Values(name)), s.header.Values(name)
		for i := range two {
			two[i] = freshValue.ReplaceAllString(here(two[i]), "fresh")
		}
		for i := range one {
			one[i] = freshValue.ReplaceAllString(one[i], "fresh")
		}
		if !slices.Equal(one, two) {
			t.Errorf("%s: %q over %s, %q over HTTP/1.1", name, two, s.name, one)
		}
	}
}

// errorID matches the part that differs between any two JSON:API errors.
var errorID = regexp.MustCompile(`"id":"[^"]*"`)

// asked sends a request whose answer the test judges. It checks that the answers and the upstream's requests are the same over the other
// transports. Afterwards the upstream has seen the request once.
func (g *gateway) asked(t *testing.T, request string) (int, http.Header, string) {
	t.Helper()
	before := g.upstream.seen()
	status, header, body := g.raw(request)
	first := g.upstream.seen()
	g.overOthers(t, request, func(s said) {
		t.Helper()
		second := g.upstream.seen()
		switch {
		case s.isTurnedAway() && len(second) == 0:
		case s.status != status || len(second) != len(first):
			t.Errorf("over %s %d, of which the upstream saw %d, and over HTTP/1.1 %d, of which it saw %d", s.name, s.status, len(second), status, len(first))
		default:
			g.answersAlike(t, s, header, body)
			for i := range first {
				toldAlike(t, s.transport, first[i], second[i])
			}
		}
	})
	g.upstream.mu.Lock()
	g.upstream.requests = append(before, first...)
	g.upstream.mu.Unlock()
	return status, header, body
}

// turnedAwayAlike repeats over the other transports a request that was turned away over HTTP/1.1.
func (g *gateway) turnedAwayAlike(t *testing.T, request string, statuses []int) {
	t.Helper()
	g.overOthers(t, request, func(s said) {
		t.Helper()
		if s.status != 0 && !slices.Contains(statuses, s.status) {
			t.Errorf("status %d %s over %s, want %v", s.status, s.body, s.name, statuses)
		}
		g.upstream.none(t)
	})
}

// passedAlike repeats over the other transports a request that passed over HTTP/1.1 with first as the upstream's request.
func (g *gateway) passedAlike(t *testing.T, request string, first *recorded) {
	t.Helper()
	g.audited()
	g.overOthers(t, request, func(s said) {
		t.Helper()
		if s.status != http.StatusOK || s.body != "ok" {
			g.upstream.seen()
			t.Fatalf("status %d %s over %s, want 200, for %q", s.status, s.body, s.name, s.fields)
		}
		if lines := g.audited(); len(lines) != 1 || lines[0]["msg"] != "request passed the gate" {
			t.Errorf("audit lines: %v", lines)
		}
		toldAlike(t, s.transport, first, g.upstream.one(t))
	})
}

// toldAlike compares the upstream's requests for the same request over HTTP/1.1 and over another version.
func toldAlike(t *testing.T, over transport, first, second *recorded) {
	t.Helper()
	if second.Method != first.Method || second.Target != first.Target || second.Body != first.Body || len(second.Trailer) != len(first.Trailer) {
		t.Errorf("over %s the upstream was sent\n%s%s%v\nand over HTTP/1.1\n%s%s%v", over.name, second.Raw, second.Body, second.Trailer, first.Raw, first.Body, first.Trailer)
	}
	one, two := first.told(), second.told()
	if over.tls {
		one["x-forwarded-for"] = strings.ReplaceAll(one["x-forwarded-for"], "127.0.0.1", "::1")
		two["x-forwarded-for"] = strings.ReplaceAll(two["x-forwarded-for"], "127.0.0.1", "::1") // if the machine has no IPv6
		if one["x-forwarded-proto"] == "http" && two["x-forwarded-proto"] == "https" {
			one["x-forwarded-proto"] = "https"
		}
	}
	if !maps.Equal(one, two) {
		t.Errorf("over %s the upstream was told %q, and over HTTP/1.1 %q", over.name, two, one)
	}
}

// told returns the request's headers with folded names and joined lines, except those that depend on the connection or the version.
func (r *recorded) told() map[string]string {
	told := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		folded := identity.Fold(name)
		switch folded {
		case "connection", "via", "te", "transfer-encoding", "content-length", "user-agent", "x-forwarded-host":
			continue
		}
		separator := ", "
		if folded == "cookie" { // HTTP/2 splits it, and Go joins it again
			separator = "; "
		}
		values := strings.Join(r.Header[name], separator)
		if before, ok := told[folded]; ok {
			values = before + separator + values
		}
		told[folded] = wholeJWT.ReplaceAllStringFunc(values, withoutMoment)
	}
	return told
}

// wholeJWT matches a whole token or assertion, and freshValue the values that are new for each request.
var (
	wholeJWT   = regexp.MustCompile(`eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+`)
	freshValue = regexp.MustCompile(wholeJWT.String() + `|pending=[A-Za-z0-9_-]+`)
)

// withoutMoment returns the claims of a JWT without jti, iat and exp, which differ between otherwise equal tokens.
func withoutMoment(token string) string {
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return token
	}
	var claims map[string]any
	if err := json.Unmarshal(payload, &claims); err != nil {
		return token
	}
	for _, name := range []string{"jti", "iat", "exp"} {
		delete(claims, name)
	}
	return fmt.Sprint(claims)
}

// inH2 translates a request of HTTP/1.1 into HTTP/2: the fields of its head in their order, and the frames of its body. It is not ok if the
// request uses what HTTP/2 does not have: framing, upgrades or connection options.
func (g *gateway) inH2(request string) (fields [][2]string, data []string, ok bool) {
	head, body, _ := strings.Cut(request, "\r\n\r\n")
	line, rest, _ := strings.Cut(head, "\r\n")
	method, line, _ := strings.Cut(line, " ")
	space := strings.LastIndexByte(line, ' ')
	if space < 0 || line[space+1:] != "HTTP/1.1" {
		return nil, nil, false
	}
	target, authority, chunked := line[:space], "", false
	var further [][2]string
	for line := range strings.SplitSeq(rest, "\r\n") {
		name, value, found := strings.Cut(line, ":")
		if !found || strings.ContainsAny(name, " \t") { // including folded lines
			return nil, nil, false
		}
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch name {
		case "host":
			if authority != "" {
				return nil, nil, false
			}
			authority = value
			continue
		case "connection":
			if value != "close" {
				return nil, nil, false
			}
			continue
		case "upgrade", "keep-alive", "proxy-connection", "http2-settings":
			return nil, nil, false
		case "transfer-encoding":
			chunked = true
			continue
		case "cookie": // split, as browsers send it (RFC 9113 §8.2.3)
			for crumb := range strings.SplitSeq(value, "; ") {
				further = append(further, [2]string{name, crumb})
			}
			continue
		}
		further = append(further, [2]string{name, value})
	}
	if method == http.MethodConnect {
		return nil, nil, false
	}
	scheme := "http"
	if absolute, ok := strings.CutPrefix(target, "http://"); ok { // its authority counts, and the Host header does not
		further = append(further, [2]string{"host", authority})
		if end := strings.IndexAny(absolute, "/?#"); end >= 0 {
			authority, target = absolute[:end], absolute[end:]
		} else {
			authority, target = absolute, "/"
		}
		if !strings.HasPrefix(target, "/") || strings.Contains(authority, "@") {
			return nil, nil, false
		}
	}
	fields = append([][2]string{{":method", method}, {":scheme", scheme}, {":authority", authority}, {":path", target}}, further...)
	switch {
	case chunked:
		if data, ok = chunksInH2(body); !ok {
			return nil, nil, false
		}
	case body != "":
		data = []string{body}
	}
	return fields, data, true
}

// chunksInH2 turns a chunked body into one frame, and its trailers into the strings that h2 sends as trailers. It is not ok for names that
// Go's server rejects as trailers over HTTP/2.
func chunksInH2(body string) (data []string, ok bool) {
	text, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(body)))
	if err != nil {
		return nil, false
	}
	data = []string{string(text)}
	_, trailers, _ := strings.Cut(body, "\r\n0\r\n")
	for line := range strings.SplitSeq(strings.TrimSpace(trailers), "\r\n") {
		name, value, found := strings.Cut(line, ": ")
		if found && !httpguts.ValidTrailerHeader(http.CanonicalHeaderKey(name)) {
			return nil, false
		}
		if found {
			data = append(data, "trailer "+strings.ToLower(name)+": "+value)
		}
	}
	return data, true
}

// isMalformedH2 reports whether a request violates HTTP/2 itself and the server resets its stream before any handler: an invalid path,
// invalid bytes in a value, or a Host that differs from the authority (RFC 9113 §8.2.1 and §8.3.1).
func isMalformedH2(fields [][2]string) bool {
	authority := ""
	for _, field := range fields {
		switch name, value := field[0], field[1]; {
		case name == ":authority":
			authority = value
		case name == "host" && value != authority:
			return true
		case name == ":path":
			if _, err := url.ParseRequestURI(value); err != nil || value[0] != '/' {
				return true
			}
		}
		if strings.ContainsAny(field[1], "\r\n\x00\x7f") {
			return true
		}
	}
	return false
}
