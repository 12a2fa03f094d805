package hostsession

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
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
	case err != nil && !isNone(err):
		return err
	case err != nil:
		set(w, host, cookiesOf(host).session, oauth.Secret{})
		if path := cmp.Or(query.Get("return"), pathAfterSignOut(r, host)); path != "" {
			set(w, host, cookiesOf(host).signedOut, oauth.Secret{})
			goOn(w, host, path)
			return nil
		}
		h.show(w, r, http.StatusOK, pages.SignOut{Done: true, SignInURL: h.signInAgainURL()})
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
		h.Audit.Accepted(r, "signed out", zap.String("host", host.Origin()), zap.String("subject", ended.User.ID), zap.String("session", ended.Family.ID))
	}
	set(w, host, cookiesOf(host).session, oauth.Secret{})
	var back oauth.Secret // none takes one away that an earlier sign-out has left
	if path := query.Get("return"); len(path) <= maxAfterSignOut {
		back = oauth.NewSecret(base64.RawURLEncoding.EncodeToString([]byte(path)))
	}
	set(w, host, cookiesOf(host).signedOut, back)
	seeOther(w, h.afterSignOut(host, ended))
	return nil
}

// maxAfterSignOut bounds a path in bytes: it travels in a cookie.
const maxAfterSignOut = 1 << 10

// pathAfterSignOut returns the path to which a browser goes that has signed out; empty: nobody has named one. What a sibling host may have
// written into the cookie is a path of this host, whatever it is.
func pathAfterSignOut(r *http.Request, host routes.Host) string {
	var room [maxCookies]string
	if find(r.Header, cookiesOf(host).signedOut, &room) != 1 {
		return ""
	}
	path, err := base64.RawURLEncoding.DecodeString(room[0])
	if err != nil {
		return ""
	}
	return string(path)
}

// afterSignOut returns where a browser goes whose session has ended: to sign out of the provider where its user signed in, if that
// offers it, and from there to the page of the host that says so. A provider knows the callback of our issuer, so the way leads
// through that, if there is one.
func (h *Handler) afterSignOut(host routes.Host, ended *tokenissuer.Session) string {
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
