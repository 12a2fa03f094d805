package admin

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Explanation is what `caddy oauth token explain` prints.
type Explanation struct {
	token.Explanation `json:",inline"`
	// These describe a text whose signature was not verified.
	What string `json:"what,omitzero"`
	// Resource is the audience of the explanation if the request names none and the token is for the resource of a route.
	Resource string `json:"resource,omitzero"`
	// Unverified are the parts of a JWT whose signature was not verified. They may be forged.
	Unverified *UnverifiedToken `json:"unverified,omitzero"`
	// Trust names the trusted issuers that may have issued the token: the one that a JWT names, or all with introspection for an opaque
	// token; empty: it is a token of our own, or of an unknown issuer.
	Trust     []string  `json:"trust,omitzero"`
	Subject   string    `json:"subject,omitzero"`
	ClientID  string    `json:"client_id,omitzero"`
	Scope     string    `json:"scope,omitzero"`
	Audience  []string  `json:"aud,omitzero"`
	ID        string    `json:"jti,omitzero"`
	Family    string    `json:"family,omitzero"`
	Actor     string    `json:"actor,omitzero"` // who obtained it for the subject
	KeyID     string    `json:"kid,omitzero"`
	IssuedAt  time.Time `json:"issued_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// explanationRequest is the request to explain a token.
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
	if x.What == "" && x.Claims == nil {
		t.inspect(r.Context(), &x, token)
	}
	if about != "" && x.What != "" {
		about += "; "
	}
	x.What = about + x.What
	if c := x.Claims; c != nil {
		x.Subject, x.ClientID, x.Scope, x.ID, x.KeyID = c.Subject, c.ClientID, c.Scopes.String(), c.ID, c.KeyID
		x.Family, x.Actor, x.Audience = c.FamilyID, c.Actor().Subject, c.Audience
		x.IssuedAt, x.ExpiresAt = c.IssuedAt, c.ExpiresAt
	}
	return http.StatusOK, x, nil
}

// UnverifiedToken are the parts of a JWT.
type UnverifiedToken struct {
	Header jsontext.Value `json:"header,omitzero"`
	Claims jsontext.Value `json:"claims,omitzero"`
}

// readToken extracts a token from a header value, and returns what was removed.
func readToken(text string) (token, about string) {
	token = strings.TrimSpace(text)
	if name, value, ok := strings.Cut(token, ":"); ok && strings.EqualFold(name, "Authorization") {
		token = strings.TrimSpace(value)
	}
	scheme, rest, ok := strings.Cut(token, " ")
	if ok && strings.EqualFold(scheme, "Bearer") {
		return strings.TrimSpace(rest), "the token of an Authorization header: Bearer was left out"
	}
	if ok && strings.EqualFold(scheme, "Basic") {
		if text, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest)); err == nil {
			if _, password, _ := strings.Cut(string(text), ":"); isPersonal(password) {
				return password, "the password of an Authorization header (Basic), which a route takes by `token_from basic pat`"
			}
		}
	}
	if _, value, ok := strings.Cut(token, ":"); ok && isPersonal(strings.TrimSpace(value)) {
		return strings.TrimSpace(value), "the value of a header, which a route takes by `token_from header … pat`"
	}
	return token, ""
}

func isPersonal(text string) bool { return strings.HasPrefix(text, people.TokenPrefix) }

// inspect adds the kind and the claims of a text whose signature was not verified.
func (t *Target) inspect(ctx context.Context, x *Explanation, tok string) {
	found := token.Inspect(tok)
	if t.OwnIssuer != nil && t.IsServing(ctx) { // before, it has no master key to know its own credentials by
		if what, family := t.Issuer.Families.Master.Inspect(oauth.NewSecret(tok)); what != "" {
			found.What, x.Family = what, family
		}
	}
	if isPersonal(tok) {
		found.What = "what looks like a personal access token, and the configuration has no personal_tokens"
	}
	if scheme, _, _ := strings.Cut(tok, " "); strings.EqualFold(scheme, "Basic") {
		found.What = "the credentials of a client in an Authorization header (Basic), and no token"
	}
	x.What = found.What
	if found.Header != nil || found.Claims != nil {
		x.Unverified = &UnverifiedToken{found.Header, found.Claims}
	}
}

// explain explains a token by the issuer that it names, for these audiences or else for the issuer's own. As at the gate, the unverified
// iss only selects the issuer.
func (t *Target) explain(ctx context.Context, tok string, audiences []string) (Explanation, error) {
	if isPersonal(tok) && t.PersonalTokens != nil {
		return t.explainPersonal(ctx, tok, audiences)
	}
	if t.OwnIssuer != nil && t.IsServing(ctx) {
		if x, host, err := t.ExplainSession(ctx, tok); host != "" || err != nil {
			return Explanation{Explanation: x, What: "the cookie of a session at " + host + ", which counts there alone"}, err
		}
	}
	url, isJWT := token.ClaimedIssuer(tok)
	if t.OwnIssuer != nil && !t.SessionsOnly && (url == t.Issuer.URL || url == "" && len(t.Trusted) == 0) {
		if !t.IsServing(ctx) {
			return Explanation{}, errNoStore
		}
		return t.explainOwn(tok, audiences)
	}
	if !isJWT {
		return t.explainOpaque(tok), nil
	}
	for _, other := range t.Trusted {
		if other.URL == url {
			return Explanation{Explanation: other.Issuer.Explain(tok, orElse(audiences, other.Audience)), Trust: []string{other.Name}}, nil
		}
	}
	return Explanation{Explanation: token.ExplainStranger(tok, t.knownIssuers())}, nil
}

// explainOwn explains a token of our own issuer. It recognises ID tokens, which are signed with the same keys.
func (t *Target) explainOwn(tok string, audiences []string) (Explanation, error) {
	if hint, err := token.ReadHint(tok, t.Issuer.URL, t.Issuer.Minter.Keys); err == nil {
		x := t.Issuer.Minter.Verifier.Explain(tok, orElse(audiences, t.Issuer.Audience))
		x.Claims = nil // as an access token it says nothing
		x.Findings = slices.DeleteFunc(x.Findings, func(f token.Finding) bool { return f.Check != "type" })
		return Explanation{Explanation: x, What: "an ID token of this issuer, which is for its client and which the gate never takes", Subject: hint.Subject, ClientID: hint.ClientID}, nil
	}
	return t.explainFor(audiences, func(audiences []string) (token.Explanation, error) {
		return t.Issuer.Minter.Verifier.Explain(tok, audiences), nil
	})
}

// explainFor explains a token for these audiences, or else for the issuer's own. Without audiences, a token for the resource of a route is
// explained for that resource.
func (t *Target) explainFor(audiences []string, judge func(audiences []string) (token.Explanation, error)) (Explanation, error) {
	if len(audiences) > 0 {
		x, err := judge(audiences)
		return Explanation{Explanation: x}, err
	}
	x, err := judge(t.Issuer.Audience)
	i := slices.IndexFunc(x.Findings, func(f token.Finding) bool { return f.Check == "audience" && f.Outcome == token.CheckFailed })
	if err != nil || i < 0 || x.Claims == nil {
		return Explanation{Explanation: x}, err
	}
	for _, resource := range x.Claims.Audience {
		if t.Issuer.Resources.Has(resource) {
			x, err := judge([]string{resource})
			return Explanation{Explanation: x, Resource: resource}, err
		}
	}
	x.Findings[i].Note = "compared with " + strings.Join(t.Issuer.Audience, ", ") + "; --audience names that of a route"
	return Explanation{Explanation: x}, nil
}

// explainPersonal explains a personal access token.
func (t *Target) explainPersonal(ctx context.Context, tok string, audiences []string) (Explanation, error) {
	if !t.IsServing(ctx) {
		return Explanation{}, errNoStore
	}
	x, err := t.explainFor(audiences, func(audiences []string) (token.Explanation, error) {
		return t.PersonalTokens.Explain(ctx, tok, audiences)
	})
	x.What = "a personal access token"
	return x, err
}

// explainOpaque names the issuers that would be asked about a token that is not a JWT. A route accepts opaque tokens of at most one issuer,
// so the route decides.
func (t *Target) explainOpaque(tok string) (x Explanation) {
	for _, other := range t.Trusted {
		if !other.Issuer.Introspects() {
			continue
		}
		one := other.Issuer.Explain(tok, other.Audience)
		one.Findings[1].Promise = "introspection of trust " + other.Name + " says that it is active and for this route"
		if len(x.Trust) > 0 {
			one.Findings = append(x.Findings, one.Findings[1:]...) // its form is the same for all
		}
		x.Explanation, x.Trust = one, append(x.Trust, other.Name)
	}
	if len(x.Trust) == 0 {
		x.Findings = []token.Finding{{
			Check: "introspection", Promise: "some trust has an introspection, for a token that is no JWT", Outcome: token.CheckFailed,
			Reason: "token_malformed", Note: "nobody introspects here",
		}}
	}
	return x
}

// knownIssuers lists the issuers whose tokens routes may accept.
func (t *Target) knownIssuers() (known []string) {
	if t.OwnIssuer != nil && !t.SessionsOnly {
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
