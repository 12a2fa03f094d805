package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// revoke serves the revocation endpoint (RFC 7009 §2). For an unknown or invalid token it reports success.
func (h *tokenEndpoints) revoke(w http.ResponseWriter, r *http.Request) error {
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	token := f.Secret("token")
	client, err := h.issued.RevokingClient(r.Context(), h.clientAuthentication(r, f), token)
	if err != nil {
		return err
	}
	if token.IsEmpty() {
		return forClient(oauth.MissingParameter("token"), client)
	}
	revoked, err := h.issued.RevokeFor(r.Context(), client, token)
	if err != nil {
		return forClient(err, client)
	}
	fields := []zap.Field{zap.String("client_id", client.ID), zap.Bool("found", revoked != nil)}
	if revoked != nil {
		fields = append(fields, zap.String("jti", revoked.ID), zap.String("subject", revoked.Subject))
	}
	h.audit.Accepted(r, "token revoked", fields...)
	return answers.WriteJSON(w, struct{}{})
}
