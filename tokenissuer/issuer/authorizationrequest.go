package issuer

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
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// AuthorizationParameters are the parameters of an authorization request (RFC 6749 §4.1.1).
type AuthorizationParameters struct {
	ResponseType        string
	ResponseMode        string
	Scope               string
	State               string
	CodeChallenge       string
	CodeChallengeMethod string
	// OpenID holds the parameters of OpenID Connect Core §3.1.2.1.
	OpenID OpenIDParameters
	// Resources are the values of resource (RFC 8707 §2.1).
	Resources []string
	// Provider is the identity provider that the gate selects for a sign-in at a host. If it is empty, the page offers a choice.
	Provider string
	// HasRequest and HasRequestURI report that the parameters request and request_uri are present (RFC 9101). They are not supported.
	HasRequest, HasRequestURI bool
	// Malformed is an error in the parameters themselves, such as a duplicate parameter. It is nil if there is none.
	Malformed error
}

// OpenIDParameters are the parameters of an authorization request that OpenID Connect adds.
type OpenIDParameters struct {
	Prompt    string
	MaxAge    string
	LoginHint string
	UILocales string
	ACRValues string
	// Nonce, Claims (§5.5) and IDTokenHint are ignored by an issuer that is not an OpenID provider.
	Nonce       string
	Claims      string
	IDTokenHint string
}

// AuthorizationRequest is a valid request, which the user may grant. The browser carries it, sealed, while the user signs in.
type AuthorizationRequest struct {
	// ID identifies the request, which can be decided once. SealRequest sets it.
	ID          string       `json:"id"`
	ClientID    string       `json:"client_id"`
	RedirectURI string       `json:"redirect_uri"` // where the answer goes
	State       string       `json:"state,omitzero"`
	Scopes      oauth.Scopes `json:"scopes"`
	// Audience lists the resources that tokens are for. If it is empty, tokens are for the issuer's own audience.
	Audience  []string `json:"audience,omitempty"`
	Challenge string   `json:"challenge,omitzero"`
	// Prompt, MaxAge, LoginHint and UILocales are those of OpenID Connect Core §3.1.2.1. MaxAge is in seconds. If it is nil, any age is
	// accepted.
	Prompt    oauth.Scopes `json:"prompt,omitempty"`
	MaxAge    *int64       `json:"max_age,omitzero"`
	LoginHint string       `json:"login_hint,omitzero"`
	UILocales string       `json:"ui_locales,omitzero"`
	// FormPost sends the answer in a form (OAuth 2.0 Form Post Response Mode).
	FormPost bool `json:"form_post,omitzero"`
	// Nonce is the nonce as received. Claims is the request for single claims, as package token encodes it. Both are empty without the
	// scope openid.
	Nonce  string `json:"nonce,omitzero"`
	Claims string `json:"claims,omitzero"`
	// Hinted is the user named by the id_token_hint. If it is empty, any user may sign in.
	Hinted string `json:"hinted,omitzero"`
	// Provider is the identity provider for a browser without a session. If it is empty, the page offers a choice.
	Provider string `json:"provider,omitzero"`
	// TwoFactors asks for a sign-in with two factors.
	TwoFactors bool `json:"two_factors,omitzero"`
	// Device is the device that asks, whose ID is the request's. It is nil for a request from a browser.
	Device *RequestingDevice `json:"device,omitzero"`
	// At is when the request arrived, in whole microseconds. If the request requires a new sign-in, earlier sign-ins do not count.
	At time.Time `json:"-"`
}

const (
	promptNone          = "none"
	promptLogin         = "login"
	promptConsent       = "consent"
	promptSelectAccount = "select_account"
	promptCreate        = "create" // OpenID Connect Initiating User Registration 1.0 §4

	maxState     = 8 << 10
	maxHostState = 12 << 10 // the longest state that the gate makes
	maxHint      = 512
)

var promptValues = []string{promptNone, promptLogin, promptConsent, promptSelectAccount}

// ResolveRedirect returns the client of an authorization request and the target of its answer. It fails for an unknown or disabled client
// and for a redirect URI that is not exactly one of the client's. Such an error must be shown on a page and never redirected. source is the
// address that the request comes from. It is empty for a request from one of our pages.
func (az *Authorizations) ResolveRedirect(ctx context.Context, clientID, redirectURI, source string) (*store.Client, RedirectTarget, error) {
	if clientID == "" {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_id_missing").WithDescription("Missing required parameter: client_id.")
	}
	if clientID == store.BuiltInClientID {
		target, err := RedirectToHost(az.Hosts, redirectURI, az.Clients.URL)
		return az.Clients.ForHosts(), target, err
	}
	client, err := az.Clients.Visiting(ctx, clientID, source)
	if errors.Is(err, store.ErrNotFound) || err == nil && client.Disabled {
		return nil, RedirectTarget{}, oauth.NewError(oauth.InvalidRequest, "client_unknown").WithDescription("The client is unknown.")
	}
	if own := (*oauth.Error)(nil); errors.As(err, &own) {
		return nil, RedirectTarget{}, own
	}
	if err != nil {
		return nil, RedirectTarget{}, err
	}
	target, err := RedirectTo(client, redirectURI, az.Clients.URL, az.Clients.OpenID)
	return client, target, err
}

// ReadAuthorization checks a request in the order of RFC 6749 §4.1.2.1. Its errors go to the target.
func (az *Authorizations) ReadAuthorization(client *store.Client, target RedirectTarget, p AuthorizationParameters) (AuthorizationRequest, error) {
	r := AuthorizationRequest{
		ClientID: client.ID, RedirectURI: target.URI(), State: p.State,
		Challenge: p.CodeChallenge, LoginHint: p.OpenID.LoginHint, UILocales: p.OpenID.UILocales, FormPost: target.FormPost(), At: az.Families.Now().Truncate(time.Microsecond),
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
	case len(p.State) > maxStateOf(client) || len(p.OpenID.LoginHint) > maxHint || len(p.OpenID.UILocales) > maxHint:
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	case !utf8.ValidString(p.State) || !utf8.ValidString(p.OpenID.LoginHint) || !utf8.ValidString(p.OpenID.UILocales):
		return r, oauth.NewError(oauth.InvalidRequest, "parameter_value_invalid")
	}
	if err := az.checkChallenge(client, p); err != nil {
		return r, err
	}
	var err error
	if r.Scopes, err = az.Clients.Scopes.Grantable(heeded(p.Scope, client), client.Scopes, oauth.AnyScope); err != nil {
		return r, err
	}
	if r.Audience, err = az.Resources.Audience(p.Resources, nil); err != nil {
		return r, err
	}
	if r.Prompt, err = parsePrompt(p.OpenID.Prompt, az.PromptValues()); err != nil {
		return r, err
	}
	if r.MaxAge, err = parseMaxAge(p.OpenID.MaxAge); err != nil {
		return r, err
	}
	r.TwoFactors = az.TwoFactors && asksForTwoFactors(p.OpenID.ACRValues)
	if client.ID == store.BuiltInClientID {
		return r, readHostSignIn(&r, client, p)
	}
	if !az.Clients.OpenID {
		return r, nil
	}
	if modes := client.ResponseModes; len(modes) > 0 && !slices.Contains(modes, cmp.Or(p.ResponseMode, "query")) {
		return r, oauth.NewError(oauth.InvalidRequest, "response_mode_not_registered").WithDescription("The client is not registered for this response_mode.")
	}
	if r.MaxAge == nil && r.Scopes.Has(oauth.ScopeOpenID) {
		r.MaxAge = client.DefaultMaxAge
	}
	return r, az.readOpenID(&r, client, p.OpenID)
}

func maxStateOf(client *store.Client) int {
	if client.ID == store.BuiltInClientID {
		return maxHostState
	}
	return maxState
}

// checkChallenge checks the code_challenge, whose method must be S256. It is required of a public client (RFC 9700 §2.1.1), and of every
// client if the operator requires PKCE.
func (az *Authorizations) checkChallenge(client *store.Client, p AuthorizationParameters) error {
	switch {
	case p.CodeChallenge == "" && p.CodeChallengeMethod != "":
		return oauth.MissingParameter("code_challenge")
	case p.CodeChallenge == "" && az.needsNoChallenge(client, p):
		return nil
	case p.CodeChallenge == "" && (client.IsPublic() || client.PKCE == oauth.PKCERequired || az.PKCERequired):
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

// IsSilent reports whether the request forbids showing a page (prompt=none).
func (r *AuthorizationRequest) IsSilent() bool { return r.Prompt.Has(promptNone) }

// ChoosesAccount reports whether the user must be asked which account to use, or makes one.
func (r *AuthorizationRequest) ChoosesAccount() bool {
	return r.Prompt.Has(promptSelectAccount) || r.Registers()
}

// Registers reports whether the page on which people make an account comes first (prompt=create). It accepts nil.
func (r *AuthorizationRequest) Registers() bool { return r != nil && r.Prompt.Has(promptCreate) }

// heeded returns the requested scopes. It omits offline_access if the client may not request it (OpenID Connect Core §11), because many
// clients request every scope that the metadata lists. A request for offline_access alone stays as it is and is refused.
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

func parsePrompt(text string, supported []string) (oauth.Scopes, error) {
	if text == "" {
		return nil, nil
	}
	prompts := oauth.Scopes(slices.Compact(strings.Fields(text)))
	for _, p := range prompts {
		if !slices.Contains(supported, p) {
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

// asksForTwoFactors reports whether acr_values names the class of two factors, and not the class that every sign-in has. Unknown classes are
// ignored, because the parameter is voluntary (OpenID Connect Core §3.1.2.1).
func asksForTwoFactors(acrValues string) bool {
	values := strings.Fields(acrValues)
	return slices.Contains(values, oauth.TwoFactorACR) && !slices.Contains(values, oauth.PasswordACR)
}

// AsksOfProvider returns the prompt and the maximum age to request from an identity provider. They are "" and 0 if there are none.
func (r *AuthorizationRequest) AsksOfProvider() (prompt string, maxAge time.Duration) {
	switch {
	case r.Prompt.Has(promptLogin), r.MaxAge != nil && *r.MaxAge == 0:
		prompt = promptLogin
	case r.Prompt.Has(promptSelectAccount):
		prompt = promptSelectAccount
	}
	if r.MaxAge != nil {
		maxAge = time.Duration(min(*r.MaxAge, int64(signin.MaxLimit/time.Second))) * time.Second
	}
	return prompt, maxAge
}

// readHostSignIn reads the parameters of a sign-in at a host beyond those of OAuth. Its session has the scopes of every session.
func readHostSignIn(r *AuthorizationRequest, client *store.Client, p AuthorizationParameters) error {
	switch {
	case p.OpenID.Nonce == "":
		return oauth.MissingParameter("nonce")
	case len(p.OpenID.Nonce) > maxNonce, len(p.Provider) > maxHint:
		return oauth.NewError(oauth.InvalidRequest, "parameter_too_long")
	case r.State == "":
		return oauth.MissingParameter("state")
	}
	r.Nonce, r.Provider, r.Scopes, r.Audience = p.OpenID.Nonce, p.Provider, client.Scopes, nil
	return nil
}
