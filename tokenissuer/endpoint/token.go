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
	return h.exchange(w, r, f)
}

// tokenAlias is the token endpoint for two grants only.
func (h *Handler) tokenAlias(w http.ResponseWriter, r *http.Request) error {
	f, err := parseForm(w, r)
	if err != nil {
		return err
	}
	switch tokenissuer.GrantType(f.get("grant_type")) {
	case "", tokenissuer.RefreshTokenGrant, tokenissuer.PasswordGrant:
		return h.exchange(w, r, f)
	}
	return tokenissuer.NewError(tokenissuer.UnsupportedGrantType, "grant_type_not_at_alias")
}

func (h *Handler) exchange(w http.ResponseWriter, r *http.Request, f form) error {
	tokens, client, err := h.issuer.Exchange(r.Context(), tokenissuer.TokenRequest{
		GrantType:    tokenissuer.GrantType(f.get("grant_type")),
		Client:       h.clientAuthentication(r, f),
		Scope:        f.get("scope"),
		Code:         f.secret("code"),
		RedirectURI:  f.get("redirect_uri"),
		CodeVerifier: f.secret("code_verifier"),
		RefreshToken: f.secret("refresh_token"),
		Email:        f.get("email"),
		Username:     f.get("username"),
		Password:     f.secret("password"),
	})
	if err != nil {
		return forClient(err, client)
	}
	h.tally.Issued(tokenissuer.GrantType(f.get("grant_type")))
	h.audit.Accepted(r, "token issued", append(issued(tokens), zap.String("grant_type", f.get("grant_type")))...)
	return writeJSON(w, responseOf(tokens))
}

// issued says of tokens what the audit log may know.
func issued(tokens tokenissuer.Tokens) []zap.Field {
	t := tokens.Claims
	fields := []zap.Field{
		zap.String("client_id", t.ClientID), zap.String("subject", t.Subject), zap.String("scope", t.Scopes.String()),
		zap.String("jti", t.ID), zap.String("kid", t.KeyID),
	}
	if t.FamilyID != "" {
		fields = append(fields, zap.String("family", t.FamilyID))
	}
	if tokens.Repeated {
		fields = append(fields, zap.Bool("repeated", true))
	}
	return fields
}

func responseOf(tokens tokenissuer.Tokens) tokenResponse {
	return tokenResponse{
		AccessToken:  tokens.AccessToken.Reveal(),
		TokenType:    "Bearer",
		ExpiresIn:    int64(tokens.ExpiresIn / time.Second),
		RefreshToken: tokens.RefreshToken.Reveal(),
		Scope:        tokens.Scopes.String(),
		CreatedAt:    tokens.CreatedAt.Unix(),
	}
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
