package tokenissuer

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ProviderSignIn is a sign-in that goes on at somebody else's identity provider. It travels as the provider's state through the
// browser, sealed.
type ProviderSignIn struct {
	// ID opens one session.
	ID string `json:"id"`
	// Nonce, Verifier and MaxAge, in seconds, are what the provider's answer is held against.
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	MaxAge   int64  `json:"max_age,omitzero"`
	// Pending is the sealed request that follows; empty: none.
	Pending string `json:"pending,omitempty"`
	// Began is when it began, in Unix seconds.
	Began int64 `json:"began"`
}

// SealProviderSignIn wraps a sign-in for its way through the browser that owns the secret. It can be opened for ten minutes, on
// every node, and by the name of that provider alone.
func (c *Credentials) SealProviderSignIn(s ProviderSignIn, provider string, browser oauth.Secret, now time.Time) (oauth.Secret, error) {
	s.ID, s.Began = oauth.NewID(), now.Unix()
	return Seal(c.Master.ProviderSignIns, atProvider("in", provider, browser), s, now)
}

// OpenProviderSignIn is the reverse of SealProviderSignIn. A value that is not ours, not of this provider and browser, or too old is
// an error for a page.
func (c *Credentials) OpenProviderSignIn(state, provider string, browser oauth.Secret, now time.Time) (ProviderSignIn, error) {
	return Unseal[ProviderSignIn](c.Master.ProviderSignIns, atProvider("in", provider, browser), oauth.NewSecret(state), now)
}

// SealProviderSignOut wraps where a browser goes when it has signed out of a provider, as SealProviderSignIn wraps a sign-in.
func (c *Credentials) SealProviderSignOut(location, provider string, browser oauth.Secret, now time.Time) (oauth.Secret, error) {
	return Seal(c.Master.ProviderSignIns, atProvider("out", provider, browser), location, now)
}

// OpenProviderSignOut is the reverse of SealProviderSignOut.
func (c *Credentials) OpenProviderSignOut(state, provider string, browser oauth.Secret, now time.Time) (string, error) {
	return Unseal[string](c.Master.ProviderSignIns, atProvider("out", provider, browser), oauth.NewSecret(state), now)
}

func atProvider(direction, provider string, browser oauth.Secret) string {
	return direction + "\x00" + provider + "\x00" + browser.Reveal()
}

// CountSignIn counts a sign-in at a provider against the address that it comes from, before the provider is asked. Whoever succeeds
// calls forgive.
func (is *Issuer) CountSignIn(ctx context.Context, address string) (forgive func(), err error) {
	now := is.Now()
	_, buckets := is.signInBuckets("", "", address)
	if err := is.reserve(ctx, buckets, "sign_in_throttled", now); err != nil {
		return nil, err
	}
	return func() { is.forgive(ctx, buckets, now) }, nil
}

// AsksOfProvider returns the prompt and the greatest age of a sign-in that a request has for the provider at which its user signs
// in; "" and 0: none.
func (r *AuthorizationRequest) AsksOfProvider() (prompt string, maxAge time.Duration) {
	switch {
	case r.Prompt.Has(promptLogin), r.MaxAge != nil && *r.MaxAge == 0:
		prompt = promptLogin
	case r.Prompt.Has(promptSelectAccount):
		prompt = promptSelectAccount
	}
	if r.MaxAge != nil {
		maxAge = time.Duration(min(*r.MaxAge, int64(sessionLifetime/time.Second))) * time.Second
	}
	return prompt, maxAge
}
