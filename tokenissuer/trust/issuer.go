package trust

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Settings say whom to trust, and how its keys are found.
type Settings struct {
	// Issuer is the issuer identifier: what iss must be, byte for byte.
	Issuer string
	// JWKSURI is where the keys are. Empty: discovered (RFC 8414 §3, OpenID Connect Discovery §4).
	JWKSURI string
	// Algorithms narrow what keys may be used for; empty: all that we know.
	Algorithms []oauth.Algorithm
	// Types are the values of typ that its access tokens have; empty: at+jwt (RFC 9068 §2.1).
	Types []string
	// RolesClaim is the claim with the roles, or a path to it; empty: role.
	RolesClaim string
	// ClientAudience: a token that is not at+jwt, and has no aud, is meant for its client.
	ClientAudience bool
	// AllowPrivateNetwork opens loopback, private and link-local addresses, and plain http on loopback.
	AllowPrivateNetwork bool
	// MaxStale is how old keys may get that cannot be fetched again; zero: 24 hours.
	MaxStale time.Duration
	// Introspection asks the issuer about opaque tokens (RFC 7662); nil: they are refused.
	Introspection *Introspection
}

// Introspection is how the issuer is asked about opaque tokens.
type Introspection struct {
	// Endpoint is the URL.
	Endpoint string
	// ClientID and ClientSecret are how we authenticate, by HTTP Basic.
	ClientID     string
	ClientSecret oauth.Secret
	// CacheFor is how long an answer stands at most; zero: 30 seconds.
	CacheFor time.Duration
}

// Options are what an Issuer needs of its surroundings.
type Options struct {
	// Now is the clock; nil: time.Now.
	Now func() time.Time
	// Warn is told what an operator should know, in a sentence without secrets; nil: nobody is.
	Warn func(message string, err error)
}

// Snapshots keep the last good key set beyond the process. They may be slow and may fail.
type Snapshots interface {
	// Load returns what was saved under the name; fs.ErrNotExist when nothing was.
	Load(ctx context.Context, name string) ([]byte, error)
	// Save replaces it.
	Save(ctx context.Context, name string, data []byte) error
}

// Issuer judges the tokens of one external issuer.
type Issuer struct {
	settings     Settings
	keys         *remoteKeys
	verifier     *accesstoken.Verifier
	introspector *introspector // nil: opaque tokens are refused
	patience     time.Duration // how long a token waits for its key
}

// New returns an Issuer. It opens nothing.
func New(settings Settings, options Options) (*Issuer, error) {
	if options.Now == nil {
		options.Now = time.Now
	}
	if options.Warn == nil {
		options.Warn = func(string, error) {}
	}
	c := newClient(settings.AllowPrivateNetwork)
	for _, address := range settings.addresses() {
		if _, err := c.guard.parseURL(address); err != nil {
			return nil, err
		}
	}
	keys := newRemoteKeys(settings, c, options)
	i := &Issuer{
		settings: settings, keys: keys, patience: fetchTimeout,
		verifier: accesstoken.NewTrustedVerifier(settings.tokens(), keys, options.Now),
	}
	if settings.Introspection != nil {
		i.introspector = newIntrospector(settings.Introspection, settings.tokens(), c, options.Now)
		i.introspector.warn = options.Warn
	}
	return i, nil
}

// tokens says what the issuer's tokens look like.
func (s *Settings) tokens() accesstoken.TrustedTokens {
	return accesstoken.TrustedTokens{Issuer: s.Issuer, Types: s.Types, RolesClaim: s.RolesClaim, ClientAudience: s.ClientAudience}
}

// addresses are the URLs that an operator gave.
func (s *Settings) addresses() []string {
	list := []string{s.Issuer}
	if s.JWKSURI != "" {
		list = append(list, s.JWKSURI)
	}
	if s.Introspection != nil {
		list = append(list, s.Introspection.Endpoint)
	}
	return list
}

// UseSnapshots sets where the key set is kept. It may be called again, at any time.
func (i *Issuer) UseSnapshots(s Snapshots) {
	if s == nil {
		i.keys.shelf.Store(nil)
		return
	}
	i.keys.shelf.Store(&shelf{snapshots: s})
}

// Run keeps the keys fresh until ctx ends.
func (i *Issuer) Run(ctx context.Context) { i.keys.run(ctx) }

// Introspects reports whether the issuer is asked about opaque tokens.
func (i *Issuer) Introspects() bool { return i.introspector != nil }

// Generation changes whenever the keys do.
func (i *Issuer) Generation() uint64 { return i.keys.Generation() }

// Ready says why no token can be judged now; nil: tokens can. An issuer that is asked about tokens can always be asked.
func (i *Issuer) Ready() error {
	if i.introspector != nil {
		return nil
	}
	return i.keys.usable(i.keys.known.Load())
}

// Verify returns the token if the issuer made it for one of the audiences and it is good now. The error is an
// *tokenissuer.Error: invalid_token, or temporarily_unavailable when nobody can say. A token whose key is known is judged at
// once. One whose key is missed may wait for a fetch, for five seconds at most.
func (i *Issuer) Verify(ctx context.Context, token string, audiences []string) (*accesstoken.AccessToken, error) {
	return i.VerifyAdmitted(ctx, token, audiences, "", nil)
}

// Recall is Verify for a token that was judged before. Known is false, and the error nil, when nothing is known of the token,
// or what is known needs a key that has to be fetched first.
func (i *Issuer) Recall(token string, audiences []string) (t *accesstoken.AccessToken, known bool, err error) {
	t, known, err = i.verifier.Recall(token, audiences)
	switch {
	case known && err != nil && lacksKey(err):
		return nil, false, nil
	case !known && i.introspector != nil && len(token) <= accesstoken.MaxTokenBytes && isOpaque(token):
		return i.introspector.recall(token, audiences)
	}
	return t, known, err
}

// VerifyAdmitted is Verify that asks admit immediately before a signature has to be verified. What it gives is held no longer
// than that: never while a key is fetched. Opaque tokens have no signature. Questions about them are asked in turns by source,
// which says where the token comes from, such as an address.
func (i *Issuer) VerifyAdmitted(ctx context.Context, token string, audiences []string, source string, admit accesstoken.Admission) (*accesstoken.AccessToken, error) {
	if len(token) > accesstoken.MaxTokenBytes {
		return nil, oauth.NewError(oauth.InvalidToken, "token_too_long")
	}
	known := i.keys.known.Load()
	t, err := i.verifier.VerifyAdmitted(token, audiences, admit)
	switch {
	case err == nil:
		return t, nil
	case isOpaque(token):
		return i.introspect(ctx, token, audiences, source)
	case !lacksKey(err):
		return nil, err
	}
	quiet := i.keys.quiet(known)
	if quiet && oauth.AsError(err).Code == oauth.InvalidToken {
		return nil, err // a flood ends here: the token is not taken apart once more
	}
	if !i.claims(token) {
		return nil, oauth.NewError(oauth.InvalidToken, "issuer_wrong") // no key of this issuer could mend that
	}
	if quiet {
		return nil, err
	}
	return i.judgeLater(ctx, func() (*accesstoken.AccessToken, error) { return i.verifier.VerifyAdmitted(token, audiences, admit) })
}

// judgeLater asks again as often as something has come that may bring the key.
func (i *Issuer) judgeLater(ctx context.Context, judge func() (*accesstoken.AccessToken, error)) (*accesstoken.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, i.patience)
	defer cancel()
	recalled, fetched := i.keys.demand()
	// The key may have come between the first look at the token and the question for it, which then is for nothing.
	if t, err := judge(); err == nil || !lacksKey(err) {
		return t, err
	}
	for {
		select {
		case <-recalled:
			recalled = nil
		case <-fetched:
			fetched = nil
		case <-ctx.Done():
			if errors.Is(ctx.Err(), context.Canceled) { // the client has left, which is no fault of the issuer's
				return nil, oauth.Unavailable("keys_awaited", ctx.Err())
			}
			return nil, i.keys.unavailable(i.keys.known.Load(), "keys_awaited")
		}
		t, err := judge()
		if err == nil || !lacksKey(err) || recalled == nil && fetched == nil {
			return t, err
		}
	}
}

// isOpaque reports whether a token is no JWT. Nearly every JWT has the look of one, and those are not taken apart again.
func isOpaque(token string) bool {
	if strings.HasPrefix(token, "eyJ") && strings.Count(token, ".") >= 2 {
		return false
	}
	_, isJWT := accesstoken.ClaimedIssuer(token)
	return !isJWT
}

// claims reports whether a JWT names this issuer.
func (i *Issuer) claims(token string) bool {
	issuer, _ := accesstoken.ClaimedIssuer(token)
	return issuer == i.settings.Issuer
}

func (i *Issuer) introspect(ctx context.Context, token string, audiences []string, source string) (*accesstoken.AccessToken, error) {
	if i.introspector == nil {
		return nil, oauth.NewError(oauth.InvalidToken, "token_malformed")
	}
	return i.introspector.verify(ctx, token, audiences, source)
}
