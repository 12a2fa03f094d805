package browser

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// explanation is the content of the page for an answer of the issuer or a provider that opens no session. Such an answer may hold
// a code that is still valid. A script of the host could read it in the address of the page, and a reload would redeem it twice. So
// the browser is redirected to the callback without parameters.
type explanation struct {
	status int
	// code is the page; empty: the one for the status.
	code pages.HostCode
	// attempt is what the link of the page repeats.
	attempt signin.HostAttempt
}

// maxExplanation bounds the value of the cookie in bytes: browsers store 4096 of it and its name.
const maxExplanation = 4000

// text returns the value of the cookie. A longer path to return to than fits is shortened.
func (e explanation) text() oauth.Secret {
	query := url.Values{
		"status": {strconv.Itoa(e.status)}, "code": {string(e.code)}, "provider": {e.attempt.Provider}, "return": {e.attempt.Return},
	}
	if e.attempt.Shortened {
		query.Set("shortened", "yes")
	}
	text := base64.RawURLEncoding.EncodeToString([]byte(query.Encode()))
	if len(text) <= maxExplanation || e.attempt.Return == "/" {
		return oauth.NewSecret(text)
	}
	e.attempt.Return, e.attempt.Shortened = shortened(e.attempt.Return), true
	return e.text()
}

// explain answers a request with an explanation. It redirects a navigation to a callback with parameters, and shows the page
// otherwise.
func (p *pageWriter) explain(w http.ResponseWriter, r *http.Request, host oauth.Host, e explanation) {
	if !isCallback(r.URL.Path) || r.URL.RawQuery == "" || !requests.IsVisit(r) {
		p.showExplanation(w, r, host, e)
		return
	}
	if host.Authority != "" { // the routes are known
		set(w, host, cookiesOf(host).refused, e.text())
	}
	seeOther(w, callbackPath)
}

// explained serves the callback without parameters, and deletes the cookie, which any application of the host can write.
func (h *Handler) explained(w http.ResponseWriter, r *http.Request, host oauth.Host) {
	e := explanation{status: http.StatusBadRequest, code: pages.NotSignedIn}
	var room [maxCookies]string
	n := find(r.Header, cookiesOf(host).refused, &room)
	if n > 0 {
		set(w, host, cookiesOf(host).refused, oauth.Secret{})
	}
	if n == 1 {
		text, _ := base64.RawURLEncoding.DecodeString(room[0])
		query, _ := url.ParseQuery(string(text))
		status, err := strconv.Atoi(query.Get("status"))
		code := pages.HostCode(query.Get("code"))
		isRefusal := status >= 400 && status <= 599 && (code == "" || code == pages.NotSignedIn || code == pages.NotFresh)
		if err == nil && (isRefusal || status == http.StatusOK && code == pages.Shortened) {
			e = explanation{status, code, signin.HostAttempt{
				Return: query.Get("return"), Provider: query.Get("provider"), Shortened: query.Get("shortened") == "yes",
			}}
		}
	} else if _, err := h.Session(r, host); err == nil { // the page was loaded again
		h.Pages.show(w, r, http.StatusOK, pages.AtHost{Code: pages.SignedIn, URL: "/"})
		return
	}
	h.Pages.showExplanation(w, r, host, e)
}

func (p *pageWriter) showExplanation(w http.ResponseWriter, r *http.Request, host oauth.Host, e explanation) {
	problem := problemOf(e.status)
	if problem.Waits() {
		answers.SetStatusHeaders(w, oauth.Unavailable("answer_not_used", nil))
	}
	if e.code != "" {
		e.attempt.Return = returnPath(e.attempt.Return)
		link := signInURL(e.attempt)
		if e.code == pages.Shortened { // the user is signed in
			link = host.Origin() + e.attempt.Return
		}
		p.show(w, r, e.status, pages.AtHost{Code: e.code, URL: link})
		return
	}
	p.show(w, r, e.status, pages.Problem{Code: problem})
}
