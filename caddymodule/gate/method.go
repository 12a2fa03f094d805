package gate

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
)

// allowedMethods are the methods of the IANA HTTP Method Registry, the common ones first, without TRACE (it echoes
// credentials), CONNECT (it opens a tunnel past the gate) and PRI (it only guards the HTTP/2 preface). Method names are
// case-sensitive (RFC 9110 §9.1), but some upstreams read `get` as GET, so anything else must be refused for rules by
// method to hold.
var allowedMethods = []string{
	"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS",
	"ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "COPY", "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY",
	"MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE", "MOVE", "ORDERPATCH", "PROPFIND", "PROPPATCH", "QUERY",
	"REBIND", "REPORT", "SEARCH", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE", "UPDATEREDIRECTREF",
	"VERSION-CONTROL",
}

// allowHeader is the value of `Allow` in the 405 answer.
var allowHeader = strings.Join(allowedMethods, ", ")

// methodAllowed reports whether a request with this method may pass a protected route.
func methodAllowed(method string) bool {
	return slices.Contains(allowedMethods, method)
}

// requestMethodAllowed is like methodAllowed and also allows the extended CONNECT of a WebSocket.
func requestMethodAllowed(r *http.Request) bool {
	return methodAllowed(r.Method) || requestpath.IsWebSocketConnect(r)
}
