package rule

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
)

// mayReadPlaceholder reports whether a matcher of the set may read the method or the host by a placeholder, or by a variable made of
// one: any but those known not to. A placeholder shows those of the request as it came: see misleadsPlaceholders.
func mayReadPlaceholder(set caddy.ModuleMap) bool {
	for name, raw := range set {
		switch name {
		case "path_regexp", "header_regexp", "protocol", "remote_ip", "client_ip", "tls": // they expand nothing
		case "path", "method", "host", "header", "query", "oauth_scope", "oauth_claim":
			var value any
			if json.Unmarshal(raw, &value) != nil || hasPlaceholder(value) {
				return true
			}
		case "not":
			var sets []caddy.ModuleMap
			if json.Unmarshal(raw, &sets) != nil || slices.ContainsFunc(sets, mayReadPlaceholder) {
				return true
			}
		default:
			return true
		}
	}
	return false
}

// hasPlaceholder reports whether a text in a JSON value may have a placeholder.
func hasPlaceholder(value any) bool {
	switch value := value.(type) {
	case string:
		return strings.Contains(value, "{")
	case []any:
		return slices.ContainsFunc(value, hasPlaceholder)
	case map[string]any:
		for name, member := range value {
			if hasPlaceholder(name) || hasPlaceholder(member) {
				return true
			}
		}
	}
	return false
}

// queryNamesMethod reports whether some upstreams take the method of a request from its query.
func queryNamesMethod(r *http.Request) bool {
	method, _ := requestpath.QueryMethod(r)
	return method != ""
}

// misleadsPlaceholders reports whether an upstream may take a request for one with another method or host than placeholders show.
func misleadsPlaceholders(r *http.Request) bool {
	return queryNamesMethod(r) || !requestpath.IsNameCanonical(r.Host)
}

// matchReading matches a reading of r. Placeholders refer to the request that Caddy got, so those of the method are set to that of the
// reading meanwhile: a HEAD is a GET by them too.
func matchReading(r, reading *http.Request, match func(*http.Request) (bool, error)) (bool, error) {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok || reading.Method == r.Method {
		return match(reading)
	}
	for _, name := range [...]string{"http.request.method", "http.request.orig_method"} {
		replacer.Set(name, reading.Method)
		defer replacer.Delete(name)
	}
	return match(reading)
}
