package tokenissuer

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
	"unsafe"
)

// upgradeTime is how long the nodes of one store may take until all of them tag what they sign.
const upgradeTime = 7 * 24 * time.Hour

// A tag is the end of a token's jti: 72 bits of an HMAC over everything else that is signed, header and claims as they are
// spelled in the token. Claims sets of ours begin with jti, whose first part has one length: so the tag has one place,
// which is found without reading anything, and it fills whole groups of base64url.
const (
	tagLength   = 12
	tagStart    = (len(claimsOpening) + idLength) / 3 * 4 // in the second part of a token
	tagSpan     = tagLength / 3 * 4
	tagBytes    = tagLength / 4 * 3
	untaggedEnd = "AAAAAAAAAAAA" // where the tag will be
)

// claimsOpening is how the claims set of every token of ours begins.
const claimsOpening = `{"jti":"`

// Both would be negative if the tag were not of whole groups.
const (
	_ = -uint((len(claimsOpening) + idLength) % 3)
	_ = -uint(len(untaggedEnd) - tagLength)
)

// tokenTags make and check the tags of an issuer's access tokens, with a key that all of its nodes derive from the master
// key. A tag accepts nothing. It is looked at before the signature, so that what somebody else made up costs no
// cryptography to speak of.
type tokenTags struct {
	macs sync.Pool // of *tagMAC
	// requiredFrom is when the last token without a tag has expired; zero: nobody knows.
	requiredFrom time.Time
}

// tagMAC is an HMAC with the room for its result.
type tagMAC struct {
	hash.Hash
	sum [sha256.Size]byte
}

func newTokenTags(key []byte) *tokenTags {
	t := new(tokenTags)
	t.macs.New = func() any {
		m := &tagMAC{Hash: hmac.New(sha256.New, key)}
		m.Reset() // from now on it begins with the key taken in
		return m
	}
	return t
}

// areRequired tells whether no living token of ours can be without a tag.
func (t *tokenTags) areRequired(now time.Time) bool {
	return !t.requiredFrom.IsZero() && !now.Before(t.requiredFrom)
}

// of returns the tag of a token, in both spellings. Parts are what is signed, in front of the tag and behind it.
func (t *tokenTags) of(before, after string) (tag [tagLength]byte, spelled [tagSpan]byte) {
	m := t.macs.Get().(*tagMAC) //nolint:forcetypeassert // New makes no other
	m.Reset()
	_, _ = m.Write(bytesOf(before)) // never fails
	_, _ = m.Write(bytesOf(after))
	sum := m.Sum(m.sum[:0])
	base64.RawURLEncoding.Encode(tag[:], sum[:tagBytes])
	t.macs.Put(m)
	base64.RawURLEncoding.Encode(spelled[:], tag[:])
	return tag, spelled
}

// check reports whether a token says just what one that we have signed says. It says nothing of the signature.
func (t *tokenTags) check(token string) bool {
	first, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	start := first + 1 + tagStart
	if first < 0 || start+tagSpan > last {
		return false
	}
	_, spelled := t.of(token[:start], token[start+tagSpan:last])
	return subtle.ConstantTimeCompare(spelled[:], bytesOf(token[start:start+tagSpan])) == 1
}

// put writes the tag into what is about to be signed, whose jti ends with untaggedEnd, and returns it.
func (t *tokenTags) put(unsigned []byte) (tag string) {
	text := written(unsigned)
	start := strings.IndexByte(text, '.') + 1 + tagStart
	short, spelled := t.of(text[:start], text[start+tagSpan:])
	copy(unsigned[start:], spelled[:])
	return string(short[:])
}

// signedToken is a token that was signed a moment ago.
type signedToken struct {
	text string
	tag  string // empty: it has none, and jti ends before it
}

// id is the jti of the token, whose claims were written with another.
func (s *signedToken) id(written string) string {
	if s.tag == "" {
		return written
	}
	return written[:idLength] + s.tag + written[idLength+tagLength:]
}

// newTokenID returns the jti of a token that is about to be signed, with a place for its tag. Of a token that comes with a
// refresh token the generation of that stands at the end.
func (is *Issuer) newTokenID(generation int64) string {
	id := NewID()
	if is.Master != nil {
		id += untaggedEnd
	}
	if generation > 0 {
		id += generationMark + strconv.FormatInt(generation, 10)
	}
	return id
}

// generationMark stands before the generation in a jti. It is in no id and in no tag.
const generationMark = "."

// generationOf returns with which of its family's refresh tokens the token of that jti came; 0: with none, or it was issued by a
// build that did not say.
func generationOf(jti string) int64 {
	_, digits, _ := strings.Cut(jti, generationMark)
	generation, _ := strconv.ParseInt(digits, 10, 64) // 0 when it is none
	return generation
}

// signAccessToken makes a token of claims whose jti is a newTokenID.
func (is *Issuer) signAccessToken(key *SigningKey, claims []byte) (s signedToken, err error) {
	unsigned := key.unsigned(claims)
	if is.Master != nil {
		s.tag = is.Master.tags.put(unsigned)
	}
	s.text, err = key.finish(unsigned)
	return s, err
}

// bytesOf are the bytes of a text, for whoever only reads them.
func bytesOf(text string) []byte {
	return unsafe.Slice(unsafe.StringData(text), len(text)) //nolint:gosec // nobody writes to them
}
