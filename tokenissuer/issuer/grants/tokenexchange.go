package grants

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxActors bounds the chain of actors of a token.
const maxActors = 4

// The types of token that can be exchanged and issued (RFC 8693 §3).
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// ExchangeParameters are those of RFC 8693 §2.1.
type ExchangeParameters struct {
	SubjectToken, ActorToken                             oauth.Secret
	SubjectTokenType, ActorTokenType, RequestedTokenType string
	Audiences                                            []string
}

// issuedType returns the type of the issued token.
func (x *ExchangeParameters) issuedType() string {
	if x.RequestedTokenType == typeJWT {
		return typeJWT
	}
	return typeAccessToken
}

// check returns an error for unsupported parameters.
func (x *ExchangeParameters) check() error {
	isAccessToken := func(kind string) bool { return kind == typeAccessToken || kind == typeJWT }
	switch {
	case x.SubjectToken.IsEmpty():
		return oauth.MissingParameter("subject_token")
	case x.SubjectTokenType == "":
		return oauth.MissingParameter("subject_token_type")
	case !isAccessToken(x.SubjectTokenType):
		return unexchangeable("subject_token_type_unsupported", "The subject_token_type must be "+typeAccessToken+" or "+typeJWT+".")
	case !x.ActorToken.IsEmpty() || x.ActorTokenType != "":
		return unexchangeable("actor_token_unsupported", "An actor_token is not supported: the client that asks is the actor.")
	case x.RequestedTokenType != "" && !isAccessToken(x.RequestedTokenType):
		return unexchangeable("requested_token_type_unsupported", "The requested_token_type must be "+typeAccessToken+" or "+typeJWT+".")
	}
	return nil
}

// unexchangeable returns the error for a token that cannot be exchanged (RFC 8693 §2.2.2).
func unexchangeable(reason, sentence string) *oauth.Error {
	return oauth.NewError(oauth.InvalidRequest, reason).WithDescription(sentence)
}

// tokenExchange is the token exchange grant (RFC 8693). A client exchanges an access token that was meant for it for a token for the next
// service. The new token has the same subject and the client as its actor. It never has more scopes or a longer lifetime. There is no
// durable step: revoking the first token revokes the second.
type tokenExchange struct {
	families  *families.Families
	clients   *clients.Clients
	issued    *issuer.IssuedTokens
	resources *oauth.Resources
}

func (g *tokenExchange) exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	// 1. The parameters.
	if client.IsPublic() {
		return issuer.Grant{}, oauth.NewError(oauth.UnauthorizedClient, "client_is_public")
	}
	if err := r.Exchange.check(); err != nil {
		return issuer.Grant{}, err
	}
	// 2. The token is ours and was meant for the client.
	subject, err := g.exchangeable(ctx, client, &r.Exchange)
	if err != nil {
		return issuer.Grant{}, err
	}
	// 3. A rule of the client allows the exchange for these services.
	rule, audience, err := g.exchangeRule(client, subject, r.Resources, r.Exchange.Audiences)
	if err != nil {
		return issuer.Grant{}, forSubject(err, subject)
	}
	// 4. The scopes common to the token, the rule and the request.
	scopes, err := exchangedScopes(r.Scope, subject, rule)
	if err != nil {
		return issuer.Grant{}, forSubject(err, subject)
	}
	return issuer.Grant{Type: oauth.TokenExchange, Client: client, Scopes: scopes, Audience: audience, Exchanged: subject}, nil
}

// exchangeable returns the access token to be exchanged, after checking it against all revocations so far.
func (g *tokenExchange) exchangeable(ctx context.Context, client *store.Client, x *ExchangeParameters) (*token.AccessToken, error) {
	text := x.SubjectToken.Reveal()
	if g.issued.IsPersonal(x.SubjectToken) {
		return nil, unexchangeable("token_is_personal", "A personal access token cannot be exchanged.")
	}
	if claimed, isJWT := token.ClaimedIssuer(text); isJWT && claimed != g.clients.URL {
		return nil, unexchangeable("issuer_unknown", "The subject_token is of another issuer: only access tokens of this server can be exchanged.").
			WithCause(fmt.Errorf("issuer %.256q", claimed))
	}
	if err := g.families.CatchUp(ctx); err != nil {
		return nil, err
	}
	t, err := g.issued.Verifier.Verify(text, g.audiencesOf(client, client.Exchange...))
	switch refusal := oauth.AsError(err); {
	case err == nil:
	case refusal.Code != oauth.InvalidToken:
		return nil, err
	case errors.Is(err, token.ErrAudienceWrong):
		return nil, unexchangeable(refusal.Reason, "The subject_token is not meant for this client.")
	default:
		return nil, unexchangeable(refusal.Reason, "The subject_token is not a valid access token of this server.").WithCause(errors.Unwrap(err))
	}
	if len(t.Actors) >= maxActors {
		return nil, forSubject(unexchangeable("actors_too_many", fmt.Sprintf("At most %d may act for a subject, one by way of the other.", maxActors)), t)
	}
	if !g.families.IssueTime().Before(t.ExpiresAt) { // the verifier allows for clock skew; this check does not
		return nil, forSubject(unexchangeable("token_expired", "The subject_token has expired."), t)
	}
	// A token issued before the client was disabled must not be exchanged: the new token would be revoked at once.
	asked := &token.AccessToken{Issuer: g.clients.URL, ClientID: client.ID, IssuedAt: g.families.IssueTime()}
	if asked.Delegate(t, issuer.ActorOf(client)); g.families.Revocations.Revoked(asked) {
		return nil, forSubject(unexchangeable("client_was_disabled", "The subject_token was issued before this client was disabled."), t)
	}
	return t, nil
}

// forSubject adds the subject token to the error of an exchange, for the audit log.
func forSubject(err error, t *token.AccessToken) error {
	e := oauth.AsError(err)
	return e.WithCause(errors.Join(fmt.Errorf("subject %.256q, jti %.256q, audience %.1024q, %d actors", t.Subject, t.ID, t.Audience, len(t.Actors)), errors.Unwrap(e)))
}

// audiencesOf returns the audiences of tokens that are meant for a client: its id, and those that the rules name. It omits an id that
// equals the issuer's own audience.
func (g *tokenExchange) audiencesOf(client *store.Client, rules ...store.ExchangeRule) (own []string) {
	if !g.clients.IsOwnAudience(client.ID) {
		own = append(own, client.ID)
	}
	for _, rule := range rules {
		for _, audience := range rule.From {
			own = append(own, g.resources.Spelling(audience))
		}
	}
	return own
}

// exchangeRule returns the first rule that allows the whole request, and the new audience. One rule must cover all of it, because a rule's
// scopes apply to its own audiences only.
func (g *tokenExchange) exchangeRule(client *store.Client, subject *token.AccessToken, resources, names []string) (*store.ExchangeRule, []string, error) {
	if len(resources)+len(names) == 0 {
		return nil, nil, oauth.MissingParameter("audience")
	}
	for _, resource := range resources {
		if _, ok := oauth.FoldResource(resource); !ok {
			return nil, nil, oauth.NewError(oauth.InvalidTarget, "resource_malformed")
		}
	}
	asked := slices.Concat(resources, names)
	for i := range client.Exchange {
		rule := &client.Exchange[i]
		if !subject.HasAudience(g.audiencesOf(client, *rule)) {
			continue
		}
		if audience := g.among(rule.Audiences, asked); audience != nil {
			return rule, audience, nil
		}
	}
	return nil, nil, oauth.NewError(oauth.InvalidTarget, "target_not_allowed").
		WithDescription("No rule of this client lets the subject_token be exchanged for a token for what was asked for.").
		WithCause(fmt.Errorf("asked for %.1024q", asked))
}

// among returns the requested audiences as spelled in aud, without duplicates. It returns nil if one is not allowed.
func (g *tokenExchange) among(allowed, asked []string) (audience []string) {
	for _, name := range asked {
		i := slices.IndexFunc(allowed, func(a string) bool { return oauth.SameResource(a, name) })
		if i < 0 || g.clients.IsOwnAudience(allowed[i]) {
			return nil
		}
		if spelled := g.resources.Spelling(allowed[i]); !slices.Contains(audience, spelled) {
			audience = append(audience, spelled)
		}
	}
	return audience
}

// exchangedScopes returns the scopes of the new token. openid and refresh remain with the first client.
func exchangedScopes(asked string, subject *token.AccessToken, rule *store.ExchangeRule) (oauth.Scopes, error) {
	ceiling := slices.DeleteFunc(slices.Clone(issuer.Intersection(subject.Scopes, rule.Scopes)), func(name string) bool {
		return oauth.AsksForRefresh(name) || name == oauth.ScopeOpenID
	})
	return issuer.ChosenScopes(asked, ceiling, oauth.InvalidScope, "scopes_disjoint")
}
