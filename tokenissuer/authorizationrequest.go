package tokenissuer

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/redirect"
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
	// Resources are the resources that tokens are to be for (RFC 8707 §2.1).
	Resources []string
	// Nonce, Claims and IDTokenHint are those of OpenID Connect Core §3.1.2.1 and §5.5. An issuer that is no OpenID provider ignores
	// them.
	Nonce       string
	Claims      string
	IDTokenHint string
	// Provider is the identity provider to which the gate sends a browser that signs in at a host; empty: the page asks.
	Provider string
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
	// Audience are the resources that tokens are to be for; none: the issuer's own audience.
	Audience  []string `json:"audience,omitempty"`
	Challenge string   `json:"challenge,omitzero"`
	// Prompt and the three after it are those of OpenID Connect Core §3.1.2.1. MaxAge is in seconds; nil: a sign-in of any
	// age will do.
	Prompt    oauth.Scopes `json:"prompt,omitempty"`
	MaxAge    *int64       `json:"max_age,omitzero"`
	LoginHint string       `json:"login_hint,omitzero"`
	UILocales string       `json:"ui_locales,omitzero"`
	// FormPost: the answer travels in a form (OAuth 2.0 Form Post Response Mode).
	FormPost bool `json:"form_post,omitzero"`
	// Nonce is the nonce exactly as it was sent, and Claims the request for single claims as package token writes it. Both are empty
	// without the scope openid.
	Nonce  string `json:"nonce,omitzero"`
	Claims string `json:"claims,omitzero"`
	// Hinted is the user whom the id_token_hint names; empty: anybody.
	Hinted string `json:"hinted,omitzero"`
	// Provider is the identity provider to which somebody who is not signed in goes at once; empty: the page asks.
	Provider string `json:"provider,omitzero"`
	// At is when the request came, in whole microseconds: a password that was proved before does not count when it asks
	// for a new one.
	At time.Time `json:"-"`
}

const (
	promptNone          = "none"
	promptLogin         = "login"
	promptConsent       = "consent"
	promptSelectAccount = "select_account"

	maxState     = 8 << 10
	maxHostState = 12 << 10 // hostsession makes none that is longer
	maxHint      = 512
)

var promptValues = []string{promptNone, promptLogin, promptConsent, promptSelectAccount}

// ResolveRedirect returns the client of an authorization request and where its answer goes. An unknown or disabled
// client, and a redirect URI that is not exactly one of the client's, are errors that must be shown on a page and never
// redirected. Source is where the request comes from; empty: from one of our pages.
func (is *Issuer) ResolveRedirect(ctx context.Context, clientID, redirectURI, source string) (*store.Client, redirect.Target, error) {
	if clientID == "" {
		return nil, redirect.Target{}, oauth.NewError(oauth.InvalidRequest, "client_id_missing").WithDescription("Missing required parameter: client_id.")
	}
	if clientID == store.BuiltInClientID {
		return is.resolveHost(redirectURI)
	}
	client, err := is.visiting(ctx, clientID, source)
	if errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled {
		return nil, redirect.Target{}, oauth.NewError(oauth.InvalidRequest, "client_unknown").WithDescription("The client is unknown.")
	}
	if own := (*oauth.Error)(nil); errors.As(err, &own) {
		return nil, redirect.Target{}, own
	}
	if err != nil {
		return nil, redirect.Target{}, err
	}
	target, err := redirect.To(client, redirectURI, is.URL, is.OpenID)
	return client, target, err
}

// ReadAuthorization holds a request against the rules, in the order of RFC 6749 §4.1.2.1. Its errors go to the target.
func (is *Issuer) ReadAuthorization(client *store.Client, target redirect.Target, p AuthorizationParameters) (AuthorizationRequest, error) {
	r := AuthorizationRequest{
		ClientID: client.ID, RedirectURI: target.URI(), State: p.State,
		Challenge: p.CodeChallenge, LoginHint: p.LoginHint, UILocales: p.UILocales, FormPost: target.FormPost(), At: is.Now().Truncate(time.Microsecond),
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
	case p.ResponseMode != "" && p.ResponseMode != "query" && !target.FormPost():
		return r, oauth.NewError(oauth.InvalidRequest, "response_mode_unknown")
	case !client.MayUse(oauth.AuthorizationCode):
		return r, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	case len(p.State) > maxStateOf(client) || len(p.LoginHint) > maxHint || len(p.UILocales) > maxHint:
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	case !utf8.ValidString(p.State) || !utf8.ValidString(p.LoginHint) || !utf8.ValidString(p.UILocales):
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_value_invalid")
	}
	if err := is.checkChallenge(client, p); err != nil {
		return r, err
	}
	var err error
	if r.Scopes, err = is.Scopes.Grantable(heeded(p.Scope, client), client.Scopes, oauth.AnyScope); err != nil {
		return r, err
	}
	if r.Audience, err = is.Resources.Audience(p.Resources, nil); err != nil {
		return r, err
	}
	if r.Prompt, err = parsePrompt(p.Prompt); err != nil {
		return r, err
	}
	if r.MaxAge, err = parseMaxAge(p.MaxAge); err != nil {
		return r, err
	}
	if client.ID == store.BuiltInClientID {
		return r, readHostSignIn(&r, client, p)
	}
	if !is.OpenID {
		return r, nil
	}
	if modes := client.ResponseModes; len(modes) > 0 && !slices.Contains(modes, cmp.Or(p.ResponseMode, "query")) {
		return r, oauth.NewError(oauth.InvalidRequest, "response_mode_not_registered").WithDescription("The client is not registered for this response_mode.")
	}
	if r.MaxAge == nil && r.Scopes.Has(oauth.ScopeOpenID) {
		r.MaxAge = client.DefaultMaxAge
	}
	return r, is.readOpenID(&r, client, p)
}

func maxStateOf(client *store.Client) int {
	if client.ID == HostClientID {
		return maxHostState
	}
	return maxState
}

// checkChallenge holds the request to S256, which a client without a secret must use (RFC 9700 §2.1.1), and any other where
// the operator says so.
func (se *Settings) checkChallenge(client *store.Client, p AuthorizationParameters) error {
	switch {
	case p.CodeChallenge == "" && p.CodeChallengeMethod != "":
		return oauth.MissingParameter("code_challenge")
	case p.CodeChallenge == "" && se.needsNoChallenge(client, p):
		return nil
	case p.CodeChallenge == "" && (client.IsPublic() || client.PKCE == oauth.PKCERequired || se.PKCERequired):
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

// IsSilent reports whether the answer comes without a page.
func (r *AuthorizationRequest) IsSilent() bool { return r.Prompt.Has(promptNone) }

// ChoosesAccount reports whether the user is asked which account to use, as after one that may not do what the user wants.
func (r *AuthorizationRequest) ChoosesAccount() bool { return r.Prompt.Has(promptSelectAccount) }

// heeded returns the scopes of a request without an offline_access that the client may not ask for (OpenID Connect Core §11): many ask
// for it wherever the metadata name it. One that asks for nothing else is told.
func heeded(scope string, client *store.Client) string {
	if client.Scopes.Has(oauth.ScopeOfflineAccess) {
		return scope
	}
	names, err := oauth.RequestedScopes(scope)
	if err != nil || len(names) < 2 {
		return scope
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == oauth.ScopeOfflineAccess }).String()
}

func parsePrompt(text string) (oauth.Scopes, error) {
	if text == "" {
		return nil, nil
	}
	prompts := oauth.Scopes(slices.Compact(strings.Fields(text)))
	for _, p := range prompts {
		if !slices.Contains(promptValues, p) {
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

// AsksOfProvider returns the prompt and the greatest age of a sign-in that a request has for the provider at which its user signs
// in; "" and 0: none.
func (r *AuthorizationRequest) AsksOfProvider() (prompt string, maxAge time.Duration) {
	switch {
	case r.Prompt.Has(promptLogin), r.MaxAge != nil && *r.MaxAge == 0:
		prompt = promptLogin
	case r.Prompt.Has(promptSelectAccount):
		prompt = promptSelectAccount
	}
	if r.MaxAge != nil {
		maxAge = time.Duration(min(*r.MaxAge, int64(maxSessionLimit/time.Second))) * time.Second
	}
	return prompt, maxAge
}
