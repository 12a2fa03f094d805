package gate

import (
	"net/http"
	"slices"
	"strings"
)

// allowedMethods are the methods of the IANA HTTP Method Registry, the common ones first, without TRACE (it echoes
// credentials), CONNECT (it makes a tunnel, in which nobody asks us any more) and PRI (it only guards the HTTP/2 preface).
// Method names are case-sensitive (RFC 9110 §9.1), while some upstreams read `get` as GET: rules by method hold only
// because whatever is not in this list is refused.
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

// requestMethodAllowed is methodAllowed for a whole request: it also lets the extended CONNECT of a WebSocket pass.
func requestMethodAllowed(r *http.Request) bool {
	return methodAllowed(r.Method) || isWebSocketConnect(r)
}

// isWebSocketConnect recognises a WebSocket over HTTP/2 (RFC 8441) or HTTP/3 (RFC 9220). It arrives with the method
// CONNECT and an ordinary path; net/http puts `:protocol` among the headers, where no client can (a colon is no token
// character), and quic-go into r.Proto. reverse_proxy turns exactly these two into a GET with `Upgrade: websocket`. Any
// other protocol it would forward as a CONNECT, so those stay refused.
func isWebSocketConnect(r *http.Request) bool {
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
