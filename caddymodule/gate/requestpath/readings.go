package requestpath

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Readings returns the ways in which an upstream may read r, r first. With an encoded slash, a path has two readings. Some servers end
// a path at an encoded question mark or number sign, and many ignore a trailing slash, and of a host its case, a dot at its end and a default port. HEAD is handled like GET, so rules for GET apply to HEAD too. A WebSocket over HTTP/2
// or 3 reaches the upstream as a GET. Some upstreams take the method from the query.
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
	if strings.ContainsAny(r.URL.Path, "?#") {
		more(endEarly)
	}
	if r.URL.Path != "/" {
		more(toggleSlash)
	}
	if host := CanonicalHost(r.Host); host != r.Host {
		more(func(other *http.Request) { other.Host = host })
	}
	if method, _ := QueryMethod(r); method != "" && method != r.Method {
		more(func(other *http.Request) { other.Method = method })
	}
	switch {
	case slices.ContainsFunc(readings, isHead):
		more(func(other *http.Request) {
			if isHead(other) {
				other.Method = http.MethodGet
			}
		})
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

func isHead(r *http.Request) bool { return r.Method == http.MethodHead }

// QueryMethod returns the method that some upstreams take from the query instead of the request's: that of `_method`, as Laravel, Symfony,
// Spring, Jersey, WordPress and Express do, or of `X-HTTP-Method-Override`, as ASP.NET does. It is in upper case, and "" if there is none.
// Several reports whether the query names more than one.
func QueryMethod(r *http.Request) (method string, several bool) {
	for pair := range strings.FieldsFuncSeq(r.URL.RawQuery, isQuerySeparator) {
		name, value, _ := strings.Cut(pair, "=")
		if len(name) < len("_method") || !namesMethod(decodeQuery(name)) {
			continue
		}
		switch named := methodName(decodeQuery(value)); {
		case named == "" || named == method:
		case method != "":
			return method, true
		default:
			method = named
		}
	}
	return method, false
}

func isQuerySeparator(c rune) bool { return c == '&' || c == ';' }

// decodeQuery decodes a part of a query as lenient readers do.
func decodeQuery(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
	return decodeAgain(strings.ReplaceAll(text, "+", " "))
}

// namesMethod reports whether some reader of queries takes a name for that of a method. They differ in case, in the character before
// `method` (PHP has an underscore for a dot, a space or a bracket), and in what may follow it: brackets make a list, a NUL ends it.
func namesMethod(name string) bool {
	name, _, _ = strings.Cut(name, "\x00")
	var room [24]byte // enough for every name below
	letters := room[:0]
	for _, c := range strings.ToLower(name) {
		if 'a' <= c && c <= 'z' {
			if len(letters) == len(room) {
				return false
			}
			letters = append(letters, byte(c))
		}
	}
	switch string(letters) {
	case "method", "httpmethod":
		return name[0] != 'm' && name[0] != 'M' && name[0] != 'h' && name[0] != 'H'
	case "methodoverride", "httpmethodoverride", "xhttpmethod", "xmethodoverride", "xhttpmethodoverride", "xtunneledmethod":
		return true
	}
	return false
}

// methodName returns the letters and hyphens of a method, in upper case.
func methodName(value string) string {
	return strings.Map(func(c rune) rune {
		if 'A' <= c && c <= 'Z' || c == '-' {
			return c
		}
		return -1
	}, strings.ToUpper(value))
}

// endEarly ends a request's path at its first encoded question mark or number sign.
func endEarly(r *http.Request) {
	raw := r.URL.EscapedPath()
	for i := range raw {
		if c, ok := escapedByte(raw[i:]); !ok || c != '?' && c != '#' {
			continue
		}
		if decoded, err := url.PathUnescape(raw[:i]); err == nil {
			location := *r.URL
			location.Path, location.RawPath = decoded, raw[:i]
			r.URL = &location
		}
		return
	}
}

// toggleSlash adds a trailing slash to a request's path, or removes it, but for that of the root.
func toggleSlash(r *http.Request) {
	location := *r.URL
	if location.Path == "/" {
		return
	}
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
// slash there; the copy has U+FFFD, a single character (as `?` in a pattern requires) that no pattern contains. Rules
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
