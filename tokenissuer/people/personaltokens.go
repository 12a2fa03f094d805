package people

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	// maxBytes bounds the memory for valid tokens. maxRefused bounds the number of cached invalid ones.
	maxBytes   = 32 << 20
	maxRefused = 16384
	// providerWord is how long after a sign-in at a provider a token has the groups that the provider gave its owner: as long as a browser
	// stays signed in, plus the day within which a sign-in is recorded.
	providerWord = 31 * store.Day
	// refusedFor is how long an invalid token is refused without another look-up.
	refusedFor = 10 * time.Second
)

// PersonalTokens are the personal access tokens of an issuer: opaque, named credentials. A user makes them for own programs, and an
// operator for a service account.
type PersonalTokens struct {
	rules      TokenRules
	issuer     TokenIssuer
	stored     func() TokenStore
	remembered *token.OpaqueCache
	refused    *cache.Cache[struct{}]
}

// TokenIssuer is what personal access tokens need of their issuer.
type TokenIssuer struct {
	Families  *families.Families
	Clients   *clients.Clients
	Verifier  *token.Verifier
	Roles     store.RoleCatalogue
	Resources *oauth.Resources
}

// TokenStore is what personal access tokens need of a store.
type TokenStore interface {
	store.PersonalTokenStore
	store.IdentityStore
}

// TokenStoreOf returns the parts of s that personal access tokens need.
func TokenStoreOf(s store.Store) TokenStore {
	return struct {
		store.PersonalTokenStore
		store.IdentityStore
	}{s.PersonalTokens, s.Identities}
}

// NewPersonalTokens returns the tokens of an issuer that rules allow. stored returns the store once the issuer serves.
func NewPersonalTokens(issuer TokenIssuer, rules TokenRules, stored func() TokenStore, enter token.EnterStore) *PersonalTokens {
	if len(rules.Scopes) == 0 {
		rules.Scopes = issuer.Clients.BuiltIn().Scopes
	}
	return &PersonalTokens{
		rules: rules, issuer: issuer, stored: stored, remembered: token.NewOpaqueCache(issuer.Verifier, enter, maxBytes),
		refused: cache.New[struct{}](maxRefused),
	}
}

// Rules returns the rules by which tokens are made and used.
func (p *PersonalTokens) Rules() TokenRules { return p.rules }

// IsToken reports whether a text has the form of a personal access token.
func (*PersonalTokens) IsToken(text string) bool { return strings.HasPrefix(text, TokenPrefix) }

// Remembered returns the number of cached tokens.
func (p *PersonalTokens) Remembered() int { return p.remembered.Len() }

var (
	errMalformed = oauth.NewError(oauth.InvalidToken, "personal_token_malformed")
	errUnknown   = oauth.NewError(oauth.InvalidToken, "personal_token_unknown")
)

// Token returns the content of a valid token for one of the audiences. It calls admit before it reads the store for a token that is not
// cached. The error is invalid_token or temporarily_unavailable.
func (p *PersonalTokens) Token(ctx context.Context, text string, audiences []string, admit token.Admission) (*token.AccessToken, error) {
	if !isWellFormed(text) {
		return nil, errMalformed
	}
	key := oauth.DigestOf(text)
	t, known, err := p.remembered.Recall(key)
	if !known {
		t, err = p.read(ctx, key, admit)
	}
	switch {
	case err != nil:
		return nil, err
	case !t.HasAudience(audiences):
		return nil, token.ErrAudienceWrong
	}
	return t, nil
}

// read reads the store, unless the token was found invalid recently.
func (p *PersonalTokens) read(ctx context.Context, key token.OpaqueKey, admit token.Admission) (*token.AccessToken, error) {
	now := p.issuer.Verifier.Now()
	if _, refused := p.refused.GetAt(string(key[:]), now); refused {
		return nil, errUnknown
	}
	t, err := p.remembered.Read(ctx, key, admit, func(ctx context.Context) (*token.AccessToken, error) {
		return p.load(ctx, key)
	})
	if err == nil && t == nil {
		p.refused.PutFor(string(key[:]), struct{}{}, 1, now, now.Add(refusedFor))
		err = errUnknown
	}
	return t, err
}

// load reads a token from the store. It returns nil if the token is not valid. It records the use once a day.
func (p *PersonalTokens) load(ctx context.Context, key token.OpaqueKey) (*token.AccessToken, error) {
	record, owner, err := p.find(ctx, key)
	if record == nil || err != nil {
		return nil, err
	}
	if day := p.issuer.Families.Now().UTC().Truncate(24 * time.Hour); record.LastUsedAt.Before(day) {
		_ = p.stored().TouchPersonalToken(ctx, record.ID, day) // an error does not fail the request
	}
	return p.tokenOf(record, owner), nil
}

// find returns the record of a currently valid token, with its owner, or nil.
func (p *PersonalTokens) find(ctx context.Context, key token.OpaqueKey) (*store.PersonalToken, *store.User, error) {
	record, err := p.stored().PersonalToken(ctx, key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	owner, err := p.issuer.Families.Directory.User(ctx, record.UserID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, nil, nil
	case err != nil:
		return nil, nil, err
	}
	if owner, err = p.current(ctx, owner); err != nil || !p.stands(record, owner) {
		return nil, nil, err
	}
	return record, owner, nil
}

// current returns the owner of a token, without the groups of a provider at which the owner has not signed in for providerWord. A token is
// used without a sign-in, so a person removed at the provider would otherwise keep the groups for the lifetime of the token.
func (p *PersonalTokens) current(ctx context.Context, owner *store.User) (*store.User, error) {
	if len(owner.ProviderGroups) == 0 {
		return owner, nil
	}
	identities, err := p.stored().Identities(ctx, owner.ID)
	if err != nil {
		return nil, err
	}
	since := p.issuer.Families.Now().Add(-providerWord)
	if slices.ContainsFunc(identities, func(i store.Identity) bool { return i.Provider == owner.GroupsBy && i.LastUsedAt.After(since) }) {
		return owner, nil
	}
	current := *owner
	current.ProviderGroups = nil
	return &current, nil
}

// stands reports whether a token meets all conditions.
func (p *PersonalTokens) stands(record *store.PersonalToken, owner *store.User) bool {
	return !slices.ContainsFunc(conditions, func(c condition) bool { return !c.holds(p, record, owner) })
}

// tokenOf returns the content of a token, limited to what its owner may have now.
func (p *PersonalTokens) tokenOf(record *store.PersonalToken, owner *store.User) *token.AccessToken {
	t := &token.AccessToken{
		Issuer: p.issuer.Clients.URL, Subject: owner.ID, Audience: record.Audience, ClientID: store.BuiltInClientID, Scopes: p.rules.within(record.Scopes),
		ID: record.ID, IssuedAt: record.IssuedAt(), ExpiresAt: record.ExpiresAt.Truncate(time.Second), SignIn: token.SignIn{Organisation: owner.Organisation},
	}
	if len(t.Audience) == 0 {
		t.Audience = p.issuer.Clients.Audience
	}
	if p.issuer.Roles.Has(owner.Role) {
		t.Role = string(owner.Role)
	}
	if t.Scopes.Has(oauth.ScopeGroups) {
		t.WithGroups(owner.AllGroups())
	}
	return t
}

// Find returns the content of a token by the current state of the store, or nil if the token is not valid. It is for the issuer's own
// endpoints, where the audience does not matter. The error is temporarily_unavailable.
func (p *PersonalTokens) Find(ctx context.Context, text string) (*token.AccessToken, error) {
	if !isWellFormed(text) {
		return nil, nil
	}
	record, owner, err := p.find(ctx, oauth.DigestOf(text))
	if record == nil || err != nil {
		return nil, err
	}
	return p.tokenOf(record, owner), nil
}

// Create makes a token and returns its text, which cannot be read again. The error is an InvalidTokenError, invalid_target, or
// temporarily_unavailable, and for a form also rate_limited, by the limit of grants.
func (p *PersonalTokens) Create(ctx context.Context, owner *store.User, q TokenRequest) (*store.PersonalToken, oauth.Secret, error) {
	if err := p.rules.check(&q, owner); err != nil {
		return nil, oauth.Secret{}, err
	}
	audience, err := p.issuer.Resources.Audience(q.Resources, nil)
	if err != nil {
		return nil, oauth.Secret{}, err
	}
	list, err := p.Of(ctx, owner.ID)
	if err != nil {
		return nil, oauth.Secret{}, err
	}
	if len(list) >= maxPerOwner {
		return nil, oauth.Secret{}, errTooMany
	}
	if err := p.useForm(ctx, owner, q.Form); err != nil {
		return nil, oauth.Secret{}, err
	}
	token, now := newToken(), p.issuer.Families.Now()
	record := &store.PersonalToken{
		ID: oauth.NewID(), Digest: token.Digest(), UserID: owner.ID, UserDeclared: owner.Declared, Name: q.Name, Scopes: q.Scopes, Audience: audience,
		CreatedAt: p.issuer.Families.IssueTime(), ExpiresAt: now.Add(q.Lifetime),
	}
	err = p.stored().AddPersonalToken(ctx, record, owner.Version)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, oauth.Secret{}, errNotOwner // the owner was changed or removed meanwhile
	case err != nil:
		return nil, oauth.Secret{}, err
	}
	return record, token, nil
}

// granted is the grant type by which forms are counted.
const granted oauth.GrantType = "personal_token"

// useForm returns an error if a form has already made a token, or if the user makes too many.
func (p *PersonalTokens) useForm(ctx context.Context, owner *store.User, form string) error {
	if form == "" {
		return nil
	}
	now := p.issuer.Families.Now()
	if err := p.issuer.Families.Limits.ReserveGrant(ctx, granted, owner.ID, now); err != nil {
		return err
	}
	fresh, err := p.issuer.Families.UseOnce(ctx, "personal token", owner.ID, form, now.Add(store.MaxLifetime))
	if err == nil && !fresh {
		err = errUsed
	}
	return err
}

// Of lists the tokens of a user, newest first, including expired ones. An empty id lists those of all users.
func (p *PersonalTokens) Of(ctx context.Context, userID string) ([]*store.PersonalToken, error) {
	list, err := p.stored().PersonalTokens(ctx, userID)
	if err != nil {
		return nil, err
	}
	return list, nil
}

// End ends the tokens that match: durably, at once in this process, and on every other node as soon as it learns of it. It reports whether
// there was one.
func (p *PersonalTokens) End(ctx context.Context, which store.PersonalTokenFilter) (bool, error) {
	ended, err := p.stored().EndPersonalTokens(ctx, which, p.issuer.Families.Ending())
	if err != nil {
		return false, err
	}
	p.issuer.Families.Revocations.Add(ended...)
	return len(ended) > 0, nil
}
