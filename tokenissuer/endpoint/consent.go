package endpoint

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// consentPages are the consent page and its form.
type consentPages struct {
	authorizations *issuer.Authorizations
	browser        *browser
	authorization  *authorizationPages
}

// serve serves the consent page and its form.
func (h *consentPages) serve(w http.ResponseWriter, r *http.Request) error {
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	r = uninterrupted(r)
	if r.Method != http.MethodPost {
		p, err := h.authorization.pendingOf(r, v, pendingInQuery(r))
		if err != nil {
			return err
		}
		if p.request == nil {
			return errPendingMissing
		}
		return h.authorization.advance(w, r, p.walk(v))
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	p, err := h.authorization.pendingOf(r, v, f.Secret("pending"))
	switch {
	case err != nil:
		return err
	case p.request == nil:
		return errPendingMissing
	case v.session == nil: // the session ended while the page was open
		return h.authorization.advance(w, r, p.walk(v))
	}
	if _, err := h.browser.checkForm(r, v, f, consentPath); err != nil {
		return err
	}
	return h.decide(w, r, p.walk(v), f)
}

var errPendingMissing = requests.Invalid("pending_missing")

// decide carries out the user's decision.
func (h *consentPages) decide(w http.ResponseWriter, r *http.Request, k walk, f requests.Form) error {
	switch f.Get("decision") {
	case "allow":
		step, err := h.authorizations.NextStep(r.Context(), k.request, k.client, k.visit.session)
		if err != nil {
			return h.authorization.redirectError(w, r, k.client, k.target, err)
		}
		if step != issuer.AskConsent && step != issuer.GrantNow { // the session has changed since the page was shown
			return h.authorization.advance(w, r, k)
		}
		return h.authorization.approve(w, r, k, h.ticked(k.request.Asked(), f))
	case "deny":
		err := h.authorizations.Deny(r.Context(), k.request, k.visit.session)
		if errors.Is(err, oauth.ErrDecided) {
			return decided
		}
		if oauth.AsError(err).Code == oauth.Denied && k.request.Device != nil {
			h.authorization.counters.Refused(deviceEndpoint, oauth.AsError(err))
			h.authorization.audit.Refused(r, "authorization request refused", forClient(err, k.client), zap.String("device", k.request.ID))
			return h.authorization.showDecided(w, r, k, false)
		}
		return h.authorization.redirectError(w, r, k.client, k.target, err)
	}
	return requests.Invalid("decision_unknown")
}

// ticked returns the scopes whose boxes are ticked. The box of openid is fixed and not sent.
func (h *consentPages) ticked(scopes oauth.Scopes, f requests.Form) oauth.Scopes {
	var allowed oauth.Scopes
	for i, name := range scopes {
		if isFixed(h.browser.policy(), name) || f.Get("scope_"+strconv.Itoa(i)) != "" {
			allowed = append(allowed, name)
		}
	}
	return allowed
}

// isFixed reports whether the user cannot decline a scope separately. Declining openid declines the whole request.
func isFixed(policy *clients.Policy, scope string) bool {
	return policy.OpenID && scope == oauth.ScopeOpenID
}

// showConsent shows the consent page.
func (h *consentPages) showConsent(w http.ResponseWriter, r *http.Request, k walk, pending oauth.Secret) error {
	user := k.visit.session.User
	page := pages.Consent{
		Form:       h.browser.form(k.visit, consentPath, pending),
		ClientName: k.client.Name, ClientID: k.client.ID, Host: k.target.Host(),
		SelfMade: k.client.Origin != store.FromOperator, DescribedBy: k.client.DescribedBy(), OnDevice: k.target.IsOnDevice(),
		Scopes: scopesInWords(h.browser.policy(), k.request.Asked()), AccountURL: h.browser.prefix + accountPath,
		Viewer: pages.Viewer{User: user.Name, Email: user.Email, SwitchURL: h.browser.url(loginPath, pending) + "&" + switchAccount + "=1"},
	}
	if d := k.request.Device; d != nil {
		page.Device = &pages.AskingDevice{Address: d.Address, AskedAt: d.AskedAt}
		return h.browser.show(w, r, http.StatusOK, "", page)
	}
	return h.browser.show(w, r, http.StatusOK, k.request.UILocales, page, k.target.Origin())
}

// titleOf returns the name shown for a client. A name that was not checked is shown in quotation marks, after the host that describes the
// client or that receives its answer.
func titleOf(client *store.Client, answersTo string) string {
	if client.Origin == store.FromOperator {
		return client.Name
	}
	return strings.TrimSpace(cmp.Or(client.DescribedBy(), answersTo) + " “" + client.Name + "”")
}

// scopesInWords returns the scopes with the operator's descriptions. The pages add the built-in descriptions in the user's language.
func scopesInWords(policy *clients.Policy, scopes oauth.Scopes) []pages.Scope {
	list := make([]pages.Scope, len(scopes))
	for i, name := range scopes {
		list[i] = pages.Scope{Name: name, Words: policy.Scopes.DeclaredWords(name), Fixed: isFixed(policy, name)}
	}
	return list
}
