package token

import (
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// UpstreamCredentials are the keys of an issuer that UpstreamTokens uses.
type UpstreamCredentials struct {
	Keys   *keys.Set
	Master *keys.MasterKey
	JTIMAC *JTIMAC
}

// UpstreamTokens makes the tokens that tell upstreams who is calling: an assertion about one request, or an access token in place of the
// client's.
type UpstreamTokens struct {
	url         string
	credentials func() UpstreamCredentials
	now, birth  func() time.Time
	assertions  *keys.AssertionKeys
	// exchanged caches the exchanged tokens, so that one is signed for a client's token and an audience; nil: exchange is not in use.
	exchanged *cache.Cache[*swappedToken]
	signing   singleflight.Group // by the keys of exchanged
}

// UpstreamIssuer is the issuer of UpstreamTokens.
type UpstreamIssuer struct {
	URL string
	// Credentials returns its credentials, which may be set after NewUpstreamTokens.
	Credentials func() UpstreamCredentials
	// Assertions are the keys of assertions.
	Assertions *keys.AssertionKeys
	// Now is the clock that all nodes share. Birth is the iat of an access token issued now.
	Now, Birth func() time.Time
}

// NewUpstreamTokens returns the UpstreamTokens of an issuer.
func NewUpstreamTokens(is UpstreamIssuer) *UpstreamTokens {
	return &UpstreamTokens{url: is.URL, credentials: is.Credentials, assertions: is.Assertions, now: is.Now, birth: is.Birth}
}

// UseAssertions enables Assert, and makes the issuer publish the keys. Call it before either is used.
func (u *UpstreamTokens) UseAssertions() { u.assertions.Use() }
