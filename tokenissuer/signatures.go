package tokenissuer

import (
	"crypto/sha256"
	"encoding/binary"
	"sync"
)

// knownSignatures remembers which signature is the one that we have made over some claims: we sign the same claims once, and
// always with the same result. So a token of ours whose signature somebody has changed is refused without cryptography, and
// the genuine one is never among the refused. The zero value knows none, and takes no room before the first.
//
// A slot is overwritten by whatever comes to it next. That costs a signature more, and no token.
type knownSignatures struct {
	mu    sync.Mutex
	slots *[knownSignatureSlots]knownSignature
}

const knownSignatureSlots = 1 << 15 // 1 MiB

// knownSignature is what is known of the signature over the claims of a mark.
type knownSignature struct {
	mark     claimsMark
	digest   uint64 // begins the digest of the one token that has these claims and our signature; 0: not known
	failures uint32 // how many other signatures were verified, until the digest was known
}

func (k *knownSignatures) slot(mark claimsMark) *knownSignature {
	if k.slots == nil {
		k.slots = new([knownSignatureSlots]knownSignature)
	}
	return &k.slots[binary.LittleEndian.Uint64(mark[:])%knownSignatureSlots]
}

// learn takes note of a token that has our own signature.
func (k *knownSignatures) learn(mark claimsMark, digest [sha256.Size]byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	*k.slot(mark) = knownSignature{mark: mark, digest: binary.LittleEndian.Uint64(digest[:])}
}

// contradict tells whether a token has another signature than the one that we have made over the same claims.
func (k *knownSignatures) contradict(mark claimsMark, digest [sha256.Size]byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slot(mark)
	return s.mark == mark && s.digest != 0 && s.digest != binary.LittleEndian.Uint64(digest[:])
}

// fail counts a signature over these claims that was not ours.
func (k *knownSignatures) fail(mark claimsMark) uint32 {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := k.slot(mark)
	if s.mark != mark {
		*s = knownSignature{mark: mark}
	}
	s.failures++
	return s.failures
}

// wrongSignatures is how many wrong signatures over the same claims are verified before our own is made again, to know it. To
// sign with RSA costs as much as 35 verifications; with a curve less than one.
func (a Algorithm) wrongSignatures() uint32 {
	if a == RS256 {
		return 32
	}
	return 1
}

// learnSignature makes the signature over claims that we have signed before, once others than ours have turned up. It goes no
// further than its digest.
func (c *candidate) learnSignature() {
	keys, own := c.verifier.keys.(*KeySet)
	if !own || c.signatures.fail(c.mark) != c.key.Algorithm.wrongSignatures() {
		return
	}
	key := keys.signingKey(c.key.ID)
	if key == nil {
		return
	}
	if token, err := key.finish([]byte(c.jws.signingInput)); err == nil {
		c.signatures.learn(c.mark, digestOf(token))
	}
}
