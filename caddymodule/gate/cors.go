package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/mcp"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// anyOrigin is the `cors` argument that allows every origin.
const anyOrigin = "*"

// preflightUpstream is the `preflight` value that leaves preflights to the upstream.
const preflightUpstream = "upstream"

// parseCORS reads the origins whose pages may read answers.
//
//	cors <origin>... | * {
//		preflight upstream
//	}
func parseCORS(p *directive, h httpcaddyfile.Helper) error {
	origins := h.RemainingArgs()
	if len(origins) == 0 {
		return h.ArgErr()
	}
	p.CORS = append(p.CORS, origins...)
	if err := checkForeignOrigins(p.CORS); err != nil {
		return h.Errf("%v", err)
	}
	for nesting := h.Nesting(); h.NextBlock(nesting); {
		if h.Val() != "preflight" {
			return h.Errf("unknown cors option %q: use preflight", h.Val())
		}
		if err := setting.Text(h.Dispenser, &p.CORSPreflight); err != nil {
			return err
		}
		if err := checkPreflight(p.Protect); err != nil {
			return h.Errf("%v", err)
		}
	}
	return nil
}

func checkPreflight(p *Protect) error {
	if p.CORSPreflight != "" && p.CORSPreflight != preflightUpstream {
		return fmt.Errorf("preflight %q: use upstream, or leave it out: then the gate answers", p.CORSPreflight)
	}
	return nil
}

// cors decides which pages may read answers.
type cors struct {
	tokens  *tokens
	origins []string
	// credentials: a cookie may hold the token, so pages may read answers to requests with cookies.
	credentials bool
	mcp         bool // the route is an MCP server
	reads       bool // the gate reads what is asked of it
}

// newCORS checks the origins; they may come from JSON.
func newCORS(p *Protect, t *tokens) (cors, error) {
	c := cors{tokens: t, origins: p.CORS, credentials: p.TokenCookie != "", mcp: p.MCP != nil, reads: p.MCP.Reads()}
	return c, errors.Join(checkForeignOrigins(p.CORS), checkBesideCORS(p), checkPreflight(p))
}

// checkForeignOrigins refuses values that no browser sends as an Origin, and `null`.
func checkForeignOrigins(origins []string) error {
	for _, origin := range origins {
		switch {
		case origin == anyOrigin && len(origins) == 1:
		case origin == anyOrigin:
			return errors.New("cors * stands beside other origins: leave one of them away")
		case origin == "null":
			return errors.New("cors null would be every sandboxed page and every local file")
		default:
			if err := oauth.ValidateOrigin(origin); err != nil {
				return fmt.Errorf("cors %w", err)
			}
		}
	}
	return nil
}

// checkBesideCORS refuses `cors *` together with a token cookie, and `cors` together with `forward_to response`: the
// proxy that asks would take the answer to a preflight as permission, and we cannot see the body of its request.
func checkBesideCORS(p *Protect) error {
	switch {
	case len(p.CORS) > 0 && p.ForwardTo == forwardToResponse:
		return errors.New("cors stands beside forward_to response: the proxy that asks would take the answer to a preflight for leave to " +
			"pass the request on, with its body: leave cors out, and have that proxy answer preflights")
	case slices.Contains(p.CORS, anyOrigin) && p.TokenCookie != "":
		return fmt.Errorf("cors * stands beside token_from cookie %s: name the origins", p.TokenCookie)
	}
	return nil
}

// sharesAnswers reports whether pages of any other origin may read answers.
func (c *cors) sharesAnswers() bool { return len(c.origins) > 0 || c.mcp }

// allowsOrigin reports whether `cors` allows an origin, or `mcp` does.
func (c *cors) allowsOrigin(r *http.Request, origin string) bool {
	return slices.Contains(c.origins, origin) || origin != "" && slices.Contains(c.origins, anyOrigin) || c.isOwnOrigin(r, origin)
}

// single returns the value of a header that occurs exactly once, or "".
func single(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// isPreflight reports whether a request is a CORS preflight, which needs no token: browsers send it without credentials
// (Fetch §4.8). A request that could make an upstream do more than answer a preflight is none: one with an upgrade, a
// body, or a method override.
func (c *cors) isPreflight(r *http.Request, exam requestpath.Exam) bool {
	if !c.sharesAnswers() || r.Method != http.MethodOptions || !exam.Canonical {
		return false
	}
	named, several := requestpath.QueryMethod(r)
	if isUpgrade(r) || announcesBody(r) || overridesMethod(r.Header) || named != "" || several {
		return false
	}
	wanted := single(r.Header["Access-Control-Request-Method"])
	isMethod := wanted != "" && !strings.ContainsFunc(wanted, func(c rune) bool { return !identity.IsTokenRune(c) })
	return isMethod && c.allowsOrigin(r, single(r.Header["Origin"]))
}

// announcesBody reports whether the request head announces a body. Over HTTP/3 the server gives every request a body of
// unknown length and only Content-Length announces one; dropBody drops any other.
func announcesBody(r *http.Request) bool {
	if r.ProtoMajor == 3 && r.ContentLength < 0 {
		return r.Header["Content-Length"] != nil
	}
	return r.ContentLength != 0
}

// dropBody removes the body of a request, in place.
func dropBody(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }

// answerPreflight allows the method and headers that the page asked for. The request itself is authorized when it
// arrives.
func (c *cors) answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	c.grant(r).allow(h)
	delete(h, "Access-Control-Expose-Headers") // not for a preflight
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	if names := single(r.Header["Access-Control-Request-Headers"]); names != "" && !strings.ContainsFunc(names, isNoNameList) {
		h.Set("Access-Control-Allow-Headers", names)
	}
	h.Set("Access-Control-Max-Age", endpoint.PreflightMaxAge)
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusNoContent)
}

func isNoNameList(c rune) bool { return !identity.IsTokenRune(c) && c != ',' && c != ' ' }

// methodOverrides are the headers that make an upstream read another method. They can be present where the route trusts
// them, since a trusted proxy may relay what its clients send.
var methodOverrides = identity.NewNames(identity.OverridingMethod...)

func overridesMethod(h http.Header) bool {
	for key := range h {
		if methodOverrides.Has(key) {
			return true
		}
	}
	return false
}

// corsGrant describes the CORS headers of one answer. Nil: there are none.
type corsGrant struct {
	// fromUpstream: the answer is the upstream's, whose own CORS headers win.
	fromUpstream bool
	// origin is the value of Access-Control-Allow-Origin; empty: none.
	origin string
	// exposes lists the headers that the page may read.
	exposes string
	// credentials: the page may read answers to requests with cookies.
	credentials bool
}

// grant returns which page may read the answer to the request; nil: the answer does not depend on the Origin.
func (c *cors) grant(r *http.Request) *corsGrant {
	if !c.sharesAnswers() {
		return nil
	}
	page := &corsGrant{exposes: endpoint.ExposedHeaders}
	if c.mcp {
		page.exposes = mcp.ExposedHeaders
	}
	origin := single(r.Header["Origin"])
	switch {
	case !c.allowsOrigin(r, origin):
	case slices.Contains(c.origins, anyOrigin):
		page.origin = anyOrigin
	default:
		page.origin, page.credentials = origin, c.credentials && slices.Contains(c.origins, origin)
	}
	return page
}

// grantUpstream is grant for an answer of the upstream, whose own CORS headers win.
func (c *cors) grantUpstream(r *http.Request) *corsGrant {
	page := c.grant(r)
	if page != nil {
		page.fromUpstream = true
	}
	return page
}

// allow sets the CORS headers, including those that expose the challenge and Retry-After.
func (f *corsGrant) allow(h http.Header) {
	if f == nil || f.fromUpstream && len(h["Access-Control-Allow-Origin"]) > 0 {
		return
	}
	h.Add("Vary", "Origin")
	if f.origin == "" {
		return
	}
	h["Access-Control-Allow-Origin"] = []string{f.origin} // replaces what an error route has set: browsers reject two values
	h.Add("Access-Control-Expose-Headers", f.exposes)
	switch {
	case f.credentials:
		h["Access-Control-Allow-Credentials"] = []string{"true"}
	case f.origin == anyOrigin:
		delete(h, "Access-Control-Allow-Credentials")
	}
}
