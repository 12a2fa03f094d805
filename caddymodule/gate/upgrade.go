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

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// webSocketProtocol is the one protocol that every route lets clients switch to.
const webSocketProtocol = "websocket"

// parseUpgrade reads the protocols that clients may switch to beside WebSocket.
func (p *Protect) parseUpgrade(h httpcaddyfile.Helper) error {
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

// httpInside are the beginnings of the protocols in which HTTP goes on: a client would make further requests, with any path
// and any header, and nobody would ask the gate about them.
var httpInside = []string{"h2", "h3", "http", "spdy", "tls"}

// checkUpgrades refuses what is no protocol (RFC 9110 §7.8), and those in which HTTP goes on.
func checkUpgrades(protocols []string) error {
	for _, protocol := range protocols {
		name, version, versioned := strings.Cut(protocol, "/")
		isInside := func(start string) bool { return strings.HasPrefix(strings.ToLower(name), start) }
		switch {
		// The name and the version are tokens (RFC 9110 §7.8), as the names of headers are.
		case !httpguts.ValidHeaderFieldName(name), versioned && !httpguts.ValidHeaderFieldName(version):
			return fmt.Errorf("upgrade %q: write a protocol as clients name it in Upgrade, like tcp", protocol)
		case slices.ContainsFunc(httpInside, isInside):
			return fmt.Errorf("upgrade %s: in this protocol a client could make further requests past the gate; "+
				"for HTTP/2 between Caddy and the upstream write `versions h2c` in the transport of reverse_proxy", protocol)
		}
	}
	return nil
}

// readUpgrades checks the protocols, which may have come from JSON.
func (p *Protect) readUpgrades() error { return checkUpgrades(p.Upgrade) }

// allowsUpgrade reports whether clients may switch to a protocol on this route.
func (p *Protect) allowsUpgrade(protocol string) bool {
	same := func(allowed string) bool { return strings.EqualFold(allowed, protocol) }
	return same(webSocketProtocol) || slices.ContainsFunc(p.Upgrade, same)
}

// admitUpgrade returns the protocol that a request over HTTP/1.1 asks for, where the route lets clients switch to it; ""
// where there is none. A request that asks for anything else becomes an ordinary one, in place, as RFC 9110 §7.8 has it for a
// server that does not switch: some clients ask for h2c in every request. Only a proxy that asks us and then passes on its
// own request would still pass on Upgrade, so that the request is refused there.
func (p *Protect) admitUpgrade(r *http.Request) (string, error) {
	lines, asks := r.Header["Upgrade"]
	switch {
	case !asks:
		return "", nil
	case len(lines) == 1 && p.allowsUpgrade(lines[0]):
		return lines[0], nil
	case p.ForwardTo == forwardToResponse:
		return "", oauth.NewError(oauth.InvalidRequest, "upgrade_not_allowed").
			WithDescription("This route does not allow the protocol that Upgrade names.")
	}
	p.logger.Debug("upgrade to a protocol that the route does not allow: the request goes on without it", zap.Strings("upgrade", lines))
	dropUpgrade(r)
	return "", nil
}

// dropUpgrade makes an ordinary request of one that asks for another protocol, in place. HTTP2-Settings is gone already, by the
// identity guard. A WebSocket over HTTP/2 or 3 becomes the GET that an upstream would see.
func dropUpgrade(r *http.Request) {
	delete(r.Header, "Upgrade")
	isAsking := func(option string) bool { return option == "Upgrade" }
	options := strings.Split(identity.ConnectionOptions(r.Header["Connection"]), ", ")
	if rest := strings.Join(slices.DeleteFunc(options, isAsking), ", "); rest != "" {
		r.Header["Connection"] = []string{rest}
	} else {
		delete(r.Header, "Connection")
	}
	if isWebSocketConnect(r) {
		delete(r.Header, ":protocol")
		r.Method, r.Body, r.ContentLength = http.MethodGet, http.NoBody, 0
	}
}

// errNotAsked is for handlers that take the connection all the same.
var errNotAsked = errors.New("the client did not ask for this protocol, or its route does not allow it: see `upgrade` in protect")
