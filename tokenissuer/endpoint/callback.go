package endpoint

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/upstream"
)

// maxProviderState bounds the state sent to a provider, in bytes, because servers accept URLs of 8 KiB. The state that a host seals fits.
const maxProviderState = 7 << 10

// callbackPath precedes the name of a provider in the path to which it sends browsers back. Each provider has its own path, so that its
// answer cannot be taken for another provider's (RFC 9700 §4.4.2).
const callbackPath = "/oauth/callback/"

func (s *site) callbackURL(p *Provider) string { return s.origin + s.prefix + callbackPath + p.Name }

// isCallback reports whether a path is a provider's callback.
func (s *site) isCallback(path string) bool { return strings.HasPrefix(path, s.prefix+callbackPath) }

// providerPages send browsers to providers and serve the callbacks.
type providerPages struct {
	signIns       *signin.SignIns
	audit         *Audit
	counters      Counters
	methods       *SignInMethods
	browser       *browser
	authorization *authorizationPages
	signIn        *signInPages
}

// refuse is like refusePage for an answer from a provider. The answer may contain a code that is still valid, and a script of our origin
// could read it in the page's address. So the browser is redirected to the sign-in page, which reports the failure.
func (h *providerPages) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.URL.RawQuery == "" || !requests.IsVisit(r) || !requests.IsNavigation(r) || answers.PrefersJSON(r.Header["Accept"]) || answers.StatusOf(err) == http.StatusTooEarly {
		h.browser.refusePage(w, r, err)
		return
	}
	h.audit.Refused(r, "endpoint request refused", err)
	provider := strings.TrimPrefix(r.URL.Path, h.browser.prefix+callbackPath)
	seeOther(w, h.browser.prefix+loginPath+"?"+url.Values{failedAt: {string(pages.ProviderFailed)}, atProvider: {provider}}.Encode())
}

// sendToProvider sends a browser to a provider. The state contains the whole sign-in, sealed.
func (h *providerPages) sendToProvider(w http.ResponseWriter, r *http.Request, k walk, sealed oauth.Secret, p *Provider, choose bool) error {
	asked := k.asksOfProvider(choose)
	asked.RedirectURI = h.browser.callbackURL(p)
	location, flow, err := p.Begin(r.Context(), asked)
	if err != nil {
		return h.providerFailed(w, r, p, k, sealed, err)
	}
	state, err := h.browser.seals.SealProviderSignIn(signin.ProviderSignIn{
		Nonce: flow.Nonce, Verifier: flow.Verifier.Reveal(), Fresh: flow.Fresh, MaxAge: int64(flow.MaxAge / time.Second), Pending: sealed.Reveal(),
	}, p.Name, k.visit.browser)
	if err != nil {
		return err
	}
	if len(state.Reveal()) > maxProviderState {
		return requests.Invalid("parameters_too_long")
	}
	to, err := url.Parse(location)
	if err != nil {
		return h.providerFailed(w, r, p, k, sealed, err)
	}
	query := to.Query()
	query.Set("state", state.Reveal()) // last, because it contains the results of Begin
	to.RawQuery = query.Encode()
	seeOther(w, to.String())
	return nil
}

// serve serves a provider's callback and signs the user in.
func (h *providerPages) serve(w http.ResponseWriter, r *http.Request, p *Provider) error {
	if !requests.IsVisit(r) { // a code is used once, by a visit of the user
		return requests.NotAVisit()
	}
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	query := r.URL.Query()
	if returnTo, err := h.browser.seals.OpenProviderSignOut(query.Get("state"), p.Name, v.browser); err == nil {
		seeOther(w, returnTo)
		return nil
	}
	// 1. The answer belongs to a recent sign-in that this browser began at this provider.
	answer, err := upstream.ReadAnswer(query)
	if err != nil {
		return h.providerFailed(w, r, p, walk{visit: v}, oauth.Secret{}, err)
	}
	began, err := h.browser.seals.OpenProviderSignIn(answer.State, p.Name, v.browser)
	if err != nil {
		return h.answerOfAnother(w, r, v, p, oauth.NewSecret(began.Pending), err)
	}
	pending, err := h.authorization.pendingOf(r, v, oauth.NewSecret(began.Pending))
	if err != nil {
		return err
	}
	if v.session != nil && v.session.Family.Code.RequestID == began.ID { // the browser sent the answer twice
		return h.signIn.goOn(w, r, v, pending)
	}
	// 2. The account at the provider, and its user here.
	who, err := h.signInAtProvider(r, p, began, answer)
	if err != nil {
		return h.providerFailed(w, r, p, pending.walk(v), pending.sealed, err)
	}
	// 3. A second factor, if it is needed, and a new session for this sign-in.
	err = h.signIn.proceed(w, r, v, pending, who, began.ID)
	if oauth.AsError(err).Code == oauth.RateLimited {
		return h.providerFailed(w, r, p, pending.walk(v), pending.sealed, err)
	}
	return err
}

// signInAtProvider redeems the provider's answer and finds the user.
func (h *providerPages) signInAtProvider(r *http.Request, p *Provider, began signin.ProviderSignIn, answer upstream.Answer) (signin.SignedIn, error) {
	settle, err := h.signIns.CountSignIn(r.Context(), h.audit.Address(r))
	if err != nil {
		return signin.SignedIn{}, err
	}
	flow := upstream.Flow{
		Nonce: began.Nonce, Verifier: oauth.NewSecret(began.Verifier),
		Began: time.Unix(began.Began, 0), Fresh: began.Fresh, MaxAge: time.Duration(began.MaxAge) * time.Second,
	}
	account, err := p.Finish(r.Context(), flow, answer, h.browser.callbackURL(p))
	var user *store.User
	if err == nil {
		if user, err = h.methods.Accounts.User(r.Context(), account, p.Rules); err != nil {
			err = accountError{err, account.Email, ""}
		}
	}
	settle(err)
	if err != nil {
		return signin.SignedIn{}, err
	}
	return signin.SignedIn{User: user, Provider: p.Name, Subject: account.Subject, AuthTime: account.AuthTime, Proof: h.signIns.Factors.ProofAt(p.Name, account.Proof)}, nil
}

// providerFailed sends a browser back to the sign-in page, which reports the failure and offers all ways to sign in. If a client requires a
// fresh sign-in that the only provider does not prove, the client gets the error (OpenID Connect Core §3.1.2.3).
func (h *providerPages) providerFailed(w http.ResponseWriter, r *http.Request, p *Provider, k walk, sealed oauth.Secret, err error) error {
	e := oauth.AsError(err)
	notice := noticeOf(e)
	if notice == pages.NoNotice {
		return err
	}
	h.counters.Refused(loginEndpoint, e)
	h.audit.Refused(r, "sign-in refused", err, zap.String("provider", p.Name))
	if e.Code == oauth.LoginRequired && k.request != nil && h.methods.isOnly(p) {
		return h.authorization.redirectError(w, r, k.client, k.target, err)
	}
	location := url.Values{failedAt: {string(notice)}, atProvider: {p.Name}}
	if !sealed.IsEmpty() {
		location.Set("pending", sealed.Reveal())
	}
	seeOther(w, h.browser.prefix+loginPath+"?"+location.Encode())
	return nil
}

// noticeOf returns the sign-in page's notice for an error. It returns NoNotice if the error has a page of its own.
func noticeOf(e *oauth.Error) pages.Notice {
	switch {
	case errors.Is(e, upstream.ErrUnavailable):
		return pages.ProviderUnavailable
	case errors.Is(e, upstream.ErrMisconfigured):
		return pages.ProviderMisconfigured
	case errors.Is(e, upstream.ErrDenied):
		return pages.ProviderCancelled
	case errors.Is(e, upstream.ErrInteraction):
		return pages.ProviderNotFresh
	case errors.Is(e, upstream.ErrUntrusted), errors.Is(e, upstream.ErrMalformed), errors.Is(e, upstream.ErrExpired),
		e.Reason == "seal_broken", e.Reason == "seal_expired":
		return pages.ProviderFailed
	}
	switch e.Code {
	case oauth.RateLimited:
		return pages.TooManyAttempts
	case oauth.AccessDenied:
		return pages.ProviderRefused
	case oauth.ServerError:
		return pages.ProviderMisconfigured
	}
	return pages.NoNotice
}

// failedBefore returns the notice for a failed sign-in at a provider, and the provider's title. It accepts only known values, because a
// link may contain anything.
func (h *signInPages) failedBefore(r *http.Request) (pages.Notice, string) {
	notice, p := pages.Notice(h.browser.pageParameter(r, failedAt)), h.methods.provider(h.browser.pageParameter(r, atProvider))
	if p == nil || !notice.AboutProvider() && notice != pages.TooManyAttempts {
		return pages.NoNotice, ""
	}
	return notice, p.Title
}

// throughProvider returns the location for a browser that has just signed out here: the provider's sign-out, if the user signed in at a
// provider that offers one, and from there returnTo.
func (h *providerPages) throughProvider(v visit, returnTo string) string {
	if v.session == nil {
		return returnTo
	}
	p := h.methods.provider(v.session.Family.SignIn.Provider)
	if p == nil {
		return returnTo
	}
	state, err := h.browser.seals.SealProviderSignOut(returnTo, p.Name, v.browser)
	if err != nil || len(state.Reveal()) > maxProviderState {
		return returnTo
	}
	location := p.SignOutURL(upstream.SignOut{RedirectURI: h.browser.callbackURL(p), State: state.Reveal(), Hint: v.session.User.Email})
	if location == "" {
		return returnTo
	}
	return location
}
