package tokenissuer

import (
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memory"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Settings are what an operator decides about an issuer.
type Settings struct {
	// URL is the issuer identifier (RFC 8414 §2). It never comes from a request.
	URL string
	// Audience is what goes into aud; never empty.
	Audience []string
	// Lifetimes are the issuer's; a client may have its own.
	Lifetimes store.Lifetimes
	// Sessions are the lifetimes of the sessions of browsers, at the issuer and at hosts.
	Sessions SessionLimits
	// Scopes are the scopes that are known.
	Scopes oauth.ScopeCatalogue
	// Roles are the roles that users can have.
	Roles store.RoleCatalogue
	// Declared are the clients of the configuration. Directory knows them as well; here nobody has to be asked for them.
	Declared store.StaticDirectory
	// DeclaredSchemes are the PasswordSchemes of users that no store keeps.
	DeclaredSchemes []string
	// OpenID makes the issuer an OpenID provider (OpenID Connect Core).
	OpenID bool
	// PKCERequired refuses authorization requests of every client that have no code_challenge.
	PKCERequired bool
	// SessionScopes are held by the tokens of sessions, and of the password grant without a client, beside trusted and
	// public.
	SessionScopes oauth.Scopes
	// AcceptRules are those by which tokens of others become tokens of ours, in the order in which they are tried.
	AcceptRules []assertion.Rule
	// StrictAssertions: the aud of a client's assertion must be the issuer, and may not be the token endpoint.
	StrictAssertions bool
	// PasswordGrant is how the password grant works; nil: it is off.
	PasswordGrant *PasswordRules
	// PersonalTokens are the personal access tokens; nil: there are none.
	PersonalTokens PersonalTokens
}

// Issuer is the authorization server (RFC 6749 §1.1). Its fields are set once, before use.
type Issuer struct {
	Settings
	Records
	Credentials
	attempts.Limits

	// Open are the clients that make themselves known.
	Open OpenClients
	// Origins are those whose pages may read answers; nil: no page of another origin may.
	Origins *memory.Origins
	// Accepted is what Settings.AcceptRules need.
	Accepted Accepted
	// Resources are those for which tokens can be asked.
	Resources routes.Resources
	// Hosts are those at which browsers can sign in through the gate.
	Hosts routes.Hosts
	// Hasher verifies passwords.
	Hasher *passwords.Hasher
	// PasswordDirectories know people who have no password of ours, in the order in which they are asked.
	PasswordDirectories []PasswordDirectory
	// DirectoriesAlone: no password of ours counts, even where a user has one.
	DirectoriesAlone bool

	schemes schemesInUse
}

// Credentials are what tokens, codes and cookies are made with, and verified.
type Credentials struct {
	// Keys sign.
	Keys *keys.Set
	// Assertions sign what upstreams are told of requests; nil: JWKS lists no keys of theirs.
	Assertions *keys.AssertionKeys
	// Master makes codes, refresh tokens and cookies.
	Master *keys.MasterKey
	// JTIMAC signs access tokens with a MAC in their jti.
	JTIMAC *token.JTIMAC
	// Verifier reads our own tokens; it is told of every token from its birth.
	Verifier *token.Verifier
}

// PasswordRules are the settings of the password grant. It is for clients that cannot open a browser: whoever uses it types a
// password into an application that is not ours.
type PasswordRules struct {
	// Refresh gives refresh tokens too, to clients that may use them. Default: the grant gives access tokens only.
	Refresh bool `json:"refresh_tokens,omitempty"`
}

// Tokens are what the token endpoint hands out (RFC 6749 §5.1).
type Tokens struct {
	AccessToken oauth.Secret
	ExpiresIn   time.Duration
	// RefreshToken is empty when there is none.
	RefreshToken oauth.Secret
	// IDToken is empty unless the user has signed in to the client by OpenID Connect.
	IDToken   oauth.Secret
	Scopes    oauth.Scopes
	CreatedAt time.Time
	// IssuedType is the type of the access token where it was exchanged for another (RFC 8693 §2.2.1).
	IssuedType string
	// Claims are those of the access token, for the audit log.
	Claims *token.AccessToken
	// Accepted is the token of somebody else's for which they were given; nil: for none.
	Accepted *AcceptedToken
	// Repeated: the refresh token had been used, and its successor was given again. RepeatedFrom says, in words, what differs
	// between who used it and who repeats it; empty: nothing that is known.
	Repeated     bool
	RepeatedFrom string
}

// Issue makes the tokens of a grant (RFC 9068 §2). It is the only place where clients' tokens are made. It fails when no key can
// sign, and for a user whose id is the client's: that token would pass for a server token. The durable step on which
// a grant depends comes last: a code that was spent for nothing could not be presented again.
func (is *Issuer) Issue(g Grant) (Tokens, error) {
	key, err := is.Keys.Signing(is.Now())
	if err != nil {
		return Tokens{}, err
	}
	t, err := is.claimsOf(g, key.ID)
	if err != nil {
		return Tokens{}, err
	}
	claims, err := token.AppendClaims(make([]byte, 0, 512), t)
	if err != nil {
		return Tokens{}, oauth.AsError(err)
	}
	identity, err := is.identityOf(g, t)
	if err != nil {
		return Tokens{}, err
	}
	tokens, err := is.sign(g, key, t, claims)
	if err != nil {
		return Tokens{}, err
	}
	if tokens.IDToken, err = identity.sign(tokens.AccessToken); err != nil {
		return Tokens{}, err
	}
	if g.consume != nil {
		if err := g.consume(); err != nil {
			return Tokens{}, oauth.AsError(err)
		}
	}
	if g.repetition != nil {
		tokens.Repeated, tokens.RepeatedFrom = g.repetition.again, g.repetition.from
	}
	return tokens, nil
}

// sign makes the tokens of a grant.
func (c *Credentials) sign(g Grant, key *keys.SigningKey, t *token.AccessToken, claims []byte) (Tokens, error) {
	signed, err := c.JTIMAC.Sign(key, claims)
	if err != nil {
		return Tokens{}, oauth.AsError(err)
	}
	t.ID = signed.ID(t.ID)
	if len(signed.Text) > token.MaxTokenBytes {
		return Tokens{}, oauth.NewError(oauth.ServerError, "token_too_long").WithCause(errors.New("the claims do not fit a token of 8 KiB"))
	}
	c.Verifier.Remember(signed.Text, t)
	tokens := Tokens{
		AccessToken: oauth.NewSecret(signed.Text), ExpiresIn: t.ExpiresAt.Sub(t.IssuedAt), Scopes: g.Scopes, CreatedAt: t.IssuedAt, Claims: t,
	}
	if g.Generation > 0 {
		tokens.RefreshToken = c.Master.RefreshToken(g.FamilyID, g.Generation)
	}
	return tokens, nil
}

func (is *Issuer) claimsOf(g Grant, kid string) (*token.AccessToken, error) {
	lifetime := g.Lifetime
	if lifetime == 0 {
		lifetime = is.lifetimes(g.Client).For(g.Type)
	}
	now, audience := is.Birth(is.Now()), g.Audience
	if g.born.After(is.Now()) {
		now = g.born.Truncate(time.Second)
	}
	if len(audience) == 0 {
		audience = is.Audience
	}
	if x := g.exchanged; g.User != nil && g.User.ID == g.Client.ID || x != nil && x.Subject == g.Client.ID && !x.IsServerToken() {
		return nil, oauth.NewError(oauth.ServerError, "user_is_client").WithCause(errors.New("user id equals client id"))
	}
	t := &token.AccessToken{
		Issuer: is.URL, Subject: g.Client.ID, Audience: audience, ClientID: g.Client.ID, Scopes: g.Scopes, ID: token.NewID(g.Generation),
		IssuedAt: now, ExpiresAt: now.Add(lifetime), KeyID: kid,
	}
	if g.exchanged != nil {
		if t.Delegate(g.exchanged, actorOf(g.Client)); !g.Scopes.Has(oauth.ScopeGroups) {
			t.WithGroups(nil)
		}
		if t.ExpiresAt.After(g.exchanged.ExpiresAt) {
			t.ExpiresAt = g.exchanged.ExpiresAt
		}
		return t, nil
	}
	if g.User == nil {
		return t, nil
	}
	t.Subject, t.Organisation = g.User.ID, g.User.Organisation
	if is.Roles.Has(g.User.Role) {
		t.Role = string(g.User.Role)
	}
	if g.Scopes.Has(oauth.ScopeGroups) {
		t.WithGroups(g.User.AllGroups())
	}
	t.FamilyID, t.AuthTime = g.FamilyID, g.AuthTime.Truncate(time.Second)
	if !g.Actor.IsZero() {
		t.Actors = []store.Actor{g.Actor}
	}
	return t, nil
}

// Birth is when a token was issued that is made now, by the shared clock. Whoever revokes what was issued until now goes at least by the shared
// clock, so no token may seem younger than that says; and none may be from the future of this node's, which verifies it.
func (c *Credentials) Birth(now time.Time) time.Time {
	if here := c.Verifier.Now(); here.Before(now) {
		now = here
	}
	return now.Truncate(time.Second)
}

// JWKS returns the public keys as a JWK Set (RFC 7517 §5): those of access tokens, and where assertions are made theirs.
func (c *Credentials) JWKS(now time.Time) ([]byte, error) {
	return c.Assertions.JWKS(now, c.Master, c.Keys)
}

// lifetimes are the client's own, and the issuer's where it has none.
func (se *Settings) lifetimes(c *store.Client) store.Lifetimes { return c.Lifetimes.Or(se.Lifetimes) }
