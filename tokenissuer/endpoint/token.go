package endpoint

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// tokenEndpoints issue, revoke and describe tokens.
type tokenEndpoints struct {
	clients        *clients.Clients
	authorizations *issuer.Authorizations
	grants         *grants.Grants
	issued         *issuer.IssuedTokens
	audit          *Audit
	counters       Counters
}

// token serves the token endpoint (RFC 6749 §3.2).
func (h *tokenEndpoints) token(w http.ResponseWriter, r *http.Request) error {
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	return h.exchange(w, r, f)
}

// tokenAlias serves the token endpoint for the refresh_token and password grants only.
func (h *tokenEndpoints) tokenAlias(w http.ResponseWriter, r *http.Request) error {
	f, err := requests.ParseForm(w, r)
	if err != nil {
		return err
	}
	switch oauth.GrantType(f.Get("grant_type")) {
	case "", oauth.RefreshTokenGrant, oauth.PasswordGrant:
		return h.exchange(w, r, f)
	}
	return oauth.NewError(oauth.UnsupportedGrantType, "grant_type_not_at_alias")
}

func (h *tokenEndpoints) exchange(w http.ResponseWriter, r *http.Request, f requests.Form) error {
	tokens, client, err := h.grants.Exchange(r.Context(), grants.Request{
		GrantType:  oauth.GrantType(f.Get("grant_type")),
		Client:     h.clientAuthentication(r, f),
		Scope:      f.Get("scope"),
		Resources:  f.Resources(),
		Code:       grants.CodeParameters{Code: f.Secret("code"), RedirectURI: f.Get("redirect_uri"), Verifier: f.Secret("code_verifier")},
		DeviceCode: f.Secret("device_code"),
		Refresh:    grants.RefreshParameters{Token: f.Secret("refresh_token"), UserAgent: r.UserAgent()},
		Login:      grants.PasswordParameters{Email: f.Get("email"), Username: f.Get("username"), Password: f.Secret("password")},
		Assertion:  f.Secret("assertion"),
		Exchange: grants.ExchangeParameters{
			SubjectToken: f.Secret("subject_token"), SubjectTokenType: f.Get("subject_token_type"), RequestedTokenType: f.Get("requested_token_type"),
			ActorToken: f.Secret("actor_token"), ActorTokenType: f.Get("actor_token_type"), Audiences: f.Audiences(),
		},
	})
	if err != nil {
		return forClient(err, client)
	}
	h.counters.Issued(oauth.GrantType(f.Get("grant_type")))
	var room [issuedFields + 2]zap.Field
	fields := append(issued(room[:0], tokens), zap.String("grant_type", f.Get("grant_type")))
	if tokens.RepeatedFrom != "" {
		h.counters.RepeatedElsewhere()
		h.audit.Suspected(r, "token issued", append(fields, zap.String("repeated_from", tokens.RepeatedFrom))...)
	} else {
		h.audit.Accepted(r, "token issued", fields...)
	}
	answers.WriteObject(w, http.StatusOK, answers.JSON, responseOf(tokens))
	return nil
}

// issuedFields is the maximum number of fields that issued adds.
const issuedFields = 14

// issued appends the audit fields of issued tokens.
func issued(fields []zap.Field, tokens issuer.Tokens) []zap.Field {
	t := tokens.Claims
	fields = append(fields,
		zap.String("client_id", t.ClientID), zap.String("subject", t.Subject), zap.String("scope", t.Scopes.String()),
		zap.String("jti", t.ID), zap.String("kid", t.KeyID))
	if t.FamilyID != "" {
		fields = append(fields, zap.String("family", t.FamilyID))
	}
	if tokens.Repeated {
		fields = append(fields, zap.Bool("repeated", true))
	}
	if a := tokens.Accepted; a != nil {
		fields = append(fields, zap.String("rule", a.Rule), zap.String("assertion_issuer", a.Issuer), zap.String("assertion_subject", a.Subject))
	}
	if tokens.IssuedType != "" {
		fields = append(fields, zap.Strings("audience", t.Audience), zap.Int("actors", len(t.Actors)), zap.String("first_jti", t.Origin().ID))
	}
	if !tokens.IDToken.IsEmpty() {
		fields = append(fields, zap.Bool("id_token", true))
	}
	return fields
}

// responseOf returns the success body (RFC 6749 §5.1), with its members in the documented order.
func responseOf(tokens issuer.Tokens) answers.Object {
	access, refresh, scope := tokens.AccessToken.Reveal(), tokens.RefreshToken.Reveal(), tokens.Scopes.String()
	identity := tokens.IDToken.Reveal()
	o := answers.NewObject(responseFrame + len(access) + len(refresh) + len(scope) + len(identity))
	o.Plain("access_token", access)
	if tokens.IssuedType != "" {
		o.Plain("issued_token_type", tokens.IssuedType)
	}
	o.Plain("token_type", "Bearer")
	o.Number("expires_in", int64(tokens.ExpiresIn/time.Second))
	if refresh != "" {
		o.Plain("refresh_token", refresh)
	}
	o.Text("scope", scope)
	o.Number("created_at", tokens.CreatedAt.Unix())
	if identity != "" {
		o.Plain("id_token", identity) // OpenID Connect Core §3.1.3.3
	}
	return o
}

// responseFrame is the capacity for a token response without its texts.
const responseFrame = 160

// clientAuthentication reads the client authentication. It records an error in the result, because the client is checked only after the
// grant type.
func (h *tokenEndpoints) clientAuthentication(r *http.Request, f requests.Form) clients.Authentication {
	p, err := requests.ReadClientCredentials(r, f)
	return clients.Authentication{
		Readings: p.Readings, PublicID: p.PublicID, Assertion: p.Assertion, Address: h.audit.Address(r), Malformed: err,
	}
}
