package endpoint

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// tokenInfo answers with a description of the bearer's own token.
func (h *tokenEndpoints) tokenInfo(w http.ResponseWriter, r *http.Request) error {
	token, err := requests.Credential(r)
	if err != nil {
		return answers.BearerError{Err: oauth.AsError(err)}
	}
	t, err := h.issued.VerifyBearer(r.Context(), token)
	if err != nil {
		return answers.BearerError{Err: oauth.AsError(err)}
	}
	info := tokenInfo{
		Scope:       t.Scopes,
		ExpiresIn:   int64(t.ExpiresAt.Sub(h.issued.Verifier.Now()) / time.Second),
		Application: application{t.ClientID},
		CreatedAt:   t.IssuedAt.Unix(),
	}
	if !t.IsServerToken() {
		info.ResourceOwnerID = &t.Subject
	}
	h.audit.Accepted(r, "token info told",
		zap.String("client_id", t.ClientID), zap.String("subject", t.Subject), zap.String("jti", t.ID))
	return answers.WriteJSON(w, info)
}

type tokenInfo struct {
	ResourceOwnerID *string      `json:"resource_owner_id"`
	Scope           oauth.Scopes `json:"scope"`
	ExpiresIn       int64        `json:"expires_in"`
	Application     application  `json:"application"`
	CreatedAt       int64        `json:"created_at"`
}

type application struct {
	UID string `json:"uid"`
}
