package accesstoken

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// A tag is the end of a token's jti: 72 bits of an HMAC over everything else that is signed, header and claims as they are
// spelled in the token. Claims sets of ours begin with jti, whose first part has one length: so the tag has one place,
// which is found without reading anything, and it fills whole groups of base64url.
const (
	tagLength   = 12
	tagStart    = (len(claimsOpening) + oauth.IDLength) / 3 * 4 // in the second part of a token
	tagSpan     = tagLength / 3 * 4
	tagBytes    = tagLength / 4 * 3
	untaggedEnd = "AAAAAAAAAAAA" // where the tag will be
)

// claimsOpening is how the claims set of every token of ours begins.
const claimsOpening = `{"jti":"`

// Both would be negative if the tag were not of whole groups.
const (
	_ = -uint((len(claimsOpening) + oauth.IDLength) % 3)
	_ = -uint(len(untaggedEnd) - tagLength)
)

// JTIMAC makes and checks the MACs in the jti of an issuer's access tokens, with a key that all of its nodes derive from the
// master key. A MAC accepts nothing. It is checked before the signature, so that a forged token costs no public-key
// cryptography.
type JTIMAC struct {
	macs sync.Pool // of *jtiHMAC
	// requiredFrom is when the last token without a tag has expired; zero: nobody knows.
	requiredFrom time.Time
}

// jtiHMAC is an HMAC with the room for its result.
type jtiHMAC struct {
	hash.Hash
	sum [sha256.Size]byte
}

// NewJTIMAC returns the JTIMAC of a master key.
func NewJTIMAC(master *keys.MasterKey) *JTIMAC {
	key, requiredFrom := master.JTIMAC()
	t := &JTIMAC{requiredFrom: requiredFrom}
	t.macs.New = func() any {
		m := &jtiHMAC{Hash: hmac.New(sha256.New, key)}
		m.Reset() // from now on it begins with the key taken in
		return m
	}
	return t
}

// areRequired tells whether no living token of ours can be without a tag.
func (t *JTIMAC) areRequired(now time.Time) bool {
	return !t.requiredFrom.IsZero() && !now.Before(t.requiredFrom)
}

// of returns the tag of a token, in both spellings. Parts are what is signed, in front of the tag and behind it.
func (t *JTIMAC) of(before, after string) (tag [tagLength]byte, spelled [tagSpan]byte) {
	m := t.macs.Get().(*jtiHMAC) //nolint:forcetypeassert // New makes no other
	m.Reset()
	_, _ = m.Write(oauth.BytesOf(before)) // never fails
	_, _ = m.Write(oauth.BytesOf(after))
	sum := m.Sum(m.sum[:0])
	base64.RawURLEncoding.Encode(tag[:], sum[:tagBytes])
	t.macs.Put(m)
	base64.RawURLEncoding.Encode(spelled[:], tag[:])
	return tag, spelled
}

// check reports whether a token says just what one that we have signed says. It says nothing of the signature.
func (t *JTIMAC) check(token string) bool {
	first, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	start := first + 1 + tagStart
	if first < 0 || start+tagSpan > last {
		return false
	}
	_, spelled := t.of(token[:start], token[start+tagSpan:last])
	return subtle.ConstantTimeCompare(spelled[:], oauth.BytesOf(token[start:start+tagSpan])) == 1
}

// put writes the tag into what is about to be signed, whose jti ends with untaggedEnd, and returns it.
func (t *JTIMAC) put(unsigned []byte) (tag string) {
	text := oauth.Written(unsigned)
	start := strings.IndexByte(text, '.') + 1 + tagStart
	short, spelled := t.of(text[:start], text[start+tagSpan:])
	copy(unsigned[start:], spelled[:])
	return string(short[:])
}

// signedToken is a token that was signed a moment ago.
type signedToken struct {
	Text string
	tag  string // empty: it has none, and jti ends before it
}

// ID is the jti of the token, whose claims were written with another.
func (s *signedToken) ID(written string) string {
	if s.tag == "" {
		return written
	}
	return written[:oauth.IDLength] + s.tag + written[oauth.IDLength+tagLength:]
}

// generationMark stands before the generation in a jti. It is in no id and in no tag.
const generationMark = "."

// GenerationOf returns with which of its family's refresh tokens the token of that jti came; 0: with none, or it was issued by a
// build that did not say.
func GenerationOf(jti string) int64 {
	_, digits, _ := strings.Cut(jti, generationMark)
	generation, _ := strconv.ParseInt(digits, 10, 64) // 0 when it is none
	return generation
}

// NewID returns the jti of a token that is about to be signed, with a place for its tag. Of a token that comes with a
// refresh token the generation of that stands at the end.
func (t *JTIMAC) NewID(generation int64) string {
	id := oauth.NewID()
	if t != nil {
		id += untaggedEnd
	}
	if generation > 0 {
		id += generationMark + strconv.FormatInt(generation, 10)
	}
	return id
}

// Sign returns a token of claims whose jti is a NewID. A nil JTIMAC makes tokens without MACs.
func (t *JTIMAC) Sign(key *keys.SigningKey, claims []byte) (s signedToken, err error) {
	unsigned := key.Unsigned(claims)
	if t != nil {
		s.tag = t.put(unsigned)
	}
	s.Text, err = key.Finish(unsigned)
	return s, err
}
