package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var personalTokenOperations = map[Route]operation{
	ListPersonalTokens:  shows[[]PersonalToken]("Lists the personal access tokens", bare(listPersonalTokens).around(onPersonalTokens)),
	AddPersonalToken:    adds[PersonalToken]("Makes a personal access token", withBody(addPersonalToken).around(onPersonalTokens)),
	RemovePersonalToken: changes("Ends a personal access token", bare(removePersonalToken).around(onPersonalTokens)),
	UserPersonalTokens:  shows[[]PersonalToken]("Lists the personal access tokens of a user", bare(listPersonalTokens).around(onPersonalTokens)),
}

// PersonalToken is the view of a personal access token. Token is set only in the answer to its creation.
type PersonalToken struct {
	ID        string    `json:"id"`
	User      string    `json:"user"`
	Name      string    `json:"name"`
	Scope     string    `json:"scope"`
	Resources []string  `json:"resources,omitempty"`
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	// LastUsedAt is the day of the last use.
	LastUsedAt time.Time `json:"last_used_at,omitzero"`
	Expired    bool      `json:"expired,omitzero"`
	Token      string    `json:"token,omitzero"`
}

// NewPersonalToken is the request to create a personal access token for a user, by id or e-mail address.
type NewPersonalToken struct {
	User      string   `json:"user"`
	Name      string   `json:"name"`
	Scope     string   `json:"scope"`
	Lifetime  string   `json:"lifetime,omitzero"`
	Resources []string `json:"resources,omitempty"`
}

var errNoPersonalTokens = store.InvalidInput(errors.New("there are no personal access tokens: add `personal_tokens` to the oauth block"))

func onPersonalTokens(op answering) answering {
	return func(t *Target, r *http.Request) (int, any, error) {
		if t.PersonalTokens == nil {
			return 0, nil, errNoPersonalTokens
		}
		return op(t, r)
	}
}

func (t *Target) viewOfPersonalToken(p *store.PersonalToken) PersonalToken {
	return PersonalToken{
		ID: p.ID, User: p.UserID, Name: p.Name, Scope: p.Scopes.String(), Resources: p.Audience, CreatedAt: p.CreatedAt, ExpiresAt: p.ExpiresAt,
		LastUsedAt: p.LastUsedAt, Expired: !t.Issuer.Families.Now().Before(p.ExpiresAt),
	}
}

func listPersonalTokens(t *Target, r *http.Request) (int, any, error) {
	userID := r.PathValue("id")
	if userID != "" {
		user, err := t.Registry.People.UserNamed(r.Context(), userID)
		if err != nil {
			return 0, nil, err
		}
		userID = user.ID
	}
	list, err := t.PersonalTokens.Of(r.Context(), userID)
	return listed(list, err, t.viewOfPersonalToken)
}

func addPersonalToken(t *Target, r *http.Request, n NewPersonalToken) (int, any, error) {
	user, err := t.Registry.People.UserNamed(r.Context(), n.User)
	if errors.Is(err, store.ErrNotFound) {
		err = store.InvalidInput(fmt.Errorf("there is no user %q", n.User))
	}
	if err != nil {
		return 0, nil, err
	}
	lifetime, err := optionalDuration(n.Lifetime)
	if err != nil {
		return 0, nil, err
	}
	scopes, err := oauth.ParseScopes(n.Scope)
	if err != nil {
		return 0, nil, err
	}
	made, token, err := t.PersonalTokens.Create(r.Context(), user, people.TokenRequest{Name: n.Name, Scopes: scopes, Lifetime: lifetime, Resources: n.Resources})
	if errors.As(err, new(people.InvalidTokenError)) {
		err = store.InvalidInput(err)
	}
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "personal access token added", zap.String("token_id", made.ID), zap.String("subject", user.ID), zap.String("scope", made.Scopes.String()),
		zap.Time("expires_at", made.ExpiresAt), zap.String("resources", strings.Join(made.Audience, " ")))
	view := t.viewOfPersonalToken(made)
	view.Token = token.Reveal()
	return http.StatusCreated, view, nil
}

func removePersonalToken(t *Target, r *http.Request) (int, any, error) {
	id := r.PathValue("id")
	ended, err := t.PersonalTokens.End(r.Context(), store.PersonalTokenFilter{ID: id})
	if err == nil && !ended {
		err = store.ErrNotFound
	}
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "personal access token removed", zap.String("token_id", id))
	return http.StatusNoContent, nil, nil
}

// endPersonalTokens ends the personal access tokens of a user or of an organisation, or the one of an id, with what else is revoked of
// them: they may outlive the revocation.
func (t *Target) endPersonalTokens(ctx context.Context, kind store.RevocationKind, id string) error {
	if t.PersonalTokens == nil {
		return nil
	}
	var err error
	switch kind {
	case store.RevokeToken:
		_, err = t.PersonalTokens.End(ctx, store.PersonalTokenFilter{ID: id})
	case store.RevokeUser:
		_, err = t.PersonalTokens.End(ctx, store.PersonalTokenFilter{UserID: id})
	case store.RevokeOrganisation:
		users, listErr := t.Registry.People.Users(ctx, id)
		for _, u := range users {
			_, endErr := t.PersonalTokens.End(ctx, store.PersonalTokenFilter{UserID: u.ID})
			err = errors.Join(err, endErr)
		}
		err = errors.Join(listErr, err)
	}
	return err
}
