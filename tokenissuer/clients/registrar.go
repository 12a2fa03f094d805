package clients

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const (
	// UnusedFor is how long a client that obtains no token is kept.
	UnusedFor = 30 * store.Day
	// neverUsedFor is how long a client that never obtained a token is kept when there is no room for another.
	neverUsedFor = time.Hour
)

// RegistrationRules determine who may register.
type RegistrationRules struct {
	// Most is the maximum number of self-registered clients.
	Most int
	// PerAddress bounds the attempts from one address.
	PerAddress attempts.Limit
	// InitialTokens are the digests of the initial access tokens. A registration must present one (RFC 7591 §3). If there are none, anyone
	// may register.
	InitialTokens [][sha256.Size]byte
}

// Registrar registers clients at their own request (RFC 7591), and lets them manage their registration (RFC 7592). Its fields are set
// before use.
type Registrar struct {
	RegistrationRules
	Clients *Registry

	adding sync.Mutex // held from the count to the addition
}

// Registered is the response to a registration.
type Registered struct {
	Client *store.Client
	// Metadata is the client's metadata, with its authentication method.
	Metadata Metadata
	// Secret is set only in the response to the registration of a confidential client.
	Secret oauth.Secret
	// Token manages the registration.
	Token oauth.Secret
}

// Register adds a client. The error is invalid_redirect_uri, invalid_client_metadata, invalid_token for a missing or wrong initial access
// token, rate_limited, or temporarily_unavailable if there is no room.
func (g *Registrar) Register(ctx context.Context, m Metadata, initial oauth.Secret, address string) (Registered, error) {
	now := g.Clients.Families.Now()
	if err := g.reserve(ctx, address, now); err != nil {
		return Registered{}, err
	}
	if !g.admits(initial) {
		return Registered{}, oauth.NewError(oauth.InvalidToken, "initial_access_token_wrong")
	}
	c := store.Client{Origin: store.FromRegistration, Scopes: g.Clients.Known.Open.Admitted().RegistrationScopes, PKCE: oauth.PKCERequired}
	m.AuthMethod = cmp.Or(m.AuthMethod, MethodBasic) // RFC 7591 §2
	if !g.Clients.Known.OpenID {
		m.ClientOpenID = store.ClientOpenID{}
	}
	if err := m.apply(&c); err != nil {
		return Registered{}, inMetadata(err)
	}
	g.adding.Lock()
	defer g.adding.Unlock()
	if err := g.makeRoom(ctx, now); err != nil {
		return Registered{}, err
	}
	client, secret, err := g.Clients.AddClient(ctx, c)
	if err != nil {
		return Registered{}, inMetadata(err)
	}
	return g.told(client, secret, m.AuthMethod), nil
}

// reserve counts a request that writes to the store, by its address.
func (g *Registrar) reserve(ctx context.Context, address string, now time.Time) error {
	limits := g.Clients.Known.Limits
	return limits.Reserve(ctx, limits.Limited(attempts.Bucket{Name: "register\x00" + address, Limit: g.PerAddress}), "registration_throttled", now)
}

// admits reports whether that initial access token permits registration.
func (g *Registrar) admits(token oauth.Secret) bool {
	digest, match := token.Digest(), 0
	for i := range g.InitialTokens {
		match |= subtle.ConstantTimeCompare(g.InitialTokens[i][:], digest[:])
	}
	return len(g.InitialTokens) == 0 || match == 1
}

// makeRoom returns an error if there are too many clients and it cannot remove one that was never used.
func (g *Registrar) makeRoom(ctx context.Context, now time.Time) error {
	n, err := g.Clients.Stored.CountClients(ctx, store.FromRegistration)
	if err != nil {
		return err
	}
	if n < g.Most {
		return nil
	}
	list, err := g.Clients.Stored.Clients(ctx)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(c *store.Client) bool {
		return c.Origin != store.FromRegistration || c.Disabled || !c.LastUsedAt.IsZero() || now.Sub(c.CreatedAt) < neverUsedFor
	})
	if len(list) == 0 {
		return oauth.ErrRegistrationFull.WithRetryAfter(neverUsedFor)
	}
	oldest := slices.MinFunc(list, func(a, b *store.Client) int { return a.CreatedAt.Compare(b.CreatedAt) })
	// The client has no tokens, unless it gets its first one just now, from this node or from one that has the client cached. The revocation is kept
	// as long as that token and, because each registration may leave one, no longer.
	tokens := g.Clients.revocationOf(oldest.ID)
	lives := g.Clients.Families.LifetimesOf(oldest)
	tokens.ExpiresAt = tokens.IssuedUntil.Add(max(store.Day, lives.AuthorizationCode, lives.ClientCredentials, lives.Password, lives.AdminCreated) + store.Leeway)
	if err := g.Clients.Stored.RemoveClient(ctx, oldest.ID, tokens); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	g.Clients.Known.Authenticated.Forget(oldest.ID)
	g.Clients.Families.Revocations.Add(tokens)
	return nil
}

// Read returns the registration of the client that the token manages.
func (g *Registrar) Read(ctx context.Context, id string, token oauth.Secret) (Registered, error) {
	c, err := g.managed(ctx, id, token)
	if err != nil {
		return Registered{}, err
	}
	return g.told(c, oauth.Secret{}, ""), nil
}

// Update replaces the metadata of the client that the token manages, including its keys (RFC 7592 §2.2). The authentication method does not
// change. An update counts as a registration from the address.
func (g *Registrar) Update(ctx context.Context, id string, token oauth.Secret, m Metadata, address string) (Registered, error) {
	c, err := g.managed(ctx, id, token)
	if err != nil {
		return Registered{}, err
	}
	if err := g.reserve(ctx, address, g.Clients.Families.Now()); err != nil {
		return Registered{}, err
	}
	changed := store.Client{}
	m.AuthMethod = cmp.Or(m.AuthMethod, methodOf(c))
	if !g.Clients.Known.OpenID {
		m.ClientOpenID = store.ClientOpenID{}
	}
	if err := m.apply(&changed); err != nil {
		return Registered{}, inMetadata(err)
	}
	if methodOf(&changed) != methodOf(c) {
		return Registered{}, inMetadata(fmt.Errorf("%w%w", errMetadata, errors.New("token_endpoint_auth_method cannot change between none, a secret and private_key_jwt: register again")))
	}
	updated, err := g.Clients.UpdateClient(ctx, id, func(c *store.Client) error {
		c.Describe(&changed)
		return nil
	})
	if err != nil {
		return Registered{}, inMetadata(err)
	}
	return g.told(updated, oauth.Secret{}, m.AuthMethod), nil
}

// Remove removes the client that the token manages and ends its tokens.
func (g *Registrar) Remove(ctx context.Context, id string, token oauth.Secret) error {
	if _, err := g.managed(ctx, id, token); err != nil {
		return err
	}
	if err := g.Clients.RemoveClient(ctx, id); !errors.Is(err, store.ErrNotFound) { // otherwise it was removed meanwhile
		return err
	}
	return nil
}

// managed returns the client that a token manages. The token of a removed or disabled client is invalid.
func (g *Registrar) managed(ctx context.Context, id string, token oauth.Secret) (*store.Client, error) {
	refused := oauth.NewError(oauth.InvalidToken, "registration_token_wrong")
	want, got := g.Clients.Families.Master.RegistrationToken(id).Digest(), token.Digest()
	if subtle.ConstantTimeCompare(want[:], got[:]) != 1 {
		return nil, refused
	}
	c, err := g.Clients.Stored.Client(ctx, id)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (c.Origin != store.FromRegistration || c.Disabled):
		return nil, refused
	case err != nil:
		return nil, err
	}
	return c, nil
}

// RemoveUnused removes the registered clients that obtained no token since a time. It keeps disabled clients, so that they stay disabled.
func (g *Registrar) RemoveUnused(ctx context.Context, since time.Time) (removed int, err error) {
	list, err := g.Clients.Stored.Clients(ctx)
	if err != nil {
		return 0, err
	}
	for _, c := range list {
		if c.Origin != store.FromRegistration || c.Disabled || !c.CreatedAt.Before(since) || !c.LastUsedAt.Before(since) {
			continue
		}
		if err := g.Clients.RemoveClient(ctx, c.ID); err != nil && !errors.Is(err, store.ErrNotFound) {
			return removed, err
		}
		removed++
	}
	return removed, nil
}

// told returns the response to a registration. method is the authentication method that the client named, or empty.
func (g *Registrar) told(c *store.Client, secret oauth.Secret, method string) Registered {
	if of := methodOf(c); of != MethodBasic || method == "" {
		method = of
	}
	return Registered{Client: c, Metadata: metadataOf(c, method), Secret: secret, Token: g.Clients.Families.Master.RegistrationToken(c.ID)}
}

// inMetadata converts an error in a client's metadata into the protocol error. It returns other errors unchanged.
func inMetadata(err error) error {
	code := oauth.InvalidClientMetadata
	switch own := (*oauth.Error)(nil); {
	case errors.As(err, &own):
		return own
	case errors.Is(err, ErrRedirectURI):
		code = oauth.InvalidRedirectURI
	case !store.IsInvalidInput(err) && store.IsAnswer(err):
		return oauth.NewError(oauth.InvalidToken, "registration_token_wrong") // removed meanwhile
	case !store.IsInvalidInput(err) && !errors.Is(err, errMetadata):
		return err
	}
	return oauth.NewError(code, "client_metadata_invalid").WithDescription(oauth.Describable(err.Error())).WithCause(err)
}
