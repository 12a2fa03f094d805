package caddymodule

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var tokenOperations = map[string]operation{
	"POST /oauth/tokens":         mintToken,
	"POST /oauth/tokens/explain": explainToken,
	"POST /oauth/revocations":    addRevocation,
}

func mintToken(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Client   string  `json:"client"`
		User     *string `json:"user,omitzero"` // none: a server token
		Scope    string  `json:"scope,omitzero"`
		Lifetime string  `json:"lifetime,omitzero"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	lifetime, err := optionalDuration(request.Lifetime)
	if err == nil && request.Lifetime != "" && lifetime == 0 {
		err = tokenissuer.InvalidInput(errors.New("token lifetime 0s: use 1s to 35d"))
	}
	if err != nil {
		return 0, nil, err
	}
	var tokens tokenissuer.Tokens
	if request.User == nil {
		tokens, err = app.registry.MintServerToken(r.Context(), request.Client, request.Scope, lifetime)
	} else {
		tokens, err = app.registry.MintUserToken(r.Context(), request.Client, *request.User, request.Scope, lifetime)
	}
	if err != nil {
		return 0, nil, err
	}
	tokensIssued.WithLabelValues(byOperator).Inc()
	app.record("token minted", zap.String("client_id", request.Client), zap.String("subject", tokens.Claims.Subject),
		zap.String("scope", tokens.Scopes.String()), zap.String("jti", tokens.Claims.ID))
	return http.StatusCreated, mintedToken{
		AccessToken: tokens.AccessToken.Reveal(), TokenType: "Bearer", ExpiresIn: int64(tokens.ExpiresIn / time.Second),
		Scope: tokens.Scopes.String(), ID: tokens.Claims.ID,
	}, nil
}

type mintedToken struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
	ID          string `json:"jti"`
}

// explanation is what `caddy oauth token explain` prints.
type explanation struct {
	tokenissuer.Explanation `json:",inline"`
	Subject                 string    `json:"subject,omitzero"`
	ClientID                string    `json:"client_id,omitzero"`
	Scope                   string    `json:"scope,omitzero"`
	ID                      string    `json:"jti,omitzero"`
	Family                  string    `json:"family,omitzero"`
	Actor                   string    `json:"actor,omitzero"` // who obtained it for the subject
	KeyID                   string    `json:"kid,omitzero"`
	IssuedAt                time.Time `json:"issued_at,omitzero"`
	ExpiresAt               time.Time `json:"expires_at,omitzero"`
}

func explainToken(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Token    string   `json:"token"`
		Audience []string `json:"audience,omitempty"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	if len(request.Audience) == 0 {
		request.Audience = app.settings.audience
	}
	x := explanation{Explanation: app.issuer.Verifier.Explain(strings.TrimSpace(request.Token), request.Audience)}
	if t := x.Claims; t != nil {
		x.Subject, x.ClientID, x.Scope, x.ID, x.KeyID = t.Subject, t.ClientID, t.Scopes.String(), t.ID, t.KeyID
		x.Family, x.Actor = t.FamilyID, t.Actor.Subject
		x.IssuedAt, x.ExpiresAt = t.IssuedAt, t.ExpiresAt
	}
	return http.StatusOK, x, nil
}

func addRevocation(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Token        string `json:"jti,omitzero"`
		Family       string `json:"family,omitzero"`
		User         string `json:"user,omitzero"`
		Client       string `json:"client,omitzero"`
		Organisation string `json:"organisation,omitzero"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	named := map[tokenissuer.RevocationKind]string{
		tokenissuer.RevokeToken: request.Token, tokenissuer.RevokeFamily: request.Family, tokenissuer.RevokeUser: request.User,
		tokenissuer.RevokeClient: request.Client, tokenissuer.RevokeOrganisation: request.Organisation,
	}
	var kind tokenissuer.RevocationKind
	for k, id := range named {
		switch {
		case id != "" && kind != "":
			return 0, nil, tokenissuer.InvalidInput(errors.New("name one of jti, family, user, client and organisation"))
		case id != "":
			kind = k
		}
	}
	if kind == "" {
		return 0, nil, tokenissuer.InvalidInput(errors.New("name what to revoke: jti, family, user, client or organisation"))
	}
	if strings.ContainsFunc(named[kind], unicode.IsControl) || !utf8.ValidString(named[kind]) {
		return 0, nil, tokenissuer.InvalidInput(errors.New("the id has control characters: no id has"))
	}
	if err := app.revoke(r.Context(), kind, named[kind]); err != nil {
		return 0, nil, err
	}
	app.record("tokens revoked", zap.String("kind", string(kind)), zap.String("id", named[kind]))
	return http.StatusNoContent, nil, nil
}

// revoke ends the tokens that are named, and with those of a user or a family what else descends from their sign-ins.
func (a *App) revoke(ctx context.Context, kind tokenissuer.RevocationKind, id string) error {
	switch kind {
	case tokenissuer.RevokeUser:
		return a.registry.RevokeUser(ctx, id)
	case tokenissuer.RevokeFamily:
		return a.registry.RevokeFamily(ctx, id)
	}
	return a.issuer.Revoke(ctx, a.issuer.RevocationOf(kind, id))
}
