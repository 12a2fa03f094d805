package gate

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/requestpath"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// anyOrigin is the one word of `cors` that is no origin.
const anyOrigin = "*"

// preflightUpstream is the setting that leaves preflights to the upstream.
const preflightUpstream = "upstream"

// parseCORS reads the origins whose pages may read answers.
//
//	cors <origin>... | * {
//		preflight upstream
//	}
func (p *Protect) parseCORS(h httpcaddyfile.Helper) error {
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
			return h.Errf("unknown cors option %q", h.Val())
		}
		if err := setting.Text(h.Dispenser, &p.CORSPreflight); err != nil {
			return err
		}
		if err := p.checkPreflight(); err != nil {
			return h.Errf("%v", err)
		}
	}
	return nil
}

func (p *Protect) checkPreflight() error {
	if p.CORSPreflight != "" && p.CORSPreflight != preflightUpstream {
		return fmt.Errorf("preflight %q: use upstream, or leave it out: then the gate answers", p.CORSPreflight)
	}
	return nil
}

// readCORS checks the origins, which may have come from JSON.
func (p *Protect) readCORS() error {
	return errors.Join(checkForeignOrigins(p.CORS), p.checkBesideCORS(), p.checkPreflight())
}

// checkForeignOrigins refuses what no browser ever sends, and so what would never match.
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

// checkBesideCORS refuses to let every page read what we say to a cookie, and to answer the preflights of a proxy that asks us:
// it would take the answer for a yes, and we see nothing of the body that its own request has.
func (p *Protect) checkBesideCORS() error {
	switch {
	case len(p.CORS) > 0 && p.ForwardTo == forwardToResponse:
		return errors.New("cors stands beside forward_to response: the proxy that asks would take the answer to a preflight for leave to " +
			"pass the request on, with its body: leave cors out, and have that proxy answer preflights")
	case slices.Contains(p.CORS, anyOrigin) && p.TokenCookie != "":
		return fmt.Errorf("cors * stands beside token_from cookie %s: name the origins", p.TokenCookie)
	}
	return nil
}

// allowsOrigin reports whether pages of an origin are let in by `cors`.
func (p *Protect) allowsOrigin(origin string) bool {
	return slices.Contains(p.CORS, origin) || origin != "" && slices.Contains(p.CORS, anyOrigin)
}

// only returns the value of a header that is there once; "" for any other.
func only(values []string) string {
	if len(values) != 1 {
		return ""
	}
	return values[0]
}

// isPreflight reports whether a request is a preflight that needs no token: a browser sends it before the request itself, and
// never with credentials (Fetch §4.8). Whoever answers a preflight does nothing else, so what could make an upstream do
// more is none: an upgrade, a body, or the wish to be read as another method.
func (p *Protect) isPreflight(r *http.Request, exam requestpath.Exam) bool {
	if len(p.CORS) == 0 || r.Method != http.MethodOptions || !exam.Canonical {
		return false
	}
	if isUpgrade(r) || announcesBody(r) || overridesMethod(r.Header) {
		return false
	}
	wanted := only(r.Header["Access-Control-Request-Method"])
	isMethod := wanted != "" && !strings.ContainsFunc(wanted, func(c rune) bool { return !identity.IsTokenRune(c) })
	return isMethod && p.allowsOrigin(only(r.Header["Origin"]))
}

// announcesBody reports whether the head of a request says that a body follows. Over HTTP/3 every request has a body of unknown
// length for all that the server knows, and only Content-Length announces one; what else comes is dropped by dropBody.
func announcesBody(r *http.Request) bool {
	if r.ProtoMajor == 3 && r.ContentLength < 0 {
		return r.Header["Content-Length"] != nil
	}
	return r.ContentLength != 0
}

// dropBody makes a request one without a body, in place.
func dropBody(r *http.Request) { r.Body, r.ContentLength = http.NoBody, 0 }

// answerPreflight lets the page send what it has asked about. Whether that passes is decided when it comes.
func (p *Protect) answerPreflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	p.foreignPage(r).allow(h)
	delete(h, "Access-Control-Expose-Headers") // of which a preflight has none
	h.Add("Vary", "Access-Control-Request-Method, Access-Control-Request-Headers")
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	if names := only(r.Header["Access-Control-Request-Headers"]); names != "" && !strings.ContainsFunc(names, isNoNameList) {
		h.Set("Access-Control-Allow-Headers", names)
	}
	h.Set("Access-Control-Max-Age", endpoint.PreflightMaxAge)
	w.WriteHeader(http.StatusNoContent)
}

func isNoNameList(c rune) bool { return !identity.IsTokenRune(c) && c != ',' && c != ' ' }

// methodOverrides are the headers by which a client asks an upstream to read another method. They are there where the route
// trusts them, and a trusted proxy may pass on what its own clients send.
var methodOverrides = identity.NewNames(identity.OverridingMethod...)

func overridesMethod(h http.Header) bool {
	for key := range h {
		if methodOverrides.Has(key) {
			return true
		}
	}
	return false
}

// foreignPage is a page of another origin that may read an answer. The zero value: there is none.
type foreignPage struct {
	// passed: the answer is somebody else's, who may have said already which page may read it.
	passed bool
	// varies: another origin would get another answer.
	varies bool
	// origin is what is allowed, as it is written in the answer; empty: nothing is.
	origin string
	// credentials: the page may read answers to cookies as well.
	credentials bool
}

// foreignPage returns who may read the answer to the request.
func (p *Protect) foreignPage(r *http.Request) foreignPage {
	page := foreignPage{varies: len(p.CORS) > 0}
	origin := only(r.Header["Origin"])
	switch {
	case !page.varies || !p.allowsOrigin(origin):
	case slices.Contains(p.CORS, anyOrigin):
		page.origin = anyOrigin
	default:
		page.origin, page.credentials = origin, p.TokenCookie != ""
	}
	return page
}

// allow lets the page read an answer, and see in it why it was refused and when it may come back.
func (f foreignPage) allow(h http.Header) {
	if f.passed && len(h["Access-Control-Allow-Origin"]) > 0 {
		return
	}
	if f.varies {
		h.Add("Vary", "Origin")
	}
	if f.origin == "" {
		return
	}
	h["Access-Control-Allow-Origin"] = []string{f.origin} // in place of what an error route has set: two values count as none
	h.Add("Access-Control-Expose-Headers", endpoint.ExposedHeaders)
	switch {
	case f.credentials:
		h["Access-Control-Allow-Credentials"] = []string{"true"}
	case f.origin == anyOrigin:
		delete(h, "Access-Control-Allow-Credentials")
	}
}
