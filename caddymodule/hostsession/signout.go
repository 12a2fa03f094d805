package hostsession

import (
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// signOut serves /oauth/sign_out. A GET asks, because any site can place a link; the form that answers must come from a page of the
// host. Signing out ends the sign-in, and so the sessions of all hosts.
func (h *Handler) signOut(w http.ResponseWriter, r *http.Request, host tokenissuer.Host) error {
	session, err := h.Session(r, host)
	switch {
	case err != nil && !isNone(err):
		return err
	case err != nil:
		set(w, host, cookiesOf(host).session, oauth.Secret{})
		h.show(w, r, http.StatusOK, pages.SignOut{Done: true, SignInURL: signInPath})
		return nil
	case r.Method != http.MethodPost:
		h.show(w, r, http.StatusOK, pages.SignOut{Form: pages.Form{Action: signOutPath}, Email: strings.Join(session.Token.Claim("email"), "")})
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
	goOn(w, host, signOutPath)
	return nil
}

var errForged = oauth.NewError(oauth.AccessDenied, "origin_unproven").
	WithDescription("This request must come from a page of the same origin.")

// IsSameOrigin reports whether Sec-Fetch-Site and Origin prove that a page of the host sent the request. Pages cannot forge these
// headers. Absent or contradictory headers prove nothing. A page with the policy no-referrer sends the Origin null; then
// Sec-Fetch-Site decides.
func IsSameOrigin(r *http.Request, host tokenissuer.Host) bool {
	site, origin := r.Header["Sec-Fetch-Site"], r.Header["Origin"]
	if len(site) > 1 || len(origin) > 1 {
		return false
	}
	sameOrigin := len(site) == 1 && site[0] == "same-origin"
	switch {
	case len(site) == 1 && !sameOrigin:
		return false
	case len(origin) == 0 || origin[0] == "null":
		return sameOrigin
	}
	return origin[0] == host.Origin()
}
