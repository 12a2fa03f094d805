package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxActors is how many may act for a subject, one by way of the other.
const maxActors = 4

// The types of token that can be exchanged, and that an exchange gives (RFC 8693 §3).
const (
	typeAccessToken = "urn:ietf:params:oauth:token-type:access_token"
	typeJWT         = "urn:ietf:params:oauth:token-type:jwt"
)

// TokenExchange are the parameters of a token exchange (RFC 8693 §2.1), beside those of every grant.
type TokenExchange struct {
	SubjectToken, ActorToken                             oauth.Secret
	SubjectTokenType, ActorTokenType, RequestedTokenType string
	Audiences                                            []string
}

// issuedType is the type of the token that the exchange gives.
func (x *TokenExchange) issuedType() string {
	if x.RequestedTokenType == typeJWT {
		return typeJWT
	}
	return typeAccessToken
}

// check says what is wrong with the parameters.
func (x *TokenExchange) check() error {
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

// unexchangeable is the error for a request of which something cannot be exchanged (RFC 8693 §2.2.2).
func unexchangeable(reason, sentence string) *oauth.Error {
	return oauth.NewError(oauth.InvalidRequest, reason).WithDescription(sentence)
}

// exchangeToken trades an access token that was meant for the client for one for the next service (RFC 8693): for the same subject, with
// the client as its actor, never for more or for longer. It rests on no durable step. Whatever ends the former ends the latter.
func (is *Issuer) exchangeToken(ctx context.Context, client *store.Client, r TokenRequest) (Grant, error) {
	// 1. The parameters.
	if client.IsPublic() {
		return Grant{}, oauth.NewError(oauth.UnauthorizedClient, "client_is_public")
	}
	if err := r.Exchange.check(); err != nil {
		return Grant{}, err
	}
	// 2. The token is one of ours, and was meant for the client.
	subject, err := is.exchangeable(ctx, client, &r.Exchange)
	if err != nil {
		return Grant{}, err
	}
	// 3. A rule of the client lets it be exchanged for one for these services.
	rule, audience, err := is.exchangeRule(client, subject, r.Resources, r.Exchange.Audiences)
	if err != nil {
		return Grant{}, forSubject(err, subject)
	}
	// 4. The scopes are those that the token, the rule and the request all have.
	scopes, err := is.exchangedScopes(r.Scope, subject, rule)
	if err != nil {
		return Grant{}, forSubject(err, subject)
	}
	return Grant{Type: oauth.TokenExchange, Client: client, Scopes: scopes, Audience: audience, exchanged: subject}, nil
}

// exchangeable returns the access token that is to be exchanged, by what is revoked at this moment.
func (is *Issuer) exchangeable(ctx context.Context, client *store.Client, x *TokenExchange) (*token.AccessToken, error) {
	text := x.SubjectToken.Reveal()
	if is.isPersonal(x.SubjectToken) {
		return nil, unexchangeable("token_is_personal", "A personal access token cannot be exchanged.")
	}
	if issuer, isJWT := token.ClaimedIssuer(text); isJWT && issuer != is.URL {
		return nil, unexchangeable("issuer_unknown", "The subject_token is of another issuer: only access tokens of this server can be exchanged.").
			WithCause(fmt.Errorf("issuer %.256q", issuer))
	}
	if err := is.catchUp(ctx); err != nil {
		return nil, err
	}
	t, err := is.Verifier.Verify(text, is.audiencesOf(client, client.Exchange...))
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
	if !is.Birth(is.Now()).Before(t.ExpiresAt) { // it was let in because clocks differ
		return nil, forSubject(unexchangeable("token_expired", "The subject_token has expired."), t)
	}
	// What was issued before the client was disabled is not its own to exchange, and the new token would be revoked at once.
	asked := &token.AccessToken{Issuer: is.URL, ClientID: client.ID, IssuedAt: is.Birth(is.Now())}
	if asked.Delegate(t, actorOf(client)); is.Revocations.Revoked(asked) {
		return nil, forSubject(unexchangeable("client_was_disabled", "The subject_token was issued before this client was disabled."), t)
	}
	return t, nil
}

// forSubject says in the audit log of which token an exchange was refused.
func forSubject(err error, t *token.AccessToken) error {
	e := oauth.AsError(err)
	return e.WithCause(errors.Join(fmt.Errorf("subject %.256q, jti %.256q, audience %.1024q, %d actors", t.Subject, t.ID, t.Audience, len(t.Actors)), errors.Unwrap(e)))
}

// actorOf is a client that acts for somebody.
func actorOf(client *store.Client) store.Actor {
	return store.Actor{Subject: client.ID, ClientID: client.ID}
}

// audiencesOf are the audiences by which tokens are meant for a client: its id, and what the rules say. A client that is called as the
// issuer's own audience is does not have all tokens by that.
func (is *Issuer) audiencesOf(client *store.Client, rules ...store.ExchangeRule) (own []string) {
	if !is.isOwnAudience(client.ID) {
		own = append(own, client.ID)
	}
	for _, rule := range rules {
		for _, audience := range rule.From {
			own = append(own, is.Resources.Spelling(audience))
		}
	}
	return own
}

// exchangeRule returns the first rule by which a token can be exchanged for one for all that is asked for, and the new audience. One rule has
// to name all of it: the scopes of each are for its own audiences.
func (is *Issuer) exchangeRule(client *store.Client, subject *token.AccessToken, resources, names []string) (*store.ExchangeRule, []string, error) {
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
		if !subject.HasAudience(is.audiencesOf(client, *rule)) {
			continue
		}
		if audience := is.among(rule.Audiences, asked); audience != nil {
			return rule, audience, nil
		}
	}
	return nil, nil, oauth.NewError(oauth.InvalidTarget, "target_not_allowed").
		WithDescription("No rule of this client lets the subject_token be exchanged for a token for what was asked for.").
		WithCause(fmt.Errorf("asked for %.1024q", asked))
}

// among returns what is asked for as it stands in aud, each once; nil when some of it is not allowed.
func (is *Issuer) among(allowed, asked []string) (audience []string) {
	for _, name := range asked {
		i := slices.IndexFunc(allowed, func(a string) bool { return oauth.SameResource(a, name) })
		if i < 0 || is.isOwnAudience(allowed[i]) {
			return nil
		}
		if spelled := is.Resources.Spelling(allowed[i]); !slices.Contains(audience, spelled) {
			audience = append(audience, spelled)
		}
	}
	return audience
}

// isOwnAudience reports whether an audience is the issuer's own. With a token for that a service could act as the client everywhere.
func (se *Settings) isOwnAudience(audience string) bool {
	return slices.ContainsFunc(append([]string{se.URL}, se.Audience...), func(own string) bool { return oauth.SameResource(own, audience) })
}

// CheckExchange says what is wrong with the rules by which a client may exchange tokens here.
func (se *Settings) CheckExchange(client *store.Client) error {
	for _, rule := range client.Exchange {
		if err := se.Scopes.Check(rule.Scopes); err != nil {
			return fmt.Errorf("may_exchange: %w", err)
		}
		if i := slices.IndexFunc(rule.Audiences, se.isOwnAudience); i >= 0 {
			return fmt.Errorf("may_exchange %s: this is our issuer's own audience, with which a service could act as the caller everywhere: name that service alone", rule.Audiences[i])
		}
	}
	return nil
}

// exchangedScopes returns the scopes of the new token. A sign-in and a refresh are the first client's alone.
func (is *Issuer) exchangedScopes(asked string, subject *token.AccessToken, rule *store.ExchangeRule) (oauth.Scopes, error) {
	ceiling := slices.DeleteFunc(slices.Clone(intersection(subject.Scopes, rule.Scopes)), func(name string) bool {
		return oauth.AsksForRefresh(name) || name == oauth.ScopeOpenID
	})
	return chosen(asked, ceiling, oauth.InvalidScope, "scopes_disjoint")
}
