package token

import (
	"crypto/sha256"
	"hash/maphash"

	"github.com/gatehouse-auth/gatehouse/internal/cache"
)

const (
	maxCachedTokens = 65536
	maxCachedBytes  = 64 << 20
	// leastWeight makes one weight enforce both limits: at most maxCachedTokens tokens fit.
	leastWeight = maxCachedBytes / maxCachedTokens
)

// tokenCache holds tokens whose signature and claims were verified, by digest. Only verified tokens enter, so bad tokens
// cannot fill it.
type tokenCache struct {
	tokens   *cache.Cache[*cachedToken]
	common   commonTexts
	unpacked unpackedTokens
}

func newTokenCache() *tokenCache {
	return &tokenCache{
		tokens: cache.New[*cachedToken](maxCachedBytes),
		common: commonTexts{seed: maphash.MakeSeed()},
	}
}

func (c *tokenCache) get(digest [sha256.Size]byte) (*cachedToken, bool) {
	return c.tokens.Get(string(digest[:]))
}

func (c *tokenCache) put(digest [sha256.Size]byte, token *cachedToken) {
	c.tokens.Put(string(digest[:]), token, uint64(token.weight()))
}

func (c *tokenCache) drop(digest [sha256.Size]byte) { c.tokens.Forget(string(digest[:])) }

// weight is an upper bound of the token's size, packed or not.
func (c *cachedToken) weight() uint32 {
	switch {
	case c.weighsCommon:
		//lint:ignore gosec at most maxCommonBytes
		return leastWeight + uint32(c.common.size())
	case c.common != nil:
		return leastWeight
	}
	return max(leastWeight, c.whole.Load().Size())
}

// Size estimates the token's memory in bytes: a fixed part for the structures and the cache, plus every text.
func (t *AccessToken) Size() uint32 {
	const fixed, header = 512, 16
	n := fixed + len(t.Issuer) + len(t.Subject) + len(t.ClientID) + len(t.ID) + len(t.FamilyID) + len(t.Organisation) + len(t.Role) +
		t.extra.size()
	for _, actor := range t.Actors {
		n += 2*header + len(actor.Subject) + len(actor.ClientID)
	}
	for _, list := range [][]string{t.Audience, t.Scopes} {
		for _, s := range list {
			n += header + len(s)
		}
	}
	return uint32(n) //lint:ignore gosec a token has at most 8 KiB
}
