package gate

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"golang.org/x/net/http/httpguts"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// parsePersonalToken reads where personal access tokens may come from, beside `Authorization: Bearer`. It reports whether the words are
// about them.
//
//	token_from header <Name> pat
//	token_from basic pat
func parsePersonalToken(p *directive, h httpcaddyfile.Helper, args []string) (bool, error) {
	switch {
	case len(args) == 3 && args[0] == "header" && args[2] == "pat":
		if err := setting.Once(h.Dispenser, "token_from header", p.PersonalTokenHeader != ""); err != nil {
			return true, err
		}
		p.PersonalTokenHeader = args[1]
	case len(args) == 2 && args[0] == "basic" && args[1] == "pat":
		p.PersonalTokenBasic = true
	default:
		return false, nil
	}
	if err := checkPersonalTokenHeader(p.PersonalTokenHeader); err != nil {
		return true, h.Errf("%v", err)
	}
	return true, nil
}

// checkPersonalTokenHeader refuses headers that mean something else, or that say who is calling: those are removed before they are read.
func checkPersonalTokenHeader(name string) error {
	if name != "" && (!httpguts.ValidHeaderFieldName(name) || identity.Forbidden(name) || identity.NewGuard(nil).Takes(name)) {
		return fmt.Errorf("token_from header %s pat: no token can come in this header: use one of its own, as X-Api-Key", name)
	}
	return nil
}

// takePersonalToken moves a personal access token that comes as `token_from` allows into a bearer header, in place: no later handler sees it
// elsewhere. Beside another credential it is one too many, which the header then says. It reports whether the token came in a header that
// Caddy's logs show: they have the request as it arrived, and redact the Authorization header alone.
func (c *credentials) takePersonalToken(r *http.Request) (shown bool) {
	if c.personalHeader != "" {
		values := r.Header[c.personalHeader]
		for _, value := range values {
			if c.tokens.isPersonal(value) || requests.ShowsPersonalToken(value) { // the latter has something around the token
				shown = true
				delete(r.Header, c.personalHeader)
				for _, each := range values {
					r.Header["Authorization"] = append(r.Header["Authorization"], "Bearer "+each)
				}
				break
			}
		}
	}
	if authorization := r.Header["Authorization"]; c.personalBasic && len(authorization) == 1 {
		if password, ok := basicPassword(authorization[0]); ok && c.tokens.isPersonal(password) {
			r.Header["Authorization"] = []string{"Bearer " + password}
		}
	}
	return shown
}

// errMisplacedToken refuses a personal access token where none is read. The upstream would get it, and logs show most of a request.
var errMisplacedToken = oauth.NewError(oauth.InvalidRequest, "personal_token_misplaced").
	WithDescription("The request contains a personal access token where none is read. Send it as `Authorization: Bearer`.")

// misplacesToken reports whether a request has, or came with, a personal access token anywhere but where a credential belongs. Caddy's logs
// redact those headers. It has to see the header before anything is removed from it. Caddy drops names with an underscore or a dot before
// any route, so it cannot see those.
func misplacesToken(r *http.Request) bool {
	original, _ := r.Context().Value(caddyhttp.OriginalRequestCtxKey).(http.Request) // before `rewrite` and `uri`
	if caller.Misplaced(r) || requests.ShowsPersonalToken(r.Host) || showsPersonalToken(r.URL) || original.URL != nil && showsPersonalToken(original.URL) {
		return true
	}
	for name, values := range r.Header {
		switch name {
		case "Authorization", "Proxy-Authorization", "Cookie":
			continue
		}
		if slices.ContainsFunc(values, requests.ShowsPersonalToken) {
			return true
		}
	}
	return false
}

// showsPersonalToken reports whether a URL has a personal access token anywhere but as the access_token of its query.
func showsPersonalToken(u *url.URL) bool {
	return u.User != nil && requests.ShowsPersonalToken(u.User.String()) || requests.ShowsPersonalToken(u.Opaque) || requests.ShowsPersonalToken(u.Path) ||
		requests.ShowsPersonalToken(requests.WithoutQueryToken(u.RawQuery))
}

// basicPassword returns the password of Basic credentials (RFC 7617 §2). Programs write anything as user name, so it says nothing.
func basicPassword(authorization string) (string, bool) {
	scheme, credentials, _ := strings.Cut(authorization, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", false
	}
	text, err := base64.StdEncoding.DecodeString(credentials)
	if err != nil {
		return "", false
	}
	_, password, found := strings.Cut(string(text), ":")
	return password, found
}

// showsPersonalCredential reports whether an Authorization header contains a personal access token, also in Basic credentials as any upstream
// might read them: in either alphabet, with or without padding, or with something between.
func showsPersonalCredential(authorization string) bool {
	if requests.ShowsPersonalToken(authorization) {
		return true
	}
	credentials := authorization[strings.IndexAny(authorization, " \t")+1:]
	standard := strings.Map(func(c rune) rune {
		switch {
		case c == '-':
			return '+'
		case c == '_':
			return '/'
		case c == '+', c == '/', '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z':
			return c
		}
		return -1
	}, credentials)
	text, _ := base64.RawStdEncoding.DecodeString(standard[:len(standard)/4*4]) // a token is longer than what the rest could hide
	return requests.ShowsPersonalToken(string(text))
}

// isPersonal reports whether a text is meant to be a personal access token of our own issuer.
func (t *tokens) isPersonal(text string) bool {
	return t.shared.own != nil && t.shared.own.PersonalTokens != nil && t.shared.own.PersonalTokens.IsToken(text)
}

// verifyPersonal verifies a personal access token. One is shown to no other issuer.
func (t *tokens) verifyPersonal(ctx context.Context, host, tok string) (*token.AccessToken, error) {
	if t.own == nil {
		return nil, issuerUnknown
	}
	if !t.shared.isServing(ctx) {
		return nil, oauth.Unavailable("not_started", nil)
	}
	return t.shared.own.PersonalTokens.Token(ctx, tok, t.audienceOf(t.own, host), admission(ctx, t.shared.turns.lookups))
}
