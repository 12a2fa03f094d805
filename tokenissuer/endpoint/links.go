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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	linkPath      = "/oauth/link"
	forgottenPath = "/oauth/forgotten"
)

// LinkPage returns the URL of the page that opens links, for an issuer.
func LinkPage(issuer string) string { return strings.TrimSuffix(issuer, "/") + linkPath }

// Enter registers a use of the store beyond a request, which the returned function ends.
type Enter func(context.Context) (context.Context, func(), error)

// linkPages let people set a password or prove an address with a link, and ask for a letter with one.
type linkPages struct {
	links    *people.Links
	enter    Enter
	audit    *Audit
	counters Counters
	browser  *browser
	signIn   *signInPages
	// behind bounds the letters that are being written.
	behind chan struct{}
}

// maxBehind is the maximum number of letters that are being written at once.
const maxBehind = 64

// OfferLinks adds the pages for links and, unless registration is nil, those on which people make accounts. Without it nobody sets a password.
// enter registers what is done after a response. OfferLinks must be called before the first request, and not if nobody signs in with a
// password of ours.
func (h *Handler) OfferLinks(links *people.Links, registration *people.Registration, enter Enter) error {
	signIn := h.account.signIn
	l := &linkPages{
		links: links, enter: enter, audit: signIn.audit, counters: h.counters, browser: h.browser, signIn: signIn, behind: make(chan struct{}, maxBehind),
	}
	signIn.links = l
	h.addPage(linkPath, "link", l.serveLink)
	if links.Mails() {
		h.addPage(forgottenPath, "forgotten", l.serveForgotten)
	}
	if registration == nil {
		return nil
	}
	signIn.signUp = &signUpPages{registration, l}
	h.addPage(signUpPath, "sign_up", signIn.signUp.serve)
	h.addPage(signUpLinkPath, "sign_up", signIn.signUp.serveLink)
	signIn.authorization.authorizations.Registers = true
	return h.PublishMetadata()
}

// addPage adds a page to those of NewHandler.
func (h *Handler) addPage(path, name string, serve func(http.ResponseWriter, *http.Request) error) {
	path = h.site.prefix + path
	h.routes[path] = route{name, methodsPage, navigated(serve), h.browser.refusePage, unshared}
	h.places = append(h.places, requests.SegmentsOf(path))
}

// forgottenURL returns the page for people who have forgotten their password; "" if there is none.
func (h *linkPages) forgottenURL() string {
	if h == nil || !h.links.Mails() {
		return ""
	}
	return h.browser.prefix + forgottenPath
}

// serveForgotten asks for the address of a person who has forgotten the password, and sends a letter. The response is the same, and as fast,
// whether or not the address has an account: what depends on it happens after the response.
func (h *linkPages) serveForgotten(w http.ResponseWriter, r *http.Request) error {
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	page := pages.AskLetter{For: pages.ForgottenPassword, Form: h.browser.form(v, forgottenPath, oauth.Secret{}), SignInURL: h.browser.prefix + loginPath + "?" + switchAccount + "=1"}
	if r.Method != http.MethodPost {
		return h.browser.show(w, r, http.StatusOK, "", page)
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	if _, err := h.browser.checkForm(r, v, f, forgottenPath); err != nil {
		return err
	}
	page.Email = f.Get("email")
	email, err := store.CanonicalEmail(page.Email)
	if err != nil {
		page.Notice = pages.NoAddress
		return h.browser.show(w, r, http.StatusOK, "", page)
	}
	sent, failed := h.audit.Behind(r)
	languages := strings.Join(r.Header["Accept-Language"], ", ")
	err = h.after(r, email, func(ctx context.Context) {
		switch user, err := h.links.Forgotten(ctx, email, languages); {
		case err != nil:
			failed("letter not sent", err)
		case user != nil:
			sent("letter sent", zap.String("subject", user.ID), zap.String("kind", "reset"))
		}
	})
	if oauth.AsError(err).Code == oauth.RateLimited {
		page.Notice, page.RetryAfter = pages.TooManyLetters, oauth.AsError(err).RetryAfter
		h.audit.Refused(r, "letter refused", err)
		return h.browser.show(w, r, answers.SetStatusHeaders(w, err), "", page)
	}
	if err != nil {
		return err
	}
	page.Sent = true
	return h.browser.show(w, r, http.StatusOK, "", page)
}

// errLettersBusy refuses a letter while many are being written.
var errLettersBusy = oauth.Unavailable("letters_busy", nil)

// after counts a letter to an address and does work for it that the response does not wait for. The error is rate_limited after too many
// letters, and errLettersBusy while many are being written: then this one is not counted.
func (h *linkPages) after(r *http.Request, email string, work func(context.Context)) error {
	select {
	case h.behind <- struct{}{}:
	default:
		return errLettersBusy
	}
	ctx, leave, err := h.enter(context.WithoutCancel(r.Context()))
	if err != nil {
		<-h.behind
		return err
	}
	end := func() { leave(); <-h.behind }
	fs := h.browser.sessions.Families
	if err := fs.Limits.ReserveLetter(r.Context(), email, h.audit.Address(r), fs.Now()); err != nil {
		end()
		return err
	}
	go func() {
		defer end()
		work(ctx)
	}()
	return nil
}

// serveLink serves the page of a link, which changes nothing, and its form, which uses the link. The link works in every browser.
func (h *linkPages) serveLink(w http.ResponseWriter, r *http.Request) error {
	r = uninterrupted(r)
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	sealed, f, err := pendingForm(w, r)
	if err != nil {
		return err
	}
	opened, err := h.links.Open(r.Context(), sealed)
	if err != nil {
		return brokenLink(err)
	}
	page := h.linkPage(v, opened, sealed)
	if r.Method != http.MethodPost {
		return h.browser.show(w, r, http.StatusOK, "", page)
	}
	nonce, err := h.browser.checkForm(r, v, f, linkPath)
	if err != nil {
		return err
	}
	switch {
	case page.SignInURL != "":
		return h.browser.show(w, r, http.StatusOK, "", page)
	case opened.Purpose == signin.AddressLink:
		return h.changeAddress(w, r, opened)
	}
	return h.setPassword(w, r, v, opened, f, page, nonce)
}

// pendingForm reads what a page carries: from the query, or from the form if one was sent, which it returns as well.
func pendingForm(w http.ResponseWriter, r *http.Request) (sealed oauth.Secret, f requests.Form, err error) {
	if r.Method != http.MethodPost {
		return pendingInQuery(r), f, nil
	}
	f, err = requests.ParseForm(w, r)
	return f.Secret("pending"), f, err
}

// brokenLink gives the error for a link that cannot be opened a page of its own.
func brokenLink(err error) error {
	if oauth.AsError(err).Reason == keys.ErrUnwrapped.Reason {
		return oauth.NewError(oauth.InvalidRequest, "link_broken")
	}
	return err
}

func (h *linkPages) linkPage(v visit, opened people.OpenedLink, sealed oauth.Secret) pages.UseLink {
	page := pages.UseLink{Form: h.browser.form(v, linkPath, sealed), Purpose: string(opened.Purpose)}
	switch {
	case opened.Purpose != signin.AddressLink:
		page.Password = &pages.Password{Email: opened.Email, MinLength: opened.Owner.MinLength()}
	case v.session == nil || v.session.User.ID != opened.UserID:
		page.Notice, page.SignInURL = pages.OtherAccount, h.browser.prefix+loginPath+"?"+switchAccount+"=1"
	default:
		page.NewEmail = opened.NewEmail
	}
	return page
}

// changeAddress uses a link to change the address of the user who is signed in.
func (h *linkPages) changeAddress(w http.ResponseWriter, r *http.Request, opened people.OpenedLink) error {
	if err := h.links.ChangeAddress(r.Context(), opened); err != nil {
		return err
	}
	h.audit.Accepted(r, "address changed", zap.String("subject", opened.UserID))
	seeOther(w, h.browser.prefix+doneURL(pages.AddressChanged))
	return nil
}

// setPassword uses a link to set a password, and signs the browser in. The second factor is asked for as after the password.
func (h *linkPages) setPassword(w http.ResponseWriter, r *http.Request, v visit, opened people.OpenedLink, f requests.Form, page pages.UseLink, nonce string) error {
	password, fault := typedPassword(f)
	if fault != "" {
		page.Password.Fault = fault
		return h.browser.show(w, r, http.StatusOK, "", page)
	}
	user, err := h.links.SetPassword(r.Context(), opened, password, h.audit.Address(r))
	if err != nil {
		status, err := passwordRefused(w, &page, err)
		if err != nil {
			return err
		}
		return h.browser.show(w, r, status, "", page)
	}
	h.audit.Accepted(r, "password set", zap.String("subject", user.ID), zap.String("link", string(opened.Purpose)))
	return h.signIn.proceed(w, r, v, pending{}, signin.AfterLink(user, h.browser.sessions.Families.Now()), nonce)
}

// passwordRefused adds to the page of a link why the password was not accepted, and returns the status. It returns any other error.
func passwordRefused(w http.ResponseWriter, page *pages.UseLink, err error) (status int, _ error) {
	if refusal, ok := errors.AsType[passwords.Refusal](err); ok {
		page.Password.Fault, page.Password.MinLength = pages.PasswordFault(refusal.Fault), refusal.MinLength
		return http.StatusOK, nil
	}
	if errors.Is(err, oauth.ErrHashingBusy) {
		page.Notice, page.RetryAfter = pages.Busy, oauth.AsError(err).RetryAfter
		return answers.SetStatusHeaders(w, err), nil
	}
	return 0, err
}

// typedPassword returns the new password of a form. It was typed twice.
func typedPassword(f requests.Form) (oauth.Secret, pages.PasswordFault) {
	password, again := f.Secret("new_password"), f.Secret("new_password_again")
	if password.Reveal() != again.Reveal() {
		return oauth.Secret{}, pages.PasswordsDiffer
	}
	return password, ""
}
