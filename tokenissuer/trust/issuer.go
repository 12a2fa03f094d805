package trust

import (
	"context"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Settings describe a trusted issuer.
type Settings struct {
	// Issuer is the issuer identifier: what iss must be, byte for byte.
	Issuer string
	// JWKSURI is the URL of the keys. Default: discovered (RFC 8414 §3, OpenID Connect Discovery §4).
	JWKSURI string
	// Algorithms restricts the algorithms; default: all that we support.
	Algorithms []oauth.Algorithm
	// Types are the values of typ of its access tokens; default: at+jwt (RFC 9068 §2.1).
	Types []string
	// RolesClaim is the claim with the roles, or a path to it; default: role.
	RolesClaim string
	// ClientAudience makes a token without aud count as meant for its client, unless its typ is at+jwt.
	ClientAudience bool
	// AllowPrivateNetwork allows loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
	// MaxStale is how long keys are used that cannot be fetched again; zero: 24 hours.
	MaxStale time.Duration
	// Introspection configures the introspection of opaque tokens (RFC 7662); nil: they are refused.
	Introspection *Introspection
}

// Introspection configures the introspection endpoint.
type Introspection struct {
	// Endpoint is its URL.
	Endpoint string
	// ClientID and ClientSecret are our credentials for HTTP Basic authentication.
	ClientID     string
	ClientSecret oauth.Secret
	// CacheFor is the maximum time that a response is cached; zero: 30 seconds.
	CacheFor time.Duration
}

// Issuer verifies the tokens of one external issuer. It is safe for concurrent use.
type Issuer struct {
	settings     Settings
	keys         *fetch.Keys
	verifier     *token.Verifier
	assertions   *token.Verifier
	introspector *introspector // nil: opaque tokens are refused
}

// New returns an Issuer. It makes no requests.
func New(settings Settings, options fetch.Options) (*Issuer, error) {
	client := fetch.NewClient(fetch.Limits{Reach: fetch.ReachOf(settings.AllowPrivateNetwork), Redirects: fetch.Redirects})
	keys, err := fetch.NewKeys(fetch.Source{
		Owner: "a trusted issuer", Issuer: settings.Issuer, JWKSURI: settings.JWKSURI, Algorithms: settings.Algorithms, MaxStale: settings.MaxStale,
	}, client, options)
	if err != nil {
		return nil, err
	}
	if options.Now == nil {
		options.Now = time.Now
	}
	i := &Issuer{
		settings: settings, keys: keys,
		verifier:   token.NewTrustedVerifier(settings.tokens(), keys, options.Now),
		assertions: token.NewAssertionVerifier(settings.Issuer, assertionTypes, keys, options.Now),
	}
	if settings.Introspection != nil {
		if err := client.CheckURL(settings.Introspection.Endpoint); err != nil {
			return nil, err
		}
		i.introspector = newIntrospector(settings.Introspection, settings.tokens(), client, options)
	}
	return i, nil
}

// tokens describes the issuer's tokens.
func (s *Settings) tokens() token.TrustedTokens {
	return token.TrustedTokens{Issuer: s.Issuer, Types: s.Types, RolesClaim: s.RolesClaim, ClientAudience: s.ClientAudience}
}

// UseSnapshots sets the storage for key sets; nil: none. It may be called at any time, and again.
func (i *Issuer) UseSnapshots(s fetch.Snapshots) { i.keys.UseSnapshots(s) }

// Run keeps the keys fresh until ctx ends.
func (i *Issuer) Run(ctx context.Context) { i.keys.Run(ctx) }

// Keys reports which of the issuer's keys are used, and why others are not.
func (i *Issuer) Keys() fetch.KeysReport { return i.keys.Report() }

// Introspects reports whether opaque tokens are introspected.
func (i *Issuer) Introspects() bool { return i.introspector != nil }

// Generation changes whenever the keys do.
func (i *Issuer) Generation() uint64 { return i.keys.Generation() }

// Ready returns nil if tokens can be verified now, or else the reason. An issuer with introspection is always ready.
func (i *Issuer) Ready() error {
	if i.introspector != nil {
		return nil
	}
	return i.keys.Usable()
}

// Verify returns the token if the issuer issued it for one of the audiences and it is valid now. The error is an
// *oauth.Error: invalid_token, or temporarily_unavailable if that cannot be decided. If the key is known, Verify does not
// block; otherwise it waits up to five seconds for a fetch.
func (i *Issuer) Verify(ctx context.Context, tok string, audiences []string) (*token.AccessToken, error) {
	return i.VerifyAdmitted(ctx, tok, audiences, "", nil)
}

// Recall is Verify for a token that was verified before. It returns known false and a nil error for any other token, and
// if a key must be fetched first.
func (i *Issuer) Recall(tok string, audiences []string) (t *token.AccessToken, known bool, err error) {
	t, known, err = i.verifier.Recall(tok, audiences)
	switch {
	case known && err != nil && fetch.Missing(err):
		return nil, false, nil
	case !known && i.introspector != nil && len(tok) <= token.MaxTokenBytes && isOpaque(tok):
		return i.introspector.recall(tok, audiences)
	}
	return t, known, err
}

// VerifyAdmitted is Verify, and calls admit immediately before it verifies a signature. It does not hold the admission
// while it fetches a key. Opaque tokens have no signature; their introspection is queued fairly by source, such as a
// client address.
func (i *Issuer) VerifyAdmitted(ctx context.Context, tok string, audiences []string, source string, admit token.Admission) (*token.AccessToken, error) {
	if len(tok) > token.MaxTokenBytes {
		return nil, oauth.NewError(oauth.InvalidToken, "token_too_long")
	}
	known := i.keys.Known()
	t, err := i.verifier.VerifyAdmitted(tok, audiences, admit)
	switch {
	case err == nil:
		return t, nil
	case isOpaque(tok):
		return i.introspect(ctx, tok, audiences, source)
	case !fetch.Missing(err):
		return nil, err
	}
	quiet := i.keys.Quiet(known)
	if quiet && oauth.AsError(err).Code == oauth.InvalidToken {
		return nil, err // keeps a flood cheap: the token is not parsed again
	}
	if !i.claims(tok) {
		return nil, oauth.NewError(oauth.InvalidToken, "issuer_wrong") // no key of this issuer could change that
	}
	if quiet {
		return nil, err
	}
	return fetch.Awaited(ctx, i.keys, func() (*token.AccessToken, error) { return i.verifier.VerifyAdmitted(tok, audiences, admit) })
}

// isOpaque reports whether a token is not a JWT. Nearly every JWT has the prefix checked first, which avoids parsing it
// again.
func isOpaque(tok string) bool {
	if strings.HasPrefix(tok, "eyJ") && strings.Count(tok, ".") >= 2 {
		return false
	}
	_, isJWT := token.ClaimedIssuer(tok)
	return !isJWT
}

// claims reports whether a JWT names this issuer.
func (i *Issuer) claims(tok string) bool {
	issuer, _ := token.ClaimedIssuer(tok)
	return issuer == i.settings.Issuer
}

func (i *Issuer) introspect(ctx context.Context, tok string, audiences []string, source string) (*token.AccessToken, error) {
	if i.introspector == nil {
		return nil, oauth.NewError(oauth.InvalidToken, "token_malformed")
	}
	return i.introspector.verify(ctx, tok, audiences, source)
}
