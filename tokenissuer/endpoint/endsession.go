package endpoint

import (
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// signOutNames are the parameters of an application's sign-out request (OpenID Connect RP-Initiated Logout §2).
var signOutNames = []string{"id_token_hint", "logout_hint", "client_id", "post_logout_redirect_uri", "state", "ui_locales"}

// atHost is the query parameter and form field with the origin of a host behind the gate. The host sends a browser here with it after a
// sign-out there, or if the browser has no session there.
const atHost = "host"

// carriedRequest is the field of the sign-out form that repeats the application's request, as a query.
const carriedRequest = "request"

// maxSignOut bounds an application's request in bytes. An ID token with many claims takes up most of it.
const maxSignOut = 24 << 10

// signOutPages are the sign-out page and its form.
type signOutPages struct {
	signOuts  *issuer.SignOuts
	hosts     *oauth.Hosts
	audit     *Audit
	methods   *SignInMethods
	browser   *browser
	providers *providerPages
}

// serve serves the sign-out page and its form, and the end_session_endpoint. A GET signs the user out only if it proves knowledge of this
// browser's session, because any site can contain a link.
func (h *signOutPages) serve(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodPost {
		v, err := h.browser.visitOf(w, r)
		if err != nil {
			return err
		}
		if h.signedOutAtHost(w, r, v) {
			return nil
		}
		return h.askedToSignOut(w, r, v, h.signOutQuery(r.URL.RawQuery))
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	asked := h.signOutForm(f)
	// A form from another site comes without our session cookie, whatever other cookies there are and whether or not the browser states its
	// origin. A GET has the cookie. Nothing is set or deleted before, because any site can send a form.
	if len(asked) > 0 && h.browser.sessionCookie(r).IsEmpty() {
		seeOther(w, h.signOutURL(asked))
		return nil
	}
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	if len(asked) > 0 {
		return h.askedToSignOut(w, r, v, asked)
	}
	return h.confirmedSignOut(w, r, v, f)
}

// signOutQuery reads an application's request. A malformed one counts as empty.
func (h *signOutPages) signOutQuery(text string) url.Values {
	asked := make(url.Values)
	if !h.browser.policy().OpenID || len(text) > maxSignOut {
		return asked
	}
	p, err := readParameters(text)
	if err != nil {
		return asked
	}
	for _, name := range signOutNames {
		if value := p.get(name); value != "" {
			asked.Set(name, value)
		}
	}
	return asked
}

// signOutForm is like signOutQuery for a form that an application sent. Our own form counts as empty.
func (h *signOutPages) signOutForm(f requests.Form) url.Values {
	asked := make(url.Values)
	if !h.browser.policy().OpenID || f.Get("form_token") != "" {
		return asked
	}
	for _, name := range signOutNames {
		if value := f.Get(name); value != "" {
			asked.Set(name, value)
		}
	}
	return asked
}

// signOutRequest checks an application's request.
func (h *signOutPages) signOutRequest(r *http.Request, asked url.Values) (issuer.SignOutRequest, error) {
	if len(asked) == 0 {
		return issuer.SignOutRequest{}, nil
	}
	request, err := h.signOuts.ReadSignOut(r.Context(), issuer.SignOutParameters{
		IDTokenHint: asked.Get("id_token_hint"), ClientID: asked.Get("client_id"),
		PostLogoutRedirectURI: asked.Get("post_logout_redirect_uri"), State: asked.Get("state"),
	}, h.browser.sessions.SessionID(h.browser.sessionCookie(r)))
	if request.Refusal != nil {
		h.audit.Refused(r, "sign-out request not followed", forClient(request.Refusal, request.Client))
	}
	return request, err
}

// askedToSignOut signs the user out if an application proves knowledge of the session, and sends the browser back to the application.
// Otherwise it asks the user.
func (h *signOutPages) askedToSignOut(w http.ResponseWriter, r *http.Request, v visit, asked url.Values) error {
	request, err := h.signOutRequest(r, asked)
	if err != nil {
		return err
	}
	if request.Proven && requests.IsVisit(r) {
		return h.signOut(w, r, v, request.ReturnTo)
	}
	page := pages.SignOut{Form: h.browser.form(v, logoutPath, oauth.Secret{}), SignInURL: h.signInAgainURL()}
	if request.Refusal != nil {
		page.Detail = oauth.AsError(request.Refusal).Description
	}
	var targets []string
	if v.session == nil {
		page.Done = true
		h.browser.cookies.end(w)
		if request.ReturnsToWeb() {
			page.ReturnURL = request.ReturnTo
		}
	} else {
		page.Email = v.session.User.Email
		if len(asked) > 0 {
			page.Fields = []pages.Field{{Name: carriedRequest, Value: asked.Encode()}}
		}
		if host := h.hostAsking(r.URL.RawQuery); host != "" {
			page.Fields = append(page.Fields, pages.Field{Name: atHost, Value: host})
			targets = append(targets, host)
		}
		if request.Client != nil {
			page.ClientName = titleOf(request.Client, "")
		}
		if p := h.methods.provider(v.session.Family.SignIn.Provider); p != nil {
			targets = append(targets, p.Origin)
		}
		if request.ReturnTo != "" {
			targets = append(targets, request.ReturnOrigin())
		}
	}
	return h.browser.show(w, r, http.StatusOK, asked.Get("ui_locales"), page, targets...)
}

// confirmedSignOut signs out a user who has confirmed it on our page.
func (h *signOutPages) confirmedSignOut(w http.ResponseWriter, r *http.Request, v visit, f requests.Form) error {
	asked := h.signOutQuery(f.Get(carriedRequest))
	if v.session == nil { // the session ended while the page was open
		location := h.signOutURL(asked)
		if host := f.Get(atHost); len(asked) == 0 && h.hosts.Has(host) {
			location += "?" + url.Values{atHost: {host}}.Encode()
		}
		seeOther(w, location)
		return nil
	}
	if _, err := h.browser.checkForm(r, v, f, logoutPath); err != nil {
		return err
	}
	request, err := h.signOutRequest(r, asked)
	if err != nil {
		return err
	}
	returnTo := request.ReturnTo
	switch host := f.Get(atHost); {
	case returnTo != "":
	case h.hosts.Has(host):
		returnTo = host + oauth.SignOutPath
	default:
		returnTo = h.browser.prefix + logoutPath
	}
	return h.signOut(w, r, v, returnTo)
}

// signOutURL returns the URL of the sign-out page for an application's request.
func (h *signOutPages) signOutURL(asked url.Values) string {
	if len(asked) == 0 {
		return h.browser.prefix + logoutPath
	}
	return h.browser.prefix + logoutPath + "?" + asked.Encode()
}

// signInAgainURL returns the sign-in page for a user who has just signed out. There, no provider signs the user in again at once.
func (h *signOutPages) signInAgainURL() string {
	if len(h.methods.Providers) == 0 {
		return h.browser.prefix + loginPath
	}
	return h.browser.prefix + loginPath + "?" + switchAccount + "=1"
}

// signOut ends the browser's session, if there is one, and redirects the browser.
func (h *signOutPages) signOut(w http.ResponseWriter, r *http.Request, v visit, returnTo string) error {
	if v.session != nil {
		if err := h.browser.sessions.SignOut(r.Context(), v.session); err != nil {
			return err
		}
		h.audit.Accepted(r, "signed out", zap.String("subject", v.session.User.ID), zap.String("session", v.session.Family.ID))
	}
	h.browser.cookies.end(w)
	forgetPages(w)
	seeOther(w, h.providers.throughProvider(v, returnTo))
	return nil
}

// forgetPages makes a browser that signs out drop this origin's pages, which its back button would otherwise show.
func forgetPages(w http.ResponseWriter) { w.Header().Set("Clear-Site-Data", `"cache"`) }

// signedOutAtHost redirects a browser that has signed out at a host behind the gate, and reports whether it did. The browser goes to the
// provider where its user signed in, and from there back to the host. Its session has already ended, so a link from another site ends
// nothing.
func (h *signOutPages) signedOutAtHost(w http.ResponseWriter, r *http.Request, v visit) bool {
	host := h.hostAsking(r.URL.RawQuery)
	if host == "" || v.session != nil || !requests.IsVisit(r) {
		return false
	}
	if f, err := h.signOuts.Families.Store.Family(r.Context(), h.browser.sessions.SessionID(h.browser.sessionCookie(r))); err == nil {
		v.session = &signin.Session{Family: f, User: new(store.User)}
		if user, err := h.signOuts.Families.Directory.User(r.Context(), f.User.ID); err == nil {
			v.session.User = user
		}
	}
	h.browser.cookies.end(w)
	seeOther(w, h.providers.throughProvider(v, host+oauth.SignOutPath))
	return true
}

// hostAsking returns the origin of the host that sent a browser here. It returns "" if the origin is not one of our hosts.
func (h *signOutPages) hostAsking(query string) string {
	p, err := readParameters(query)
	if err != nil || !h.hosts.Has(p.get(atHost)) {
		return ""
	}
	return p.get(atHost)
}
