package endpoint

import (
	"net/http"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// introspect serves the introspection endpoint (RFC 7662 §2). The caller authenticates as a client, with its secret or with another access
// token than the introspected one. It learns only about that client's tokens.
func (h *tokenEndpoints) introspect(w http.ResponseWriter, r *http.Request) error {
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	asker, err := h.introspectionCaller(r, f)
	if err != nil {
		return err
	}
	token := f.Secret("token")
	if token.IsEmpty() {
		return oauth.MissingParameter("token")
	}
	found, err := h.issued.Introspect(r.Context(), asker, token)
	if err != nil {
		return err
	}
	if found != nil && found.Access != nil && asker.Bearer != nil && asker.Bearer.ID == found.Access.ID {
		return answers.BearerError{Err: oauth.NewError(oauth.InvalidToken, "token_introspects_itself")}
	}
	h.audit.Accepted(r, "token introspected", zap.String("client_id", asker.ClientID), zap.Bool("active", found != nil))
	answers.WriteObject(w, http.StatusOK, answers.JSON, h.introspectionOf(found))
	return nil
}

// introspectionRoom is the capacity for a typical response.
const introspectionRoom = 512

// introspectionOf returns the response (RFC 7662 §2.2). token_use is the kind of the token. For a refresh token, it omits token_type,
// because the token gives no access, and exp, which every use extends. iat is then that of the family: the token's own would reveal the
// last refresh.
func (h *tokenEndpoints) introspectionOf(found *issuer.Introspection) answers.Object {
	o := answers.NewObject(introspectionRoom)
	o.Boolean("active", found != nil)
	switch {
	case found == nil:
		return o
	case found.Access != nil:
		t := found.Access
		o.Text("scope", t.Scopes.String())
		o.Text("client_id", t.ClientID)
		o.Plain("token_type", "Bearer")
		o.Plain("token_use", "access_token")
		o.Number("exp", t.ExpiresAt.Unix())
		o.Number("iat", t.IssuedAt.Unix())
		o.Text("sub", t.Subject)
		o.List("aud", t.Audience)
		o.Text("iss", t.Issuer)
		o.Text("jti", t.ID)
		if t.IsExchanged() {
			o.Members(t.ActorClaim())
		}
		if !t.AuthTime.IsZero() { // RFC 9470 §6.2
			o.Number("auth_time", t.AuthTime.Unix())
		}
		if acr := t.ACR(); acr != "" {
			o.Text("acr", acr)
		}
		if groups := t.Claim("groups"); len(groups) > 0 {
			o.Array("groups", groups)
		}
	default:
		f := found.Family
		o.Text("scope", f.Scopes.String())
		o.Text("client_id", f.ClientID)
		o.Plain("token_use", "refresh_token")
		o.Number("iat", f.CreatedAt.Unix())
		o.Text("sub", f.User.ID)
		if len(f.Audience) > 0 {
			o.List("aud", f.Audience)
		}
		o.Text("iss", h.clients.URL)
	}
	if found.Username != "" {
		o.Text("username", found.Username)
	}
	return o
}

// introspectionCaller returns the authenticated caller. A public client cannot authenticate with its id alone.
func (h *tokenEndpoints) introspectionCaller(r *http.Request, f requests.Form) (issuer.Asker, error) {
	token, present, err := requests.BearerToken(r)
	if err != nil {
		return issuer.Asker{}, err
	}
	if present && (f.Get("client_id") != "" || !f.Secret("client_secret").IsEmpty() || !f.Secret("client_assertion").IsEmpty()) {
		return issuer.Asker{}, requests.Invalid("client_authentication_twice").WithDescription(requests.TwoMechanisms)
	}
	if present {
		t, err := h.issued.Verifier.Verify(token.Reveal(), h.clients.Audience)
		if err != nil {
			return issuer.Asker{}, answers.BearerError{Err: oauth.AsError(err)}
		}
		return issuer.Asker{ClientID: t.ClientID, Bearer: t}, nil
	}
	client, err := h.clients.Authenticate(r.Context(), h.clientAuthentication(r, f))
	if err != nil {
		return issuer.Asker{}, err
	}
	if client.IsPublic() {
		return issuer.Asker{}, forClient(oauth.NewError(oauth.InvalidClient, "client_is_public"), client)
	}
	return issuer.Asker{ClientID: client.ID}, nil
}
