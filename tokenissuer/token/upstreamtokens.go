// Package delegation tells upstreams who is calling: in an assertion about one request, and in an access token that takes the place
// of the client's.
package token

import (
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/gatehouse-auth/gatehouse/internal/cache"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// UpstreamCredentials are those of an issuer with which upstreams are told.
type UpstreamCredentials struct {
	Keys   *keys.Set
	Master *keys.MasterKey
	JTIMAC *JTIMAC
}

// UpstreamTokens tell upstreams who is calling.
type UpstreamTokens struct {
	url         string
	credentials func() UpstreamCredentials
	now, birth  func() time.Time
	assertions  *keys.AssertionKeys
	// exchanged are the tokens that took the place of others, so that one is signed for a client's token and an audience; nil: none
	// are made.
	exchanged *cache.Cache[*swappedToken]
	signing   singleflight.Group // by the keys of exchanged
}

// UpstreamIssuer is the issuer in whose name upstreams are told.
type UpstreamIssuer struct {
	URL string
	// UpstreamCredentials returns its credentials, which it may get after its UpstreamTokens.
	Credentials func() UpstreamCredentials
	// Assertions are the keys that it publishes where they are used.
	Assertions *keys.AssertionKeys
	// Now is the clock that all nodes share, and Birth what an access token that is made now is given as its iat.
	Now, Birth func() time.Time
}

// NewUpstreamTokens returns the UpstreamTokens of an issuer.
func NewUpstreamTokens(is UpstreamIssuer) *UpstreamTokens {
	return &UpstreamTokens{url: is.URL, credentials: is.Credentials, assertions: is.Assertions, now: is.Now, birth: is.Birth}
}

// UseAssertions has Assert sign, and the issuer publish its keys. It is called before any of the two.
func (u *UpstreamTokens) UseAssertions() { u.assertions.Use() }
