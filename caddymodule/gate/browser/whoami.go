package browser

import (
	"net/http"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// whoIs describes the signed-in user to the host's pages. Its members are named as in OpenID Connect Core §5.1 and in our tokens.
type whoIs struct {
	Subject       string   `json:"sub"`
	Name          string   `json:"name,omitzero"`
	Email         string   `json:"email,omitzero"`
	EmailVerified bool     `json:"email_verified"`
	Groups        []string `json:"groups"`
	Organisation  string   `json:"org,omitzero"`
	Role          string   `json:"role,omitzero"`
}

// session serves /oauth/session, which tells scripts of the host's pages who is signed in. Pages of other origins cannot read it,
// nor learn from loading it whether a user is signed in.
func (h *Handler) session(w http.ResponseWriter, r *http.Request, host oauth.Host) error {
	w.Header().Set("Cross-Origin-Resource-Policy", "same-origin")
	session, err := h.Session(r, host)
	switch {
	case err != nil && !isNone(err):
		return err
	case err != nil: // an answer, and no attack to audit
		answers.WriteError(w, r, answers.BearerError{Err: errNone}, h.at.realm())
		return nil
	}
	t := session.Token
	one := func(claim string) string { return strings.Join(t.Claim(claim), "") }
	return answers.WriteJSON(w, whoIs{
		Subject: t.Subject, Name: one("name"), Email: one("email"), EmailVerified: one("email_verified") == "true",
		Groups: append([]string{}, t.Claim("groups")...), Organisation: t.Organisation, Role: t.Role,
	})
}
