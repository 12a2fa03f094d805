package coverage

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// warnings lists likely mistakes in how the issuer is served and keeps its keys, each with file and line.
func (i *Issuer) warnings(sites []*site) []string {
	if i == nil {
		return nil
	}
	issuer, err := url.Parse(i.URL)
	if err != nil {
		return nil
	}
	var list []string
	say := func(source, format string, args ...any) {
		list = append(list, at(source)+fmt.Sprintf(format, args...))
	}
	served, known := 0, false
	for _, s := range sites {
		for j := range s.servers {
			place := &s.servers[j]
			served++
			known = known || s.mayHave(issuer.Hostname())
			if why := place.unreached(issuer); why != "" {
				say(place.Where(), "%s: put oauth_server into the site itself, outside of handle blocks and without a matcher", why)
			}
		}
	}
	switch {
	case served == 0:
		say(i.Source, "no site has oauth_server, so nobody can get a token or fetch the keys: add `oauth_server` to the site of %s", issuer.Host)
	case !known:
		say(i.Source, "no site with oauth_server has the host of the issuer, %s: the URLs that it publishes lead elsewhere", issuer.Hostname())
	}
	if i.KeysInTheClear && !oauth.IsLoopback(issuer.Hostname()) {
		say(i.Source, "signing keys are stored in the clear: anyone who can read the store or a backup can make tokens. Add `encrypt_with {file./path}` in a `keys` block of the oauth block")
	}
	return list
}

// at returns the prefix of a warning about a place in the Caddyfile; empty: the configuration came as JSON.
func at(source string) string {
	if source == "" {
		return ""
	}
	return source + ": "
}

// neighbours warns of applications at the origin of the issuer. Where people sign in, the pages of both can read and operate each other.
func (i *Issuer) neighbours(sites []*site) (list []string) {
	issuer, err := url.Parse(i.URL)
	if err != nil {
		return nil
	}
	host := issuer.Hostname()
	for _, server := range sites {
		if len(server.servers) == 0 || !server.mayHave(host) {
			continue
		}
		for _, s := range sites {
			if s.scheme != server.scheme || s.port != server.port || !s.mayHave(host) || !s.hasHost(host) && server.hasHost(host) {
				continue
			}
			for j := range s.backends {
				b := &s.backends[j]
				warning := at(i.Source) + fmt.Sprintf("%s answers at the origin of the issuer, where people sign in: a script of that application can use their account. "+
					"Give the issuer a host of its own, as https://id.example.com", b)
				if b.kind != "file_server" && b.kind != forwardAuth && !slices.Contains(list, warning) {
					list = append(list, warning)
				}
			}
		}
	}
	return list
}

// unreached returns the reason why requests for the issuer's endpoints or metadata do not reach an oauth_server, as
// far as it can be known; empty: none.
func (p *placedServer) unreached(issuer *url.URL) string {
	if p.dead {
		return "oauth_server is never reached: a handler before it answers every request"
	}
	base := strings.TrimSuffix(issuer.EscapedPath(), "/")
	for _, path := range []string{base + "/oauth/token", "/.well-known/oauth-authorization-server" + base} {
		for i := range p.conditions {
			c := &p.conditions[i]
			if len(c.sets) > 0 && !slices.ContainsFunc(c.sets, func(set caddyhttp.MatcherSet) bool { return mayMatchPath(set, path) }) {
				return fmt.Sprintf("oauth_server is not reached by every request for %s, since it stands behind %s", path, c.inWords())
			}
		}
	}
	return ""
}

// mayMatchPath reports whether a matcher set matches every request for a path. Host matchers are checked elsewhere.
func mayMatchPath(set caddyhttp.MatcherSet, path string) bool {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{}}
	r = r.WithContext(context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewEmptyReplacer()))
	for _, matcher := range set {
		switch m := matcher.(type) {
		case *caddyhttp.MatchHost:
		case *caddyhttp.MatchPath, *caddyhttp.MatchPathRE:
			if matches, err := m.(caddyhttp.RequestMatcherWithError).MatchWithError(r); !matches || err != nil {
				return false
			}
		case *caddyhttp.MatchNot, *caddyhttp.MatchExpression, *caddyhttp.MatchProtocol, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP:
			// Such matchers may deliberately exclude some clients.
		default:
			return false
		}
	}
	return true
}
