package browser

import (
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// signOut serves /oauth/sign_out. A GET asks, because any site can place a link; the form that answers must come from a page of the
// host. Signing out ends the sign-in, and so the sessions of all hosts; it is done before the browser goes on to anywhere else. `return` is the
// path of the host to go to in the end, by way of a cookie: the issuer and the provider lead back to this path alone.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request, host oauth.Host) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return oauth.NewError(oauth.InvalidRequest, "query_malformed")
	}
	session, err := h.Session(r, host)
	switch {
	case err != nil && !isNone(err) && !errors.Is(err, errTwo):
		return err
	case err != nil:
		h.signOutElsewhere(w, r, host, query.Get("return"))
		return nil
	case r.Method != http.MethodPost:
		action := signOutPath
		if path := query.Get("return"); path != "" {
			action += "?" + url.Values{"return": {returnPath(path)}}.Encode()
		}
		page := pages.SignOut{Form: pages.Form{Action: action}, Email: strings.Join(session.Token.Claim("email"), "")}
		h.Pages.show(w, r, http.StatusOK, page, h.at.formTargets()...)
		return nil
	case !IsSameOrigin(r, host):
		return errForged
	}
	ended, err := h.Sessions.End(r.Context(), session.Cookie.Reveal(), host)
	if err != nil {
		return err
	}
	if ended != nil {
		h.Audit.Accepted(r, "signed out", zap.String("subject", ended.User.ID), zap.String("session", ended.Family.ID))
	}
	set(w, host, cookiesOf(host).session, oauth.Secret{})
	set(w, host, cookiesOf(host).signedOut, goingTo(query.Get("return")))
	w.Header().Set("Clear-Site-Data", `"cache"`) // the back button shows none of the pages that the session has opened
	seeOther(w, h.at.signOutURL(host, ended))
	return nil
}

// signOutElsewhere answers a browser that has no session at the host. A browser that comes back from signing out goes to the path
// that it named, or sees that it is signed out. Any other may still be signed in at the issuer, and would get a session again
// without a password: the issuer asks whether to sign out. Path is where the browser finally goes; empty: nowhere.
func (h *Handler) signOutElsewhere(w http.ResponseWriter, r *http.Request, host oauth.Host, path string) {
	forget(w, host, cookiesOf(host).session)
	back, isBack := comingBackTo(r, host)
	if isBack {
		set(w, host, cookiesOf(host).signedOut, oauth.Secret{})
	}
	issuer := h.Issuer.URL + "/oauth/logout"
	switch {
	case path == "" && back != "":
		goOn(w, host, back)
	case path == "" && isBack:
		h.Pages.show(w, r, http.StatusOK, pages.SignOut{Done: true, SignInURL: h.at.signInAgainURL()})
	case h.Direct && path != "":
		goOn(w, host, path)
	case h.Direct:
		h.Pages.show(w, r, http.StatusOK, pages.AtHost{Code: pages.Elsewhere, URL: h.at.signInAgainURL()})
	case path == "" || len(path) > maxAfterSignOut:
		seeOther(w, issuer)
	default:
		set(w, host, cookiesOf(host).signedOut, goingTo(path))
		seeOther(w, issuer+"?"+url.Values{"host": {host.Origin()}}.Encode())
	}
}

// maxAfterSignOut bounds a path in bytes: it travels in a cookie.
const maxAfterSignOut = 1 << 10

// goingTo returns the cookie of a browser that leaves the host to sign out, with the path to which it goes afterwards. Without a
// path, or with one that is too long, the browser sees the page that confirms the sign-out.
func goingTo(path string) oauth.Secret {
	if len(path) > maxAfterSignOut {
		path = ""
	}
	return oauth.NewSecret(leaving + base64.RawURLEncoding.EncodeToString([]byte(path)))
}

// leaving begins the cookie, which is never empty.
const leaving = "."

// comingBackTo reads that cookie, and reports whether the browser has one. A sibling host may have written it, so use the path only
// as one of this host.
func comingBackTo(r *http.Request, host oauth.Host) (path string, isBack bool) {
	var room [maxCookies]string
	if find(r.Header, cookiesOf(host).signedOut, &room) != 1 {
		return "", false
	}
	text, isBack := strings.CutPrefix(room[0], leaving)
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	return string(decoded), isBack && err == nil
}

var errForged = oauth.NewError(oauth.AccessDenied, "origin_unproven").
	WithDescription("This request must come from a page of the same origin.")

// IsSameOrigin reports whether the request proves that a page of the host sent it.
func IsSameOrigin(r *http.Request, host oauth.Host) bool {
	return requests.ProvesOrigin(r, func(origin string) bool { return origin == host.Origin() })
}
