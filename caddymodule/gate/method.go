package gate

import (
	"net/http"
	"slices"
	"strings"
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
	return methodAllowed(r.Method) || isWebSocketConnect(r)
}

// isWebSocketConnect reports whether a request is a WebSocket over HTTP/2 (RFC 8441) or HTTP/3 (RFC 9220). It arrives
// with the method CONNECT and an ordinary path. net/http puts `:protocol` among the headers, where no client can put it
// (a colon is not a token character); quic-go puts it into r.Proto. reverse_proxy turns exactly these two into a GET with
// `Upgrade: websocket`. It would forward any other protocol as a CONNECT, so those are refused.
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
