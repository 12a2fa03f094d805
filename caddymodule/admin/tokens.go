package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var (
	tokenOperations      = map[Route]operation{MintToken: adds[MintedToken]("Issues a token for a client", withBody(mintToken))}
	revocationOperations = map[Route]operation{Revoke: changes("Revokes tokens", withBody(addRevocation))}
)

// newToken is the request to mint a token.
type newToken struct {
	Client   string  `json:"client"`
	User     *string `json:"user"` // none: a server token
	Scope    string  `json:"scope"`
	Lifetime string  `json:"lifetime"`
}

func mintToken(t *Target, r *http.Request, request newToken) (int, any, error) {
	lifetime, err := optionalDuration(request.Lifetime)
	if err == nil && request.Lifetime != "" && lifetime == 0 {
		err = store.InvalidInput(errors.New("token lifetime 0s: use 1s to 35d"))
	}
	if err != nil {
		return 0, nil, err
	}
	var tokens issuer.Tokens
	operator := issuer.OperatorTokens{UserTokens: t.Issuer.UserTokens, Registry: t.Registry}
	if request.User == nil {
		tokens, err = operator.MintServerToken(r.Context(), request.Client, request.Scope, lifetime)
	} else {
		tokens, err = operator.MintUserToken(r.Context(), request.Client, *request.User, request.Scope, lifetime)
	}
	if err != nil {
		return 0, nil, err
	}
	t.CountMinted()
	t.record(r.Context(), "token minted", zap.String("client_id", request.Client), zap.String("subject", tokens.Claims.Subject),
		zap.String("scope", tokens.Scopes.String()), zap.String("jti", tokens.Claims.ID))
	return http.StatusCreated, MintedToken{
		AccessToken: tokens.AccessToken.Reveal(), TokenType: "Bearer", ExpiresIn: int64(tokens.ExpiresIn / time.Second),
		Scope: tokens.Scopes.String(), ID: tokens.Claims.ID,
	}, nil
}

// MintedToken is the answer with a token that was issued for an operator.
type MintedToken struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
	ID          string `json:"jti"`
}

// newRevocation is the request to revoke tokens: one of the ids.
type newRevocation struct {
	Token        string `json:"jti"`
	Family       string `json:"family"`
	User         string `json:"user"`
	Client       string `json:"client"`
	Organisation string `json:"organisation"`
	Force        bool   `json:"force"` // accepts what is not known here
}

// target returns the one id that is given, and its kind.
func (n *newRevocation) target() (kind store.RevocationKind, id string, err error) {
	for _, named := range []struct {
		kind store.RevocationKind
		id   string
	}{
		{store.RevokeToken, n.Token}, {store.RevokeFamily, n.Family}, {store.RevokeUser, n.User}, {store.RevokeClient, n.Client},
		{store.RevokeOrganisation, n.Organisation},
	} {
		switch {
		case named.id != "" && id != "":
			return "", "", errors.New("name one of jti, family, user, client and organisation")
		case named.id != "":
			kind, id = named.kind, named.id
		}
	}
	switch {
	case id == "":
		return "", "", errors.New("name what to revoke: jti, family, user, client or organisation")
	case n.Force && kind == store.RevokeToken:
		return "", "", errors.New("force does not belong to jti")
	}
	if err := store.ValidateID(id); err != nil {
		return "", "", fmt.Errorf("the id: %w", err)
	}
	return kind, id, nil
}

func addRevocation(t *Target, r *http.Request, request newRevocation) (int, any, error) {
	kind, id, err := request.target()
	if err != nil {
		return 0, nil, store.InvalidInput(err)
	}
	if kind == store.RevokeUser && !request.Force {
		switch user, err := t.Registry.People.UserNamed(r.Context(), id); {
		case err == nil:
			id = user.ID
		case !errors.Is(err, store.ErrNotFound):
			return 0, nil, err
		}
	}
	if err := t.revoke(r.Context(), kind, id, request.Force); err != nil {
		return 0, nil, err
	}
	about := []zap.Field{zap.String("kind", string(kind)), zap.String("id", id)}
	switch kind {
	case store.RevokeUser:
		about = append(about, zap.String("subject", id))
	case store.RevokeClient:
		about = append(about, zap.String("client_id", id))
	}
	t.record(r.Context(), "tokens revoked", about...)
	return http.StatusNoContent, nil, nil
}

// unknownMeant is the error for the id of something that is not known here.
type unknownMeant struct {
	kind store.RevocationKind
	id   string
}

func (u unknownMeant) Error() string {
	removed := ""
	if u.kind == store.RevokeUser {
		removed = ", and none was removed"
	}
	return fmt.Sprintf("there is no %s %q%s: nothing was revoked. Use --force for one that only another issuer knows", u.kind, u.id, removed)
}

// Is makes it an ErrNotFound.
func (unknownMeant) Is(target error) bool { return target == store.ErrNotFound }

// checkKnown returns an unknownMeant for a family, a client or an organisation that does not exist. Tokens are not stored, so that any id may be
// one's, and RevokeUser knows removed users too.
func checkKnown(ctx context.Context, t *Target, kind store.RevocationKind, id string) (err error) {
	switch kind {
	case store.RevokeFamily:
		var f *store.TokenFamily
		if f, err = t.Issuer.Families.Stored(ctx, id); err == nil && f == nil {
			err = store.ErrNotFound
		}
	case store.RevokeClient:
		if id != store.BuiltInClientID {
			_, err = t.Registry.Clients.Client(ctx, id)
		}
	case store.RevokeOrganisation:
		_, err = t.Issuer.Families.Directory.Organisation(ctx, id)
	}
	if errors.Is(err, store.ErrNotFound) {
		return unknownMeant{kind, id}
	}
	return err
}

// revoke ends the named tokens; of a user or a family also the sessions and codes of their sign-ins. What is unknown is an error unless force is
// set.
func (t *Target) revoke(ctx context.Context, kind store.RevocationKind, id string, force bool) error {
	if !force {
		if err := checkKnown(ctx, t, kind, id); err != nil {
			return err
		}
	}
	if err := t.endPersonalTokens(ctx, kind, id); err != nil {
		return err
	}
	switch {
	case kind == store.RevokeUser && force:
		return t.Registry.People.RevokeAnybody(ctx, id)
	case kind == store.RevokeUser:
		err := t.Registry.People.RevokeUser(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return unknownMeant{kind, id}
		}
		return err
	case kind == store.RevokeFamily:
		return t.Issuer.Families.EndFamilies(ctx, store.FamilyFilter{ID: id})
	case kind == store.RevokeOrganisation:
		return t.Registry.People.RevokeOrganisation(ctx, id)
	}
	return t.Issuer.Families.Revoke(ctx, t.Issuer.Families.RevocationOf(kind, id))
}
