package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var tokenOperations = map[string]operation{
	"POST /oauth/tokens":      mintToken,
	"POST /oauth/revocations": addRevocation,
}

func mintToken(t *Target, r *http.Request) (int, any, error) {
	var request struct {
		Client   string  `json:"client"`
		User     *string `json:"user,omitzero"` // none: a server token
		Scope    string  `json:"scope,omitzero"`
		Lifetime string  `json:"lifetime,omitzero"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	lifetime, err := optionalDuration(request.Lifetime)
	if err == nil && request.Lifetime != "" && lifetime == 0 {
		err = tokenissuer.InvalidInput(errors.New("token lifetime 0s: use 1s to 35d"))
	}
	if err != nil {
		return 0, nil, err
	}
	var tokens tokenissuer.Tokens
	if request.User == nil {
		tokens, err = t.Registry.MintServerToken(r.Context(), request.Client, request.Scope, lifetime)
	} else {
		tokens, err = t.Registry.MintUserToken(r.Context(), request.Client, *request.User, request.Scope, lifetime)
	}
	if err != nil {
		return 0, nil, err
	}
	t.CountMinted()
	t.record("token minted", zap.String("client_id", request.Client), zap.String("subject", tokens.Claims.Subject),
		zap.String("scope", tokens.Scopes.String()), zap.String("jti", tokens.Claims.ID))
	return http.StatusCreated, mintedToken{
		AccessToken: tokens.AccessToken.Reveal(), TokenType: "Bearer", ExpiresIn: int64(tokens.ExpiresIn / time.Second),
		Scope: tokens.Scopes.String(), ID: tokens.Claims.ID,
	}, nil
}

type mintedToken struct {
	AccessToken string `json:"access_token"`
	TokenType   string `json:"token_type"`
	ExpiresIn   int64  `json:"expires_in"`
	Scope       string `json:"scope"`
	ID          string `json:"jti"`
}

// explanation is what `caddy oauth token explain` prints.
type explanation struct {
	accesstoken.Explanation `json:",inline"`
	// What the text is, where no signature was verified.
	What string `json:"what,omitzero"`
	// Unverified is what a JWT says whose signature was not verified: anybody can have written it.
	Unverified *unverified `json:"unverified,omitzero"`
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

func explainToken(t *Target, r *http.Request) (int, any, error) {
	var request struct {
		Token    string   `json:"token"`
		Audience []string `json:"audience,omitempty"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	token, about := readToken(request.Token)
	x, err := t.explain(r.Context(), token, request.Audience)
	if err != nil {
		return 0, nil, err
	}
	x.What = about
	if x.Claims == nil {
		t.inspect(&x, token)
	}
	if c := x.Claims; c != nil {
		x.Subject, x.ClientID, x.Scope, x.ID, x.KeyID = c.Subject, c.ClientID, c.Scopes.String(), c.ID, c.KeyID
		x.Family, x.Actor = c.FamilyID, c.Actor.Subject
		x.IssuedAt, x.ExpiresAt = c.IssuedAt, c.ExpiresAt
	}
	return http.StatusOK, x, nil
}

// unverified are the parts of a JWT.
type unverified struct {
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
func (t *Target) inspect(x *explanation, token string) {
	found := accesstoken.Inspect(token)
	if t.Issuer != nil {
		if what, family := t.Issuer.InspectCredential(oauth.NewSecret(token)); what != "" {
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
		x.Unverified = &unverified{found.Header, found.Claims}
	}
}

// explain has a token judged by the issuer that it names, for these audiences or else for the issuer's own. As at the gate,
// what a token says of its issuer only chooses whom to ask.
func (t *Target) explain(ctx context.Context, token string, audiences []string) (explanation, error) {
	url, isJWT := accesstoken.ClaimedIssuer(token)
	if t.Issuer != nil && (url == t.Issuer.URL || url == "" && len(t.Trusted) == 0) {
		if !t.IsServing(ctx) {
			return explanation{}, errNoStore
		}
		return explanation{Explanation: t.Issuer.Verifier.Explain(token, orElse(audiences, t.Issuer.Audience))}, nil
	}
	if !isJWT {
		return t.explainOpaque(token), nil
	}
	for _, other := range t.Trusted {
		if other.URL == url {
			return explanation{Explanation: other.Issuer.Explain(token, orElse(audiences, other.Audience)), Trust: []string{other.Name}}, nil
		}
	}
	return explanation{Explanation: accesstoken.ExplainStranger(token, t.knownIssuers())}, nil
}

// explainOpaque says who would be asked about a token that is no JWT. A route takes tokens of one such issuer at most, so it
// is the route that chooses.
func (t *Target) explainOpaque(token string) (x explanation) {
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
	if t.Issuer != nil {
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

func addRevocation(t *Target, r *http.Request) (int, any, error) {
	var request struct {
		Token        string `json:"jti,omitzero"`
		Family       string `json:"family,omitzero"`
		User         string `json:"user,omitzero"`
		Client       string `json:"client,omitzero"`
		Organisation string `json:"organisation,omitzero"`
		Force        bool   `json:"force,omitzero"` // a user who is not known here
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	named := map[store.RevocationKind]string{
		store.RevokeToken: request.Token, store.RevokeFamily: request.Family, store.RevokeUser: request.User,
		store.RevokeClient: request.Client, store.RevokeOrganisation: request.Organisation,
	}
	var kind store.RevocationKind
	for k, id := range named {
		switch {
		case id != "" && kind != "":
			return 0, nil, tokenissuer.InvalidInput(errors.New("name one of jti, family, user, client and organisation"))
		case id != "":
			kind = k
		}
	}
	if kind == "" {
		return 0, nil, tokenissuer.InvalidInput(errors.New("name what to revoke: jti, family, user, client or organisation"))
	}
	if strings.ContainsFunc(named[kind], unicode.IsControl) || !utf8.ValidString(named[kind]) {
		return 0, nil, tokenissuer.InvalidInput(errors.New("the id has control characters: no id has"))
	}
	if request.Force && kind != store.RevokeUser {
		return 0, nil, tokenissuer.InvalidInput(errors.New("force belongs to user"))
	}
	if kind == store.RevokeUser && !request.Force {
		switch user, err := t.Registry.UserNamed(r.Context(), named[kind]); {
		case err == nil:
			named[kind] = user.ID
		case !errors.Is(err, store.ErrNotFound):
			return 0, nil, err
		}
	}
	if err := t.revoke(r.Context(), kind, named[kind], request.Force); err != nil {
		return 0, nil, err
	}
	t.record("tokens revoked", zap.String("kind", string(kind)), zap.String("id", named[kind]))
	return http.StatusNoContent, nil, nil
}

// nobodyMeant is the error for a user who is not known here, by id.
type nobodyMeant string

func (id nobodyMeant) Error() string {
	return fmt.Sprintf("there is no user %q, and none was removed: nothing was revoked. Use force for a user whom only another issuer knows", string(id))
}

// Is makes it an ErrNotFound.
func (nobodyMeant) Is(target error) bool { return target == store.ErrNotFound }

// revoke ends the tokens that are named, and with those of a user or a family what else descends from their sign-ins. A user
// who is not known here is an error, unless it is forced.
func (t *Target) revoke(ctx context.Context, kind store.RevocationKind, id string, force bool) error {
	switch {
	case kind == store.RevokeUser && force:
		return t.Registry.RevokeAnybody(ctx, id)
	case kind == store.RevokeUser:
		err := t.Registry.RevokeUser(ctx, id)
		if errors.Is(err, store.ErrNotFound) {
			return nobodyMeant(id)
		}
		return err
	case kind == store.RevokeFamily:
		return t.Registry.RevokeFamily(ctx, id)
	}
	return t.Issuer.Revoke(ctx, t.Issuer.RevocationOf(kind, id))
}
