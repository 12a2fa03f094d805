package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// introspect is the introspection endpoint (RFC 7662 §2). The caller proves which client it is, with its secret or
// with an access token other than the one that it asks about, and learns of that client's tokens only.
func (h *Handler) introspect(w http.ResponseWriter, r *http.Request) error {
	f, err := parseForm(w, r)
	if err != nil {
		return err
	}
	clientID, bearer, err := h.introspectionCaller(r, f)
	if err != nil {
		return err
	}
	token := f.secret("token")
	if token.IsEmpty() {
		return tokenissuer.MissingParameter("token")
	}
	found, err := h.issuer.Introspect(r.Context(), clientID, token)
	if err != nil {
		return err
	}
	if found != nil && bearer != nil && found.Access != nil && bearer.ID == found.Access.ID {
		return bearerError{tokenissuer.NewError(tokenissuer.InvalidToken, "token_introspects_itself")}
	}
	h.audit.Accepted(r, "token introspected", zap.String("client_id", clientID), zap.Bool("active", found != nil))
	switch {
	case found == nil:
		return writeJSON(w, inactive{})
	case found.Access == nil:
		return writeJSON(w, h.introspectionOfRefresh(found))
	}
	t := found.Access
	return writeJSON(w, introspection{
		Active: true, Scope: t.Scopes.String(), ClientID: t.ClientID, TokenType: "Bearer",
		ExpiresAt: t.ExpiresAt.Unix(), IssuedAt: t.IssuedAt.Unix(), Subject: t.Subject,
		Audience: oneOrMany(t.Audience), Issuer: t.Issuer, ID: t.ID, Username: found.Username,
	})
}

// introspectionOfRefresh is the answer for an active refresh token. It has no token type, since it opens nothing
// (RFC 7662 §2.2), and no expiry: using it moves that.
func (h *Handler) introspectionOfRefresh(found *tokenissuer.Introspection) introspection {
	f := found.Family
	return introspection{
		Active: true, Scope: f.Scopes.String(), ClientID: f.ClientID, IssuedAt: f.RotatedAt.Unix(),
		Subject: f.UserID, Issuer: h.issuer.URL, Username: found.Username,
	}
}

// introspectionCaller returns the client that asks, and its token when it asked with one. A public client cannot prove
// itself with its id alone.
func (h *Handler) introspectionCaller(r *http.Request, f form) (string, *tokenissuer.AccessToken, error) {
	token, present, err := BearerToken(r)
	if err != nil {
		return "", nil, err
	}
	if present && f.get("client_id") == "" && f.secret("client_secret").IsEmpty() {
		t, err := h.issuer.Verifier.Verify(token.Reveal(), h.issuer.Audience)
		if err != nil {
			return "", nil, bearerError{tokenissuer.AsError(err)}
		}
		return t.ClientID, t, nil
	}
	client, err := h.issuer.AuthenticateClient(r.Context(), h.clientAuthentication(r, f))
	if err != nil {
		return "", nil, err
	}
	if client.IsPublic() {
		return "", nil, forClient(tokenissuer.NewError(tokenissuer.InvalidClient, "client_is_public"), client)
	}
	return client.ID, nil, nil
}

type inactive struct {
	Active bool `json:"active"`
}

// introspection is the answer for an active access token (RFC 7662 §2.2).
type introspection struct {
	Active    bool   `json:"active"`
	Scope     string `json:"scope"`
	ClientID  string `json:"client_id"`
	TokenType string `json:"token_type,omitzero"`
	ExpiresAt int64  `json:"exp,omitzero"`
	IssuedAt  int64  `json:"iat"`
	Subject   string `json:"sub"`
	Audience  any    `json:"aud,omitzero"`
	Issuer    string `json:"iss"`
	ID        string `json:"jti,omitzero"`
	Username  string `json:"username,omitzero"`
}

// oneOrMany writes a single audience as a string, as the token itself does (RFC 7519 §4.1.3).
func oneOrMany(audience []string) any {
	if len(audience) == 1 {
		return audience[0]
	}
	return audience
}
