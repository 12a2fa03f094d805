package endpoint

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// maxQuery bounds the parameters of an authorization request in bytes, so that the sealed request fits into a URL. The state of a sign-in
// at a host contains the address at which it began and may be longer, up to maxHostQuery.
const (
	maxQuery     = 8 << 10
	maxHostQuery = 13 << 10
)

// authorizationPages serves the authorization endpoint, and takes a request from there through the other pages back to the client.
type authorizationPages struct {
	authorizations *issuer.Authorizations
	audit          *Audit
	counters       Counters
	browser        *browser
	signIn         *signInPages
	consent        *consentPages
}

// serve serves the authorization endpoint (RFC 6749 §3.1).
func (h *authorizationPages) serve(w http.ResponseWriter, r *http.Request) error {
	if !requests.IsNavigation(r) && !requests.IsFrame(r) {
		return requests.NotAVisit()
	}
	text, err := h.authorizationText(w, r)
	if err != nil {
		return err
	}
	p, err := readParameters(text)
	if err != nil {
		return err
	}
	if len(text) > maxQuery && p.get("client_id") != store.BuiltInClientID {
		return requests.Invalid("parameters_too_long")
	}
	// 1. Client and redirect URI. Until both are verified, errors are shown on a page.
	if p.repeated("client_id") || p.repeated("redirect_uri") {
		return requests.Invalid("parameter_duplicate")
	}
	client, target, err := h.authorizations.ResolveRedirect(r.Context(), p.get("client_id"), p.get("redirect_uri"), h.audit.Address(r))
	if err != nil {
		return forClient(err, client)
	}
	if !p.repeated("state") && requests.Storable(p.get("state")) {
		target = target.WithState(p.get("state"))
	}
	target = target.WithResponseMode(p.get("response_mode"))
	if client.ID == store.BuiltInClientID {
		severOpener(w, client)
		if requests.IsFrame(r) {
			return requests.NotAVisit()
		}
		attempt, err := signin.HostAttemptOf(h.authorizations.Families, signin.HostRequest{
			Origin: target.Origin(), State: p.get("state"), Nonce: p.get("nonce"), Challenge: p.get("code_challenge"),
		})
		switch {
		case err != nil:
			return forClient(err, client)
		case attempt.Origin == h.browser.origin && !attempt.IsOf(readCookie(r, signin.HostBrowserCookie(h.browser.cookies.scheme()))): // at other origins, the host's callback checks the cookie
			return h.redirectError(w, r, client, target, oauth.NewError(oauth.InvalidRequest, "state_of_another_browser"))
		}
	}
	// 2. The request. From here on, errors are sent to the client.
	request, err := h.authorizations.ReadAuthorization(client, target, p.authorization(h.authorizations.Clients.OpenID || client.ID == store.BuiltInClientID))
	if err != nil {
		return h.redirectError(w, r, client, target, err)
	}
	if requests.IsFrame(r) && (!request.IsSilent() || !requests.ComesFrom(r, target.Origin())) {
		return requests.NotAVisit()
	}
	// The client's page sent a cross-site POST, without cookies. A GET with the same parameters has them. The parameters are encoded again,
	// because a body may contain bytes that a URL cannot.
	if h.isCrossSite(r) {
		seeOther(w, h.browser.prefix+authorizePath+"?"+url.Values(p).Encode())
		return nil
	}
	// 3. The next step.
	v, err := h.browser.visitOf(w, r)
	if err != nil {
		return h.redirectError(w, r, client, target, err)
	}
	return h.advance(w, r, walk{visit: v, request: &request, client: client, target: target})
}

// authorizationText returns the raw parameters: the query or, for POST, only the body.
func (h *authorizationPages) authorizationText(w http.ResponseWriter, r *http.Request) (string, error) {
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		media, err := requests.ParseMediaType(r.Header["Content-Type"])
		if err != nil {
			return "", err
		}
		if media.Name != requests.URLEncoded {
			return "", requests.Invalid("media_type_unsupported")
		}
		body, err := requests.ReadBody(w, r)
		if err != nil {
			return "", err
		}
		if err := media.Check(body); err != nil {
			return "", err
		}
		text = string(body)
	}
	if len(text) > maxHostQuery {
		return "", requests.Invalid("parameters_too_long")
	}
	return text, nil
}

// parameters are those of an authorization request. Unlike a form, they may contain duplicates, because the target of the error depends on
// which parameter is repeated.
type parameters map[string][]string

// readParameters parses a query or a urlencoded body. It refuses semicolons, because some parsers split at them. It allows them in state
// and nonce, which must be returned to the client unchanged.
func readParameters(text string) (parameters, error) {
	if strings.Count(text, "&") >= 2*requests.MaxParameters {
		return nil, requests.Invalid("form_malformed")
	}
	if strings.Contains(text, ";") {
		pairs := strings.Split(text, "&")
		for i, pair := range pairs {
			if strings.HasPrefix(pair, "state=") || strings.HasPrefix(pair, "nonce=") {
				pairs[i] = strings.ReplaceAll(pair, ";", "%3B")
			}
		}
		text = strings.Join(pairs, "&")
	}
	values, err := url.ParseQuery(text) // refuses the remaining semicolons
	if err != nil {
		return nil, requests.Invalid("form_malformed")
	}
	return parameters(values), nil
}

// get returns a parameter. It returns "" if the parameter is absent, empty or repeated.
func (p parameters) get(name string) string {
	if len(p[name]) != 1 {
		return ""
	}
	return p[name][0]
}

func (p parameters) repeated(name string) bool { return len(p[name]) > 1 }

// authorizationParameters may occur once and must be text. The same holds for openIDParameters if they are known.
var (
	authorizationParameters = []string{
		"response_type", "response_mode", "scope", "state", "code_challenge", "code_challenge_method", "prompt",
		"max_age", "login_hint", "ui_locales", "acr_values", "request", "request_uri",
	}
	openIDParameters = []string{"nonce", "claims", "id_token_hint"}
)

// authorization returns the known parameters.
func (p parameters) authorization(openID bool) issuer.AuthorizationParameters {
	a := issuer.AuthorizationParameters{
		ResponseType: p.get("response_type"), ResponseMode: p.get("response_mode"), Scope: p.get("scope"), Provider: p.get("provider"),
		State: p.get("state"), CodeChallenge: p.get("code_challenge"), CodeChallengeMethod: p.get("code_challenge_method"),
		OpenID: issuer.OpenIDParameters{
			Prompt: p.get("prompt"), MaxAge: p.get("max_age"), LoginHint: p.get("login_hint"), UILocales: p.get("ui_locales"),
			ACRValues: p.get("acr_values"),
		},
		Resources: slices.DeleteFunc(slices.Clone(p["resource"]), func(value string) bool { return value == "" }),

		HasRequest: p.get("request") != "", HasRequestURI: p.get("request_uri") != "",
	}
	known := authorizationParameters
	if openID {
		a.OpenID.Nonce, a.OpenID.Claims, a.OpenID.IDTokenHint = p.get("nonce"), p.get("claims"), p.get("id_token_hint")
		known = slices.Concat(known, openIDParameters)
	}
	for _, name := range known {
		switch {
		case p.repeated(name):
			a.Malformed = requests.Invalid("parameter_duplicate")
		case (name == "state" || name == "nonce") && !requests.Storable(p.get(name)), !utf8.ValidString(p.get(name)):
			a.Malformed = requests.Invalid("parameter_value_invalid")
		}
	}
	return a
}

// walk is the state of an authorization request between the pages.
type walk struct {
	visit   visit
	request *issuer.AuthorizationRequest
	client  *store.Client
	target  issuer.RedirectTarget
	// fresh requires a recent sign-in on a later page if there is no request.
	fresh bool
}

// advance performs the next step of the flow: the sign-in page, the consent page, or the redirect to the client. Every page calls it.
func (h *authorizationPages) advance(w http.ResponseWriter, r *http.Request, k walk) error {
	severOpener(w, k.client)
	step, err := h.authorizations.NextStep(r.Context(), k.request, k.client, k.visit.session)
	if err != nil {
		return h.redirectError(w, r, k.client, k.target, err)
	}
	if step == issuer.GrantNow {
		if !requests.IsVisit(r) {
			return requests.NotAVisit()
		}
		return h.approve(w, r, k, k.request.Asked())
	}
	pending, err := h.authorizations.SealRequest(k.request, k.visit.browser)
	if err != nil {
		return h.redirectError(w, r, k.client, k.target, err)
	}
	if step == issuer.AskFactor {
		return h.signIn.stepUp(w, r, k, pending)
	}
	path, show := loginPath, h.signIn.showSignIn
	switch {
	case step == issuer.AskConsent:
		path, show = consentPath, h.consent.showConsent
	case k.request.Registers() && h.signIn.signUp != nil:
		path, show = signUpPath, h.signIn.signUp.show
	}
	if at := r.URL.EscapedPath(); at != h.browser.prefix+authorizePath && (r.Method == http.MethodPost || h.browser.isCallback(at)) {
		seeOther(w, h.browser.url(path, pending)) // a reload or the back button then resubmits neither a form nor a provider's code
		return nil
	}
	return show(w, r, k, pending)
}

// approve redirects the browser to the client with a code.
func (h *authorizationPages) approve(w http.ResponseWriter, r *http.Request, k walk, allowed oauth.Scopes) error {
	code, err := h.authorizations.Approve(r.Context(), k.request, k.client, k.visit.session, allowed)
	if err != nil {
		switch {
		case errors.Is(err, oauth.ErrDecided):
			return decided
		case oauth.AsError(err).Code == oauth.InvalidGrant: // the user has changed and must sign in again
			k.visit.session = nil
			return h.advance(w, r, k)
		}
		return h.redirectError(w, r, k.client, k.target, err)
	}
	fields := []zap.Field{
		zap.String("client_id", k.client.ID), zap.String("subject", k.visit.session.User.ID), zap.String("scope", allowed.String()),
	}
	if k.request.Device != nil {
		fields = append(fields, zap.String("device", k.request.ID), zap.String("device_address", k.request.Device.Address))
	}
	h.audit.Accepted(r, "authorization granted", fields...)
	if k.request.Device != nil {
		return h.showDecided(w, r, k, true)
	}
	return h.sendAnswer(w, r, k.client, k.target, k.target.Code(code))
}

// showDecided tells a user that a device has its answer.
func (h *authorizationPages) showDecided(w http.ResponseWriter, r *http.Request, k walk, allowed bool) error {
	return h.browser.show(w, r, http.StatusOK, "", pages.DeviceDecided{
		Allowed: allowed, ClientName: k.client.Name, AccountURL: h.browser.prefix + accountPath,
	})
}

var decided = requests.Error{Status: http.StatusForbidden, Err: oauth.ErrDecided}

// redirectError redirects the browser to the client with an error (RFC 6749 §4.1.2.1). Anyone can register a client whose page is anywhere
// on the web, or whose scheme starts a program. A link to us would then lead there. So the error of such a client is shown here, unless it
// goes to loopback, or the user has just decided about the client on the consent page (RFC 9700 §4.11.2).
func (h *authorizationPages) redirectError(w http.ResponseWriter, r *http.Request, client *store.Client, target issuer.RedirectTarget, err error) error {
	e := oauth.AsError(err)
	if target.URI() == "" { // a device asks, and reads the answer at the token endpoint
		return forClient(err, client)
	}
	if client.Origin != store.FromOperator && !target.IsLoopback() {
		session, sessionErr := h.browser.session(r)
		if session == nil || sessionErr != nil || r.Method != http.MethodPost || r.URL.EscapedPath() != h.browser.prefix+consentPath {
			return forClient(err, client)
		}
	}
	h.counters.Refused(authorizationEndpoint, e)
	h.audit.Refused(r, "authorization request refused", forClient(err, client))
	return h.sendAnswer(w, r, client, target, target.Error(answers.WireName(e.Code), e.Description))
}

// isCrossSite reports whether another site's page sent a POST, without our cookies.
func (h *authorizationPages) isCrossSite(r *http.Request) bool {
	return r.Method == http.MethodPost && r.Header.Get("Sec-Fetch-Site") == "cross-site" &&
		h.browser.sessionCookie(r).IsEmpty() && readCookie(r, h.browser.cookies.browser).IsEmpty()
}

// severOpener isolates a window from the page that opened it, for sign-ins at a host. Otherwise a script of that host could read the code
// in the callback's address if the callback fails to answer. Browsers apply the header to redirects as well.
func severOpener(w http.ResponseWriter, client *store.Client) {
	if client != nil && client.ID == store.BuiltInClientID {
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
	}
}

// seeOther redirects with 303, so that the browser always uses GET (RFC 9700 §4.12).
func seeOther(w http.ResponseWriter, location string) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusSeeOther)
}

// sendAnswer sends the browser to the client with an answer of the authorization endpoint, by a redirect or by a form (OAuth 2.0 Form Post
// Response Mode).
func (h *authorizationPages) sendAnswer(w http.ResponseWriter, r *http.Request, client *store.Client, target issuer.RedirectTarget, answer issuer.RedirectAnswer) error {
	severOpener(w, client)
	if answer.Location != "" {
		seeOther(w, answer.Location)
		return nil
	}
	page := pages.FormPost{URI: answer.URI, ClientName: titleOf(client, target.Host())}
	for _, p := range answer.Parameters {
		page.Fields = append(page.Fields, pages.Field{Name: p.Name, Value: p.Value})
	}
	return h.browser.show(w, r, http.StatusOK, "", page, target.Origin())
}
