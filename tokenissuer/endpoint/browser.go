package endpoint

import (
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// visit is a browser's request to one of the pages: which browser it is, and who is signed in.
type visit struct {
	browser oauth.Secret
	session *tokenissuer.Session // nil: nobody
}

// owner names in form tokens who is signed in, so that nobody decides on a page that was made for somebody else. The
// sign-in form belongs to the browser alone: other tabs may have signed in meanwhile.
func (v visit) owner(action string) string {
	if v.session == nil || action == loginPath {
		return ""
	}
	return v.session.User.ID
}

// visitOf reads the cookies of a request to a page. A browser that has none yet gets one: it is all that is kept of a
// visitor who does not sign in, and the browser keeps it.
func (h *Handler) visitOf(w http.ResponseWriter, r *http.Request) (visit, error) {
	v := visit{browser: readCookie(r, h.cookies.browser)}
	if len(v.browser.Reveal()) != len(oauth.NewID()) {
		v.browser = tokenissuer.NewBrowser()
		h.cookies.set(w, h.cookies.browser, v.browser, 0)
	}
	session, err := h.session(r)
	v.session = session
	return v, err
}

// session returns who is signed in; nil: nobody.
func (h *Handler) session(r *http.Request) (*tokenissuer.Session, error) {
	cookie := h.sessionCookie(r)
	if cookie.IsEmpty() {
		return nil, nil
	}
	return h.issuer.Session(r.Context(), cookie)
}

// TokenSession returns the id of the session that an accessToken cookie of the request must be of: that of its session
// cookie or, in a browser that was closed meanwhile, what the cookie says that came with the token. It is "" when there is
// neither.
func (h *Handler) TokenSession(r *http.Request) string {
	if cookie := h.sessionCookie(r); !cookie.IsEmpty() {
		return h.issuer.SessionID(cookie)
	}
	return readCookie(r, h.cookies.token).Reveal()
}

// SessionToken returns a fresh access token for a browser that is signed in, and sets it as its accessToken cookie. The
// token is empty when nobody is signed in.
func (h *Handler) SessionToken(w http.ResponseWriter, r *http.Request) (oauth.Secret, error) {
	session, err := h.session(r)
	if session == nil || err != nil {
		return oauth.Secret{}, err
	}
	tokens, err := h.issuer.SessionToken(session)
	if err != nil {
		return oauth.Secret{}, err
	}
	h.tally.Issued(store.BrowserSession)
	h.cookies.setToken(w, session, tokens)
	return tokens.AccessToken, nil
}

// SignInURL is where a browser goes to sign in, and from where it comes back to the page that it asked for. Only the
// path and the query are taken from the request: whatever its Host, the browser comes back to the issuer's.
func (h *Handler) SignInURL(r *http.Request) (string, error) {
	path := r.URL.RequestURI()
	if !strings.HasPrefix(path, "/") { // behind the origin, the target `http:@evil.example/` would name another host
		return "", errors.New("the request has no path to come back to")
	}
	pending, err := h.issuer.SealReturn(path)
	if err != nil {
		return "", err
	}
	return h.url(loginPath, pending), nil
}

// url is the address of one of our pages, with the pending request when there is one.
func (h *Handler) url(path string, pending oauth.Secret) string {
	location := h.prefix + path
	if !pending.IsEmpty() {
		location += "?pending=" + url.QueryEscape(pending.Reveal())
	}
	return location
}

// checkForm refuses a form that was not sent from a page of ours, by the browser and the user for whom the page was made
// (RFC 9700 §4.7), and returns what tells the form from every other. Browsers say where a request comes from, and a page
// of another site cannot change what they say; the token proves the rest.
func (h *Handler) checkForm(r *http.Request, v visit, f form, action string) (nonce string, err error) {
	nonce, genuine := h.issuer.OpenFormToken(f.secret("form_token"), v.browser, action, v.owner(action), f.get("pending"))
	if !genuine || !h.isSameOrigin(r) {
		return "", forged
	}
	return nonce, nil
}

// formToken is what checkForm asks for.
func (h *Handler) formToken(v visit, action string, pending oauth.Secret) string {
	return h.issuer.FormToken(v.browser, action, v.owner(action), pending.Reveal()).Reveal()
}

var forged = httpError{status: http.StatusForbidden, err: oauth.NewError(oauth.InvalidRequest, "form_forged")}

// isSameOrigin reports whether the browser says that the request comes from a page of ours. Our pages have the policy
// no-referrer, under which a browser's own forms have the origin "null"; then Sec-Fetch-Site alone decides.
func (h *Handler) isSameOrigin(r *http.Request) bool {
	site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
	if len(site) > 1 || len(origin) > 1 {
		return false
	}
	sameSite := len(site) == 1 && site[0] == "same-origin"
	if len(site) == 1 && !sameSite {
		return false
	}
	return len(origin) == 0 || origin[0] == h.origin || sameSite && origin[0] == "null"
}
