package endpoint

import (
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/webauthn"
)

// signInPages are the sign-in page and its form.
type signInPages struct {
	signIns       *signin.SignIns
	minter        *issuer.Minter
	audit         *Audit
	counters      Counters
	methods       *SignInMethods
	browser       *browser
	authorization *authorizationPages
	providers     *providerPages
	// links lets people set passwords; nil: nobody signs in with a password of ours.
	links *linkPages
	// signUp lets people make accounts; nil: they cannot.
	signUp *signUpPages
}

// serve serves the sign-in page and its form.
func (h *signInPages) serve(w http.ResponseWriter, r *http.Request) error {
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		pending, err := h.authorization.pendingOf(r, v, pendingInQuery(r))
		if err != nil {
			return err
		}
		if pending.sealed.IsEmpty() && v.session != nil && h.browser.pageParameter(r, switchAccount) == "" {
			seeOther(w, h.browser.prefix+accountPath)
			return nil
		}
		return h.showSignIn(w, r, pending.walk(v), pending.sealed)
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	pending, err := h.authorization.pendingOf(r, v, f.Secret("pending"))
	nonce := ""
	if err == nil {
		nonce, err = h.browser.checkForm(r, v, f, loginPath)
	}
	if err != nil {
		return h.askAgain(w, r, v, f.Secret("pending"), err)
	}
	if name := f.Get(atProvider); name != "" {
		p := h.methods.provider(name)
		if p == nil {
			return requests.Invalid("provider_unknown")
		}
		return h.providers.sendToProvider(w, r, pending.walk(v), pending.sealed, p, v.session != nil || f.Get("choose") != "")
	}
	if answer := f.Secret("passkey"); !answer.IsEmpty() && h.methods.Passkeys != nil {
		return h.signInWithPasskey(w, r, v, pending, answer, nonce)
	}
	if h.methods.WithoutPasswords {
		return requests.Invalid("password_sign_in_off")
	}
	return h.signIn(w, r, v, pending, f, nonce)
}

// pending is what follows the sign-in: an authorization request, the page for devices, or the account page.
type pending struct {
	sealed  oauth.Secret
	request *issuer.AuthorizationRequest // nil if none
	client  *store.Client
	target  issuer.RedirectTarget
	section string // return to this section of the account page, whose forms require a recent sign-in
	device  string // return to the page for devices, at this URL below the issuer's
}

// The sections of the account page that ask for another sign-in replace the sealed request. They need no seal, because such a link has no
// other content.
const (
	toTokens  = "tokens"
	toFactors = "factors"
)

// toDevice, alone or with a colon and a user code, replaces the sealed request in the same way. The code is not judged before the sign-in, so
// that strangers cannot guess codes.
const toDevice = "device"

// toPage returns a pending that leads to the page for devices or to a section of the account page, if text names one.
func toPage(text oauth.Secret) pending {
	p := pending{sealed: text}
	switch name, code, _ := strings.Cut(text.Reveal(), ":"); name {
	case toTokens, toFactors:
		if code == "" {
			p.section = name
		}
	case toDevice:
		if code = issuer.ReadUserCode(code); code != "" {
			p.device = devicePath + "?" + userCode + "=" + issuer.ShowUserCode(code)
		} else {
			p.device = devicePath
		}
	}
	return p
}

// isPage reports whether nothing is sealed, because a page follows.
func (p pending) isPage() bool { return p.section != "" || p.device != "" }

func (p pending) walk(v visit) walk {
	return walk{visit: v, request: p.request, client: p.client, target: p.target, fresh: p.section != ""}
}

// pendingInQuery returns the sealed pending request in a page's URL.
func pendingInQuery(r *http.Request) oauth.Secret {
	p, err := readParameters(r.URL.RawQuery)
	if err != nil {
		return oauth.NewSecret("malformed")
	}
	return oauth.NewSecret(strings.Join(p["pending"], " ")) // two values are as invalid as a damaged one
}

// pendingOf opens a sealed pending request.
func (h *authorizationPages) pendingOf(r *http.Request, v visit, sealed oauth.Secret) (pending, error) {
	p := toPage(sealed)
	if sealed.IsEmpty() || p.isPage() {
		return p, nil
	}
	request, client, target, err := h.authorizations.OpenRequest(r.Context(), sealed, v.browser)
	p.request, p.client, p.target = &request, client, target
	return p, err
}

// signIn verifies the password and continues with the pending request.
func (h *signInPages) signIn(w http.ResponseWriter, r *http.Request, v visit, p pending, f requests.Form, nonce string) error {
	who, err := h.signIns.SignIn(r.Context(), signin.Attempt{
		Email: f.Get("email"), Password: f.Secret("password"), Address: h.audit.Address(r),
		Device: readCookie(r, h.browser.cookies.device),
	})
	if err != nil {
		return h.signInFailed(w, r, p.walk(v), p.sealed, f.Get("email"), who.Provider, err)
	}
	err = h.proceed(w, r, v, p, who, nonce)
	if oauth.AsError(err).Code == oauth.RateLimited {
		return h.signInFailed(w, r, p.walk(v), p.sealed, f.Get("email"), who.Provider, err)
	}
	return err
}

// proceed continues after the first factor: with a page for the second one, or with a session. id identifies the submitted form or the
// provider's answer, which can open one session.
func (h *signInPages) proceed(w http.ResponseWriter, r *http.Request, v visit, p pending, who signin.SignedIn, id string) error {
	demand, err := h.signIns.Factors.DemandOf(r.Context(), who, p.request.WantsTwoFactors() || p.section == toFactors)
	switch {
	case err != nil:
		return err
	case demand != signin.NothingMore:
		return h.askFactor(w, v, signin.HalfSignIn{ID: id, Pending: p.sealed.Reveal()}, who, demand)
	}
	return h.complete(w, r, v, p, who, id)
}

// complete opens a session for a complete sign-in, and continues with the pending step.
func (h *signInPages) complete(w http.ResponseWriter, r *http.Request, v visit, p pending, who signin.SignedIn, id string) error {
	session, err := h.openSession(w, r, v, who, id)
	if err != nil {
		return err
	}
	v.session = session
	h.audit.Accepted(r, "signed in", signedInFields(who, session)...)
	return h.goOn(w, r, v, p)
}

// goOn continues with the pending step after a sign-in.
func (h *signInPages) goOn(w http.ResponseWriter, r *http.Request, v visit, p pending) error {
	switch {
	case p.request != nil:
		return h.authorization.advance(w, r, p.walk(v))
	case p.section != "":
		seeOther(w, h.browser.prefix+accountPath+"#"+p.section)
	case p.device != "":
		seeOther(w, h.browser.prefix+p.device)
	default:
		seeOther(w, h.browser.prefix+accountPath)
	}
	return nil
}

// signedInFields returns the audit fields of a sign-in.
func signedInFields(who signin.SignedIn, session *signin.Session) []zap.Field {
	fields := []zap.Field{zap.String("subject", who.User.ID), zap.String("session", session.Family.ID)}
	if who.Provider != "" {
		fields = append(fields, zap.String("provider", who.Provider))
	}
	return fields
}

// openSession signs the browser in. It ends the browser's previous session and issues new cookies.
func (h *signInPages) openSession(w http.ResponseWriter, r *http.Request, v visit, who signin.SignedIn, nonce string) (*signin.Session, error) {
	sessions := h.browser.sessions
	session, cookie, err := sessions.OpenSession(r.Context(), who, browserName(r.UserAgent()), nonce)
	if err != nil {
		if errors.Is(err, oauth.ErrDecided) {
			return nil, decided
		}
		return nil, err
	}
	if v.session != nil {
		if err := sessions.EndSession(r.Context(), v.session); err != nil {
			return nil, err
		}
	}
	tokens, err := h.minter.SessionToken(session, sessions.Clients.BuiltIn(), sessions.Limits)
	if err != nil {
		return nil, err
	}
	device, err := h.browser.seals.Device(who)
	if err != nil {
		return nil, err
	}
	h.counters.Issued(store.BrowserSession)
	h.browser.cookies.set(w, h.browser.cookies.session, cookie, 0)
	h.browser.cookies.set(w, AccessTokenCookie, tokens.AccessToken, tokens.ExpiresIn)
	h.browser.cookies.set(w, h.browser.cookies.device, device, deviceMaxAge)
	return session, nil
}

// signInFailed shows the sign-in page again, with the pending request and a notice. provider is the directory that verified the password,
// or empty.
func (h *signInPages) signInFailed(w http.ResponseWriter, r *http.Request, k walk, sealed oauth.Secret, email, provider string, err error) error {
	e := oauth.AsError(err)
	notice := map[oauth.ErrorCode]pages.Notice{
		oauth.InvalidGrant: pages.WrongCredentials, oauth.RateLimited: pages.TooManyAttempts,
		oauth.TemporarilyUnavailable: pages.Busy,
	}[e.Code]
	if e.Code == oauth.AccessDenied && provider != "" { // the password was correct
		notice = pages.ProviderRefused
	}
	if notice == pages.NoNotice {
		return err
	}
	h.counters.Refused(loginEndpoint, e)
	h.audit.Refused(r, "sign-in refused", forAccount(h.signIns.Families.Directory, r, err, email))
	status := http.StatusOK // pages with an error notice are a 200
	if e.Code != oauth.InvalidGrant {
		status = answers.SetStatusHeaders(w, err)
	}
	page, err := h.signInPage(k, sealed)
	if err != nil {
		return err
	}
	page.Notice, page.RetryAfter, page.Email, page.AtProvider = notice, e.RetryAfter, email, h.methods.title(provider)
	return h.browser.show(w, r, status, k.locales(), page, h.methods.formTargets(k)...)
}

// signInWithPasskey verifies a passkey alone and continues with the pending request.
func (h *signInPages) signInWithPasskey(w http.ResponseWriter, r *http.Request, v visit, p pending, answer oauth.Secret, nonce string) error {
	who, used, err := h.methods.Passkeys.SignIn(r.Context(), answer, webauthn.Visit{Browser: v.browser}, h.audit.Address(r))
	if err == nil {
		h.audit.passkeyUsed(r, who.User, used)
		return h.proceed(w, r, v, p, who, nonce)
	}
	e := oauth.AsError(err)
	notice := passkeyNotices[e.Reason]
	switch {
	case notice != pages.NoNotice:
	case e.Code == oauth.InvalidGrant:
		notice = pages.WrongPasskey
	case e.Code == oauth.RateLimited:
		notice = pages.TooManyAttempts
	default:
		return err
	}
	h.counters.Refused(loginEndpoint, e)
	h.audit.Refused(r, "sign-in refused", err, passkeyFields(used)...)
	status := http.StatusOK // pages with an error notice are a 200
	if e.Code == oauth.RateLimited {
		status = answers.SetStatusHeaders(w, err)
	}
	k := p.walk(v)
	page, err := h.signInPage(k, p.sealed)
	if err == nil && notice == pages.UnknownPasskey {
		page.Passkey.Unknown, err = h.methods.Passkeys.Unknown(used.Credential)
	}
	if err != nil {
		return err
	}
	page.Notice, page.RetryAfter = notice, e.RetryAfter
	return h.browser.show(w, r, status, k.locales(), page, h.methods.formTargets(k)...)
}

// passkeyNotices are the notices for the reasons for which a passkey is refused. Others have the same notice.
var passkeyNotices = map[string]pages.Notice{
	webauthn.ErrUnknown.Reason: pages.UnknownPasskey, webauthn.ErrExpired.Reason: pages.ExpiredPasskey,
	webauthn.ErrNotAlone.Reason: pages.PasskeyNotAlone, webauthn.ErrTooMany.Reason: pages.TooManyPasskeys,
}

// passkeyUsed records what is odd about a passkey that was used.
func (a *Audit) passkeyUsed(r *http.Request, user *store.User, used webauthn.Used) {
	if used.WentBack {
		a.Suspected(r, "counter of a passkey went back", zap.String("subject", user.ID), zap.String("factor", used.ID))
	}
}

// passkeyFields returns the audit fields of a refused passkey.
func passkeyFields(used webauthn.Used) []zap.Field {
	if used.ID == "" {
		return nil
	}
	return []zap.Field{zap.String("subject", used.UserID), zap.String("factor", used.ID)}
}

// showSignIn shows the sign-in page, or sends the browser to the user's provider.
func (h *signInPages) showSignIn(w http.ResponseWriter, r *http.Request, k walk, sealed oauth.Secret) error {
	severOpener(w, k.client)
	if p := h.providerFor(r, k); p != nil {
		return h.providers.sendToProvider(w, r, k, sealed, p, false)
	}
	page, err := h.signInPage(k, sealed)
	if err != nil {
		return err
	}
	switching := h.browser.pageParameter(r, switchAccount) != ""
	if k.fresh && k.visit.session != nil {
		page.Notice = pages.SignInAgain
	}
	if k.request != nil && !switching {
		page.Email = k.request.LoginHint
		if k.visit.session != nil && !k.request.ChoosesAccount() {
			page.Notice = pages.SignInAgain
		}
	}
	if notice, at := h.failedBefore(r); notice != pages.NoNotice {
		page.Notice, page.AtProvider, page.Choose = notice, at, true
	}
	page.Choose = page.Choose || switching
	return h.browser.show(w, r, http.StatusOK, k.locales(), page, h.methods.formTargets(k)...)
}

func (h *signInPages) signInPage(k walk, sealed oauth.Secret) (pages.SignIn, error) {
	page := pages.SignIn{
		Form: h.browser.form(k.visit, loginPath, sealed), Providers: h.methods.buttons(), WithoutPasswords: h.methods.WithoutPasswords,
		Usernames: h.signIns.TakesUsernames(),
	}
	page.ForgottenURL, page.SignUpURL = h.links.forgottenURL(), h.signUp.url(sealed)
	if k.client != nil {
		page.ClientName, page.NoteFor.Client = titleOf(k.client, k.target.Host()), k.client.ID
	}
	if k.request != nil && k.client.ID == store.BuiltInClientID {
		page.ClientName = k.target.Host() // users know the host that they have opened
		page.NoteFor = pages.NoteFor{Host: page.ClientName}
	}
	var err error
	if passkeys := h.methods.Passkeys; passkeys != nil && passkeys.Alone {
		page.Passkey.Request, err = passkeys.SignInRequest(webauthn.Visit{Browser: k.visit.browser})
	}
	return page, err
}

// locales returns the languages that the client requested.
func (k walk) locales() string {
	if k.request == nil {
		return ""
	}
	return k.request.UILocales
}

// formTargets returns the origins, other than ours, to which a form of the page may redirect. Browsers check redirects too.
func (m *SignInMethods) formTargets(k walk) []string {
	targets := m.origins()
	if k.request != nil && k.request.Device == nil {
		targets = append(targets, k.target.Origin())
	}
	return targets
}

// accountError adds the account to an error, for the audit log, and the id of its user, unless that is unknown.
type accountError struct {
	error
	account, userID string
}

func (e accountError) Unwrap() error { return e.error }

// forAccount adds the account to an error if the account exists. Otherwise the text may be a password, typed into the e-mail field.
func forAccount(people store.Directory, r *http.Request, err error, typed string) error {
	email, addressErr := store.CanonicalEmail(typed)
	if addressErr != nil {
		return err
	}
	user, unknown := people.UserByEmail(r.Context(), email)
	if unknown != nil {
		return err
	}
	return accountError{err, email, user.ID}
}

// browserName describes a session's browser for its user.
func browserName(userAgent string) string {
	name := firstIn(userAgent, [][2]string{
		{"Edg/", "Edge"}, {"OPR/", "Opera"}, {"Firefox/", "Firefox"}, {"Chrome/", "Chrome"}, {"Safari/", "Safari"}, {"curl/", "curl"},
	})
	system := firstIn(userAgent, [][2]string{
		{"Android", "Android"}, {"iPhone", "iPhone"}, {"iPad", "iPad"}, {"Windows", "Windows"}, {"Mac OS X", "macOS"}, {"Linux", "Linux"},
	})
	return strings.TrimPrefix(strings.TrimSuffix(name+" · "+system, " · "), " · ")
}

// firstIn returns the name of the first mark that text contains.
func firstIn(text string, marks [][2]string) string {
	for _, mark := range marks {
		if strings.Contains(text, mark[0]) {
			return mark[1]
		}
	}
	return ""
}
