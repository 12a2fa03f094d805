package browser

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// pageWriter answers people with pages.
type pageWriter struct {
	pages *pages.Pages
	at    *authority
}

// show writes a page. FormTargets are the origins to which its form may lead.
func (p *pageWriter) show(w http.ResponseWriter, r *http.Request, status int, page pages.Page, formTargets ...string) {
	language := p.pages.Language("", r.Header["Accept-Language"])
	body, err := p.pages.Render(language, page)
	if err != nil {
		answers.WriteError(w, r, oauth.AsError(err), p.at.realm())
		return
	}
	answers.SetPageHeaders(w.Header(), string(language), p.pages.ContentSecurityPolicy(formTargets...))
	w.WriteHeader(status)
	_, _ = w.Write(body) //lint:ignore gosec html/template has escaped it; a failure means that the browser has disconnected
}

// ServeDenied answers a navigation that the rules of a route refuse to the user who is signed in. The page offers to come back to
// the address with another account. It does not say what the rules require.
func (p *pageWriter) ServeDenied(w http.ResponseWriter, r *http.Request, t *token.AccessToken, address string) {
	page := pages.Denied{
		SignOutURL: signOutPath,
		SwitchURL:  signInLink(returnPath(address), url.Values{"prompt": {"select_account"}}),
	}
	page.Email, _ = t.Email()
	page.User = cmp.Or(strings.Join(t.Claim("name"), " "), page.Email, t.Subject)
	w.Header().Add("Vary", "Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Dest")
	p.show(w, r, http.StatusForbidden, page)
}

// ServeInterrupted answers a form that was sent without a session. The form had no effect, and can be sent again after a
// sign-in.
func (p *pageWriter) ServeInterrupted(w http.ResponseWriter, r *http.Request, status int) {
	p.show(w, r, status, pages.AtHost{Code: pages.Interrupted, URL: signInPath, NewTab: true})
}

// ServeForeign answers a form that a page of another site sent. The form had no effect.
func (p *pageWriter) ServeForeign(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Cache-Control", "no-store")
	p.show(w, r, status, pages.AtHost{Code: pages.Foreign, URL: "/"})
}

// ServeProblem answers a navigation that a route refuses.
func (p *pageWriter) ServeProblem(w http.ResponseWriter, r *http.Request, status int, err error) {
	w.Header().Set("Cache-Control", "no-store")
	e := oauth.AsError(err)
	problem := pages.Problem{Code: problemOf(status), RetryAfter: e.RetryAfter}
	switch {
	case errors.Is(err, errTwo):
		problem.Code, problem.SignOutURL = pages.TwoSessions, signOutPath
	case status == http.StatusBadRequest && strings.HasPrefix(e.Reason, "path_"): // see requestpath.Exam
		problem.Code = pages.AmbiguousPath
	}
	p.show(w, r, status, problem)
}

// problemOf returns what a page says of a refusal with this status.
func problemOf(status int) pages.ProblemCode {
	switch status {
	case http.StatusUnauthorized:
		return pages.NotAllowed
	case http.StatusForbidden:
		return pages.Forged
	}
	return answers.ProblemOf(status)
}
