package browser

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// Provider is an identity provider of the configuration.
type Provider struct {
	upstream.Provider
	Name string
	// Origin is the origin of its URL.
	Origin string
	Rules  signin.Rules
	// Default: browsers go there unless a route or a link names another provider.
	Default bool
}

// CheckProvider returns an error unless browsers can be sent to the provider of that name; empty: to the default one.
func (h *Handler) CheckProvider(name string) error {
	switch {
	case name == "" && h.Direct && h.at.provider("") == nil:
		return fmt.Errorf("challenge browser: name a provider, or mark one as default: there are %d in sign_in", len(h.Providers))
	case name != "" && h.at.provider(name) == nil:
		return fmt.Errorf("challenge browser %s: sign_in has no provider of that name to which browsers can be sent", name)
	}
	return nil
}

// callbackAt returns the redirect URI of a provider at a host. Each provider has its own path, so that an answer of one is not
// accepted as another's.
func callbackAt(host oauth.Host, provider string) string {
	return host.Callback() + "/" + provider
}

// beginAt sends a browser to sign in at a provider, without an issuer between.
func (h *Handler) beginAt(w http.ResponseWriter, r *http.Request, attempt signin.HostAttempt, host oauth.Host, ask Ask) error {
	p := h.at.provider(ask.Provider)
	if p == nil {
		p = &h.Providers[0]
	}
	location, flow, err := p.Begin(r.Context(), upstream.Request{RedirectURI: callbackAt(host, p.Name), Prompt: ask.Prompt, MaxAge: ask.MaxAge})
	attempt.Provider = p.Name
	if err != nil { // it is unreachable, misconfigured, or cannot prove a fresh sign-in
		if !h.notFresh(w, r, host, attempt, err) {
			h.refuse(w, r, host, err)
		}
		return nil
	}
	attempt.Nonce, attempt.Verifier, attempt.Fresh, attempt.MaxAge = flow.Nonce, flow.Verifier.Reveal(), flow.Fresh, int64(flow.MaxAge/time.Second)
	state, err := h.seal(&attempt)
	if err != nil {
		return err
	}
	to, err := url.Parse(location)
	if err != nil {
		return upstream.ErrMisconfigured.WithCause(err)
	}
	query := to.Query()
	query.Set("state", state.Reveal()) // last, because it holds what Begin has made
	to.RawQuery = query.Encode()
	seeOther(w, to.String())
	return nil
}

// providerCallback serves the callback of a provider. As with callback, an answer to an attempt of another browser opens no
// session.
func (h *Handler) providerCallback(w http.ResponseWriter, r *http.Request, host oauth.Host, p *Provider) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return oauth.NewError(oauth.InvalidRequest, "query_malformed")
	}
	if query.Get("state") == "" && query.Get("code") == "" && query.Get("error") == "" { // back from a sign-out
		goOn(w, host, signOutPath)
		return nil
	}
	answer, err := upstream.ReadAnswer(query)
	if err != nil {
		return err
	}
	// 1. The state is one of ours, for this host and this provider.
	attempt, late, err := h.Sessions.Open(oauth.NewSecret(answer.State), host.Origin())
	switch {
	case err != nil:
		return err
	case attempt.Provider != p.Name:
		return oauth.NewError(oauth.InvalidRequest, "provider_wrong")
	// 2. It is of this browser.
	case !attempt.IsOf(browser(r, host)):
		return h.beginAnew(w, r, host, attempt, "state_of_another_browser")
	case late:
		return h.beginAnew(w, r, host, attempt, "state_expired")
	}
	// 3. The provider says which account it is, and the account belongs to a user.
	settle, err := h.Sessions.CountSignIn(r.Context(), h.Audit.Address(r))
	if err != nil {
		return err
	}
	flow := upstream.Flow{
		Nonce: attempt.Nonce, Verifier: oauth.NewSecret(attempt.Verifier),
		Began: attempt.Began, Fresh: attempt.Fresh, MaxAge: time.Duration(attempt.MaxAge) * time.Second,
	}
	account, err := p.Finish(r.Context(), flow, answer, callbackAt(host, p.Name))
	settle(err)
	if errors.Is(err, upstream.ErrExpired) {
		return h.beginAnew(w, r, host, attempt, upstream.ErrExpired.Reason)
	}
	if err == nil {
		err = h.open(w, r, host, attempt, account, p)
	}
	if h.notFresh(w, r, host, attempt, err) {
		return nil
	}
	if oauth.AsError(err).Code == oauth.AccessDenied {
		h.Audit.Refused(r, "sign-in refused", err, zap.String("provider", p.Name))
		h.Pages.explain(w, r, host, explanation{http.StatusForbidden, pages.NotSignedIn, attempt})
		return nil
	}
	return err
}

// notFresh answers with a page that says so if a fresh sign-in was demanded and not proved, and reports whether it did.
func (h *Handler) notFresh(w http.ResponseWriter, r *http.Request, host oauth.Host, attempt signin.HostAttempt, err error) bool {
	if !errors.Is(err, upstream.ErrInteraction) {
		return false
	}
	h.Audit.Refused(r, "sign-in refused", err, zap.String("provider", attempt.Provider))
	h.Pages.explain(w, r, host, explanation{http.StatusForbidden, pages.NotFresh, attempt})
	return true
}

// open gives a browser a session of the host, for the user to whom the account belongs.
func (h *Handler) open(w http.ResponseWriter, r *http.Request, host oauth.Host, attempt signin.HostAttempt, account signin.Account, p *Provider) error {
	user, err := h.Accounts.User(r.Context(), account, p.Rules)
	if err != nil {
		return err
	}
	who := signin.SignedIn{User: user, Provider: p.Name, Subject: account.Subject, AuthTime: account.AuthTime, Proof: account.Proof}
	id, cookie, err := h.Sessions.SignIn(r.Context(), who, attempt, host)
	switch e := oauth.AsError(err); {
	case err == nil:
	case errors.Is(err, oauth.ErrDecided), e.Code == oauth.InvalidGrant: // it was here before, or the user has just changed
		return h.beginAnew(w, r, host, attempt, e.Reason)
	default:
		return err
	}
	begin(w, r, host, cookie)
	h.Audit.Accepted(r, "signed in at a host", zap.String("subject", user.ID), zap.String("provider", p.Name), zap.String("session", id))
	h.arrive(w, r, host, attempt)
	return nil
}

// signInURL returns where a person signs in again, at the same provider, and may choose another account there.
func signInURL(attempt signin.HostAttempt) string {
	query := make(url.Values)
	if attempt.Provider != "" {
		query.Set("provider", attempt.Provider)
		query.Set("prompt", "select_account")
	}
	if attempt.Shortened {
		query.Set("shortened", "yes")
	}
	return signInLink(attempt.Return, query)
}
