package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Several tabs opened at a browser's first visit each get a secret of the browser, and the browser keeps one of them. The forms and states
// of the other tabs then belong to an unknown browser. Their content is ignored, but the pending request continues as if the tab had been
// opened now. That of a device does not: its code is entered in each browser, or a link could hand over what a person is asked to allow.

// reopened returns the pending step of any browser, bound to the browser of the visit. For the request of a device, that is the page for
// devices, without a code.
func (h *authorizationPages) reopened(r *http.Request, v visit, sealed oauth.Secret) (p pending, err error) {
	if sealed.IsEmpty() {
		return p, nil
	}
	if p = toPage(sealed); p.isPage() {
		return p, nil
	}
	request, client, target, err := h.authorizations.ReopenRequest(r.Context(), sealed)
	if err != nil {
		return pending{}, err
	}
	if request.Device != nil {
		return toPage(afterSignIn("")), nil
	}
	p.request, p.client, p.target = &request, client, target
	p.sealed, err = h.authorizations.SealRequest(p.request, v.browser)
	return p, err
}

// askAgain answers a form of the sign-in page that belongs to another browser secret. If one of our pages sent it, a user who has signed in
// meanwhile continues, and otherwise the page is shown again. Only the pending request is taken from the form.
func (h *signInPages) askAgain(w http.ResponseWriter, r *http.Request, v visit, sealed oauth.Secret, refusal error) error {
	reason := oauth.AsError(refusal).Reason
	if reason != "seal_broken" && reason != "form_forged" || !h.browser.comesFromUs(r) || answers.PrefersJSON(r.Header["Accept"]) {
		return refusal
	}
	p, err := h.authorization.reopened(r, v, sealed)
	if err != nil { // forged or expired
		return refusal
	}
	h.audit.Refused(r, "form of another browser not used", refusal)
	if v.session != nil && !p.sealed.IsEmpty() {
		return h.goOn(w, r, v, p)
	}
	k := p.walk(v)
	page, err := h.signInPage(k, p.sealed)
	if err != nil {
		return err
	}
	page.Notice = pages.FormReplaced
	return h.browser.show(w, r, answers.SetStatusHeaders(w, refusal), k.locales(), page, h.methods.formTargets(k)...)
}

// answerOfAnother handles a provider's answer that is not used because it may belong to another browser. A user who has signed in meanwhile
// continues with the pending request. Otherwise the sign-in page is shown.
func (h *providerPages) answerOfAnother(w http.ResponseWriter, r *http.Request, v visit, p *Provider, sealed oauth.Secret, refusal error) error {
	next, err := h.authorization.reopened(r, v, sealed)
	if err != nil { // expired; the sign-in page says so
		next = pending{}
	}
	if v.session == nil || next.sealed.IsEmpty() {
		return h.providerFailed(w, r, p, next.walk(v), next.sealed, refusal)
	}
	h.audit.Refused(r, "answer of a provider not used", refusal, zap.String("provider", p.Name))
	return h.signIn.goOn(w, r, v, next)
}

// comesFromUs reports whether the request proves that one of our pages sent it. isSameOrigin requires only that nothing contradicts it.
func (s *site) comesFromUs(r *http.Request) bool {
	return requests.ProvesOrigin(r, func(origin string) bool { return origin == s.origin })
}
