package keys

import (
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// A token family's credentials consist of its id, for refresh tokens the generation, and a MAC over both. They are not
// stored, cannot be forged, and stay recognisable, so that a second use is detected. All are base62, so no
// encoding changes them.
const (
	generationLength = 6 // 62^6 refreshes of one family
	// MACLength is the length of a MAC: 256 bits.
	MACLength = 43

	codeLength    = oauth.IDLength + MACLength // also of device codes
	sessionLength = oauth.IDLength + MACLength
	refreshLength = oauth.IDLength + generationLength + MACLength
)

// Code returns the authorization code of a family (RFC 6749 §4.1.2).
func (k *MasterKey) Code(familyID string) oauth.Secret {
	return oauth.NewSecret(familyID + MAC(k.derived[codes], familyID))
}

// ReadCode returns the family id in a code, and whether the code is genuine.
func (k *MasterKey) ReadCode(code oauth.Secret) (familyID string, genuine bool) {
	return readMAC(k.derived[codes], code.Reveal(), codeLength, oauth.IDLength)
}

// DeviceCode returns the device code of a device authorization (RFC 8628 §3.2).
func (k *MasterKey) DeviceCode(id string) oauth.Secret {
	return oauth.NewSecret(id + MAC(k.derived[deviceCodes], id))
}

// ReadDeviceCode returns the id of the device authorization in a device code, and whether the code is genuine.
func (k *MasterKey) ReadDeviceCode(code oauth.Secret) (id string, genuine bool) {
	return readMAC(k.derived[deviceCodes], code.Reveal(), codeLength, oauth.IDLength)
}

// UserCodeDigest returns the store.Device.UserCode of a user code. It is keyed, because all user codes can be tried in minutes.
func (k *MasterKey) UserCodeDigest(code string) string { return MAC(k.derived[userCodes], code) }

// Session returns the cookie of a session.
func (k *MasterKey) Session(familyID string) oauth.Secret {
	return oauth.NewSecret(familyID + MAC(k.derived[sessions], familyID))
}

// ReadSession returns the family id in a session cookie, and whether the cookie is genuine.
func (k *MasterKey) ReadSession(cookie oauth.Secret) (familyID string, genuine bool) {
	return readMAC(k.derived[sessions], cookie.Reveal(), sessionLength, oauth.IDLength)
}

// HostSession returns the cookie of a session at a host. It is not genuine at another origin.
func (k *MasterKey) HostSession(familyID, origin string) oauth.Secret {
	return oauth.NewSecret(familyID + MAC(k.derived[hostSessions], familyID+origin))
}

// ReadHostSession returns the family id in the cookie of a session at a host, and whether the cookie is genuine and of that origin.
func (k *MasterKey) ReadHostSession(cookie, origin string) (familyID string, genuine bool) {
	if len(cookie) != sessionLength {
		return "", false
	}
	familyID = cookie[:oauth.IDLength]
	return familyID, hmac.Equal([]byte(MAC(k.derived[hostSessions], familyID+origin)), []byte(cookie[oauth.IDLength:]))
}

// RefreshToken returns a family's refresh token of that generation.
func (k *MasterKey) RefreshToken(familyID string, generation int64) oauth.Secret {
	named := familyID + base62Number(uint64(generation), generationLength) //lint:ignore gosec generations are positive
	return oauth.NewSecret(named + MAC(k.derived[refreshTokens], named))
}

// ReadRefreshToken returns the family id and generation in a refresh token, and whether the token is genuine.
func (k *MasterKey) ReadRefreshToken(token oauth.Secret) (familyID string, generation int64, genuine bool) {
	named, genuine := readMAC(k.derived[refreshTokens], token.Reveal(), refreshLength, oauth.IDLength+generationLength)
	if !genuine {
		return named[:min(len(named), oauth.IDLength)], 0, false
	}
	for _, c := range []byte(named[oauth.IDLength:]) {
		generation = generation*62 + int64(strings.IndexByte(oauth.Base62, c))
	}
	return named[:oauth.IDLength], generation, true
}

// readMAC splits a credential into the named text and its MAC, and verifies the MAC in constant time. A credential of
// another length is not genuine.
func readMAC(key []byte, text string, length, namedLength int) (named string, genuine bool) {
	if len(text) != length {
		return "", false
	}
	named = text[:namedLength]
	return named, hmac.Equal([]byte(MAC(key, named)), []byte(text[namedLength:]))
}

// RegistrationToken returns the token with which a client that has registered itself manages its registration (RFC 7592 §3).
func (k *MasterKey) RegistrationToken(clientID string) oauth.Secret {
	return oauth.NewSecret(MAC(k.derived[registrations], clientID))
}

// MAC returns the HMAC-SHA256 of text in base62.
func MAC(key []byte, text string) string {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return base62Bytes(h.Sum(nil))
}

// base62Bytes encodes 32 bytes as a number of 43 digits.
func base62Bytes(sum []byte) string {
	var words [4]uint64
	for i := range words {
		words[i] = binary.BigEndian.Uint64(sum[8*i:])
	}
	var digits [MACLength]byte
	for i := MACLength - 1; i >= 0; i-- {
		digits[i] = oauth.Base62[divide62(&words)]
	}
	return string(digits[:])
}

// divide62 divides a number of four words by 62 and returns the remainder.
func divide62(words *[4]uint64) (remainder uint64) {
	for i, word := range words {
		high := remainder<<32 | word>>32
		low := high%62<<32 | word&0xffffffff
		words[i], remainder = high/62<<32|low/62, low%62
	}
	return remainder
}

func base62Number(n uint64, length int) string {
	digits := make([]byte, length)
	for i := length - 1; i >= 0; i-- {
		digits[i] = oauth.Base62[n%62]
		n /= 62
	}
	return string(digits)
}

// AssertionKey derives the signing key of an epoch.
func (k *MasterKey) AssertionKey(epoch int64) (*SigningKey, error) {
	label := "upstream assertion, epoch " + strconv.FormatInt(epoch, 10)
	seed, err := hkdf.Key(sha256.New, k.derived[assertions], nil, label, ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("deriving the assertion key of epoch %d: %w", epoch, err)
	}
	begins := time.Unix(epoch*int64(AssertionEpoch/time.Second), 0)
	key, err := signingKeyOf(ed25519.NewKeyFromSeed(seed), oauth.EdDSA, begins)
	if err != nil {
		return nil, err
	}
	key.header = joseHeaderOf(oauth.EdDSA, AssertionType, key.ID)
	return key, nil
}

// RequesterDigest returns the store.RefreshState.RotatedBy of a request, from its address and the product family of its
// user agent.
func (k *MasterKey) RequesterDigest(familyID, address, userAgent string) string {
	h := hmac.New(sha256.New, k.derived[requesters])
	text := make([]byte, 0, 256)
	part := func(what, value string) {
		h.Reset()
		text = append(append(append(append(append(text[:0], familyID...), 0), what...), 0), value...)
		h.Write(text)
	}
	digests := make([]byte, 0, 2*sha256.Size)
	part("address", address)
	digests = h.Sum(digests)[:rotatorBytes]
	part("user agent", userAgent)
	digests = h.Sum(digests)[:2*rotatorBytes]
	return base64.RawURLEncoding.EncodeToString(digests)
}

// AssertionType is the typ of an assertion. It keeps assertions from being accepted as access tokens.
const AssertionType = "gateway-assertion+jwt"

// AssertionEpoch is how long one key signs assertions.
const AssertionEpoch = 30 * store.Day

// A RequesterDigest has a few bytes of a keyed digest of the address, and as many of one of the user agent's product family. The token
// family's id is part of both digests, so that digests do not link two families to one person.
const (
	// RequesterDigestPart is the length of each of the two in characters: 48 bits.
	RequesterDigestPart = 8
	rotatorBytes        = RequesterDigestPart / 4 * 3
)

// Inspect returns what kind of our own credentials a text is, and its token family; empty if it is none. It does not check whether the
// credential is still valid.
func (k *MasterKey) Inspect(text oauth.Secret) (what, familyID string) {
	if k == nil {
		return "", ""
	}
	if id, _, genuine := k.ReadRefreshToken(text); genuine {
		return "a refresh token of this issuer, which the gate never takes", id
	}
	if id, genuine := k.ReadCode(text); genuine {
		return "an authorization code of this issuer, which the token endpoint takes once", id
	}
	if id, genuine := k.ReadDeviceCode(text); genuine {
		return "a device code of this issuer, which the token endpoint takes once", id
	}
	if id, genuine := k.ReadSession(text); genuine {
		return "the cookie of a session of this issuer", id
	}
	return "", ""
}
