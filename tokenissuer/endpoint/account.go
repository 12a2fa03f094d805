package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// accountPages are the account page and its forms.
type accountPages struct {
	accounts people.Accounts
	signIns  *signin.SignIns
	signIn   *signInPages
	factors  *accountFactors
	roles    store.RoleCatalogue
	audit    *Audit
	methods  *SignInMethods
	browser  *browser
	// profile lets users change their profile, address and password.
	profile *accountProfile
	// tokens shows the user's personal access tokens. It is nil if there are none.
	tokens *tokenPages
}

// serve serves the account page. It shows the applications that may act for the user, and the user's sessions, accounts at providers and
// personal access tokens. Its forms end each of them, and make tokens.
func (h *accountPages) serve(w http.ResponseWriter, r *http.Request) error {
	w.Header().Set("Cross-Origin-Opener-Policy", "same-origin") // a page that opened this one keeps no reference to its window
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return err
	}
	if v.session == nil {
		seeOther(w, h.browser.prefix+loginPath) // the sign-in page returns here
		return nil
	}
	if r.Method != http.MethodPost {
		return h.showAccount(w, r, v)
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	r = uninterrupted(r)
	nonce, err := h.browser.checkForm(r, v, f, accountPath)
	switch {
	case err != nil:
		return err
	case f.Get("factor") != "" || f.Get("rename_factor") != "":
		return h.factors.change(w, r, v, f, nonce)
	case f.Get("change") != "":
		return h.profile.change(w, r, v, f, nonce)
	case f.Get("make") != "" && h.tokens == nil:
		return requests.Invalid("account_change_unknown")
	case f.Get("make") != "":
		return h.tokens.makeToken(w, r, v, f, nonce)
	}
	return h.changeAccount(w, r, v, f)
}

// changeAccount processes the forms of the account page.
func (h *accountPages) changeAccount(w http.ResponseWriter, r *http.Request, v visit, f requests.Form) error {
	user := v.session.User
	var next string
	var ended bool
	var err error
	var what zap.Field
	switch {
	case f.Get("application") != "":
		what, next = zap.String("application", f.Get("application")), doneURL(pages.ApplicationRemoved)
		ended, err = h.accounts.RevokeApplication(r.Context(), user, f.Get("application"))
	case f.Get("session") != "":
		what, next = zap.String("session", f.Get("session")), doneURL(pages.SessionEnded)
		ended, err = h.browser.sessions.EndSessionOf(r.Context(), user, f.Get("session"))
	case f.Get("identity") != "":
		what, next = zap.String("identity", f.Get("identity")), doneURL(pages.IdentityUnlinked)
		ended, err = h.unlink(r, v.session, f.Get("identity"))
	case f.Get("personal_token") != "" && h.tokens != nil:
		return h.tokens.endToken(w, r, user, f.Get("personal_token"))
	case f.Get("everywhere") != "":
		what, next, ended = zap.Bool("everywhere", true), logoutPath, true
		if err = h.browser.sessions.Families.EndPerson(r.Context(), user.ID); err == nil {
			h.browser.cookies.end(w)
			forgetPages(w)
		}
	default:
		return requests.Invalid("account_change_unknown")
	}
	if err != nil {
		return err
	}
	if ended { // an unknown id is not logged, because it may be anything else
		h.audit.Accepted(r, "account access ended", zap.String("subject", user.ID), what)
	}
	seeOther(w, h.browser.prefix+next)
	return nil
}

// doneQuery begins the query of the account page that names the change just made.
const doneQuery = "done="

func doneURL(d pages.Done) string { return accountPath + "?" + doneQuery + string(d) }

// doneBefore returns the notice for the change just made. It accepts only known notices, because a link may contain anything.
func doneBefore(r *http.Request) pages.Done {
	for _, d := range []pages.Done{pages.ApplicationRemoved, pages.SessionEnded, pages.IdentityUnlinked, pages.TokenEnded, pages.FactorRemoved, pages.FactorAdded, pages.FactorRenamed,
		pages.ProfileSaved, pages.PasswordChanged, pages.AddressAsked, pages.AddressChanged} {
		if r.URL.RawQuery == doneQuery+string(d) {
			return d
		}
	}
	return pages.NothingDone
}

func (h *accountPages) showAccount(w http.ResponseWriter, r *http.Request, v visit) error {
	page, err := h.accountPage(r, v)
	if err != nil {
		return err
	}
	return h.browser.show(w, r, http.StatusOK, "", page)
}

func (h *accountPages) accountPage(r *http.Request, v visit) (pages.Account, error) {
	user := v.session.User
	allowed, err := h.accounts.Of(r.Context(), user)
	if err != nil {
		return pages.Account{}, err
	}
	page := pages.Account{
		Form: h.browser.form(v, accountPath, oauth.Secret{}), Done: doneBefore(r), User: user.Name, Email: user.Email,
		Memberships: pages.Memberships{Organisation: h.organisationName(r, user), Role: h.roleOf(user), Groups: user.AllGroups()}, SignOutURL: h.browser.prefix + logoutPath,
	}
	for _, a := range allowed.Applications {
		page.Applications = append(page.Applications, pages.Application{
			ID: a.Client.ID, Name: titleOf(a.Client, ""), Scopes: scopesInWords(h.browser.policy(), a.Scopes), Since: a.Since, LastUsed: a.LastUsed,
		})
	}
	for _, s := range allowed.Sessions {
		session := pages.Session{ID: s.ID, Note: s.Note, Since: s.CreatedAt, LastSeen: s.Refresh.RotatedAt, Current: s.ID == v.session.Family.ID}
		for _, told := range allowed.Told[s.ID] {
			session.SignsOutOf = append(session.SignsOutOf, titleOf(told, ""))
		}
		for _, host := range allowed.Hosts[s.ID] {
			session.Hosts = append(session.Hosts, pages.Host{ID: host.ID, Name: host.Host, LastUsed: host.LastUsed})
		}
		page.Sessions = append(page.Sessions, session)
	}
	if page.Identities, err = h.identitiesOf(r, user); err != nil {
		return pages.Account{}, err
	}
	if page.Profile, err = h.profile.section(r, v); err != nil {
		return pages.Account{}, err
	}
	if page.Factors, err = h.factors.section(r, v); err != nil {
		return pages.Account{}, err
	}
	if h.tokens != nil {
		page.Tokens, err = h.tokens.tokensOf(r, v)
	}
	return page, err
}

// organisationName returns the name of the user's organisation, or its id if the name is unavailable.
func (h *accountPages) organisationName(r *http.Request, user *store.User) string {
	if user.Organisation == "" {
		return ""
	}
	organisation, err := h.browser.sessions.Families.Directory.Organisation(r.Context(), user.Organisation)
	if err != nil {
		return user.Organisation
	}
	return organisation.Name
}

// roleOf returns the configured words for a user's role, or else the role itself, for which the pages may have words. It returns "" for an
// undeclared role.
func (h *accountPages) roleOf(user *store.User) string {
	switch words := h.roles.Words(user.Role); {
	case !h.roles.Has(user.Role):
		return ""
	case words != "":
		return words
	}
	return string(user.Role)
}
