package endpoint

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// identitiesOf returns a user's accounts at providers, for the account page.
func (h *accountPages) identitiesOf(r *http.Request, user *store.User) ([]pages.Identity, error) {
	if h.methods.Accounts.Users == nil {
		return nil, nil
	}
	linked, err := h.methods.Accounts.Linked(r.Context(), user)
	if err != nil {
		return nil, err
	}
	var list []pages.Identity
	for _, identity := range linked {
		list = append(list, pages.Identity{
			ID: identity.Provider + " " + identity.Subject, Provider: h.methods.title(identity.Provider),
			LinkedAt: identity.LinkedAt, LastUsed: identity.LastUsedAt, Only: h.unlinking(user, identity.Provider, identity.Subject).Check(linked) != nil,
		})
	}
	return list, nil
}

// unlink unlinks an account from its user, and reports whether the user had it. It refuses if the user could not sign in without it.
func (h *accountPages) unlink(r *http.Request, session *signin.Session, id string) (bool, error) {
	provider, subject, _ := strings.Cut(id, " ")
	if h.methods.Accounts.Users == nil {
		return false, requests.Invalid("account_change_unknown")
	}
	linked, err := h.methods.Accounts.Linked(r.Context(), session.User)
	if err != nil {
		return false, err
	}
	had := slices.ContainsFunc(linked, func(i store.Identity) bool { return i.Provider == provider && i.Subject == subject })
	u := h.unlinking(session.User, provider, subject)
	u.KeepSession = session.Family.ID
	return had, h.methods.Accounts.Users.Unlink(r.Context(), u)
}

// unlinking describes the account to unlink, and which other ways to sign in count.
func (h *accountPages) unlinking(user *store.User, provider, subject string) store.Unlinking {
	u := store.Unlinking{
		Provider: provider, Subject: subject, UserID: user.ID, MayBeLast: !h.methods.WithoutPasswords && !h.signIns.DirectoriesAlone && !user.PasswordHash.IsEmpty(),
	}
	for _, p := range h.methods.Providers {
		u.WaysIn = append(u.WaysIn, p.Name)
	}
	if !h.methods.WithoutPasswords {
		for _, d := range h.signIns.Directories {
			u.WaysIn = append(u.WaysIn, d.Provider())
		}
	}
	return u
}

// title returns the name shown for a provider.
func (m *SignInMethods) title(provider string) string {
	if p := m.provider(provider); p != nil {
		return p.Title
	}
	return cmp.Or(m.Directories[provider], provider)
}
