package console

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/coverage"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() { caddy.RegisterModule(new(Handler)) }

// Handler serves the console to operators whom a gate before it has let pass: people who have signed in at its host, with two factors, and
// have one of the roles of the block `console`. The directive `oauth_console` makes the gate as well.
type Handler struct {
	// Source is the position of the directive in a Caddyfile, as file:line. It serves only error messages.
	Source string `json:"source,omitempty"`

	parts *Parts
}

// Parts are what the console needs of a configuration.
type Parts struct {
	Operators *configuration.Operators
	Pages     *pages.Pages
	Audit     *endpoint.Audit

	target atomic.Pointer[admin.Target] // nil before Serve
}

// Serve lets the console operate a configuration that has started.
func (p *Parts) Serve(t *admin.Target) {
	if p != nil {
		p.target.Store(t)
	}
}

// CaddyModule returns the module's id.
func (*Handler) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.handlers.oauth_console", New: func() caddy.Module { return new(Handler) }}
}

// app is the part of the oauth block that the console uses.
type app interface {
	// Console returns the parts of the console; nil: there is none.
	Console() *Parts
}

var errNoConsole = errors.New("oauth_console needs `console` in the oauth block, which says who operates it")

// Provision finds the configuration.
func (h *Handler) Provision(ctx caddy.Context) error {
	block, err := setting.App(ctx, "oauth_console", h.Source)
	if err != nil {
		return err
	}
	of, is := block.(app)
	if !is || of.Console() == nil {
		return setting.At(errNoConsole, h.Source)
	}
	h.parts = of.Console()
	return nil
}

// ConsoleAt returns the position of the directive in a Caddyfile; empty: the configuration came as JSON.
func (h *Handler) ConsoleAt() string { return h.Source }

// ServeHTTP serves a page of the console. It decides by itself who is an operator: the gate before it may have been written by hand.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request, _ caddyhttp.Handler) error {
	caddyhttp.SetVar(r.Context(), caddyhttp.LogSkipVar, true) // a query holds names of people; the gate's audit line has the rest
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	requests.BoundBody(w, r)
	v := &visit{parts: h.parts, w: w, r: r}
	err := v.serve()
	if err != nil {
		v.refuse(err)
	}
	return nil
}

// Base is the path of the console.
const Base = "/oauth/admin"

// serve answers the request, once it is known who asks.
func (v *visit) serve() error {
	if !requests.IsNavigation(v.r) {
		return requests.NotAVisit()
	}
	if err := requests.RefuseEarlyData(v.r); err != nil {
		return err
	}
	if err := v.identify(); err != nil {
		return err
	}
	path, below := strings.CutPrefix(v.r.URL.EscapedPath(), Base)
	found, is := routes[path]
	if !below || !is || !v.operator.everywhere && !found.inOrganisation {
		return requests.Error{Status: http.StatusNotFound, Err: oauth.NewError(oauth.InvalidRequest, "path_unknown")}
	}
	v.place = found.place
	switch v.r.Method {
	case http.MethodGet, http.MethodHead:
	case http.MethodPost:
		if found.form != nil {
			break
		}
		fallthrough
	default:
		return requests.MethodNotAllowed(found.methods())
	}
	if found.form != nil {
		return v.serveForm(found.form)
	}
	if found.file != nil {
		return found.file(v)
	}
	page, err := found.read(v)
	if refused := (*admin.Refusal)(nil); len(page.blocks) > 0 && errors.As(err, &refused) && refused.Status < http.StatusInternalServerError {
		page.notices = append(page.notices, pages.ConsoleNotice{Phrase: pages.Phrase{Text: refused.Error()}, Failed: true})
		return v.show(refused.Status, page) // a search with what was typed, to be mended
	}
	if err != nil {
		return err
	}
	return v.show(http.StatusOK, page)
}

// refuse answers with an error: a page of the console where it is known who asks.
func (v *visit) refuse(err error) {
	v.parts.Audit.Refused(v.r, "console request refused", audited(err))
	var refused *admin.Refusal
	if errors.As(err, &refused) && v.operator.user != nil {
		page := sheet{title: "console.refused.title", notices: []pages.ConsoleNotice{{Phrase: pages.Phrase{Text: refused.Error()}, Failed: true}}}
		if refused.Status == http.StatusServiceUnavailable {
			v.w.Header().Set("Retry-After", "2")
			page.notices[0].Phrase = pages.Say("console.refused.unavailable")
		}
		if err = v.show(refused.Status, page); err == nil {
			return
		}
	}
	status := answers.SetStatusHeaders(v.w, err)
	problem := pages.Problem{Code: answers.ProblemOf(status), RetryAfter: oauth.AsError(err).RetryAfter}
	page := pages.Page(problem)
	if d, is := errors.AsType[denied](err); is {
		page = pages.Denied{User: d.user, SignOutURL: oauth.SignOutPath, SwitchURL: againURL(v.r.URL.RequestURI(), true)}
	}
	if err := v.write(status, page); err != nil {
		answers.WriteError(v.w, v.r, err, "console")
	}
}

// audited returns a refusal of the API as the audit log knows errors: what an operator mistypes is no fault of the server. The API's words are
// left out, because they repeat what was typed.
func audited(err error) error {
	refused, is := errors.AsType[*admin.Refusal](err)
	if !is {
		return err
	}
	mapped := oauth.NewError(oauth.InvalidRequest, "parameter_value_invalid")
	switch refused.Status {
	case http.StatusNotFound:
		mapped = oauth.NewError(oauth.InvalidRequest, "path_unknown")
	case http.StatusForbidden:
		mapped = oauth.NewError(oauth.AccessDenied, "role_missing")
	case http.StatusServiceUnavailable:
		return oauth.Unavailable("store_unavailable", refused.Err)
	case http.StatusInternalServerError:
		return err
	}
	return requests.Error{Status: refused.Status, Err: mapped}
}

// Interface guards.
var (
	_ caddy.Provisioner           = (*Handler)(nil)
	_ coverage.OperatorConsole    = (*Handler)(nil)
	_ caddyhttp.MiddlewareHandler = (*Handler)(nil)
)
