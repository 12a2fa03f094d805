package endpoint

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// tokenPages is the part of the account page with personal access tokens.
type tokenPages struct {
	audit   *Audit
	browser *browser
	account *accountPages
	tokens  *people.PersonalTokens
}

// OfferPersonalTokens adds personal access tokens to the account page, which then lists, makes and ends them. It must be called before the
// first request.
func (h *Handler) OfferPersonalTokens(tokens *people.PersonalTokens) {
	a := h.account
	a.tokens = &tokenPages{audit: a.audit, browser: a.browser, account: a, tokens: tokens}
}

// tokensOf returns a user's personal access tokens for the account page. It returns nil if the user has none and may make none.
func (h *tokenPages) tokensOf(r *http.Request, v visit) (*pages.Tokens, error) {
	user := v.session.User
	list, err := h.tokens.Of(r.Context(), user.ID)
	if err != nil {
		return nil, err
	}
	rules := h.tokens.Rules()
	makes := rules.MayMake(user)
	if len(list) == 0 && !makes {
		return nil, nil
	}
	page := new(pages.Tokens)
	for _, t := range list {
		page.List = append(page.List, h.tokenOnPage(t))
	}
	switch {
	case makes && h.browser.isRecent(v.session):
		page.New = h.newTokenForm(people.TokenRequest{Lifetime: rules.Lifetime})
	case makes:
		page.SignIn = true
	}
	return page, nil
}

func (h *tokenPages) tokenOnPage(t *store.PersonalToken) pages.Token {
	return pages.Token{
		ID: t.ID, Name: t.Name, Scopes: scopesInWords(h.browser.policy(), t.Scopes), Since: t.CreatedAt, ExpiresAt: t.ExpiresAt,
		Expired: !h.browser.sessions.Families.Now().Before(t.ExpiresAt), LastUsed: t.LastUsedAt,
	}
}

// lifetimes are the offered lifetimes, in addition to the default and the longest one.
var lifetimes = []time.Duration{7 * store.Day, 30 * store.Day, 90 * store.Day, 180 * store.Day, 365 * store.Day}

// newTokenForm returns the form for another token, with the values of q.
func (h *tokenPages) newTokenForm(q people.TokenRequest) *pages.NewToken {
	rules := h.tokens.Rules()
	form := &pages.NewToken{Name: q.Name, MaxName: people.MaxTokenName, Scopes: scopesInWords(h.browser.policy(), rules.Scopes)}
	for i, scope := range form.Scopes {
		form.Scopes[i].Ticked = q.Scopes.Has(scope.Name)
	}
	offered := slices.DeleteFunc(slices.Concat(lifetimes, []time.Duration{rules.Lifetime, rules.Longest}), func(d time.Duration) bool { return d > rules.Longest })
	slices.Sort(offered)
	for _, d := range slices.Compact(offered) {
		form.Lifetimes = append(form.Lifetimes, pages.Lifetime{Duration: d, Chosen: d == q.Lifetime})
	}
	return form
}

// makeToken makes a personal access token and shows it once, in the response.
func (h *tokenPages) makeToken(w http.ResponseWriter, r *http.Request, v visit, f requests.Form, nonce string) error {
	page, err := h.account.accountPage(r, v)
	switch {
	case err != nil:
		return err
	case page.Tokens == nil || page.Tokens.New == nil && !page.Tokens.SignIn:
		return requests.Invalid("account_change_unknown")
	case page.Tokens.SignIn || f.Get("make") == "sign_in":
		h.browser.signInFor(w, toTokens)
		return nil
	}
	q, err := newToken(f, nonce)
	if err != nil {
		return err
	}
	made, token, err := h.tokens.Create(r.Context(), v.session.User, q)
	if invalid, ok := errors.AsType[people.InvalidTokenError](err); ok {
		return h.tokenRefused(w, r, v, page, q, invalid)
	}
	if err != nil {
		return err
	}
	h.audit.Accepted(r, "personal access token added", zap.String("subject", made.UserID), zap.String("session", v.session.Family.ID),
		zap.String("token_id", made.ID), zap.String("scope", made.Scopes.String()), zap.Time("expires_at", made.ExpiresAt))
	page.Tokens.List = slices.Insert(page.Tokens.List, 0, h.tokenOnPage(made))
	page.Tokens.Made = &pages.MadeToken{Name: made.Name, Text: token.Reveal()}
	return h.browser.show(w, r, http.StatusOK, "", page)
}

// tokenRefused shows the form again with its fault. A form that has already made its token is shown empty.
func (h *tokenPages) tokenRefused(w http.ResponseWriter, r *http.Request, v visit, page pages.Account, q people.TokenRequest, invalid people.InvalidTokenError) error {
	refusal := requests.Error{Status: http.StatusBadRequest, Err: requests.Invalid("personal_token_refused").WithCause(errors.New(string(invalid.Fault)))}
	page.Tokens.Fault = string(invalid.Fault)
	if invalid.Fault == people.FaultUsed {
		refusal.Status = http.StatusConflict
	} else {
		page.Tokens.New = h.newTokenForm(q)
	}
	h.audit.Refused(r, "personal access token refused", refusal, zap.String("subject", v.session.User.ID))
	return h.browser.show(w, r, refusal.Status, "", page)
}

// endToken ends a token of a user. Another user's token is left unchanged, as if it did not exist. An unknown id is not logged, because it
// may be anything else.
func (h *tokenPages) endToken(w http.ResponseWriter, r *http.Request, user *store.User, id string) error {
	ended, err := h.tokens.End(r.Context(), store.PersonalTokenFilter{ID: id, UserID: user.ID})
	if err != nil {
		return err
	}
	if ended {
		h.audit.Accepted(r, "account access ended", zap.String("subject", user.ID), zap.String("personal_token", id))
	}
	seeOther(w, h.browser.prefix+doneURL(pages.TokenEnded))
	return nil
}

// newToken reads the form for a token.
func newToken(f requests.Form, nonce string) (people.TokenRequest, error) {
	q := people.TokenRequest{Name: f.Get("name"), Lifetime: -1, Form: nonce}
	if seconds, err := strconv.ParseInt(f.Get("lifetime"), 10, 32); err == nil {
		q.Lifetime = time.Duration(seconds) * time.Second
	}
	var chosen []string
	for i := range requests.MaxParameters {
		chosen = append(chosen, f.Get("scope_"+strconv.Itoa(i)))
	}
	var err error
	q.Scopes, err = oauth.ParseScopes(strings.Join(chosen, " "))
	return q, err
}
