package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"go.uber.org/zap"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// webSocketProtocol is the protocol that every route lets clients switch to.
const webSocketProtocol = "websocket"

// parseUpgrade reads the protocols that clients may switch to beside WebSocket.
func parseUpgrade(p *directive, h httpcaddyfile.Helper) error {
	protocols := h.RemainingArgs()
	if len(protocols) == 0 {
		return h.ArgErr()
	}
	p.Upgrade = append(p.Upgrade, protocols...)
	if err := checkUpgrades(protocols); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// httpProtocols are prefixes of protocols that carry HTTP: over them, a client could send further requests past the gate.
var httpProtocols = []string{"h2", "h3", "http", "spdy", "tls"}

// checkUpgrades refuses invalid protocol names (RFC 9110 §7.8), and protocols that carry HTTP.
func checkUpgrades(protocols []string) error {
	for _, protocol := range protocols {
		name, version, versioned := strings.Cut(protocol, "/")
		isInside := func(start string) bool { return strings.HasPrefix(strings.ToLower(name), start) }
		switch {
		// Name and version are tokens, like header names (RFC 9110 §7.8).
		case !httpguts.ValidHeaderFieldName(name), versioned && !httpguts.ValidHeaderFieldName(version):
			return fmt.Errorf("upgrade %q: write a protocol as clients name it in Upgrade, like tcp", protocol)
		case slices.ContainsFunc(httpProtocols, isInside):
			return fmt.Errorf("upgrade %s: in this protocol a client could make further requests past the gate; "+
				"for HTTP/2 between Caddy and the upstream write `versions h2c` in the transport of reverse_proxy", protocol)
		}
	}
	return nil
}

// allowsUpgrade reports whether clients may switch to a protocol where these are allowed beside WebSocket.
func allowsUpgrade(further []string, protocol string) bool {
	same := func(allowed string) bool { return strings.EqualFold(allowed, protocol) }
	return same(webSocketProtocol) || slices.ContainsFunc(further, same)
}

// admitUpgrade returns the allowed protocol that an HTTP/1.1 request asks for, or "". For any other protocol it removes
// the upgrade from the request, in place, as RFC 9110 §7.8 allows: some clients ask for h2c in every request. With
// forward_to response it refuses instead, because the proxy that asks would still pass on its own request with Upgrade.
func (p *Protect) admitUpgrade(r *http.Request) (string, error) {
	lines, asks := r.Header["Upgrade"]
	switch {
	case !asks:
		return "", nil
	case len(lines) == 1 && allowsUpgrade(p.Upgrade, lines[0]):
		return lines[0], nil
	case p.ForwardTo == forwardToResponse:
		return "", oauth.NewError(oauth.InvalidRequest, "upgrade_not_allowed").
			WithDescription("This route does not allow the protocol that Upgrade names.")
	}
	p.logger.Debug("upgrade to a protocol that the route does not allow: the request goes on without it", zap.Strings("upgrade", lines))
	dropUpgrade(r)
	return "", nil
}

// dropUpgrade removes the wish to upgrade from a request, in place. The identity guard has already removed
// HTTP2-Settings. A WebSocket over HTTP/2 or 3 becomes the GET that an upstream would see.
func dropUpgrade(r *http.Request) {
	delete(r.Header, "Upgrade")
	isAsking := func(option string) bool { return option == "Upgrade" }
	options := strings.Split(identity.ConnectionOptions(r.Header["Connection"]), ", ")
	if rest := strings.Join(slices.DeleteFunc(options, isAsking), ", "); rest != "" {
		r.Header["Connection"] = []string{rest}
	} else {
		delete(r.Header, "Connection")
	}
	if requestpath.IsWebSocketConnect(r) {
		delete(r.Header, ":protocol")
		r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
	}
}

// errNotAsked is returned to handlers that hijack the connection although no upgrade was admitted.
var errNotAsked = errors.New("the client did not ask for this protocol, or its route does not allow it: see `upgrade` in protect")

// isStreamRequest reports whether the response to a request can only be a stream.
func isStreamRequest(r *http.Request) bool {
	if isUpgrade(r) {
		return true
	}
	for _, line := range r.Header["Accept"] {
		if strings.Contains(line, "text/event-stream") {
			return true
		}
	}
	return false
}
