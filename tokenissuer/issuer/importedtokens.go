package issuer

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// maxImportedBytes bounds the memory for valid imported tokens.
const maxImportedBytes = 32 << 20

// ImportedTokens are the opaque access tokens that another authorization server issued and that were imported while they were valid. They
// are valid until their expiry, or until what they belong to ends here, and are otherwise never changed.
type ImportedTokens struct {
	families   *families.Families
	clients    *clients.Clients
	roles      store.RoleCatalogue
	verifier   *token.Verifier
	remembered *token.OpaqueCache
}

// NewImportedTokens returns the imported tokens of an issuer.
func NewImportedTokens(p *Parts, enter token.EnterStore) *ImportedTokens {
	v := p.Issued.Verifier
	return &ImportedTokens{p.Families, p.Clients, p.Roles, v, token.NewOpaqueCache(v, enter, maxImportedBytes)}
}

// MayBeToken reports whether a text can be an imported token. It does not look it up.
func (i *ImportedTokens) MayBeToken(text string) bool {
	return i != nil && i.families.Imported.MayHave(text)
}

// Token returns the content of a valid token for one of the audiences, or nil if the text is no imported token that is valid. It calls admit
// before it reads the store for a token that is not cached. The error is invalid_token for another audience, or temporarily_unavailable.
func (i *ImportedTokens) Token(ctx context.Context, text string, audiences []string, admit token.Admission) (*token.AccessToken, error) {
	key := oauth.DigestOf(text)
	t, known, err := i.remembered.Recall(key)
	if !known {
		t, err = i.remembered.Read(ctx, key, admit, func(ctx context.Context) (*token.AccessToken, error) {
			return i.load(ctx, oauth.NewSecret(text))
		})
	}
	if t == nil || err != nil {
		return nil, err
	}
	if !t.HasAudience(audiences) {
		return nil, token.ErrAudienceWrong
	}
	return t, nil
}

// Find returns the content of a token by the current state of the store, or nil if it is not valid.
func (i *ImportedTokens) Find(ctx context.Context, text oauth.Secret) (*token.AccessToken, error) {
	if !i.MayBeToken(text.Reveal()) {
		return nil, nil
	}
	t, err := i.load(ctx, text)
	if t == nil || err != nil {
		return nil, err
	}
	switch err := i.verifier.CheckUnsigned(t, new(atomic.Uint64)); {
	case err == nil:
		return t, nil
	case oauth.AsError(err).Code == oauth.InvalidToken:
		return nil, nil
	default:
		return nil, err
	}
}

// load reads a token from the store. It returns nil if there is none, if its family has ended, or if its user may not act any more.
func (i *ImportedTokens) load(ctx context.Context, text oauth.Secret) (*token.AccessToken, error) {
	record, err := i.families.Imported.Access(ctx, text)
	if record == nil || err != nil {
		return nil, err
	}
	t := &token.AccessToken{
		Issuer: i.clients.URL, Subject: record.ClientID, Audience: i.clients.Audience, ClientID: record.ClientID, Scopes: record.Scopes, ID: record.ID,
		IssuedAt: record.CreatedAt.Truncate(time.Second), ExpiresAt: record.ExpiresAt.Truncate(time.Second),
	}
	if record.FamilyID == "" {
		return t, nil
	}
	f, err := i.families.Living(ctx, record.FamilyID)
	if f == nil || err != nil {
		return nil, err
	}
	user, err := i.families.LivingUser(ctx, f)
	if user == nil || err != nil {
		return nil, err
	}
	t.Subject, t.FamilyID, t.Organisation = user.ID, f.ID, user.Organisation
	if i.roles.Has(user.Role) {
		t.Role = string(user.Role)
	}
	if t.Scopes.Has(oauth.ScopeGroups) {
		t.WithGroups(user.AllGroups())
	}
	return t, nil
}

// verifyForIssuer returns the content of an access token, imported or signed, for the issuer's own endpoints.
func (it *IssuedTokens) verifyForIssuer(ctx context.Context, tok oauth.Secret) (*token.AccessToken, error) {
	if t, err := it.Imported.Find(ctx, tok); t != nil || err != nil {
		return t, err
	}
	return it.Verifier.VerifyForIssuer(tok.Reveal())
}
