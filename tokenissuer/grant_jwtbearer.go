package tokenissuer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Accepted is what makes tokens of others tokens of ours (RFC 7523 §2.1).
type Accepted struct {
	// Issuers verify what they have signed, by their identifiers.
	Issuers map[string]assertion.Verifier
	// People finds the users of people; nil: no rule is for people.
	People PersonFinder
}

// PersonFinder finds the users of people whom an issuer of somebody else's names.
type PersonFinder interface {
	// Person returns the user of the subject of a grant that was taken by a rule. The error is an access_denied for somebody who is no
	// user here, or temporarily_unavailable.
	Person(ctx context.Context, rule *assertion.Rule, t *token.AccessToken) (*store.User, error)
}

// AcceptedToken says of a token of ours which token of somebody else's it was given for, for the audit log.
type AcceptedToken struct{ Rule, Issuer, Subject, ID string }

// assertedRequest is what a request to the JWT bearer grant has proved.
type assertedRequest struct {
	TokenRequest
	// client has proved who it is; nil: no client has.
	client *store.Client
	// named is the id of that client, or the client_id of a request that proves nothing by it; it may be empty.
	named string
	rule  *assertion.Rule
	token *token.AccessToken
}

// exchangeAssertion is the JWT bearer grant (RFC 7523 §2.1): a token of a trusted issuer becomes one of ours by the first rule that it
// fits. Of a workload the assertion is the only credential. A grant that says who somebody is takes a client too.
func (is *Issuer) exchangeAssertion(ctx context.Context, r TokenRequest) (Tokens, *store.Client, error) {
	asked := assertedRequest{TokenRequest: r, named: r.Client.PublicID}
	// 1. The client, if it proves who it is: a client_id alone does not.
	if r.Client.provesSomething() {
		client, err := is.Clients().AuthenticateClient(ctx, r.Client)
		if err != nil {
			return Tokens{}, nil, err
		}
		asked.client, asked.named = client, client.ID
	}
	// 2. The parameters.
	if r.Assertion.IsEmpty() {
		return Tokens{}, asked.client, oauth.MissingParameter("assertion")
	}
	// 3. The assertion is of an issuer that is trusted, is for us, and fits a rule.
	if err := is.judge(ctx, &asked); err != nil {
		return Tokens{}, asked.client, err
	}
	// 4. What the rule makes of it.
	grantOf := is.grantForWorkload
	if asked.rule.People {
		grantOf = is.grantForPerson
	}
	grant, err := grantOf(ctx, &asked)
	accepted := &AcceptedToken{asked.rule.Name, asked.token.Issuer, asked.token.Subject, asked.token.ID}
	if err != nil {
		return Tokens{}, asked.client, oauth.AsError(err).WithCause(errors.Join(fmt.Errorf("rule %s, subject %.256q", accepted.Rule, accepted.Subject), errors.Unwrap(err)))
	}
	// 5. The tokens.
	tokens, err := is.Issue(grant)
	tokens.Accepted = accepted
	return tokens, grant.Client, err
}

// judge verifies the assertion and finds its rule. A failure is counted for the issuer that the assertion names, at the address that
// the request comes from.
func (is *Issuer) judge(ctx context.Context, asked *assertedRequest) error {
	now, text := is.Now(), asked.Assertion.Reveal()
	issuer, _ := token.ClaimedIssuer(text)
	bucket := "assertion of " + issuer
	if err := is.CheckClient(ctx, bucket, asked.Client.Address, now); err != nil {
		return err
	}
	err := is.verifyGrant(ctx, issuer, text, asked)
	if err == nil || oauth.AsError(err).Code != oauth.InvalidGrant {
		return err
	}
	if counted := is.CountClientFailure(ctx, bucket, asked.Client.Address, now); oauth.AsError(counted).Code == oauth.RateLimited {
		return counted
	}
	return err
}

func (is *Issuer) verifyGrant(ctx context.Context, issuer, text string, asked *assertedRequest) error {
	verifier := is.Accepted.Issuers[issuer]
	if verifier == nil {
		return oauth.NewError(oauth.InvalidGrant, "assertion_issuer_not_accepted").WithCause(fmt.Errorf("issuer %.256q", issuer))
	}
	signed, err := token.ReadSigned(text)
	if err == nil {
		asked.token, err = verifier.VerifyAssertion(ctx, text, is.URL)
	}
	switch {
	case err != nil && oauth.AsError(err).Code == oauth.TemporarilyUnavailable:
		return err
	case err != nil:
		return oauth.NewError(oauth.InvalidGrant, oauth.AsError(err).Reason).WithCause(fmt.Errorf("issuer %.256q: %w", issuer, err))
	}
	for i := range is.AcceptRules {
		rule := &is.AcceptRules[i]
		if rule.Fits(asked.token, signed.Type()) && (rule.People || asked.named == "" || asked.named == rule.ClientID) {
			asked.rule = rule
			return nil
		}
	}
	return oauth.NewError(oauth.InvalidGrant, "assertion_fits_no_rule").
		WithDescription("The assertion is good, and no `accept` of this server's configuration is for it.").
		WithCause(fmt.Errorf("issuer %.256q, subject %.256q", asked.token.Issuer, asked.token.Subject))
}

// grantForWorkload makes a server token: for the client of the rule, or for the subject that the rule makes of the claims.
func (is *Issuer) grantForWorkload(ctx context.Context, asked *assertedRequest) (Grant, error) {
	client, err := is.workload(ctx, asked)
	if err != nil {
		return Grant{}, err
	}
	scope := asked.Scope
	if scope == "" {
		scope = client.Scopes.String()
	}
	scopes, err := is.Scopes.Grantable(scope, client.Scopes, func(s oauth.Scope) bool { return s.ServerTokens })
	if err != nil {
		return Grant{}, err
	}
	audience, err := is.Resources.Audience(asked.Resources, nil)
	if err != nil {
		return Grant{}, err
	}
	return Grant{Type: oauth.JWTBearer, Client: client, Scopes: scopes, Audience: audience}, nil
}

// workload returns the client that the token is issued to. One that stands for itself is nobody who is known here: the id of a client
// or of a user would make it theirs.
func (is *Issuer) workload(ctx context.Context, asked *assertedRequest) (*store.Client, error) {
	if id := asked.rule.ClientID; id != "" {
		client, err := is.Directory.Client(ctx, id)
		switch {
		case errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled:
			return nil, oauth.NewError(oauth.InvalidGrant, "rule_client_unknown").WithCause(fmt.Errorf("the client %q of the rule is not there, or disabled", id))
		case err != nil:
			return nil, err
		}
		bounded := *client
		bounded.Scopes = intersection(client.Scopes, asked.rule.Scopes)
		return &bounded, nil
	}
	subject, err := asked.rule.SubjectOf(asked.token)
	if err != nil {
		return nil, err
	}
	_, clientErr := is.Clients().Find(ctx, subject)
	_, userErr := is.Directory.User(ctx, subject)
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

// intersection returns those of the scopes that bound has too; an empty bound has all.
func intersection(scopes, bound oauth.Scopes) oauth.Scopes {
	if len(bound) == 0 {
		return scopes
	}
	return slices.DeleteFunc(slices.Clone(scopes), func(name string) bool { return !bound.Has(name) })
}
