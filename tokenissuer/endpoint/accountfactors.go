package endpoint

import (
	"errors"
	"net/http"
	"slices"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

// accountFactors is the section of the account page with the user's second factors.
type accountFactors struct {
	factors *signin.Factors
	// passkeys is nil where browsers offer none.
	passkeys *webauthn.RelyingParty
	audit    *Audit
	browser  *browser
}

// section returns the section, or nil where the user has no factors and can add none.
func (h *accountFactors) section(r *http.Request, v visit) (*pages.Factors, error) {
	own, err := h.factors.Of(r.Context(), v.session.User)
	if err != nil || len(own) == 0 && !h.factors.CanAdd() {
		return nil, err
	}
	page := &pages.Factors{SignIn: !h.mayChange(v.session, own), CanAdd: h.factors.TOTP, CanAddPasskey: h.passkeys.CanAdd(own)}
	if h.passkeys != nil {
		if page.Accepted, err = h.passkeys.Accepted(v.session.User, own); err != nil {
			return nil, err
		}
	}
	for _, f := range own {
		shown := pages.Factor{ID: f.ID, Kind: string(f.Kind), Name: f.Name, Since: f.CreatedAt, LastUsed: f.LastUsedAt}
		switch f.Kind {
		case store.RecoveryCodes:
			shown.Left = h.factors.CodesLeft(f)
		case store.TOTP:
			page.CanAdd = false
		case store.Passkey:
			shown.Elsewhere = h.passkeys == nil || !h.passkeys.IsUsable(f)
		}
		page.List = append(page.List, shown)
	}
	page.CanRenew = len(own) > 0
	return page, nil
}

// mayChange reports whether the user of a session can change the factors: after a recent sign-in, with a factor if the user has one.
func (h *accountFactors) mayChange(s *signin.Session, own []*store.Factor) bool {
	return h.browser.isRecent(s) && (s.Family.SignIn.Proof.ACR == oauth.TwoFactorACR || !slices.ContainsFunc(own, (*store.Factor).IsSecond))
}

// change processes the forms of the section: the field `factor` is `sign_in`, `add`, `add_passkey`, `codes`, or the id of a factor to remove, or
// the field `rename_factor` is one to rename.
func (h *accountFactors) change(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, nonce string) error {
	user := v.session.User
	own, err := h.factors.Of(r.Context(), user)
	if err != nil {
		return err
	}
	what := f.Get("factor")
	if what == "add" && !h.factors.TOTP || what == "add_passkey" && !h.passkeys.CanAdd(own) {
		return requests.Invalid("account_change_unknown")
	}
	if what == "sign_in" || !h.mayChange(v.session, own) {
		h.browser.signInFor(w, toFactors)
		return nil
	}
	switch what {
	case "add":
		return h.add(w, v, signin.HalfSignIn{ID: nonce, Secret: signin.NewSecret()})
	case "add_passkey":
		return h.add(w, v, signin.HalfSignIn{ID: nonce, Passkey: true})
	case "codes":
		return h.renew(w, r, user, own, f.Get("codes"))
	case "":
		return h.rename(w, r, user, f.Get("rename_factor"), f.Get("factor_name"))
	}
	switch err := h.factors.Remove(r.Context(), user, what); {
	case errors.Is(err, store.ErrNotFound): // removed in another tab; an unknown id is not logged, because it may be anything else
	case err != nil:
		return err
	default:
		h.audit.Accepted(r, "factor removed", zap.String("subject", user.ID), zap.String("factor", what))
	}
	seeOther(w, h.browser.prefix+doneURL(pages.FactorRemoved))
	return nil
}

// add sends the browser to the page on which the user adds a passkey or an authenticator, as half says. The session is the first factor.
func (h *accountFactors) add(w http.ResponseWriter, v visit, half signin.HalfSignIn) error {
	s := v.session
	who := signin.SignedIn{User: s.User, Provider: s.Family.SignIn.Provider, AuthTime: s.Family.SignIn.Time, Proof: s.Family.SignIn.Proof}
	half.Pending, half.Session = toFactors, s.Family.ID
	sealed, err := h.browser.seals.SealHalfSignIn(who, half, v.browser)
	if err != nil {
		return err
	}
	seeOther(w, h.browser.url(addFactorPath, sealed))
	return nil
}

// rename names a passkey.
func (h *accountFactors) rename(w http.ResponseWriter, r *http.Request, user *store.User, id, name string) error {
	switch err := h.factors.Rename(r.Context(), user, id, name); {
	case errors.Is(err, store.ErrNotFound): // removed in another tab
		seeOther(w, h.browser.prefix+accountPath)
		return nil
	case err != nil:
		return err
	}
	h.audit.Accepted(r, "factor renamed", zap.String("subject", user.ID), zap.String("factor", id))
	seeOther(w, h.browser.prefix+doneURL(pages.FactorRenamed))
	return nil
}

// renew shows new recovery codes, in the response to the form. They replace those of that id, which the form has. A reload sends the form
// again and leads to the account page: the codes that were shown stay good.
func (h *accountFactors) renew(w http.ResponseWriter, r *http.Request, user *store.User, own []*store.Factor, replaced string) error {
	if len(own) == 0 {
		return requests.Invalid("account_change_unknown")
	}
	present := ""
	for _, f := range own {
		if f.Kind == store.RecoveryCodes {
			present = f.ID
		}
	}
	if replaced != present {
		seeOther(w, h.browser.prefix+accountPath)
		return nil
	}
	codes, err := h.factors.ReplaceRecoveryCodes(r.Context(), user)
	if err != nil {
		return err
	}
	h.audit.Accepted(r, "recovery codes replaced", zap.String("subject", user.ID))
	page := pages.Codes{ContinueURL: h.browser.prefix + accountPath}
	for _, code := range codes {
		page.Codes = append(page.Codes, code.Reveal())
	}
	return h.browser.show(w, r, http.StatusOK, "", page)
}
