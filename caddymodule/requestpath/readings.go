package requestpath

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Readings lists the requests that an upstream may take r for. With an encoded slash, a path has two readings. Many
// servers ignore a trailing slash. HEAD is handled like GET, so rules for GET apply to HEAD too. A WebSocket over HTTP/2
// or 3 reaches the upstream as a GET.
func Readings(r *http.Request, exam Exam) []*http.Request {
	readings := []*http.Request{r}
	more := func(change func(*http.Request)) {
		for _, reading := range slices.Clone(readings) {
			other := *reading
			change(&other)
			readings = append(readings, &other)
		}
	}
	if exam.EncodedSlash {
		readings = append(readings, OtherReading(r))
	}
	if r.URL.Path != "/" {
		more(toggleSlash)
	}
	switch {
	case r.Method == http.MethodHead:
		more(func(other *http.Request) { other.Method = http.MethodGet })
	case IsWebSocketConnect(r):
		more(func(other *http.Request) {
			other.Method = http.MethodGet
			other.Header = other.Header.Clone()
			other.Header.Set("Connection", "Upgrade")
			other.Header.Set("Upgrade", "websocket")
		})
	}
	return readings
}

// toggleSlash adds a trailing slash to a request's path, or removes it.
func toggleSlash(r *http.Request) {
	location := *r.URL
	if path, ok := strings.CutSuffix(location.Path, "/"); ok {
		location.Path, location.RawPath = path, strings.TrimSuffix(location.RawPath, "/")
	} else {
		location.Path += "/"
		if location.RawPath != "" {
			location.RawPath += "/"
		}
	}
	r.URL = &location
}

// OtherReading returns the request as a server reads it that does not treat %2F as a separator. In r, URL.Path has a
// slash there; the copy has U+FFFD, a single character (as `?` in a pattern requires) that is in nobody's pattern. Rules
// are checked for both. Without an encoded slash it returns r. Placeholders such as {http.request.uri.path} still refer
// to the original request.
func OtherReading(r *http.Request) *http.Request {
	raw := r.URL.EscapedPath()
	if encodedSlash, _ := scanEscapes(raw); !encodedSlash {
		return r
	}
	raw = encodedSlashes.Replace(raw)
	decoded, err := url.PathUnescape(raw)
	if err != nil {
		return r // cannot happen: EscapedPath returns valid escapes only
	}
	r2, u2 := *r, *r.URL
	u2.Path, u2.RawPath = decoded, raw
	r2.URL = &u2
	return &r2
}

var encodedSlashes = strings.NewReplacer("%2f", "%EF%BF%BD", "%2F", "%EF%BF%BD")

// IsQueryMalformed reports whether Caddy's matchers cannot parse a query. They treat it as no match, while an upstream
// may still parse it.
func IsQueryMalformed(query string) bool {
	if query == "" {
		return false
	}
	_, err := url.ParseQuery(query)
	return err != nil
}

// IsWebSocketConnect reports whether a request is a WebSocket over HTTP/2 (RFC 8441) or HTTP/3 (RFC 9220). It arrives
// with the method CONNECT and an ordinary path. net/http puts `:protocol` among the headers, where no client can put it
// (a colon is not a token character); quic-go puts it into r.Proto. reverse_proxy turns exactly these two into a GET with
// `Upgrade: websocket`. It would forward any other protocol as a CONNECT, so those are refused.
func IsWebSocketConnect(r *http.Request) bool {
	if r.Method != http.MethodConnect {
		return false
	}
	switch r.ProtoMajor {
	case 2:
		return r.Header.Get(":protocol") == "websocket"
	case 3:
		return r.Proto == "websocket"
	}
	return false
}
