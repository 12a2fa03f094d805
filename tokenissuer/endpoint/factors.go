package endpoint

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

const (
	factorPath    = "/oauth/factor"
	addFactorPath = "/oauth/factor/add"
)

// factorPages ask for second factors, and let users add them.
type factorPages struct {
	factors       *signin.Factors
	audit         *Audit
	counters      Counters
	browser       *browser
	authorization *authorizationPages
	signIn        *signInPages
}

// askFactor sends a browser to the page for the second factor. The sign-in travels with it, sealed.
func (h *signInPages) askFactor(w http.ResponseWriter, v visit, half signin.HalfSignIn, who signin.SignedIn, demand signin.Demand) error {
	path := factorPath
	if demand == signin.AskEnrolment {
		path, half.Passkey = addFactorPath, h.methods.Passkeys.CanAdd(nil)
		if h.signIns.Factors.TOTP {
			half.Secret = signin.NewSecret()
		}
	}
	sealed, err := h.browser.seals.SealHalfSignIn(who, half, v.browser)
	if err != nil {
		return err
	}
	seeOther(w, h.browser.url(path, sealed))
	return nil
}

// stepUp asks the user of a session for a second factor. A user who has none adds one, for which the first factor must be recent.
func (h *signInPages) stepUp(w http.ResponseWriter, r *http.Request, k walk, sealed oauth.Secret) error {
	s := k.visit.session
	who := signin.SignedIn{User: s.User, Provider: s.Family.SignIn.Provider, AuthTime: s.Family.SignIn.Time, Proof: s.Family.SignIn.Proof}
	demand, err := h.signIns.Factors.DemandOf(r.Context(), who, true)
	switch {
	case err != nil:
		return err
	case demand == signin.NothingMore: // the configuration has no factors any more
		return h.authorization.redirectError(w, r, k.client, k.target, oauth.NewError(oauth.UnmetAuthentication, "factor_impossible"))
	case demand != signin.AskFactor && !h.browser.isRecent(s):
		seeOther(w, h.browser.url(loginPath, sealed))
		return nil
	}
	return h.askFactor(w, k.visit, signin.HalfSignIn{ID: oauth.NewID(), Pending: sealed.Reveal(), Session: s.Family.ID}, who, demand)
}

// halfway is a sign-in after its first factor, and what follows the second.
type halfway struct {
	signin.HalfSignIn
	sealed  oauth.Secret
	who     signin.SignedIn
	pending pending
}

// halfwayOf opens a sealed sign-in. done reports that the response was written, because the sign-in cannot continue: its user has changed, or
// its session has ended or was replaced, by this sign-in or by that of another tab.
func (h *factorPages) halfwayOf(w http.ResponseWriter, r *http.Request, v visit, sealed oauth.Secret) (half halfway, done bool, err error) {
	half.sealed = sealed
	half.HalfSignIn, half.who, err = h.browser.seals.OpenHalfSignIn(r.Context(), sealed, v.browser)
	next := oauth.NewSecret(half.Pending)
	if oauth.AsError(err).Code == oauth.InvalidGrant || err == nil && half.Session != "" && v.session == nil {
		seeOther(w, h.browser.url(loginPath, next))
		return half, true, nil
	}
	if err != nil {
		return half, false, err
	}
	if half.pending, err = h.authorization.pendingOf(r, v, next); err != nil {
		return half, false, err
	}
	isUsed := v.session != nil && v.session.Family.Code.RequestID == half.ID
	if isUsed || half.Session != "" && v.session.Family.ID != half.Session {
		return half, true, h.signIn.goOn(w, r, v, half.pending)
	}
	return half, false, nil
}

// open reads a request to one of the pages: the browser, the sealed sign-in, and for a POST the form.
func (h *factorPages) open(w http.ResponseWriter, r *http.Request, path string) (v visit, half halfway, f requests.Form, done bool, err error) {
	if v, err = h.browser.visitOf(w, r); err != nil {
		return v, half, f, false, err
	}
	sealed := pendingInQuery(r)
	if r.Method == http.MethodPost {
		if f, err = requests.ParseForm(w, r); err != nil {
			return v, half, f, false, err
		}
		sealed = f.Secret("pending")
	}
	if half, done, err = h.halfwayOf(w, r, v, sealed); err != nil || done || r.Method != http.MethodPost {
		return v, half, f, done, err
	}
	_, err = h.browser.checkForm(r, v, f, path)
	return v, half, f, false, err
}

// serveFactor serves the page that asks for a factor.
func (h *factorPages) serveFactor(w http.ResponseWriter, r *http.Request) error {
	r = uninterrupted(r)
	v, half, f, done, err := h.open(w, r, factorPath)
	if err != nil || done {
		return err
	}
	if r.Method != http.MethodPost {
		page, err := h.factorPage(r, v, half)
		if err != nil {
			return err
		}
		return h.show(w, r, http.StatusOK, v, half, page)
	}
	if err := h.prove(r, v, &half, f); err != nil {
		return h.refused(w, r, v, half, err, func(notice pages.Notice, e *oauth.Error) (pages.Page, error) {
			page, err := h.factorPage(r, v, half)
			page.Notice, page.RetryAfter = notice, e.RetryAfter
			return page, err
		})
	}
	return h.restarted(w, half, h.signIn.complete(w, r, v, half.pending, half.who, half.ID))
}

// prove verifies the passkey or the code of a form, and completes the sign-in with it.
func (h *factorPages) prove(r *http.Request, v visit, half *halfway, f requests.Form) error {
	if answer := f.Secret("passkey"); !answer.IsEmpty() && h.passkeys() != nil {
		used, err := h.passkeys().Prove(r.Context(), &half.who, answer, half.visit(v))
		if err == nil {
			h.audit.passkeyUsed(r, half.who.User, used)
		}
		return err
	}
	kind, err := h.factors.Prove(r.Context(), &half.who, f.Secret("code"))
	if err == nil && kind == store.RecoveryCodes {
		h.audit.Accepted(r, "recovery code used", zap.String("subject", half.who.User.ID))
	}
	return err
}

// passkeys returns what asks for passkeys, or nil.
func (h *factorPages) passkeys() *webauthn.RelyingParty { return h.signIn.methods.Passkeys }

// visit returns the sign-in in which a passkey is asked for.
func (half *halfway) visit(v visit) webauthn.Visit {
	return webauthn.Visit{Browser: v.browser, SignIn: half.ID}
}

// restarted sends the browser to the sign-in page if the sign-in has opened a session whose cookies were lost, or if the session that was the
// first factor has ended. It returns any other error.
func (h *factorPages) restarted(w http.ResponseWriter, half halfway, err error) error {
	if oauth.AsError(err).Reason != oauth.ErrDecided.Reason && !errors.Is(err, families.ErrSessionEnded) {
		return err
	}
	seeOther(w, h.browser.url(loginPath, oauth.NewSecret(half.Pending)))
	return nil
}

func (h *factorPages) factorPage(r *http.Request, v visit, half halfway) (page pages.SecondFactor, err error) {
	page = pages.SecondFactor{
		Form: h.browser.form(v, factorPath, half.sealed), Email: half.who.User.Email,
		RestartURL: h.browser.url(loginPath, oauth.NewSecret(half.Pending)),
	}
	own, err := h.factors.Of(r.Context(), half.who.User)
	if err != nil {
		return page, err
	}
	page.Authenticator = slices.ContainsFunc(own, func(f *store.Factor) bool { return f.Kind == store.TOTP })
	if h.passkeys() != nil {
		page.Passkey, err = h.passkeys().FactorRequest(own, half.visit(v))
	}
	return page, err
}

// serveEnrolment serves the page on which a user adds a passkey or an authenticator.
func (h *factorPages) serveEnrolment(w http.ResponseWriter, r *http.Request) error {
	r = uninterrupted(r)
	v, half, f, done, err := h.open(w, r, addFactorPath)
	switch {
	case err != nil || done:
		return err
	case half.Secret == "" && !half.Passkey: // this sign-in was sealed for a factor that the user has
		return requests.Invalid("factor_not_asked")
	}
	if r.Method != http.MethodPost {
		return h.showEnrolment(w, r, v, half)
	}
	kind, codes, err := h.add(r, v, &half, f)
	if err != nil {
		return h.refused(w, r, v, half, err, func(notice pages.Notice, e *oauth.Error) (pages.Page, error) {
			page, err := h.enrolmentPage(r, v, half)
			page.Notice, page.RetryAfter = notice, e.RetryAfter
			return page, err
		})
	}
	h.audit.Accepted(r, "factor added", zap.String("subject", half.who.User.ID), zap.String("kind", string(kind)))
	session, err := h.signIn.openSession(w, r, v, half.who, half.ID)
	if err != nil {
		return h.restarted(w, half, err)
	}
	h.audit.Accepted(r, "signed in", signedInFields(half.who, session)...)
	page := pages.Codes{Added: true, Passkey: kind == store.Passkey, ContinueURL: h.browser.prefix + cmp.Or(half.pending.device, accountPath)}
	for _, code := range codes {
		page.Codes = append(page.Codes, code.Reveal())
	}
	switch {
	case half.pending.request != nil:
		page.ContinueURL = h.browser.url(consentPath, half.pending.sealed) // it goes on to whatever the request needs
	case len(codes) == 0:
		page.ContinueURL = h.browser.prefix + doneURL(pages.FactorAdded)
	}
	if len(codes) == 0 { // the user has some already
		seeOther(w, page.ContinueURL)
		return nil
	}
	return h.show(w, r, http.StatusOK, v, half, page)
}

// add adds the passkey or the authenticator of a form, and completes the sign-in with it.
func (h *factorPages) add(r *http.Request, v visit, half *halfway, f requests.Form) (store.FactorKind, []oauth.Secret, error) {
	if answer := f.Secret("passkey"); half.Passkey && !answer.IsEmpty() && h.passkeys() != nil {
		codes, err := h.passkeys().Add(r.Context(), &half.who, answer, half.visit(v), browserName(r.UserAgent()))
		return store.Passkey, codes, err
	}
	if half.Secret == "" {
		return "", nil, requests.Invalid("factor_not_asked")
	}
	codes, err := h.factors.AddAuthenticator(r.Context(), &half.who, half.Secret, "", f.Secret("code"))
	return store.TOTP, codes, err
}

// show shows a page. Its form may redirect to the client of the pending request.
func (h *factorPages) show(w http.ResponseWriter, r *http.Request, status int, v visit, half halfway, page pages.Page) error {
	k := half.pending.walk(v)
	return h.browser.show(w, r, status, k.locales(), page, h.signIn.methods.formTargets(k)...)
}

func (h *factorPages) showEnrolment(w http.ResponseWriter, r *http.Request, v visit, half halfway) error {
	page, err := h.enrolmentPage(r, v, half)
	if err != nil {
		return err
	}
	return h.show(w, r, http.StatusOK, v, half, page)
}

func (h *factorPages) enrolmentPage(r *http.Request, v visit, half halfway) (page pages.Enrolment, err error) {
	cancel := h.browser.prefix + accountPath // leads to the sign-in page without a session
	if half.pending.request != nil || half.pending.device != "" {
		cancel = h.browser.url(loginPath, half.pending.sealed)
	}
	page = pages.Enrolment{
		Form: h.browser.form(v, addFactorPath, half.sealed), Required: v.session == nil && half.pending.section == "", CancelURL: cancel,
	}
	if half.Secret != "" {
		shown, err := h.factors.AuthenticatorOf(half.who.User, half.Secret)
		if err != nil {
			return page, err
		}
		page.Secret, page.Picture = shown.Secret, shown.Picture
	}
	if half.Passkey && h.passkeys() != nil {
		page.Passkey, err = h.passkeys().CreationRequest(r.Context(), half.who.User, half.visit(v))
	}
	return page, err
}

// refused shows a page again with a notice. An error without a notice has a page of its own.
func (h *factorPages) refused(w http.ResponseWriter, r *http.Request, v visit, half halfway, err error, with func(pages.Notice, *oauth.Error) (pages.Page, error)) error {
	e := oauth.AsError(err)
	notice := passkeyNotices[e.Reason]
	switch {
	case notice != pages.NoNotice:
	case strings.HasPrefix(e.Reason, "passkey_") && e.Code == oauth.InvalidGrant:
		notice = pages.WrongPasskey
	case e.Reason == signin.ErrEnrolled.Reason:
		notice = pages.AlreadyEnrolled
	case e.Code == oauth.InvalidGrant:
		notice = pages.WrongCode
	case e.Code == oauth.RateLimited:
		notice = pages.TooManyCodes
	default:
		return err
	}
	h.counters.Refused(loginEndpoint, e)
	h.audit.Refused(r, "second factor refused", err, zap.String("subject", half.who.User.ID))
	status := http.StatusOK // pages with an error notice are a 200
	if e.Code == oauth.RateLimited {
		status = answers.SetStatusHeaders(w, err)
	}
	page, err := with(notice, e)
	if err != nil {
		return err
	}
	return h.show(w, r, status, v, half, page)
}
