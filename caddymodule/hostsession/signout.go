package hostsession

import (
	"cmp"
	"encoding/base64"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// signOut serves /oauth/sign_out. A GET asks, because any site can place a link; the form that answers must come from a page of the
// host. Signing out ends the sign-in, and so the sessions of all hosts; it is done before the browser goes on to anywhere else. `return` is the
// path of the host to go to in the end, by way of a cookie: the issuer and the provider lead back to this path alone.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request, host routes.Host) error {
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
		h.show(w, r, http.StatusOK, page, h.signOutTargets()...)
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
	seeOther(w, h.afterSignOut(host, ended))
	return nil
}

// signOutElsewhere answers a browser that has no session at the host. One that comes back from signing out goes to the path that it named, or
// to the page that says so. Any other may be signed in where it got its sessions, and the host would let it in again without a
// password: the issuer knows, and asks. Path is where the browser wants to go in the end; empty: nowhere.
func (h *Handler) signOutElsewhere(w http.ResponseWriter, r *http.Request, host routes.Host, path string) {
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
		h.show(w, r, http.StatusOK, pages.SignOut{Done: true, SignInURL: h.signInAgainURL()})
	case h.Direct && path != "":
		goOn(w, host, path)
	case h.Direct:
		h.show(w, r, http.StatusOK, pages.AtHost{Code: pages.Elsewhere, URL: h.signInAgainURL()})
	case path == "" || len(path) > maxAfterSignOut:
		seeOther(w, issuer)
	default:
		set(w, host, cookiesOf(host).signedOut, goingTo(path))
		seeOther(w, issuer+"?"+url.Values{"host": {host.Origin()}}.Encode())
	}
}

// maxAfterSignOut bounds a path in bytes: it travels in a cookie.
const maxAfterSignOut = 1 << 10

// goingTo returns the cookie of a browser that leaves the host to sign out, with the path to which it goes afterwards; empty, and one
// that is too long: to the page that says so.
func goingTo(path string) oauth.Secret {
	if len(path) > maxAfterSignOut {
		path = ""
	}
	return oauth.NewSecret(leaving + base64.RawURLEncoding.EncodeToString([]byte(path)))
}

// leaving begins the cookie, which is never empty.
const leaving = "."

// comingBackTo reads that cookie, and reports whether the browser has one. What a sibling host may have written into it is a path of
// this host, whatever it is.
func comingBackTo(r *http.Request, host routes.Host) (path string, isBack bool) {
	var room [maxCookies]string
	if find(r.Header, cookiesOf(host).signedOut, &room) != 1 {
		return "", false
	}
	text, isBack := strings.CutPrefix(room[0], leaving)
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	return string(decoded), isBack && err == nil
}

// afterSignOut returns where a browser goes whose session has ended: to sign out of the provider where its user signed in, if that
// offers it, and from there to the page of the host that says so. A provider knows the callback of our issuer, so the way leads
// through that, if there is one.
func (h *Handler) afterSignOut(host routes.Host, ended *signin.Session) string {
	done := host.Origin() + signOutPath
	if ended == nil || ended.Family.Provider == "" {
		return done
	}
	p := h.provider(ended.Family.Provider)
	switch {
	case p == nil: // a directory, or declared no more
		return done
	case !h.Direct:
		return h.Issuer.URL + "/oauth/logout?" + url.Values{"host": {host.Origin()}}.Encode()
	}
	return cmp.Or(p.SignOutURL(upstream.SignOut{RedirectURI: callbackAt(host, p.Name), Hint: ended.User.Email}), done)
}

// signOutTargets are the origins to which the form of the sign-out page leads, also when it comes back to a page that needs a sign-in.
func (h *Handler) signOutTargets() (origins []string) {
	for _, p := range h.Providers {
		origins = append(origins, p.Origin)
	}
	if issuer, err := url.Parse(h.Issuer.URL); err == nil && !h.Direct {
		origins = append(origins, oauth.OriginOf(issuer))
	}
	return origins
}

// signInAgainURL is where whoever has signed out begins once more: a provider that still knows them asks with which account.
func (h *Handler) signInAgainURL() string {
	if len(h.Providers) == 0 {
		return signInPath
	}
	return signInPath + "?prompt=select_account"
}

var errForged = oauth.NewError(oauth.AccessDenied, "origin_unproven").
	WithDescription("This request must come from a page of the same origin.")

// IsSameOrigin reports whether a page of the host proves to have sent the request.
func IsSameOrigin(r *http.Request, host routes.Host) bool {
	return requests.ProvesOrigin(r, func(origin string) bool { return origin == host.Origin() })
}
