package endpoint

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

const (
	signUpPath     = "/oauth/sign_up"
	signUpLinkPath = "/oauth/sign_up/link"
)

// RegistrationPage returns the URL of the page that opens the links of people who make accounts, for an issuer.
func RegistrationPage(issuer string) string { return strings.TrimSuffix(issuer, "/") + signUpLinkPath }

// signUpPages let people make accounts: a page that asks for their address, and the page of the link that proves it.
type signUpPages struct {
	registration *people.Registration
	links        *linkPages
}

// url returns the page that asks for an address, with the pending request; "" if there is none.
func (h *signUpPages) url(sealed oauth.Secret) string {
	if h == nil {
		return ""
	}
	return h.links.browser.url(signUpPath, sealed)
}

// serve asks for the address of a person and sends a letter. The response is the same, and as fast, whether or not the address has an
// account: what depends on it happens after the response. A refused domain tells nothing about people.
func (h *signUpPages) serve(w http.ResponseWriter, r *http.Request) error {
	b := h.links.browser
	v, err := b.visitOf(w, r)
	if err != nil {
		return err
	}
	sealed, f, err := pendingForm(w, r)
	if err != nil {
		return err
	}
	p, err := h.links.signIn.authorization.pendingOf(r, v, sealed)
	if err != nil {
		return err
	}
	if r.Method != http.MethodPost {
		return h.show(w, r, p.walk(v), sealed)
	}
	if _, err := b.checkForm(r, v, f, signUpPath); err != nil {
		return err
	}
	page := h.page(p.walk(v), sealed)
	page.Email = f.Get("email")
	email, err := people.CheckNewEmail(page.Email)
	if err != nil {
		page.Notice = pages.NoAddress
		return h.showPage(w, r, http.StatusOK, p.walk(v), page)
	}
	if !h.registration.Admits(email) {
		page.Notice = pages.ForeignAddress
		h.links.audit.Refused(r, "letter refused", oauth.NewError(oauth.AccessDenied, "registration_not_allowed"))
		return h.showPage(w, r, http.StatusOK, p.walk(v), page)
	}
	err = h.ask(r, v, p, email)
	if oauth.AsError(err).Code == oauth.RateLimited {
		page.Notice, page.RetryAfter = pages.TooManyLetters, oauth.AsError(err).RetryAfter
		h.links.audit.Refused(r, "letter refused", err)
		return h.showPage(w, r, answers.SetStatusHeaders(w, err), p.walk(v), page)
	}
	if err != nil {
		return err
	}
	page.Sent = true
	return h.showPage(w, r, http.StatusOK, p.walk(v), page)
}

// ask sends the letter after the response. A pending request is sealed again, so that it lives for as long as the letter may take.
func (h *signUpPages) ask(r *http.Request, v visit, p pending, email string) error {
	if p.request != nil {
		var err error
		if p.sealed, err = h.links.signIn.authorization.authorizations.SealRequest(p.request, v.browser); err != nil {
			return err
		}
	}
	sent, failed := h.links.audit.Behind(r)
	languages := strings.Join(r.Header["Accept-Language"], ", ")
	return h.links.after(r, email, func(ctx context.Context) {
		switch letter, err := h.registration.Ask(ctx, email, languages, p.sealed, v.browser); {
		case err != nil:
			failed("letter not sent", err)
		default:
			sent("letter sent", zap.String("subject", letter.UserID), zap.String("kind", string(letter.Kind)))
		}
	})
}

func (h *signUpPages) page(k walk, sealed oauth.Secret) pages.AskLetter {
	b := h.links.browser
	page := pages.AskLetter{For: pages.NewAccount, Form: b.form(k.visit, signUpPath, sealed), SignInURL: b.url(loginPath, sealed)}
	if sealed.IsEmpty() {
		page.SignInURL += "?" + switchAccount + "=1"
	}
	if k.request != nil {
		page.Email = k.request.LoginHint
	}
	return page
}

// show shows the page that asks for an address.
func (h *signUpPages) show(w http.ResponseWriter, r *http.Request, k walk, sealed oauth.Secret) error {
	return h.showPage(w, r, http.StatusOK, k, h.page(k, sealed))
}

// showPage shows a page. Its form may redirect to the client of the pending request.
func (h *signUpPages) showPage(w http.ResponseWriter, r *http.Request, status int, k walk, page pages.Page) error {
	severOpener(w, k.client)
	return h.links.browser.show(w, r, status, k.locales(), page, h.links.signIn.methods.formTargets(k)...)
}

// serveLink serves the page of a link, which changes nothing, and its form, which adds the user and signs the browser in. The link works in
// every browser. The pending request follows in the one that asked for it.
func (h *signUpPages) serveLink(w http.ResponseWriter, r *http.Request) error {
	r = uninterrupted(r)
	b := h.links.browser
	v, err := b.visitOf(w, r)
	if err != nil {
		return err
	}
	sealed, f, err := pendingForm(w, r)
	if err != nil {
		return err
	}
	link, err := h.registration.Open(r.Context(), sealed)
	if err != nil {
		return brokenLink(err)
	}
	next, err := h.links.signIn.authorization.pendingOf(r, v, link.PendingIn(v.browser))
	switch code := oauth.AsError(err).Code; {
	case err != nil && (code == oauth.TemporarilyUnavailable || code == oauth.ServerError):
		return err
	case err != nil: // it has expired
		next = pending{}
	}
	page := pages.UseLink{
		Form: b.form(v, signUpLinkPath, sealed), Purpose: string(link.Purpose), Name: new(pages.NewName),
		Password: &pages.Password{Email: link.Email, MinLength: passwords.Owner{Email: link.Email}.MinLength()},
	}
	if r.Method != http.MethodPost {
		return h.showPage(w, r, http.StatusOK, next.walk(v), page)
	}
	nonce, err := b.checkForm(r, v, f, signUpLinkPath)
	if err != nil {
		return err
	}
	page.Name.Typed = strings.TrimSpace(f.Get("profile_name"))
	return h.register(w, r, v, next, link, f, page, nonce)
}

// register adds the user of a link, and signs the browser in. A second factor that is required is asked for as after the password.
func (h *signUpPages) register(w http.ResponseWriter, r *http.Request, v visit, next pending, link signin.Link, f requests.Form, page pages.UseLink, nonce string) error {
	password, fault := typedPassword(f)
	if fault != "" {
		page.Password.Fault = fault
		return h.showPage(w, r, http.StatusOK, next.walk(v), page)
	}
	user, err := h.registration.Register(r.Context(), link, page.Name.Typed, password, h.links.audit.Address(r))
	if errors.Is(err, people.ErrNameUnfit) {
		page.Name.Wrong = true
		return h.showPage(w, r, http.StatusOK, next.walk(v), page)
	}
	if err != nil {
		status, err := passwordRefused(w, &page, err)
		if err != nil {
			return err
		}
		return h.showPage(w, r, status, next.walk(v), page)
	}
	h.links.audit.Accepted(r, "user registered", zap.String("subject", user.ID), zap.String("organisation", user.Organisation), zap.String("role", string(user.Role)))
	return h.links.signIn.proceed(w, r, v, next, signin.AfterLink(user, h.links.browser.sessions.Families.Now()), nonce)
}
