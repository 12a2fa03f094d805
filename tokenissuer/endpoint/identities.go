package endpoint

import (
	"net/http"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// identitiesOf returns the accounts at providers with which a user signs in, for the account page.
func (h *Handler) identitiesOf(r *http.Request, user *store.User) ([]pages.Identity, error) {
	if h.methods.Accounts.Registry == nil {
		return nil, nil
	}
	linked, err := h.methods.Accounts.Linked(r.Context(), user)
	if err != nil {
		return nil, err
	}
	var list []pages.Identity
	for i, identity := range linked {
		list = append(list, pages.Identity{
			ID: identity.Provider + " " + identity.Subject, Provider: h.titleOf(identity.Provider),
			LinkedAt: identity.LinkedAt, LastUsed: identity.LastUsedAt, Only: !h.canSignInWithout(user, linked, i),
		})
	}
	return list, nil
}

// unlink takes an account from its user, unless there is no other way in.
func (h *Handler) unlink(r *http.Request, session *tokenissuer.Session, id string) error {
	provider, subject, _ := strings.Cut(id, " ")
	if h.methods.Accounts.Registry == nil {
		return requests.Invalid("account_change_unknown")
	}
	linked, err := h.methods.Accounts.Linked(r.Context(), session.User)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(linked, func(l store.Identity) bool { return l.Provider == provider && l.Subject == subject })
	if i >= 0 && !h.canSignInWithout(session.User, linked, i) {
		return requests.Invalid("identity_is_only_way_in")
	}
	return h.methods.Accounts.Unlink(r.Context(), session.User, provider, subject, session.Family.ID)
}

// canSignInWithout reports whether a user has another way in than the i-th of the linked accounts.
func (h *Handler) canSignInWithout(user *store.User, linked []store.Identity, i int) bool {
	if !h.methods.WithoutPasswords && !user.PasswordHash.IsEmpty() {
		return true
	}
	for j, other := range linked {
		if j != i && h.isUsable(other.Provider) {
			return true
		}
	}
	return false
}

// isUsable reports whether people can sign in at a provider now.
func (h *Handler) isUsable(provider string) bool {
	return h.methods.provider(provider) != nil || !h.methods.WithoutPasswords && slices.ContainsFunc(h.issuer.PasswordDirectories,
		func(d tokenissuer.PasswordDirectory) bool { return d.Provider() == provider })
}

// titleOf returns what people call a provider.
func (h *Handler) titleOf(provider string) string {
	if p := h.methods.provider(provider); p != nil {
		return p.Title
	}
	return provider
}
