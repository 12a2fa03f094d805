package grants

import (
	"context"
	"errors"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Accepted configures the JWT bearer grant, which exchanges tokens of other issuers for tokens of this one (RFC 7523 §2.1).
type Accepted struct {
	// Issuers verify the assertions of trusted issuers. The key is the issuer identifier.
	Issuers map[string]clients.AssertionVerifier
	// People finds the users for rules about people. It is nil if there are no such rules.
	People PersonFinder
}

// PersonFinder finds users by the assertions of other issuers.
type PersonFinder interface {
	// Person returns the user who is the subject of an assertion that matches a rule. The error is access_denied if there is no such user,
	// or temporarily_unavailable.
	Person(ctx context.Context, rule *clients.AcceptRule, t *token.AccessToken) (*store.User, error)
}

// jwtBearer is the JWT bearer grant (RFC 7523 §2.1). It issues a token for an assertion of a trusted issuer, by the first rule that
// matches. For a workload the assertion is the only credential. An assertion that identifies a person requires client authentication too.
type jwtBearer struct {
	rights
	clients  *clients.Clients
	families *families.Families
	minter   *issuer.Minter
	accepted Accepted
	rules    []clients.AcceptRule
}

// assertedRequest is a request to the JWT bearer grant with what it has proved so far.
type assertedRequest struct {
	Request
	// client is the authenticated client. It is nil if none has authenticated.
	client *store.Client
	// named is the id of that client or the client_id of the request, which may be empty.
	named string
	rule  *clients.AcceptRule
	token *token.AccessToken
}

// exchange serves a request, from client authentication to the issued tokens.
func (g *jwtBearer) exchange(ctx context.Context, r Request) (issuer.Tokens, *store.Client, error) {
	asked := assertedRequest{Request: r, named: r.Client.PublicID}
	// 1. The client, if it authenticates: a client_id alone proves nothing.
	if r.Client.Proves() {
		client, err := g.clients.Authenticate(ctx, r.Client)
		if err != nil {
			return issuer.Tokens{}, nil, err
		}
		asked.client, asked.named = client, client.ID
	}
	// 2. The parameters.
	if r.Assertion.IsEmpty() {
		return issuer.Tokens{}, asked.client, oauth.MissingParameter("assertion")
	}
	// 3. The assertion is from a trusted issuer, is for this server, and matches a rule.
	if err := g.judge(ctx, &asked); err != nil {
		return issuer.Tokens{}, asked.client, err
	}
	// 4. The grant by that rule.
	grantOf := g.grantForWorkload
	if asked.rule.People {
		grantOf = g.grantForPerson
	}
	grant, err := grantOf(ctx, &asked)
	accepted := &issuer.AcceptedToken{Rule: asked.rule.Name, Issuer: asked.token.Issuer, Subject: asked.token.Subject, ID: asked.token.ID}
	if err != nil {
		return issuer.Tokens{}, asked.client, oauth.AsError(err).WithCause(errors.Join(fmt.Errorf("rule %s, subject %.256q", accepted.Rule, accepted.Subject), errors.Unwrap(err)))
	}
	// 5. The tokens.
	tokens, err := g.minter.Issue(grant)
	tokens.Accepted = accepted
	return tokens, grant.Client, err
}

// judge verifies the assertion and finds its rule. It counts a failure against the issuer that the assertion names and the address of the
// request.
func (g *jwtBearer) judge(ctx context.Context, asked *assertedRequest) error {
	now, text := g.families.Now(), asked.Assertion.Reveal()
	claimed, _ := token.ClaimedIssuer(text)
	bucket := "assertion of " + claimed
	if err := g.clients.Limits.CheckClient(ctx, bucket, asked.Client.Address, now); err != nil {
		return err
	}
	err := g.verify(ctx, claimed, text, asked)
	if err == nil || oauth.AsError(err).Code != oauth.InvalidGrant {
		return err
	}
	if counted := g.clients.Limits.CountClientFailure(ctx, bucket, asked.Client.Address, now); oauth.AsError(counted).Code == oauth.RateLimited {
		return counted
	}
	return err
}

// verify verifies an assertion of the claimed issuer and finds its rule.
func (g *jwtBearer) verify(ctx context.Context, claimed, text string, asked *assertedRequest) error {
	verifier := g.accepted.Issuers[claimed]
	if verifier == nil {
		return oauth.NewError(oauth.InvalidGrant, "assertion_issuer_not_accepted").WithCause(fmt.Errorf("issuer %.256q", claimed))
	}
	signed, err := token.ReadSigned(text)
	if err == nil {
		asked.token, err = verifier.VerifyAssertion(ctx, text, g.clients.URL)
	}
	switch {
	case err != nil && oauth.AsError(err).Code == oauth.TemporarilyUnavailable:
		return err
	case err != nil:
		return oauth.NewError(oauth.InvalidGrant, oauth.AsError(err).Reason).WithCause(fmt.Errorf("issuer %.256q: %w", claimed, err))
	}
	for i := range g.rules {
		rule := &g.rules[i]
		if rule.Fits(asked.token, signed.Type()) && (rule.People || asked.named == "" || asked.named == rule.ClientID) {
			asked.rule = rule
			return nil
		}
	}
	return oauth.NewError(oauth.InvalidGrant, "assertion_fits_no_rule").
		WithDescription("The assertion is good, and no `accept` of this server's configuration is for it.").
		WithCause(fmt.Errorf("issuer %.256q, subject %.256q", asked.token.Issuer, asked.token.Subject))
}

// grantForWorkload returns the grant of a server token, for the rule's client or for the subject that the rule derives from the claims.
func (g *jwtBearer) grantForWorkload(ctx context.Context, asked *assertedRequest) (issuer.Grant, error) {
	client, err := g.workload(ctx, asked)
	if err != nil {
		return issuer.Grant{}, err
	}
	scope := asked.Scope
	if scope == "" {
		scope = client.Scopes.String()
	}
	scopes, err := g.scopes.Grantable(scope, client.Scopes, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return issuer.Grant{}, err
	}
	audience, err := g.resources.Audience(asked.Resources, nil)
	if err != nil {
		return issuer.Grant{}, err
	}
	return issuer.Grant{Type: oauth.JWTBearer, Client: client, Scopes: scopes, Audience: audience}, nil
}

// workload returns the client that the token is issued to. A derived subject must not be the id of a client or user here, because the token
// would be taken for theirs.
func (g *jwtBearer) workload(ctx context.Context, asked *assertedRequest) (*store.Client, error) {
	if id := asked.rule.ClientID; id != "" {
		client, err := g.families.Directory.Client(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled:
			return nil, oauth.NewError(oauth.InvalidGrant, "rule_client_unknown").WithCause(fmt.Errorf("the client %q of the rule is not there, or disabled", id))
		case err != nil:
			return nil, err
		}
		bounded := *client
		bounded.Scopes = issuer.Intersection(client.Scopes, asked.rule.Scopes)
		return &bounded, nil
	}
	subject, err := asked.rule.SubjectOf(asked.token)
	if err != nil {
		return nil, err
	}
	_, clientErr := g.clients.Find(ctx, subject)
	_, userErr := g.families.Directory.User(ctx, subject)
	for _, err := range []error{clientErr, userErr} {
		if err == nil {
			return nil, oauth.NewError(oauth.InvalidGrant, "subject_taken").WithCause(fmt.Errorf("%q is a client or a user", subject))
		}
		if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
	}
	return &store.Client{ID: subject, Type: store.ConfidentialClient, Scopes: asked.rule.Scopes}, nil
}
