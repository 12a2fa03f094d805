package caddymodule

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// issuerWarnings lists what looks wrong about how the issuer is served and keeps its keys, each with file and line.
func (a *App) issuerWarnings(met []*siteCoverage) []string {
	if !a.issues() {
		return nil
	}
	issuer, err := url.Parse(a.settings.issuer)
	if err != nil {
		return nil
	}
	var list []string
	say := func(source, format string, args ...any) {
		if source != "" {
			source += ": "
		}
		list = append(list, source+fmt.Sprintf(format, args...))
	}
	block := a.Sources["issuer"]
	served, known := 0, false
	for _, s := range met {
		for i := range s.servers {
			place := &s.servers[i]
			served++
			known = known || s.mayHave(issuer.Hostname())
			if why := place.unreached(issuer); why != "" {
				say(place.Source, "%s: put oauth_server into the site itself, outside of handle blocks and without a matcher", why)
			}
		}
	}
	switch {
	case served == 0:
		say(block, "no site has oauth_server, so nobody can get a token or fetch the keys: add `oauth_server` to the site of %s", issuer.Host)
	case !known:
		say(block, "no site with oauth_server has the host of the issuer, %s: the URLs that it publishes lead elsewhere", issuer.Hostname())
	}
	if (a.Keys == nil || a.Keys.EncryptWith == "") && a.settings.engine.store != storeMemory && !oauth.IsLoopback(issuer.Hostname()) {
		say(block, "signing keys are stored in the clear: whoever reads the store or a backup can make tokens. Write `keys { encrypt_with {file./path} }`")
	}
	return list
}

// unreached says why requests for the issuer's endpoints or metadata do not reach an oauth_server; empty: they do, as far as
// that can be told.
func (p *serverPlace) unreached(issuer *url.URL) string {
	if p.dead {
		return "oauth_server is never reached: a handler before it answers every request"
	}
	base := strings.TrimSuffix(issuer.EscapedPath(), "/")
	for _, path := range []string{base + "/oauth/token", "/.well-known/oauth-authorization-server" + base} {
		for i := range p.conditions {
			c := &p.conditions[i]
			if len(c.sets) > 0 && !c.opaque && !slices.ContainsFunc(c.sets, func(set caddyhttp.MatcherSet) bool { return mayMatchPath(set, path) }) {
				return fmt.Sprintf("oauth_server is not reached by every request for %s, since it stands behind %s", path, c.inWords())
			}
		}
	}
	return ""
}

// mayMatchPath reports whether every request for a path is one of a matcher set, whose host matchers are somebody else's to judge.
func mayMatchPath(set caddyhttp.MatcherSet, path string) bool {
	r := &http.Request{Method: http.MethodGet, URL: &url.URL{Path: path}, Header: http.Header{}}
	r = r.WithContext(context.WithValue(context.Background(), caddy.ReplacerCtxKey, caddy.NewEmptyReplacer()))
	for _, matcher := range set {
		switch m := matcher.(type) {
		case *caddyhttp.MatchHost:
		case *caddyhttp.MatchPath:
			if matches, err := m.MatchWithError(r); !matches || err != nil {
				return false
			}
		case *caddyhttp.MatchPathRE:
			if matches, err := m.MatchWithError(r); !matches || err != nil {
				return false
			}
		case *caddyhttp.MatchNot, *caddyhttp.MatchExpression, *caddyhttp.MatchProtocol, *caddyhttp.MatchRemoteIP, *caddyhttp.MatchClientIP:
			// They may be meant to keep some clients out.
		default:
			return false
		}
	}
	return true
}

// leastSecretBits is how many bits a client secret needs at best.
const leastSecretBits = 128

// isGuessable reports whether a secret holds fewer than leastSecretBits even if each of its characters was drawn from all
// that are of its kinds.
func isGuessable(secret string) bool {
	kinds := []struct {
		size  float64
		holds func(c rune) bool
	}{
		{26, func(c rune) bool { return 'a' <= c && c <= 'z' }}, {26, func(c rune) bool { return 'A' <= c && c <= 'Z' }},
		{10, func(c rune) bool { return '0' <= c && c <= '9' }},
		{33, func(c rune) bool { return c < 0x80 && (c|0x20 < 'a' || 'z' < c|0x20) && (c < '0' || '9' < c) }},
		{math.MaxUint16, func(c rune) bool { return c >= 0x80 }},
	}
	drawnFrom := 0.0
	for _, kind := range kinds {
		if strings.ContainsFunc(secret, kind.holds) {
			drawnFrom += kind.size
		}
	}
	return drawnFrom == 0 || float64(utf8.RuneCountInString(secret))*math.Log2(drawnFrom) < leastSecretBits
}

// warnGuessable warns of a client's secret that somebody could guess. It says nothing of the secret.
func warnGuessable(logger *zap.Logger, source, client, secret string) {
	if !isGuessable(secret) {
		return
	}
	if source != "" {
		source += ": "
	}
	logger.Warn(fmt.Sprintf("%sthe secret of client %s can be guessed: it has fewer than %d bits at best. Make one with `openssl rand -hex 24`",
		source, client, leastSecretBits))
}
