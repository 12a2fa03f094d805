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

// The MAC in a token's jti is 72 bits of an HMAC over everything else that is signed, header and claims as they are
// spelled in the token. Claims sets of ours begin with jti, whose first part has one length: so the MAC has one place,
// which is found without reading anything, and it fills whole groups of base64url.
const (
	macLength = 12
	macStart  = (len(claimsOpening) + oauth.IDLength) / 3 * 4 // in the second part of a token
	macSpan   = macLength / 3 * 4
	macBytes  = macLength / 4 * 3
	macPlace  = "AAAAAAAAAAAA" // where the MAC will be
)

// claimsOpening is how the claims set of every token of ours begins.
const claimsOpening = `{"jti":"`

// Both would be negative if the MAC were not of whole groups.
const (
	_ = -uint((len(claimsOpening) + oauth.IDLength) % 3)
	_ = -uint(len(macPlace) - macLength)
)

// JTIMAC makes and checks the MACs in the jti of an issuer's access tokens, with a key that all of its nodes derive from the
// master key. A MAC accepts nothing. It is checked before the signature, so that a forged token costs no public-key
// cryptography.
type JTIMAC struct {
	macs sync.Pool // of *jtiHMAC
	// requiredFrom is when the last token without a MAC has expired; zero: nobody knows.
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

// areRequired reports whether no living token of ours can be without a MAC.
func (t *JTIMAC) areRequired(now time.Time) bool {
	return !t.requiredFrom.IsZero() && !now.Before(t.requiredFrom)
}

// of returns the MAC of a token, in base64url once and twice. The parts are what is signed before the MAC and after it.
func (t *JTIMAC) of(before, after string) (mac [macLength]byte, spelled [macSpan]byte) {
	m := t.macs.Get().(*jtiHMAC) //nolint:forcetypeassert // New makes no other
	m.Reset()
	_, _ = m.Write(oauth.BytesOf(before)) // never fails
	_, _ = m.Write(oauth.BytesOf(after))
	sum := m.Sum(m.sum[:0])
	base64.RawURLEncoding.Encode(mac[:], sum[:macBytes])
	t.macs.Put(m)
	base64.RawURLEncoding.Encode(spelled[:], mac[:])
	return mac, spelled
}

// check reports whether a token says just what one that we have signed says. It says nothing of the signature.
func (t *JTIMAC) check(token string) bool {
	first, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	start := first + 1 + macStart
	if first < 0 || start+macSpan > last {
		return false
	}
	_, spelled := t.of(token[:start], token[start+macSpan:last])
	return subtle.ConstantTimeCompare(spelled[:], oauth.BytesOf(token[start:start+macSpan])) == 1
}

// put writes the MAC into what is about to be signed, whose jti ends with macPlace, and returns it.
func (t *JTIMAC) put(unsigned []byte) (mac string) {
	text := oauth.Written(unsigned)
	start := strings.IndexByte(text, '.') + 1 + macStart
	short, spelled := t.of(text[:start], text[start+macSpan:])
	copy(unsigned[start:], spelled[:])
	return string(short[:])
}

// SignedToken is a token that was signed a moment ago.
type SignedToken struct {
	// Text is the token in the compact serialisation.
	Text string
	mac  string // empty: it has none, and jti ends before it
}

// ID is the jti of the token, whose claims were written with another.
func (s *SignedToken) ID(written string) string {
	if s.mac == "" {
		return written
	}
	return written[:oauth.IDLength] + s.mac + written[oauth.IDLength+macLength:]
}

// generationMark stands before the generation in a jti. It is in no id and in no MAC.
const generationMark = "."

// GenerationOf returns with which of its family's refresh tokens the token of that jti came; 0: with none, or it was issued by a
// build that did not say.
func GenerationOf(jti string) int64 {
	_, digits, _ := strings.Cut(jti, generationMark)
	generation, _ := strconv.ParseInt(digits, 10, 64) // 0 when it is none
	return generation
}

// NewID returns the jti of a token that is about to be signed, with a place for its MAC. Of a token that comes with a
// refresh token the generation of that stands at the end.
func (t *JTIMAC) NewID(generation int64) string {
	id := oauth.NewID()
	if t != nil {
		id += macPlace
	}
	if generation > 0 {
		id += generationMark + strconv.FormatInt(generation, 10)
	}
	return id
}

// Sign returns a token of claims whose jti is a NewID. A nil JTIMAC makes tokens without MACs.
func (t *JTIMAC) Sign(key *keys.SigningKey, claims []byte) (s SignedToken, err error) {
	unsigned := key.Unsigned(claims)
	if t != nil {
		s.mac = t.put(unsigned)
	}
	s.Text, err = key.Finish(unsigned)
	return s, err
}
