package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Explanation is what `caddy oauth token explain` prints.
type Explanation struct {
	accesstoken.Explanation `json:",inline"`
	// What the text is, where no signature was verified.
	What string `json:"what,omitzero"`
	// Unverified is what a JWT says whose signature was not verified: anybody can have written it.
	Unverified *UnverifiedToken `json:"unverified,omitzero"`
	// Trust names the trusted issuers whose token it may be: the one that a JWT names, all that can be asked about an opaque
	// one; empty: it is a token of our own, or nobody's.
	Trust     []string  `json:"trust,omitzero"`
	Subject   string    `json:"subject,omitzero"`
	ClientID  string    `json:"client_id,omitzero"`
	Scope     string    `json:"scope,omitzero"`
	ID        string    `json:"jti,omitzero"`
	Family    string    `json:"family,omitzero"`
	Actor     string    `json:"actor,omitzero"` // who obtained it for the subject
	KeyID     string    `json:"kid,omitzero"`
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// explanationRequest asks how a token fares.
type explanationRequest struct {
	Token    string   `json:"token"`
	Audience []string `json:"audience"` // of the route; none: the issuer's own
}

func explainToken(t *Target, r *http.Request, request explanationRequest) (int, any, error) {
	token, about := readToken(request.Token)
	x, err := t.explain(r.Context(), token, request.Audience)
	if err != nil {
		return 0, nil, err
	}
	x.What = about
	if x.Claims == nil {
		t.inspect(r.Context(), &x, token)
	}
	if c := x.Claims; c != nil {
		x.Subject, x.ClientID, x.Scope, x.ID, x.KeyID = c.Subject, c.ClientID, c.Scopes.String(), c.ID, c.KeyID
		x.Family, x.Actor = c.FamilyID, c.Actor.Subject
		x.IssuedAt, x.ExpiresAt = c.IssuedAt, c.ExpiresAt
	}
	return http.StatusOK, x, nil
}

// UnverifiedToken are the parts of a JWT.
type UnverifiedToken struct {
	Header jsontext.Value `json:"header,omitzero"`
	Claims jsontext.Value `json:"claims,omitzero"`
}

// readToken takes a token out of the header in which it may stand, and says what was taken away.
func readToken(text string) (token, about string) {
	token = strings.TrimSpace(text)
	if name, value, ok := strings.Cut(token, ":"); ok && strings.EqualFold(name, "Authorization") {
		token = strings.TrimSpace(value)
	}
	scheme, rest, ok := strings.Cut(token, " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), "the token of an Authorization header: Bearer was left out"
	}
	return token, ""
}

// inspect adds what a text is, and what it says, when no signature was verified.
func (t *Target) inspect(ctx context.Context, x *Explanation, token string) {
	found := accesstoken.Inspect(token)
	if t.Issuer != nil && t.IsServing(ctx) { // before, it has no master key to know its own credentials by
		if what, family := t.Issuer.Master.Inspect(oauth.NewSecret(token)); what != "" {
			found.What, x.Family = what, family
		}
	}
	if scheme, _, _ := strings.Cut(token, " "); strings.EqualFold(scheme, "Basic") {
		found.What = "the credentials of a client in an Authorization header (Basic), and no token"
	}
	if x.What != "" {
		x.What += "; "
	}
	x.What += found.What
	if found.Header != nil || found.Claims != nil {
		x.Unverified = &UnverifiedToken{found.Header, found.Claims}
	}
}

// explain has a token judged by the issuer that it names, for these audiences or else for the issuer's own. As at the gate,
// what a token says of its issuer only chooses whom to ask.
func (t *Target) explain(ctx context.Context, token string, audiences []string) (Explanation, error) {
	url, isJWT := accesstoken.ClaimedIssuer(token)
	if t.Issuer != nil && !t.SessionsOnly && (url == t.Issuer.URL || url == "" && len(t.Trusted) == 0) {
		if !t.IsServing(ctx) {
			return Explanation{}, errNoStore
		}
		return Explanation{Explanation: t.Issuer.Verifier.Explain(token, orElse(audiences, t.Issuer.Audience))}, nil
	}
	if !isJWT {
		return t.explainOpaque(token), nil
	}
	for _, other := range t.Trusted {
		if other.URL == url {
			return Explanation{Explanation: other.Issuer.Explain(token, orElse(audiences, other.Audience)), Trust: []string{other.Name}}, nil
		}
	}
	return Explanation{Explanation: accesstoken.ExplainStranger(token, t.knownIssuers())}, nil
}

// explainOpaque says who would be asked about a token that is no JWT. A route takes tokens of one such issuer at most, so it
// is the route that chooses.
func (t *Target) explainOpaque(token string) (x Explanation) {
	for _, other := range t.Trusted {
		if !other.Issuer.Introspects() {
			continue
		}
		one := other.Issuer.Explain(token, other.Audience)
		one.Findings[1].Promise = "introspection of trust " + other.Name + " says that it is active and for this route"
		if len(x.Trust) > 0 {
			one.Findings = append(x.Findings, one.Findings[1:]...) // its form is the same for all
		}
		x.Explanation, x.Trust = one, append(x.Trust, other.Name)
	}
	if len(x.Trust) == 0 {
		x.Findings = []accesstoken.Finding{{
			Check: "introspection", Promise: "some trust has an introspection, for a token that is no JWT", Outcome: accesstoken.CheckFailed,
			Reason: "token_malformed", Note: "nobody introspects here",
		}}
	}
	return x
}

// knownIssuers lists whose tokens some route may take.
func (t *Target) knownIssuers() (known []string) {
	if t.Issuer != nil && !t.SessionsOnly {
		known = append(known, t.Issuer.URL)
	}
	for _, other := range t.Trusted {
		known = append(known, fmt.Sprintf("%s (trust %s)", other.URL, other.Name))
	}
	return known
}

func orElse(list, otherwise []string) []string {
	if len(list) == 0 {
		return otherwise
	}
	return list
}
