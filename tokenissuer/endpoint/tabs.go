package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Tabs that open at a browser's first visit are each given a secret of the browser, and the browser keeps one. The forms and the states
// of the others are then of another browser. What they bring is not looked at, but the request that waits in the tab goes on, as if the
// tab had been opened now.

// reopened returns what follows the sign-in, bound to the browser of the visit, whatever browser it began in.
func (h *authorizationPages) reopened(r *http.Request, v visit, sealed oauth.Secret) (p pending, err error) {
	if sealed.IsEmpty() {
		return p, nil
	}
	if p = toTokensOf(sealed); p.toTokens {
		return p, nil
	}
	request, client, target, err := h.authorizations.ReopenRequest(r.Context(), sealed)
	if err != nil {
		return pending{}, err
	}
	p.request, p.client, p.target = &request, client, target
	p.sealed, err = h.authorizations.SealRequest(p.request, v.browser)
	return p, err
}

// askAgain answers a form of the sign-in page that is of another browser secret. If one of our pages sent it, a user who has signed in
// meanwhile continues, and any other one is shown the page again. Only the pending request is taken from the form.
func (h *signInPages) askAgain(w http.ResponseWriter, r *http.Request, v visit, sealed oauth.Secret, refusal error) error {
	reason := oauth.AsError(refusal).Reason
	if reason != "seal_broken" && reason != "form_forged" || !h.browser.comesFromUs(r) || answers.PrefersJSON(r.Header["Accept"]) {
		return refusal
	}
	p, err := h.authorization.reopened(r, v, sealed)
	if err != nil { // made up, or too old
		return refusal
	}
	h.audit.Refused(r, "form of another browser not used", refusal)
	if v.session != nil && !p.sealed.IsEmpty() {
		return h.goOn(w, r, v, p)
	}
	k := p.walk(v)
	page := h.signInPage(k, p.sealed)
	page.Notice = pages.FormReplaced
	return h.browser.show(w, r, answers.SetStatusHeaders(w, refusal), k.locales(), page, h.methods.formTargets(k)...)
}

// answerOfAnother continues after an answer of a provider that is not used because it may be of another browser: with the pending request
// for a user who has signed in meanwhile, and otherwise at the sign-in page.
func (h *providerPages) answerOfAnother(w http.ResponseWriter, r *http.Request, v visit, p *Provider, sealed oauth.Secret, refusal error) error {
	next, err := h.authorization.reopened(r, v, sealed)
	if err != nil { // too old: the sign-in page says so
		next = pending{}
	}
	if v.session == nil || next.sealed.IsEmpty() {
		return h.providerFailed(w, r, p, next.walk(v), next.sealed, refusal)
	}
	h.audit.Refused(r, "answer of a provider not used", refusal, zap.String("provider", p.Name))
	return h.signIn.goOn(w, r, v, next)
}

// comesFromUs reports whether one of our pages proves to have sent the request. For isSameOrigin it is enough that nothing speaks against
// it.
func (s *site) comesFromUs(r *http.Request) bool {
	return requests.ProvesOrigin(r, func(origin string) bool { return origin == s.origin })
}
