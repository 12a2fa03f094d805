package accesstoken

import (
	"hash/maphash"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
)

// cachedToken is a verified token, the key that its signature was verified with, if it was, and the generation of
// revocations and keys at which it was last found alive.
//
// Most tokens are kept packed: what many of them share stands in one place, and their own texts behind each other in one, in a
// third of the bytes that an AccessToken takes with its texts. A token that is shown again is unpacked, and stays so for a while.
type cachedToken struct {
	key        *keys.VerificationKey
	generation atomic.Uint64
	// common has what the token shares with others; nil: it cannot be packed, and whole is never empty.
	common *AccessToken
	own    string // the texts of ownTexts, one behind the other
	ends   [ownTexts - 1]uint8
	times  [3]uint32 // iat, exp and auth_time in Unix seconds; 0: none
	whole  atomic.Pointer[AccessToken]
	// alone: what is common was nobody else's when this token came, so it is weighed with it.
	alone bool
}

const (
	// ownTexts are jti, sub where it is not the client_id, sid, org and client_id.
	ownTexts = 5
	// maxCommonBytes bounds the texts that tokens share, so that none is much heavier than it is weighed.
	maxCommonBytes = 512
)

// packToken packs a token if nothing is lost by it.
func (c *tokenCache) packToken(t *AccessToken, key *keys.VerificationKey) *cachedToken {
	packed := &cachedToken{key: key}
	if !packed.take(t) {
		packed.whole.Store(t)
		return packed
	}
	packed.common, packed.alone = c.common.of(t)
	return packed
}

// take takes over what is the token's own. False: that, or what it shares, does not fit.
func (c *cachedToken) take(t *AccessToken) bool {
	if t.extra != nil || t.nested != nil || t.endless || !t.Actor.IsZero() || t.earlierActors != nil || t.commonBytes() > maxCommonBytes {
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
			c.ends[i] = uint8(len(texts)) //nolint:gosec // no more than the buffer
		}
	}
	c.own = string(texts)
	return true
}

// unpacked is the token as it was.
func (c *cachedToken) unpacked() *AccessToken {
	t := new(AccessToken)
	*t = *c.common
	t.ID, t.Subject = c.own[:c.ends[0]], c.own[c.ends[0]:c.ends[1]]
	t.FamilyID, t.Organisation = c.own[c.ends[1]:c.ends[2]], c.own[c.ends[2]:c.ends[3]]
	t.ClientID = c.own[c.ends[3]:]
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

// commonBytes is how long the texts are that the token shares with others.
func (t *AccessToken) commonBytes() int {
	n := len(t.Issuer) + len(t.KeyID) + len(t.Role)
	for _, list := range [][]string{t.Audience, t.Scopes} {
		for _, text := range list {
			n += 16 + len(text)
		}
	}
	return n
}

// commonTexts finds what tokens share: issuer, audience, scopes, key and role. There are few of these; where there are more, they
// push each other out, and some tokens have them for themselves.
type commonTexts struct {
	seed  maphash.Seed
	slots [256]atomic.Pointer[AccessToken]
}

// of returns a token that has the same, and nothing else. Its texts are its own: those of a token that was just issued may be
// part of the request. Alone: no other token had it before.
func (c *commonTexts) of(t *AccessToken) (common *AccessToken, alone bool) {
	slot := &c.slots[c.hash(t)%uint64(len(c.slots))]
	if known := slot.Load(); known != nil && known.hasInCommon(t) {
		return known, false
	}
	common = &AccessToken{
		Issuer: strings.Clone(t.Issuer), KeyID: strings.Clone(t.KeyID), Role: strings.Clone(t.Role),
		Audience: cloneTexts(t.Audience), Scopes: cloneTexts(t.Scopes),
	}
	slot.Store(common)
	return common, true
}

func (c *commonTexts) hash(t *AccessToken) uint64 {
	h := maphash.String(c.seed, t.KeyID) ^ 3*maphash.String(c.seed, t.Role)
	for _, list := range [][]string{t.Audience, t.Scopes} {
		for _, text := range list {
			h = 31*h + maphash.String(c.seed, text)
		}
	}
	return h
}

func (t *AccessToken) hasInCommon(other *AccessToken) bool {
	return t.Issuer == other.Issuer && t.KeyID == other.KeyID && t.Role == other.Role &&
		slices.Equal(t.Audience, other.Audience) && slices.Equal(t.Scopes, other.Scopes)
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

// maxUnpacked is how many tokens are kept unpacked, in 8 MiB.
const maxUnpacked = 20 << 10

// unpackedTokens keeps the tokens unpacked that were shown again: when there are too many, the one that was unpacked first is
// no longer. The zero value has none.
type unpackedTokens struct {
	mu     sync.Mutex
	tokens []*cachedToken // a ring, once it is full
	next   int
}

// token returns what a cached token says. Only the first time since it was packed costs an allocation.
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
