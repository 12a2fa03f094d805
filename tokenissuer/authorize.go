package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// AuthorizationParameters are what an authorization request says (RFC 6749 §4.1.1), read once at the door.
type AuthorizationParameters struct {
	ResponseType        string
	ResponseMode        string
	Scope               string
	State               string
	CodeChallenge       string
	CodeChallengeMethod string
	Prompt              string
	MaxAge              string
	LoginHint           string
	UILocales           string
	// HasRequest and HasRequestURI: the request came in a JWT or by reference (RFC 9101), which is not supported.
	HasRequest, HasRequestURI bool
	// Malformed is what is wrong with the parameters as such, as one sent twice; nil: nothing.
	Malformed error
}

// AuthorizationRequest is a request that may be granted: what the user will be asked about. It travels sealed through
// the browser while the user signs in.
type AuthorizationRequest struct {
	// ID is what the request is decided under, once. It gets one when it is sealed: before, nobody can come back with it.
	ID          string       `json:"id"`
	ClientID    string       `json:"client_id"`
	RedirectURI string       `json:"redirect_uri"` // where the answer goes
	State       string       `json:"state,omitzero"`
	Scopes      oauth.Scopes `json:"scopes"`
	Challenge   string       `json:"challenge,omitzero"`
	// Prompt and the three after it are those of OpenID Connect Core §3.1.2.1. MaxAge is in seconds; nil: a sign-in of any
	// age will do.
	Prompt    oauth.Scopes `json:"prompt,omitempty"`
	MaxAge    *int64       `json:"max_age,omitzero"`
	LoginHint string       `json:"login_hint,omitzero"`
	UILocales string       `json:"ui_locales,omitzero"`
	// At is when the request came, in whole microseconds: a password that was proved before does not count when it asks
	// for a new one.
	At time.Time `json:"-"`
}

const (
	promptNone          = "none"
	promptLogin         = "login"
	promptConsent       = "consent"
	promptSelectAccount = "select_account"

	maxState = 8 << 10
	maxHint  = 512
)

// ReadAuthorization holds a request against the rules, in the order of RFC 6749 §4.1.2.1. Its errors go to the target.
func (is *Issuer) ReadAuthorization(client *store.Client, target RedirectTarget, p AuthorizationParameters) (AuthorizationRequest, error) {
	r := AuthorizationRequest{
		ClientID: client.ID, RedirectURI: target.uri, State: p.State,
		Challenge: p.CodeChallenge, LoginHint: p.LoginHint, UILocales: p.UILocales, At: is.Now().Truncate(time.Microsecond),
	}
	switch {
	case p.Malformed != nil:
		return r, p.Malformed
	case p.HasRequest:
		return r, oauth.NewError(oauth.RequestNotSupported, "request_object")
	case p.HasRequestURI:
		return r, oauth.NewError(oauth.RequestURINotSupported, "request_uri")
	case p.ResponseType == "":
		return r, oauth.MissingParameter("response_type")
	case p.ResponseType != "code":
		return r, oauth.NewError(oauth.UnsupportedResponseType, "response_type_unknown")
	case p.ResponseMode != "" && p.ResponseMode != "query":
		return r, oauth.NewError(oauth.InvalidRequest, "response_mode_unknown")
	case !client.MayUse(oauth.AuthorizationCode):
		return r, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	case len(p.State) > maxState || len(p.LoginHint) > maxHint || len(p.UILocales) > maxHint:
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	case !utf8.ValidString(p.State) || !utf8.ValidString(p.LoginHint) || !utf8.ValidString(p.UILocales):
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_value_invalid")
	}
	if err := is.checkChallenge(client, p); err != nil {
		return r, err
	}
	var err error
	if r.Scopes, err = is.Scopes.Grantable(p.Scope, client.Scopes, oauth.AnyScope); err != nil {
		return r, err
	}
	if r.Prompt, err = parsePrompt(p.Prompt); err != nil {
		return r, err
	}
	r.MaxAge, err = parseMaxAge(p.MaxAge)
	return r, err
}

// checkChallenge holds the request to S256, which a client without a secret must use (RFC 9700 §2.1.1), and any other where
// the operator says so.
func (se *Settings) checkChallenge(client *store.Client, p AuthorizationParameters) error {
	switch {
	case p.CodeChallenge == "" && p.CodeChallengeMethod != "":
		return oauth.MissingParameter("code_challenge")
	case p.CodeChallenge == "" && (client.IsPublic() || client.PKCERequired || se.PKCERequired):
		return oauth.NewError(oauth.InvalidRequest, "code_challenge_missing").WithDescription("Missing required parameter: code_challenge.")
	case p.CodeChallenge == "":
		return nil
	case p.CodeChallengeMethod != oauth.ChallengeMethodS256:
		return oauth.NewError(oauth.InvalidRequest, "code_challenge_method_unknown").WithDescription("The code_challenge_method must be S256.")
	case !oauth.IsChallenge(p.CodeChallenge):
		return oauth.NewError(oauth.InvalidRequest, "code_challenge_malformed")
	}
	return nil
}

func parsePrompt(text string) (oauth.Scopes, error) {
	if text == "" {
		return nil, nil
	}
	prompts := oauth.Scopes(slices.Compact(strings.Fields(text)))
	for _, p := range prompts {
		if !slices.Contains([]string{promptNone, promptLogin, promptConsent, promptSelectAccount}, p) {
			return nil, oauth.NewError(oauth.InvalidRequest, "prompt_unknown")
		}
	}
	if prompts.Has(promptNone) && len(prompts) > 1 {
		return nil, oauth.NewError(oauth.InvalidRequest, "prompt_contradictory")
	}
	return prompts, nil
}

// parseMaxAge reads a number of seconds: digits and nothing else.
func parseMaxAge(text string) (*int64, error) {
	if text == "" {
		return nil, nil
	}
	seconds, err := strconv.ParseUint(text, 10, 63)
	if err != nil {
		return nil, oauth.NewError(oauth.InvalidRequest, "max_age_malformed")
	}
	age := int64(seconds)
	return &age, nil
}

// Step is what an authorization request needs next.
type Step int

// The steps, in their order.
const (
	// AskSignIn shows the sign-in page.
	AskSignIn Step = iota
	// AskConsent shows the consent page.
	AskConsent
	// GrantNow asks nobody any more: Approve can follow.
	GrantNow
)

// NextStep is the one dispatcher of the authorization endpoint, to which every page returns: it looks at the request and
// at who is signed in, and says what comes next. For a request that wants no page shown, what would need one is an error
// for the target.
func (is *Issuer) NextStep(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *Session) (Step, error) {
	silent := r.Prompt.Has(promptNone)
	if s == nil || s.User.ID == client.ID || r.asksForSignIn(s.Family.AuthTime, is.Now()) {
		if silent {
			return AskSignIn, oauth.NewError(oauth.LoginRequired, "login_required")
		}
		return AskSignIn, nil
	}
	consented, err := is.hasConsent(ctx, r, client, s.User)
	if err != nil {
		return AskConsent, err
	}
	if consented && !r.Prompt.Has(promptConsent) {
		return GrantNow, nil
	}
	if silent {
		return AskConsent, oauth.NewError(oauth.ConsentRequired, "consent_required")
	}
	return AskConsent, nil
}

// asksForSignIn reports whether the request wants the password even of somebody who signed in at authTime. A password that
// was proved since the request came always will do, or who needs long to decide would be asked again and again. Ages are
// compared in the whole seconds that a token's auth_time has, so that the gate comes to the same answer (RFC 9470 §5).
func (r *AuthorizationRequest) asksForSignIn(authTime, now time.Time) bool {
	if !authTime.Before(r.At) {
		return false
	}
	if r.Prompt.Has(promptLogin) || r.Prompt.Has(promptSelectAccount) {
		return true
	}
	return r.MaxAge != nil && (*r.MaxAge == 0 || now.Unix()-authTime.Unix() > *r.MaxAge)
}

// hasConsent reports whether the user need not be asked: the client is the operator's own, or a confidential one that was
// allowed as much before. A client without a secret is always asked about, because anybody can use its id.
func (k *Records) hasConsent(ctx context.Context, r *AuthorizationRequest, client *store.Client, user *store.User) (bool, error) {
	if client.FirstParty {
		return true, nil
	}
	if client.IsPublic() {
		return false, nil
	}
	allowed, err := k.Store.Consent(ctx, user.ID, client.ID)
	if errors.Is(err, store.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, oauth.Unavailable("store_unavailable", err)
	}
	return allowed.Missing(r.Scopes...) == "", nil
}

// Approve grants a request and returns the code. Scopes are those that the user allowed; names beyond the request's are
// ignored, and so are those that the client has lost since it asked. With none of them the request is denied. A request
// is decided once.
func (is *Issuer) Approve(ctx context.Context, r *AuthorizationRequest, client *store.Client, s *Session, allowed oauth.Scopes) (oauth.Secret, error) {
	scopes := slices.DeleteFunc(slices.Clone(r.Scopes), func(name string) bool { return !allowed.Has(name) || !client.Scopes.Has(name) })
	if len(scopes) == 0 {
		return oauth.Secret{}, is.Deny(ctx, r, s)
	}
	now := is.Now()
	f := is.newFamily(s.User, client, oauth.AuthorizationCode, s.Family.AuthTime)
	f.Scopes = scopes
	f.Preconditions.SessionID = s.Family.ID
	f.Code = store.CodeBinding{
		RequestID: r.ID, RedirectURI: r.RedirectURI, Challenge: r.Challenge,
		Refreshable: client.GetsRefresh(scopes) && !refreshDeclined(r.Scopes, scopes), ExpiresAt: now.Add(is.lifetimes(client).Code),
	}
	f.ExpiresAt = beforeTokens(f.Code.ExpiresAt)
	if err := is.addFamily(ctx, f, s.User); err != nil {
		return oauth.Secret{}, err
	}
	if !client.IsPublic() && !client.FirstParty {
		// The request is decided, and cannot be decided again. When this is not remembered, the next one asks.
		_ = is.remember(ctx, s.User, client, r.Scopes, scopes, now)
	}
	return is.Master.Code(f.ID), nil
}

// refreshDeclined reports whether a request asked for a refresh token and the user has taken that out.
func refreshDeclined(asked, allowed oauth.Scopes) bool {
	return slices.ContainsFunc(asked, oauth.AsksForRefresh) && !slices.ContainsFunc(allowed, oauth.AsksForRefresh)
}

// remember keeps what the user has said of the scopes that were asked about. What was said of others before stays.
func (k *Records) remember(ctx context.Context, user *store.User, client *store.Client, asked, allowed oauth.Scopes, now time.Time) error {
	before, err := k.Store.Consent(ctx, user.ID, client.ID)
	if err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	if before.Missing(allowed...) == "" && len(asked) == len(allowed) {
		return nil // as when nobody was asked
	}
	others := slices.DeleteFunc(slices.Clone(before), asked.Has)
	return k.Store.PutConsent(ctx, user.ID, client.ID, append(others, allowed...), now)
}

// beforeTokens is the expiry of a record of which no access token has come: records are kept for MaxLifetime beyond their expiry,
// because of the access tokens that may outlive them.
func beforeTokens(end time.Time) time.Time { return end.Add(-store.MaxLifetime) }

// Deny records that the user of the session said no. The error is what the client is told: access_denied.
func (is *Issuer) Deny(ctx context.Context, r *AuthorizationRequest, s *Session) error {
	now := is.Now()
	if r.ID == "" { // nobody can come back with it
		return oauth.NewError(oauth.Denied, "denied_by_user")
	}
	if err := is.reserveGrant(ctx, oauth.AuthorizationCode, s.User.ID, now); err != nil {
		return err
	}
	switch outcome, err := is.Store.DecideRequest(ctx, r.ID, beforeTokens(now.Add(2*sealLifetime))); {
	case err != nil:
		return oauth.Unavailable("store_unavailable", err)
	case outcome != store.Done:
		return oauth.NewError(oauth.InvalidRequest, oauth.ReasonDecided)
	}
	return oauth.NewError(oauth.Denied, "denied_by_user")
}
