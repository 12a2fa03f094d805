package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// form returns the common fields of a page's forms.
func (b *browser) form(v visit, path string, pending oauth.Secret) pages.Form {
	return pages.Form{Action: b.prefix + path, Token: b.formToken(v, path, pending), Pending: pending.Reveal()}
}

// show writes a page. formTargets are the origins, other than ours, to which its forms may redirect.
func (b *browser) show(w http.ResponseWriter, r *http.Request, status int, locales string, page pages.Page, formTargets ...string) error {
	language := b.pages.Language(locales, r.Header["Accept-Language"])
	body, err := b.pages.Render(language, page)
	if err != nil {
		return oauth.AsError(err)
	}
	answers.SetPageHeaders(w.Header(), string(language), b.pages.PolicyOf(page, formTargets...))
	w.WriteHeader(status)
	_, _ = w.Write(body) //lint:ignore gosec html/template has escaped it; a failure means that the browser has disconnected
	return nil
}

// refuseJSON logs an error and writes it as JSON.
func (b *browser) refuseJSON(w http.ResponseWriter, r *http.Request, err error) {
	b.audit.Refused(r, "endpoint request refused", err)
	answers.WriteError(w, r, err, b.sessions.Clients.URL)
}

// refusePage answers a request for a page with an error page, or with JSON if Accept prefers that.
func (b *browser) refusePage(w http.ResponseWriter, r *http.Request, err error) {
	w.Header().Set("Vary", "Accept")
	if answers.PrefersJSON(r.Header["Accept"]) {
		b.refuseJSON(w, r, err)
		return
	}
	b.audit.Refused(r, "endpoint request refused", err)
	e := oauth.AsError(err)
	status := answers.SetStatusHeaders(w, err)
	problem := pages.Problem{Code: problemOf(err, status), RetryAfter: e.RetryAfter, AccountURL: b.prefix + accountPath}
	if e.Code == oauth.InvalidRequest && (problem.Code == pages.BadClient || problem.Code == pages.BadRequest) {
		problem.Detail = e.Description
	}
	if err := b.show(w, r, status, "", problem); err != nil {
		answers.WriteError(w, r, err, b.sessions.Clients.URL)
	}
}

// refuseUnknown answers a browser's navigation with a page, and other requests like the endpoints for programs.
func (b *browser) refuseUnknown(w http.ResponseWriter, r *http.Request, err error) {
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" {
		b.refusePage(w, r, err)
		return
	}
	b.refuseJSON(w, r, err)
}

// problems maps error reasons to pages with a text of their own.
var problems = map[string]pages.ProblemCode{
	"client_id_missing":         pages.BadClient,
	"client_unknown":            pages.BadClient,
	"redirect_uri_missing":      pages.BadClient,
	"redirect_uri_unregistered": pages.BadClient,
	"seal_broken":               pages.Expired,
	"seal_expired":              pages.Expired,
	"form_forged":               pages.Forged,
	"device_expired":            pages.Expired,
	oauth.ErrDecided.Reason:     pages.Decided,
	"link_broken":               pages.LinkBroken,
	"link_expired":              pages.LinkExpired,
	"link_spent":                pages.LinkSpent,
	"link_address_taken":        pages.AddressTaken,
	"registration_closed":       pages.RegistrationClosed,
}

func problemOf(err error, status int) pages.ProblemCode {
	if code, ok := problems[oauth.AsError(err).Reason]; ok {
		return code
	}
	return answers.ProblemOf(status)
}
