package endpoint

import (
	"errors"
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// userInfo serves the userinfo endpoint (OpenID Connect Core §5.3).
func (h *tokenEndpoints) userInfo(w http.ResponseWriter, r *http.Request) error {
	token, err := h.userInfoToken(w, r)
	if err != nil {
		return asBearerError(err)
	}
	info, err := h.issued.UserInfo(r.Context(), token)
	if err != nil {
		return asBearerError(err)
	}
	t := info.Token
	h.audit.Accepted(r, "user info told",
		zap.String("client_id", t.ClientID), zap.String("subject", t.Subject), zap.String("jti", t.ID))
	o := answers.NewObject(userInfoRoom + len(info.Claims))
	o.Text("sub", t.Subject)
	o.Members(info.Claims)
	answers.WriteObject(w, http.StatusOK, answers.JSON, o)
	return nil
}

// userInfoRoom is the capacity for a typical response without the claims.
const userInfoRoom = 64

// userInfoToken returns the access token of a request: from the header or, for a POST, from the form in its body, but not from both (RFC
// 6750 §2). It ignores a body of another media type.
func (h *tokenEndpoints) userInfoToken(w http.ResponseWriter, r *http.Request) (oauth.Secret, error) {
	if r.Method != http.MethodPost {
		return requests.Credential(r)
	}
	media, err := requests.ParseMediaType(r.Header["Content-Type"])
	if err != nil || media.Name != requests.URLEncoded {
		return requests.Credential(r)
	}
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return oauth.Secret{}, err
	}
	inBody := f.Secret("access_token")
	if inBody.IsEmpty() {
		return requests.Credential(r)
	}
	_, inHeader, err := requests.BearerToken(r)
	if err == nil && (inHeader || requests.QueryCarriesToken(r.URL.RawQuery)) {
		err = requests.Invalid("token_twice")
	}
	return inBody, err
}

// asBearerError marks an error as one about an access token, unless it has a status of its own.
func asBearerError(err error) error {
	if _, own := errors.AsType[requests.Error](err); own {
		return err
	}
	return answers.BearerError{Err: oauth.AsError(err)}
}
