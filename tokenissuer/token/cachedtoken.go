package token

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// cachedToken is a verified token, the key that verified its signature, if any, and the generation of revocations and
// keys at which it was last found valid.
//
// Most tokens are stored packed: values that many tokens share are stored once, and a token's own texts are concatenated
// in one string, which takes a third of the memory of an AccessToken. A token that is used again is unpacked and stays so
// for a while.
type cachedToken struct {
	key        *keys.VerificationKey
	generation atomic.Uint64
	// common holds the shared values; nil: the token cannot be packed, and whole is always set.
	common  *commonClaims
	ownText string // the texts of ownTexts, concatenated
	ends    [ownTexts - 1]uint8
	times   [3]uint32 // iat, exp and auth_time in Unix seconds; 0: none
	whole   atomic.Pointer[AccessToken]
	// weighsCommon reports that the token was the first to use common, so that its weight includes it.
	weighsCommon bool
}

const (
	// ownTexts counts jti, sub (unless it is the client_id), sid, org and client_id.
	ownTexts = 5
	// maxCommonBytes bounds the shared texts, so that a token's weight is not far off.
	maxCommonBytes = 512
)

// packToken packs a token if that loses nothing.
func (c *tokenCache) packToken(t *AccessToken, key *keys.VerificationKey) *cachedToken {
	packed := &cachedToken{key: key}
	if !packed.pack(t) {
		packed.whole.Store(t)
		return packed
	}
	packed.common, packed.weighsCommon = c.common.intern(t)
	return packed
}

// pack stores the token's own values. It returns false if they, or the shared ones, do not fit.
func (c *cachedToken) pack(t *AccessToken) bool {
	if !t.extra.isProof() || len(t.Actors) > 0 || commonOf(t).size() > maxCommonBytes {
		return false
	}
	for i, at := range [...]time.Time{t.IssuedAt, t.ExpiresAt, t.AuthTime} {
		if at.IsZero() {
			continue
		}
		seconds := at.Unix()
		if seconds <= 0 || seconds > math.MaxUint32 || at.Nanosecond() != 0 {
			return false
		}
		c.times[i] = uint32(seconds)
	}
	subject := t.Subject
	if t.IsServerToken() {
		subject = ""
	} else if subject == "" {
		return false
	}
	var buffer [math.MaxUint8]byte
	texts := buffer[:0]
	for i, text := range [ownTexts]string{t.ID, subject, t.FamilyID, t.Organisation, t.ClientID} {
		if len(texts)+len(text) > len(buffer) {
			return false
		}
		texts = append(texts, text...)
		if i < len(c.ends) {
			c.ends[i] = uint8(len(texts)) //lint:ignore gosec at most len(buffer)
		}
	}
	c.ownText = string(texts)
	return true
}

// unpacked returns the token that was packed.
func (c *cachedToken) unpacked() *AccessToken {
	t := &AccessToken{Issuer: c.common.issuer, KeyID: c.common.keyID, Audience: c.common.audience, Scopes: c.common.scopes}
	t.Role = c.common.role
	t.WithProof(store.Proof{ACR: c.common.acr, AMR: c.common.amr})
	t.ID, t.Subject = c.ownText[:c.ends[0]], c.ownText[c.ends[0]:c.ends[1]]
	t.FamilyID, t.Organisation = c.ownText[c.ends[1]:c.ends[2]], c.ownText[c.ends[2]:c.ends[3]]
	t.ClientID = c.ownText[c.ends[3]:]
	if t.Subject == "" {
		t.Subject = t.ClientID
	}
	for i, at := range [...]*time.Time{&t.IssuedAt, &t.ExpiresAt, &t.AuthTime} {
		if c.times[i] != 0 {
			*at = time.Unix(int64(c.times[i]), 0)
		}
	}
	return t
}

// commonClaims are the claims that many tokens share.
type commonClaims struct {
	issuer, keyID, role, acr string
	audience, scopes, amr    []string
}

func commonOf(t *AccessToken) commonClaims {
	proof := proofOf(t)
	return commonClaims{t.Issuer, t.KeyID, t.Role, proof.ACR, t.Audience, t.Scopes, proof.AMR}
}

// size returns the length of the texts.
func (c commonClaims) size() int {
	n := len(c.issuer) + len(c.keyID) + len(c.role) + len(c.acr)
	for _, list := range [...][]string{c.audience, c.scopes, c.amr} {
		for _, text := range list {
			n += 16 + len(text)
		}
	}
	return n
}

// commonTexts deduplicates issuer, audience, scopes, key and role. Few combinations occur; colliding ones replace each
// other, and some tokens then do not share theirs.
type commonTexts struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[commonClaims]
}

// intern returns t's shared claims. It clones the texts, because those of a token just issued may be part of the request.
// Alone reports that no earlier token had these claims.
func (c *commonTexts) intern(t *AccessToken) (common *commonClaims, alone bool) {
	own := commonOf(t)
	slot := &c.slots[c.hash(own)%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.equal(own) {
		return known, false
	}
	common = &commonClaims{
		strings.Clone(own.issuer), strings.Clone(own.keyID), strings.Clone(own.role), strings.Clone(own.acr), cloneTexts(own.audience), cloneTexts(own.scopes),
		cloneTexts(own.amr),
	}
	slot.Store(common)
	return common, true
}

func (c *commonTexts) hash(own commonClaims) uint64 {
	h := maphash.String(c.seed, own.keyID) ^ 3*maphash.String(c.seed, own.role) ^ 5*maphash.String(c.seed, own.acr)
	for _, list := range [...][]string{own.audience, own.scopes, own.amr} {
		for _, text := range list {
			h = 31*h + maphash.String(c.seed, text)
		}
	}
	return h
}

func (c *commonClaims) equal(other commonClaims) bool {
	return c.issuer == other.issuer && c.keyID == other.keyID && c.role == other.role && c.acr == other.acr && slices.Equal(c.amr, other.amr) &&
		slices.Equal(c.audience, other.audience) && slices.Equal(c.scopes, other.scopes)
}

func cloneTexts(texts []string) []string {
	if texts == nil {
		return nil
	}
	clones := make([]string, len(texts))
	for i, text := range texts {
		clones[i] = strings.Clone(text)
	}
	return clones
}

// maxUnpacked is how many tokens are kept unpacked; they take 8 MiB.
const maxUnpacked = 20 << 10

// unpackedTokens tracks the tokens that are unpacked. When there are too many, it drops the unpacked form of the oldest.
// The zero value is empty.
type unpackedTokens struct {
	mu     sync.Mutex
	tokens []*cachedToken // a ring buffer once it is full
	next   int
}

// token returns the AccessToken of a cached token. It allocates only if the token is packed.
func (c *tokenCache) token(cached *cachedToken) *AccessToken {
	if t := cached.whole.Load(); t != nil {
		return t
	}
	t := cached.unpacked()
	if cached.whole.CompareAndSwap(nil, t) {
		c.unpacked.add(cached)
	}
	return t
}

func (u *unpackedTokens) add(cached *cachedToken) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.tokens) < maxUnpacked {
		u.tokens = append(u.tokens, cached)
		return
	}
	u.tokens[u.next].whole.Store(nil)
	u.tokens[u.next] = cached
	u.next = (u.next + 1) % maxUnpacked
}
