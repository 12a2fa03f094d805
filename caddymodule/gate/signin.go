package gate

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/rule"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// sessionTokenCookie is the cookie in which a browser keeps the access token of its session with our issuer.
const sessionTokenCookie = "accessToken"

// usesSessionCookie reports whether signed-in browsers may come without a valid access token and get a fresh one.
func (p *Protect) usesSessionCookie() bool { return p.TokenCookie == sessionTokenCookie }

// checkSessions refuses a route that no session can satisfy.
func (p *Protect) checkSessions() error {
	if !p.usesSessionCookie() {
		return nil
	}
	if p.own == nil {
		return fmt.Errorf("token_from cookie %s: its tokens are our own, which this route does not take: add `issuer self`, or name another cookie", sessionTokenCookie)
	}
	issued := p.shared.own.Audience
	if p.ResourceRequired && !slices.Contains(issued, p.resource) {
		return fmt.Errorf("token_from cookie %s: its tokens are meant for %s, and resource_required lets only those pass that are for the resource of the route",
			sessionTokenCookie, strings.Join(issued, " "))
	}
	if !slices.ContainsFunc(p.own.audience, func(wanted string) bool { return slices.Contains(issued, wanted) }) {
		return fmt.Errorf("token_from cookie %s: its tokens are meant for %s, and so for no audience of this route",
			sessionTokenCookie, strings.Join(issued, " "))
	}
	if asksForGroup := func(r *rule.Rule) bool { return len(r.Groups) > 0 }; slices.ContainsFunc(p.Require, asksForGroup) &&
		!slices.Contains(p.shared.own.SessionScopes, oauth.ScopeGroups) {
		p.logger.Warn("nobody who signs in with a browser passes `require group`, because the tokens of sessions do not have the scope groups: "+
			"add `session_scopes groups` to the oauth block", zap.String("source", p.Source))
	}
	return nil
}

// authenticate verifies the token of a request, or gets one from the browser's session. It fills in the decision as far
// as it gets.
func (p *Protect) authenticate(w http.ResponseWriter, r *http.Request, d *decision) error {
	shown, err := p.credential(r)
	if err != nil && errorCode(err) == oauth.Unauthorized && p.UsesHostSessions() {
		return p.authenticateAtHost(r, d)
	}
	if err != nil && (errorCode(err) != oauth.Unauthorized || !p.usesSessionCookie()) {
		return err
	}
	absent := err != nil
	if absent {
		if shown, err = p.sessionCredential(w, r, d); err != nil {
			return err
		}
	}
	if err := p.checkOrigin(r, shown); err != nil {
		return err
	}
	d.cookie = shown.cookie
	d.rawToken = shown.token
	d.token, err = p.verifyToken(r.Context(), shown.token.Reveal())
	if shown.cookie && p.usesSessionCookie() && !d.signedIn {
		if err == nil && p.isOfAnotherSession(r, d.token) {
			d.token, err = nil, tokenOfAnotherSession
		}
		err = p.renew(w, r, d, err)
	}
	return err
}

// isOfAnotherSession reports whether a token in the issuer's cookie does not belong to the browser's session, or is not
// ours at all. The cookie's name has no __Host- prefix, so any host of the same domain can set it to somebody else's
// token. A program without a session that sends a token in a cookie chose it itself.
func (p *Protect) isOfAnotherSession(r *http.Request, t *accesstoken.AccessToken) bool {
	id := p.shared.own.Handler.TokenSession(r)
	return t.Issuer != p.own.url || (id != "" || isBrowser(r)) && (id == "" || t.FamilyID != id)
}

// isBrowser reports whether a request comes from a browser, which keeps cookies that other hosts have set. Pages cannot
// remove the headers checked here.
func isBrowser(r *http.Request) bool {
	h := r.Header
	return len(h["Sec-Fetch-Site"])+len(h["Sec-Fetch-Mode"])+len(h["Sec-Fetch-Dest"]) > 0 ||
		slices.ContainsFunc(h["User-Agent"], func(agent string) bool { return strings.HasPrefix(agent, "Mozilla/") })
}

// sessionTokenOf returns, of several cookie values, the one that claims to be of the browser's session; nil: none does.
// The claim is not verified yet.
func (p *Protect) sessionTokenOf(r *http.Request, values []string) []string {
	id := p.shared.own.Handler.TokenSession(r)
	if id == "" {
		return nil
	}
	for _, value := range values[:min(len(values), maxTokenCookies)] {
		if accesstoken.ClaimedFamily(value) == id {
			return []string{value}
		}
	}
	return nil
}

// maxTokenCookies is how many cookies of the issuer's name are inspected.
const maxTokenCookies = 16

var tokenOfAnotherSession = oauth.NewError(oauth.InvalidToken, "token_of_another_session")

func errorCode(err error) oauth.ErrorCode { return oauth.AsError(err).Code }

// sessionCredential returns a fresh token of the browser's session, for a request without a credential.
func (p *Protect) sessionCredential(w http.ResponseWriter, r *http.Request, d *decision) (credential, error) {
	switch serving := p.shared.isServing(r.Context()); {
	case !serving && p.Optional:
		return credential{}, tokenMissing
	case !serving:
		return credential{}, oauth.Unavailable("not_started", nil)
	}
	token, err := p.sessionToken(w, r, d)
	switch {
	case err != nil && !p.Optional:
		return credential{}, err
	case err != nil, token.IsEmpty():
		return credential{}, tokenMissing
	case requests.QueryCarriesToken(r.URL.RawQuery):
		return credential{}, tokenTwice
	}
	return credential{token: token, cookie: true}, nil
}

// renew replaces a token in the session cookie that is invalid or near its end by a fresh one of the browser's session.
// The session alone decides: it ends with the sign-out and with the user. A token that is still valid passes even if the
// renewal fails, so that concurrent requests of one page all pass.
func (p *Protect) renew(w http.ResponseWriter, r *http.Request, d *decision, verdict error) error {
	if verdict != nil && errorCode(verdict) != oauth.InvalidToken {
		return verdict
	}
	if verdict == nil && !p.isNearEnd(d.token) {
		return nil
	}
	fresh, err := p.sessionToken(w, r, d)
	if err != nil && verdict != nil {
		return err
	}
	if fresh.IsEmpty() {
		return verdict
	}
	token, err := p.verifier.VerifyAdmitted(fresh.Reveal(), p.audienceOf(p.own), nil)
	if err != nil && verdict == nil {
		d.renewed = nil
		return nil
	}
	d.token, d.rawToken = token, fresh
	return err
}

// isNearEnd reports whether a token is in the last tenth of its lifetime.
func (p *Protect) isNearEnd(t *accesstoken.AccessToken) bool {
	return p.shared.own.Node.Now().After(t.ExpiresAt.Add(-t.ExpiresAt.Sub(t.IssuedAt) / 10))
}

// sessionToken returns a fresh token of the browser's session; empty: there is no session. It keeps the cookies for the
// token in the decision, apart from those that an upstream may set.
func (p *Protect) sessionToken(w http.ResponseWriter, r *http.Request, d *decision) (oauth.Secret, error) {
	node := p.shared.own.Node
	if !node.Enter() {
		return oauth.Secret{}, oauth.Unavailable("shutting_down", nil)
	}
	defer node.Leave()
	scratch := scratchWriter{w, make(http.Header)}
	token, err := p.shared.own.Handler.SessionToken(scratch, r.WithContext(sqlstore.WithTimeout(r.Context())))
	if err != nil || token.IsEmpty() {
		return oauth.Secret{}, err
	}
	d.signedIn, d.renewed = true, scratch.header["Set-Cookie"]
	return token, nil
}

// scratchWriter collects headers apart from those of the response.
type scratchWriter struct {
	http.ResponseWriter
	header http.Header
}

func (s scratchWriter) Header() http.Header { return s.header }

// signIn redirects a browser navigation to the sign-in page, and reports whether it did. It does not redirect a browser
// that is signed in, or one with a valid token or a token in the header: the sign-in would change nothing, and the
// browser would loop. It does redirect if the sign-in is too old for a rule.
func (p *Protect) signIn(w http.ResponseWriter, r *http.Request, d *decision, refusal error) bool {
	if p.UsesHostSessions() {
		return p.signInAtHost(w, r, d, refusal)
	}
	byHeader := !d.rawToken.IsEmpty() && !d.cookie
	known := d.signedIn || d.token != nil
	if p.Challenge != challengeBrowser || known && !p.passesAfterSignIn(d, refusal) || byHeader || answers.StatusOf(refusal) != http.StatusUnauthorized || !isNavigation(r) {
		return false
	}
	if !p.origin.isHost(r.Host) {
		p.warnHost.Do(func() {
			p.logger.Warn("a browser cannot sign in for this host, because the cookie would never reach it: use `challenge browser` on the issuer's host only",
				zap.String("host", r.Host), zap.String("issuer", p.shared.own.URL))
		})
		return false
	}
	location, err := p.signInURL(r, known)
	if err != nil {
		p.logger.Error("sealing the way back from the sign-in page", zap.Error(err))
		return false
	}
	p.audit.Refused(r, "browser sent to the sign-in page", refusal, p.auditFields(*d)...)
	header := w.Header()
	header.Set("Location", location)
	header.Set("Cache-Control", "no-store")
	header.Set("Pragma", "no-cache")
	header.Add("Vary", "Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Dest")
	w.WriteHeader(http.StatusSeeOther)
	return true
}

// passesAfterSignIn reports whether a signed-in browser would pass after signing in again: its token is of our session,
// and only the age of the sign-in is refused.
func (p *Protect) passesAfterSignIn(d *decision, refusal error) bool {
	e := oauth.AsError(refusal)
	return e.Code == oauth.InsufficientAuthentication && e.MaxAge > 0 && len(e.ACRValues) == 0 &&
		d.token != nil && d.cookie && p.usesSessionCookie() && d.token.Issuer == p.shared.own.URL
}

// signInURL returns the URL of the sign-in page, with the address to return to. Fresh: the sign-in was too long ago.
func (p *Protect) signInURL(r *http.Request, fresh bool) (string, error) {
	address, err := originalAddress(r)
	if err != nil {
		return "", err
	}
	return p.shared.own.Handler.SignInURL(&http.Request{URL: address}, fresh)
}

// originalAddress returns path and query of a request as the client sent them, without rewrites and without a token in the query.
func originalAddress(r *http.Request) (*url.URL, error) {
	address := *r.URL
	if original, ok := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request); ok {
		address = *withPath(&original).URL
	}
	address.RawQuery = requests.WithoutQueryToken(address.RawQuery)
	if !strings.HasPrefix(address.RequestURI(), "/") {
		return nil, errors.New("the request has no path to come back to")
	}
	return &address, nil
}

// isNavigation reports whether a browser requests a page to display. Current browsers say so in Sec-Fetch headers; for
// others, Accept decides. A page in a frame does not count: the sign-in page cannot be framed.
func isNavigation(r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead || isUpgrade(r) {
		return false
	}
	mode, destination := r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"]
	if len(mode)+len(destination)+len(r.Header["Sec-Fetch-Site"]) == 0 {
		return slices.ContainsFunc(r.Header["Accept"], namesHTML)
	}
	return slices.Equal(mode, []string{"navigate"}) && (len(destination) == 0 || slices.Equal(destination, []string{"document"}))
}

// namesHTML reports whether a line of Accept names text/html itself. Programs accept anything, or what they parse.
func namesHTML(line string) bool {
	for element := range strings.SplitSeq(line, ",") {
		media, _, _ := strings.Cut(element, ";")
		if strings.EqualFold(strings.TrimSpace(media), "text/html") {
			return true
		}
	}
	return false
}
