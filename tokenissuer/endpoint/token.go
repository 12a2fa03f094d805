package endpoint

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// token is the token endpoint (RFC 6749 §3.2).
func (h *Handler) token(w http.ResponseWriter, r *http.Request) error {
	f, err := parseForm(w, r)
	if err != nil {
		return err
	}
	tokens, client, err := h.issuer.Exchange(r.Context(), tokenissuer.TokenRequest{
		GrantType: tokenissuer.GrantType(f.get("grant_type")),
		Client:    h.clientAuthentication(r, f),
		Scope:     f.get("scope"),
	})
	if err != nil {
		return forClient(err, client)
	}
	h.audit.Accepted(r, "token issued",
		zap.String("grant_type", f.get("grant_type")),
		zap.String("client_id", tokens.Claims.ClientID),
		zap.String("subject", tokens.Claims.Subject),
		zap.String("scope", tokens.Scopes.String()),
		zap.String("jti", tokens.Claims.ID),
		zap.String("kid", tokens.Claims.KeyID))
	return writeJSON(w, tokenResponse{
		AccessToken:  tokens.AccessToken.Reveal(),
		TokenType:    "Bearer",
		ExpiresIn:    int64(tokens.ExpiresIn / time.Second),
		RefreshToken: tokens.RefreshToken.Reveal(),
		Scope:        tokens.Scopes.String(),
		CreatedAt:    tokens.CreatedAt.Unix(),
	})
}

// tokenResponse is the success body (RFC 6749 §5.1), its members in the order of the wire contract.
type tokenResponse struct {
	AccessToken  string `json:"access_token"`
	TokenType    string `json:"token_type"`
	ExpiresIn    int64  `json:"expires_in"`
	RefreshToken string `json:"refresh_token,omitzero"`
	Scope        string `json:"scope"`
	CreatedAt    int64  `json:"created_at"`
}

// clientAuthentication reads what the request presents. A fault in it is carried along, because the order of checks
// judges the client only after the grant type.
func (h *Handler) clientAuthentication(r *http.Request, f form) tokenissuer.ClientAuthentication {
	p, err := clientCredentials(r, f)
	return tokenissuer.ClientAuthentication{
		Readings: p.Readings, PublicID: p.PublicID, Address: h.audit.Address(r), Malformed: err,
	}
}
