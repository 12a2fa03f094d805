package endpoint

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// site is the location of the issuer: the path of its URL, usually "", and its origin.
type site struct{ prefix, origin string }

// browser serves pages. It handles their cookies and form tokens.
type browser struct {
	site
	sessions *signin.Sessions
	seals    *signin.Seals
	audit    *Audit
	cookies  cookies
	pages    *pages.Pages
}

// visit is a browser's request to a page, with the browser's id and session.
type visit struct {
	browser oauth.Secret
	session *signin.Session // nil: not signed in
}

// owner returns the user that a form token is bound to, so that a page made for one user cannot be submitted by another. The forms of a
// sign-in and of links are bound only to the browser, because another tab may have signed in since.
func (v visit) owner(action string) string {
	switch action {
	case loginPath, factorPath, addFactorPath, linkPath, forgottenPath, signUpPath, signUpLinkPath:
		return ""
	}
	if v.session == nil {
		return ""
	}
	return v.session.User.ID
}

// visitOf reads the cookies of a request to a page. It sets the browser cookie if there is none. Nothing is stored on the server before a
// sign-in.
func (b *browser) visitOf(w http.ResponseWriter, r *http.Request) (visit, error) {
	v := visit{browser: readCookie(r, b.cookies.browser)}
	if len(v.browser.Reveal()) != len(oauth.NewID()) {
		v.browser = signin.NewBrowser()
		b.cookies.set(w, b.cookies.browser, v.browser, 0)
	}
	session, err := b.session(r)
	v.session = session
	return v, err
}

// session returns the session of the request, or nil if the user is not signed in.
func (b *browser) session(r *http.Request) (*signin.Session, error) {
	cookie := b.sessionCookie(r)
	if cookie.IsEmpty() {
		return nil, nil
	}
	return b.sessions.Session(r.Context(), cookie)
}

// policy returns the issuer's policy for its clients.
func (b *browser) policy() *clients.Policy { return &b.sessions.Clients.Policy }

// url returns the URL of one of our pages, with the sealed pending request if there is one.
func (s *site) url(path string, pending oauth.Secret) string {
	location := s.prefix + path
	if !pending.IsEmpty() {
		location += "?pending=" + url.QueryEscape(pending.Reveal())
	}
	return location
}

// checkForm refuses a form that was not sent from our page, by the browser and user for whom the page was made (RFC 9700 §4.7). It returns
// the form's nonce. Other sites cannot forge the origin headers. The form token proves the rest.
func (b *browser) checkForm(r *http.Request, v visit, f requests.Form, action string) (nonce string, err error) {
	nonce, genuine := b.seals.OpenFormToken(f.Secret("form_token"), v.browser, action, v.owner(action), f.Get("pending"))
	if !genuine || !b.isSameOrigin(r) {
		return "", forged
	}
	return nonce, nil
}

// formToken returns the token that checkForm requires.
func (b *browser) formToken(v visit, action string, pending oauth.Secret) string {
	return b.seals.FormToken(v.browser, action, v.owner(action), pending.Reveal()).Reveal()
}

var forged = requests.Error{Status: http.StatusForbidden, Err: oauth.NewError(oauth.InvalidRequest, "form_forged")}

// isSameOrigin reports whether the request comes from our page, according to the browser. Our pages have the policy no-referrer, so
// browsers send the Origin "null". Then Sec-Fetch-Site decides.
func (s *site) isSameOrigin(r *http.Request) bool {
	site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	if len(site) > 1 || len(origin) > 1 {
		return false
	}
	sameSite := len(site) == 1 && site[0] == "same-origin"
	if len(site) == 1 && !sameSite {
		return false
	}
	return len(origin) == 0 || origin[0] == s.origin || sameSite && origin[0] == "null"
}

// recentSignIn is how long after a sign-in a user can make tokens and change factors.
const recentSignIn = 15 * time.Minute

// isRecent reports whether the user of a session signed in recently enough to make tokens and change factors. A session whose provider did
// not state the time of the sign-in proves nothing: a browser that is signed in there gets another session without any question.
func (b *browser) isRecent(s *signin.Session) bool {
	return !s.Family.SignIn.Time.IsZero() && b.sessions.Families.Now().Sub(s.Family.SignIn.Time) < recentSignIn
}

// signInFor sends a browser to the sign-in page and back to a section of the account page. A provider must prove that the user has signed
// in since.
func (b *browser) signInFor(w http.ResponseWriter, section string) {
	seeOther(w, b.url(loginPath, oauth.NewSecret(section)))
}

// uninterrupted returns the request with a context that does not end when the client hangs up. Otherwise someone who hangs up at the right
// moment could keep a change from being recorded in the audit log, and its owner from being told.
func uninterrupted(r *http.Request) *http.Request {
	return r.WithContext(context.WithoutCancel(r.Context()))
}
