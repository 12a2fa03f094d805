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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// accountProfile is the part of the account page with the user's profile, address and password.
type accountProfile struct{ account *accountPages }

// linkPages returns the pages for links; nil: nobody signs in with a password of ours.
func (h *accountProfile) linkPages() *linkPages { return h.account.signIn.links }

// section returns the part, or nil where nobody signs in with a password of ours.
func (h *accountProfile) section(r *http.Request, v visit) (*pages.Profile, error) {
	l := h.linkPages()
	if l == nil {
		return nil, nil
	}
	user := v.session.User
	page := &pages.Profile{Name: user.Name, Proves: h.proves(v.session)}
	if l.links.Mails() && !user.External {
		page.Email = new(pages.NewEmail)
	}
	if user.Profile != nil {
		page.GivenName, page.FamilyName, page.Locale = user.GivenName, user.FamilyName, user.Locale
	}
	if user.Declared || user.External { // a provider states the profile again at the next sign-in
		page.Fixed = true
	}
	if user.Declared || user.PasswordHash.IsEmpty() {
		return page, nil
	}
	owner, err := l.links.OwnerOf(r.Context(), user)
	page.Password = &pages.Password{Email: user.Email, MinLength: owner.MinLength()}
	return page, err
}

// proves reports whether a recent sign-in with a second factor stands in for the present password.
func (h *accountProfile) proves(s *signin.Session) bool {
	return h.account.browser.isRecent(s) && s.Family.SignIn.Proof.ACR == oauth.TwoFactorACR
}

// change processes the forms of the part.
func (h *accountProfile) change(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, nonce string) error {
	page, err := h.section(r, v)
	if err != nil {
		return err
	}
	switch what := f.Get("change"); {
	case page == nil:
	case what == "profile" && !page.Fixed:
		return h.save(w, r, v, f, page)
	case what == "email" && page.Password != nil && page.Email != nil:
		return h.askAddress(w, r, v, f, page)
	case what == "password" && page.Password != nil:
		return h.changePassword(w, r, v, f, page, nonce)
	}
	return requests.Invalid("account_change_unknown")
}

// show shows the account page with the part as a form has left it.
func (h *accountProfile) show(w http.ResponseWriter, r *http.Request, v visit, status int, part *pages.Profile) error {
	page, err := h.account.accountPage(r, v)
	if err != nil {
		return err
	}
	page.Profile = part
	return h.account.browser.show(w, r, status, "", page)
}

// save changes the profile.
func (h *accountProfile) save(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, page *pages.Profile) error {
	user := v.session.User
	text := func(name string) string { return strings.TrimSpace(f.Get(name)) }
	page.Name, page.GivenName, page.FamilyName, page.Locale = text("profile_name"), text("given_name"), text("family_name"), text("locale")
	err := h.linkPages().links.ChangeProfile(r.Context(), user, page.Name, store.Profile{GivenName: page.GivenName, FamilyName: page.FamilyName, Locale: page.Locale})
	if store.IsInvalidInput(err) {
		page.Wrong = true
		return h.show(w, r, v, http.StatusOK, page)
	}
	if err != nil {
		return err
	}
	h.account.audit.Accepted(r, "profile changed", zap.String("subject", user.ID))
	seeOther(w, h.account.browser.prefix+doneURL(pages.ProfileSaved))
	return nil
}

// checkPresent verifies the present password of the user of a session, unless a recent second factor stands in for it. It counts failures as
// the sign-in page does.
func (h *accountProfile) checkPresent(r *http.Request, v visit, f requests.Form) error {
	if h.proves(v.session) {
		return nil
	}
	user := v.session.User
	who, err := h.account.signIns.SignIn(r.Context(), signin.Attempt{
		Email: user.Email, Password: f.Secret("present_password"), Address: h.account.audit.Address(r), Device: readCookie(r, h.account.browser.cookies.device),
	})
	if err == nil && who.User.ID != user.ID { // the address belongs to another user meanwhile
		err = families.ErrSessionEnded
	}
	if err != nil {
		h.account.audit.Refused(r, "present password refused", err, zap.String("subject", user.ID))
	}
	return err
}

// pauseOf returns the notice for a password that was not checked, or none.
func pauseOf(err error) pages.Notice {
	switch oauth.AsError(err).Code {
	case oauth.RateLimited:
		return pages.TooManyAttempts
	case oauth.TemporarilyUnavailable:
		if errors.Is(err, oauth.ErrHashingBusy) {
			return pages.Busy
		}
	}
	return pages.NoNotice
}

// askAddress mails a link to a new address. The response does not tell whether another user has the address.
func (h *accountProfile) askAddress(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, page *pages.Profile) error {
	page.Email.Typed = f.Get("new_email")
	email, err := people.CheckNewEmail(page.Email.Typed)
	if err != nil {
		page.Email.Notice = pages.NoAddress
		return h.show(w, r, v, http.StatusOK, page)
	}
	refused := func(err error, notice pages.Notice) error {
		page.Email.Notice, page.RetryAfter = notice, oauth.AsError(err).RetryAfter
		return h.show(w, r, v, answers.SetStatusHeaders(w, err), page)
	}
	if err := h.checkPresent(r, v, f); err != nil {
		if notice := pauseOf(err); notice != pages.NoNotice {
			return refused(err, notice)
		}
		if oauth.AsError(err).Code != oauth.InvalidGrant {
			return err
		}
		page.Email.WrongPassword = true
		return h.show(w, r, v, http.StatusOK, page)
	}
	l, user := h.linkPages(), v.session.User
	sent, failed := h.account.audit.Behind(r)
	languages := strings.Join(r.Header["Accept-Language"], ", ")
	err = l.after(r, email, func(ctx context.Context) {
		switch mailed, err := l.links.AskAddress(ctx, user, email, languages); {
		case err != nil:
			failed("letter not sent", err, zap.String("subject", user.ID))
		case mailed:
			sent("letter sent", zap.String("subject", user.ID), zap.String("kind", "address"))
		}
	})
	if oauth.AsError(err).Code == oauth.RateLimited {
		return refused(err, pages.TooManyLetters)
	}
	if err != nil {
		return err
	}
	seeOther(w, h.account.browser.prefix+doneURL(pages.AddressAsked))
	return nil
}

// changePassword changes the password. The browser gets a new session in place of the one that ends with all others.
func (h *accountProfile) changePassword(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, page *pages.Profile, nonce string) error {
	password, fault := typedPassword(f)
	if fault != "" {
		page.Password.Fault = fault
		return h.show(w, r, v, http.StatusOK, page)
	}
	err := h.checkPresent(r, v, f)
	if oauth.AsError(err).Code == oauth.InvalidGrant {
		page.Password.Fault = pages.PasswordWrong
		return h.show(w, r, v, http.StatusOK, page)
	}
	var user *store.User
	if err == nil {
		user, err = h.linkPages().links.ChangePassword(r.Context(), v.session.User, password, h.account.audit.Address(r))
	}
	if refusal, ok := errors.AsType[passwords.Refusal](err); ok {
		page.Password.Fault, page.Password.MinLength = pages.PasswordFault(refusal.Fault), refusal.MinLength
		return h.show(w, r, v, http.StatusOK, page)
	}
	if notice := pauseOf(err); notice != pages.NoNotice {
		page.PasswordNotice, page.RetryAfter = notice, oauth.AsError(err).RetryAfter
		return h.show(w, r, v, answers.SetStatusHeaders(w, err), page)
	}
	if errors.Is(err, families.ErrSessionEnded) { // another form was first
		seeOther(w, h.account.browser.prefix+loginPath)
		return nil
	}
	if err != nil {
		return err
	}
	h.account.audit.Accepted(r, "password set", zap.String("subject", user.ID))
	who := signin.AfterLink(user, h.account.browser.sessions.Families.Now())
	if signIn := v.session.Family.SignIn; signIn.Proof.ACR == oauth.TwoFactorACR {
		who.AuthTime, who.Proof, who.Provider = signIn.Time, signIn.Proof, signIn.Provider
	}
	demand, err := h.account.signIns.Factors.DemandOf(r.Context(), who, false)
	switch {
	case err != nil:
		return err
	case demand != signin.NothingMore: // the session that ended was older than the factor, or came of a provider
		return h.account.signIn.proceed(w, r, v, pending{}, who, nonce)
	}
	session, err := h.account.signIn.openSession(w, r, v, who, nonce)
	if err != nil {
		return err
	}
	h.account.audit.Accepted(r, "signed in", signedInFields(who, session)...)
	seeOther(w, h.account.browser.prefix+doneURL(pages.PasswordChanged))
	return nil
}
