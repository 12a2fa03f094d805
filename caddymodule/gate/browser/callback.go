package browser

import (
	"net/http"
	"net/url"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// answer is what the issuer sends back through the browser (RFC 6749 §4.1.2).
type answer struct{ code, state, issuer, failure string }

// readAnswer reads an answer. It ignores a parameter that occurs twice.
func readAnswer(r *http.Request) (answer, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return answer{}, oauth.NewError(oauth.InvalidRequest, "query_malformed")
	}
	once := func(name string) string {
		if values := query[name]; len(values) == 1 {
			return values[0]
		}
		return ""
	}
	return answer{once("code"), once("state"), once("iss"), once("error")}, nil
}

// isCallback reports whether browsers come back to a path from the issuer, or from a provider.
func isCallback(path string) bool {
	return path == callbackPath || strings.HasPrefix(path, callbackPath+"/")
}

// callback serves /oauth/callback. An answer to an attempt of another browser opens no session: the browser begins again, once.
func (h *Handler) callback(w http.ResponseWriter, r *http.Request, host oauth.Host) error {
	if r.URL.RawQuery == "" {
		h.explained(w, r, host)
		return nil
	}
	// 1. The state is one of ours, for this host.
	a, err := readAnswer(r)
	if err != nil {
		return err
	}
	attempt, late, err := h.Sessions.Open(oauth.NewSecret(a.state), host.Origin())
	if err != nil {
		return err
	}
	// 2. It is of this browser, and the answer is the issuer's (RFC 9207 §2.4).
	switch {
	case !attempt.IsOf(browser(r, host)):
		if !h.Direct && a.code != "" {
			if err := h.Sessions.Burn(r.Context(), oauth.NewSecret(a.code), attempt, host); err != nil {
				return err
			}
		}
		return h.beginAnew(w, r, host, attempt, "state_of_another_browser")
	case late:
		return h.beginAnew(w, r, host, attempt, "state_expired")
	case h.Direct || a.issuer != h.Issuer.URL:
		return oauth.NewError(oauth.InvalidRequest, "issuer_wrong")
	case a.failure != "":
		h.Audit.Refused(r, "sign-in at a host failed", oauth.NewError(oauth.AccessDenied, "issuer_refused"), zap.String("answer", knownFailure(a.failure)))
		status, code := http.StatusForbidden, pages.NotSignedIn
		switch a.failure {
		case "login_required":
			code = pages.NotFresh
		case "temporarily_unavailable": // the visitor was not refused
			status = http.StatusServiceUnavailable
		}
		h.Pages.explain(w, r, host, explanation{status, code, attempt})
		return nil
	}
	// 3. The code becomes a session.
	id, cookie, err := h.Sessions.Redeem(r.Context(), oauth.NewSecret(a.code), attempt, host)
	if oauth.AsError(err).Code == oauth.InvalidGrant {
		return h.beginAnew(w, r, host, attempt, oauth.AsError(err).Reason)
	}
	if err != nil {
		return err
	}
	begin(w, r, host, cookie)
	h.Audit.Accepted(r, "signed in at a host", zap.String("session", id))
	h.arrive(w, r, host, attempt)
	return nil
}

// beginAnew handles an answer that cannot be used. It sends a browser with a session back to the page, and any other to sign in
// again. It does so once, because a browser that keeps no cookies would loop.
func (h *Handler) beginAnew(w http.ResponseWriter, r *http.Request, host oauth.Host, attempt signin.HostAttempt, reason string) error {
	h.Audit.Refused(r, "answer to a host's sign-in not used", oauth.NewError(oauth.InvalidGrant, reason))
	switch _, err := h.Session(r, host); {
	case err == nil:
		h.arrive(w, r, host, attempt)
		return nil
	case !isNone(err):
		return err
	case !attempt.Again:
		return h.Begin(w, r, host, Ask{Return: attempt.Return, Provider: attempt.Provider, again: true, shortened: attempt.Shortened})
	}
	h.Pages.explain(w, r, host, explanation{http.StatusBadRequest, pages.NotSignedIn, attempt})
	return nil
}

// knownFailure returns the name for the log if it is an error of the authorization endpoint. A link may contain any other.
func knownFailure(name string) string {
	switch name {
	case "access_denied", "invalid_request", "invalid_scope", "login_required", "server_error", "temporarily_unavailable", "unauthorized_client":
		return name
	}
	return "another"
}
