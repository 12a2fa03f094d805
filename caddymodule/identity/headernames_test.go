package identity

import (
	"maps"
	"net/http"
	"reflect"
	"strings"
	"testing"
)

func TestG48EverySpellingIsTheSameName(t *testing.T) {
	guard := NewGuard([]string{"X-Tenant_Id", strings.Repeat("X-Long-", 12)})
	for _, name := range []string{
		"X_Auth_Subject", "X.Auth.Subject", "X-Auth_Subject", "x.auth.subject", "x_auth_SUBJECT", "X-Auth-Subject", "X~Auth!Subject",
		"X_Auth_Client", "x-auth.scope", "X_AUTH_ORGANISATION", "X.Auth-Role", "X-Tenant-Id", "x.tenant.id",
		strings.Repeat("x_LONG.", 12),
	} {
		h := http.Header{name: {"mallory"}, "Accept": {"*/*"}}
		guard.Clean(h, true)
		if len(h) != 1 {
			t.Errorf("%s is kept", name)
		}
	}
	kept := http.Header{
		"X-Auth-Subjects": {"a"}, "X-Auth-Subjec": {"a"}, "XAuth-Subject": {"a"}, "X--Auth-Subject": {"a"}, "Accept-Charset": {"a"},
		"Authorization": {"a"}, "X-Auth-Rolf": {"a"}, "Content-Length": {"0"}, strings.Repeat("Z-Long-", 12): {"a"},
	}
	h := kept.Clone()
	guard.Clean(h, true)
	if !maps.EqualFunc(h, kept, func(a, b []string) bool { return reflect.DeepEqual(a, b) }) {
		t.Errorf("left %v of %v", h, kept)
	}
}

func TestG93ClaimsAreNotForwardedIntoHeadersOfTheProtocol(t *testing.T) {
	for _, name := range []string{
		"Host", "Connection", "Transfer-Encoding", "Content-Length", "TE", "Trailer", "Upgrade", "Authorization", "Proxy",
		"Proxy-Authorization", "Proxy-Connection", "Cookie", "X-Forwarded-For", "X-Forwarded-User", "Forwarded", "Keep-Alive", "Expect",
		"host", "x_forwarded_for", "X.Forwarded.Host", "TRANSFER_ENCODING", "Content-Type", "Sec-WebSocket-Key", "X-Real-IP",
		"X-HTTP-Method-Override", "X-Original-URL", "HTTP2-Settings", "Via",
		"Accept", "Accept-Encoding", "Accept-Language", "accept_charset", "Range", "If-None-Match", "If-Range", "if.modified.since", "Date",
		"Cache-Control", "Pragma", "Warning", "Priority", "Prefer", "Max-Forwards", "Allow", "Accept-Ranges", "Age", "ETag", "Expires",
		"Last-Modified", "Location", "Retry-After", "Vary", "WWW-Authenticate", "Authentication-Info",
		"", " ", "X Auth", "X-Auth:", ":protocol", "X-Auth\r\nY", "X-\x00", "Übername", "X-Auth(", "{env.X}",
	} {
		if !Forbidden(name) {
			t.Errorf("%q may be forwarded to", name)
		}
	}
	for _, name := range []string{
		"X-Auth-Subject", "X-User", "X-Tenant", "Remote-User", "Hosts", "X-Forward-User", "X-Cookie", "X_Tenant",
		"From", "User-Agent", "X-Accept", "Accepted", "Iffy", "X-Date", "Dates",
	} {
		if Forbidden(name) {
			t.Errorf("%q may not be forwarded to", name)
		}
	}
}
