package token

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"hash"
	"strconv"
	"strings"
	"sync"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// The MAC in a token's jti is 72 bits of an HMAC over everything else that is signed, in its base64url form. Our claims
// sets begin with jti, whose first part has a fixed length. So the MAC has a fixed position, is found without parsing,
// and fills whole groups of base64url.
const (
	macLength      = 12
	macStart       = (len(claimsOpening) + oauth.IDLength) / 3 * 4 // in the second part of a token
	macSpan        = macLength / 3 * 4
	macBytes       = macLength / 4 * 3
	macPlaceholder = "AAAAAAAAAAAA" // reserves room for the MAC
)

// claimsOpening is how the claims set of every token of ours begins.
const claimsOpening = `{"jti":"`

// Compile errors unless the MAC fills whole groups.
const (
	_ = -uint((len(claimsOpening) + oauth.IDLength) % 3)
	_ = -uint(len(macPlaceholder) - macLength)
)

// JTIMAC computes and checks the MACs in the jti of an issuer's access tokens. All nodes derive its key from the master
// key. A valid MAC proves nothing; it is checked before the signature so that forged tokens cost no public-key
// cryptography.
type JTIMAC struct {
	macs sync.Pool // of *jtiHMAC
}

// jtiHMAC is an HMAC with a buffer for its result.
type jtiHMAC struct {
	hash.Hash
	sum [sha256.Size]byte
}

// NewJTIMAC returns the JTIMAC of a master key.
func NewJTIMAC(master *keys.MasterKey) *JTIMAC {
	t := new(JTIMAC)
	t.macs.New = func() any {
		m := &jtiHMAC{Hash: hmac.New(sha256.New, master.JTIMAC())}
		m.Reset() // computes the key's inner state once
		return m
	}
	return t
}

// compute returns the MAC of a token, encoded once as in the jti and twice as in the token. Before and after are the
// signed text around it.
func (t *JTIMAC) compute(before, after string) (mac [macLength]byte, spelled [macSpan]byte) {
	m := t.macs.Get().(*jtiHMAC) // New makes no other
	m.Reset()
	_, _ = m.Write(oauth.BytesOf(before)) // never fails
	_, _ = m.Write(oauth.BytesOf(after))
	sum := m.Sum(m.sum[:0])
	base64.RawURLEncoding.Encode(mac[:], sum[:macBytes])
	t.macs.Put(m)
	base64.RawURLEncoding.Encode(spelled[:], mac[:])
	return mac, spelled
}

// check reports whether the MAC matches the rest of the token. It does not check the signature.
func (t *JTIMAC) check(token string) bool {
	first, last := strings.IndexByte(token, '.'), strings.LastIndexByte(token, '.')
	start := first + 1 + macStart
	if first < 0 || start+macSpan > last {
		return false
	}
	_, spelled := t.compute(token[:start], token[start+macSpan:last])
	return subtle.ConstantTimeCompare(spelled[:], oauth.BytesOf(token[start:start+macSpan])) == 1
}

// insert replaces macPlaceholder in the unsigned token by the MAC, and returns the MAC as it is in the jti.
func (t *JTIMAC) insert(unsigned []byte) (mac string) {
	text := oauth.Written(unsigned)
	start := strings.IndexByte(text, '.') + 1 + macStart
	short, spelled := t.compute(text[:start], text[start+macSpan:])
	copy(unsigned[start:], spelled[:])
	return string(short[:])
}

// SignedToken is a newly signed token.
type SignedToken struct {
	// Text is the token in the compact serialisation.
	Text string
	mac  string
}

// ID returns the final jti, given the one in the claims that were signed.
func (s *SignedToken) ID(written string) string {
	return written[:oauth.IDLength] + s.mac + written[oauth.IDLength+macLength:]
}

// generationMark precedes the generation in a jti. It occurs in no id and no MAC.
const generationMark = "."

// GenerationOf returns the generation of the refresh token that was issued with the token of that jti, or 0 if there was
// none.
func GenerationOf(jti string) int64 {
	_, digits, _ := strings.Cut(jti, generationMark)
	generation, _ := strconv.ParseInt(digits, 10, 64) // 0 on an error
	return generation
}

// NewID returns the jti for a token that is about to be signed, with a placeholder for its MAC and the generation of the
// refresh token issued with it, if any.
func NewID(generation int64) string {
	id := oauth.NewID() + macPlaceholder
	if generation > 0 {
		id += generationMark + strconv.FormatInt(generation, 10)
	}
	return id
}

// Sign signs claims whose jti is a NewID.
func (t *JTIMAC) Sign(key *keys.SigningKey, claims []byte) (s SignedToken, err error) {
	unsigned := key.Unsigned(claims)
	s.mac = t.insert(unsigned)
	s.Text, err = key.Finish(unsigned)
	return s, err
}
