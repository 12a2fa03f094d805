package passwords

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// argon2Params are the cost parameters of a hash: memory in KiB, passes, lanes (RFC 9106 §3.1).
type argon2Params struct {
	memory, time uint32
	threads      uint8
}

// currentArgon2 is the cost of new hashes: 19 MiB and about 20 ms, the second option in OWASP's Password Storage Cheat Sheet.
var currentArgon2 = argon2Params{memory: 19456, time: 2, threads: 1}

const (
	argon2SaltBytes = 16
	argon2KeyBytes  = 32
	// maxBcryptBytes is the number of bytes of a password that bcrypt uses.
	maxBcryptBytes = 72
	// MaxBytes is the maximum length of a password in bytes.
	MaxBytes = 1024
)

// Hash waits for a slot and returns the hash of a password. The caller checks the password with Validate.
func (p *Hasher) Hash(ctx context.Context, password oauth.Secret) (oauth.Secret, error) {
	leave, err := p.Enter(ctx, Attempt{})
	if err != nil {
		return oauth.Secret{}, err
	}
	defer leave()
	return Hash(password), nil
}

// Hash returns the argon2id hash of a password in PHC form, with a fresh salt, at the cost of CurrentScheme. It does
// not wait for a slot; see Hasher.
func Hash(password oauth.Secret) oauth.Secret {
	salt := make([]byte, argon2SaltBytes)
	_, _ = rand.Read(salt) // never fails
	key := currentArgon2.key(password, salt, argon2KeyBytes)
	encode := base64.RawStdEncoding.EncodeToString
	return oauth.NewSecret(currentArgon2.scheme() + "$" + encode(salt) + "$" + encode(key))
}

func (a argon2Params) key(password oauth.Secret, salt []byte, length uint32) []byte {
	return argon2.IDKey(normalised(password), salt, a.time, a.memory, a.threads, length)
}

func (a argon2Params) scheme() string {
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d", argon2.Version, a.memory, a.time, a.threads)
}

// CurrentScheme is the scheme of new hashes; see SchemeOf.
func CurrentScheme() string { return currentArgon2.scheme() }

// SchemeOf returns the algorithm and cost parameters of a hash: everything before the salt. Hashes of the same scheme take the same time.
func SchemeOf(hash oauth.Secret) string {
	text := hash.Reveal()
	if bcrypt, devise := strings.CutPrefix(text, DeviseScheme); devise && isBcrypt(bcrypt) {
		return text[:len(DeviseScheme+"$2b$12")]
	}
	if isBcrypt(text) {
		return text[:len("$2b$12")]
	}
	if d, known, err := parseDerivation(text); known && err == nil {
		return d.scheme
	}
	if parts := strings.Split(text, "$"); len(parts) == 6 {
		return strings.Join(parts[:4], "$")
	}
	return ""
}

const bcryptAlphabet = "./ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

func isBcrypt(hash string) bool {
	return len(hash) == 60 && (strings.HasPrefix(hash, "$2a$") || strings.HasPrefix(hash, "$2b$") || strings.HasPrefix(hash, "$2y$"))
}

// IsOutdated reports whether a hash is cheaper to guess than a new one. A hash with a higher cost is not outdated.
func IsOutdated(hash oauth.Secret) bool {
	h, err := parseArgon2(hash.Reveal())
	work := func(a argon2Params) uint64 { return uint64(a.memory) * uint64(a.time) }
	return err != nil || h.params.memory < currentArgon2.memory || work(h.params) < work(currentArgon2)
}

// The maximum costs of an imported hash, so that one sign-in cannot exhaust the server.
const (
	maxArgon2Memory = 256 << 10 // KiB
	maxArgon2Time   = 16
	maxBcryptCost   = 16
)

// ValidateHash refuses imported hashes that are malformed or too expensive to verify.
func ValidateHash(hash oauth.Secret) error {
	text, devise := strings.CutPrefix(hash.Reveal(), DeviseScheme)
	if isBcrypt(text) {
		cost, err := bcrypt.Cost([]byte(text))
		if err != nil || cost > maxBcryptCost || strings.Trim(text[len("$2b$12$"):], bcryptAlphabet) != "" {
			return fmt.Errorf("the bcrypt hash is malformed, or its cost above %d", maxBcryptCost)
		}
		return nil
	}
	if devise {
		return errors.New("the hash of Devise is not one of bcrypt")
	}
	if _, known, err := parseDerivation(text); known {
		return err
	}
	_, err := parseArgon2(text)
	return err
}

// argon2Hash is a parsed hash.
type argon2Hash struct {
	params argon2Params
	salt   []byte
	key    []byte
}

func parseArgon2(text string) (argon2Hash, error) {
	var h argon2Hash
	malformed := errors.New("use a password hash as `caddy hash-password` prints it: bcrypt or argon2id")
	parts := strings.Split(text, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != "v="+strconv.Itoa(argon2.Version) {
		return h, malformed
	}
	var err error
	if h.params, err = parseArgon2Params(parts[3]); err != nil {
		return h, err
	}
	decode := base64.RawStdEncoding.Strict().DecodeString
	salt, saltErr := decode(parts[4])
	key, keyErr := decode(parts[5])
	if saltErr != nil || keyErr != nil || len(salt) < 8 || len(key) < 16 || len(salt) > 64 || len(key) > 64 {
		return h, malformed
	}
	h.salt, h.key = salt, key
	return h, nil
}

func parseArgon2Params(text string) (argon2Params, error) {
	var values [3]uint64
	fields := strings.Split(text, ",")
	for i, name := range []string{"m=", "t=", "p="} {
		if i >= len(fields) || !strings.HasPrefix(fields[i], name) {
			return argon2Params{}, errors.New("the argon2id hash has other parameters than m, t and p")
		}
		var err error
		if values[i], err = strconv.ParseUint(fields[i][len(name):], 10, 32); err != nil || values[i] == 0 {
			return argon2Params{}, errors.New("the argon2id hash has malformed parameters")
		}
	}
	if len(fields) != 3 || values[0] > maxArgon2Memory || values[1] > maxArgon2Time || values[2] > math.MaxUint8 {
		return argon2Params{}, fmt.Errorf("the argon2id hash costs too much: use at most m=%d and t=%d", maxArgon2Memory, maxArgon2Time)
	}
	return argon2Params{memory: uint32(values[0]), time: uint32(values[1]), threads: uint8(values[2])}, nil //lint:ignore gosec bounded above
}

// Verify reports whether hash, of any supported scheme, is that of the password. It does the full work of the hash for every password.
func Verify(password, hash oauth.Secret) bool {
	text := hash.Reveal()
	if isBcrypt(text) {
		given := normalised(password)
		// bcrypt ignores further bytes, so longer passwords never match.
		whole := len(given) <= maxBcryptBytes
		return bcrypt.CompareHashAndPassword([]byte(text), given[:min(len(given), maxBcryptBytes)]) == nil && whole
	}
	if d, known, err := parseDerivation(text); known {
		return err == nil && d.verify(password)
	}
	h, err := parseArgon2(text)
	if err != nil {
		return false
	}
	key := h.params.key(password, h.salt, uint32(len(h.key))) //lint:ignore gosec at most 64
	return subtle.ConstantTimeCompare(key, h.key) == 1
}

// Spend does the work of Verify under a scheme and discards the result, so that unknown accounts take as long as known ones.
func Spend(password oauth.Secret, scheme string) {
	if len(scheme) == len("$2b$12") && strings.HasPrefix(scheme, "$2") {
		Verify(password, oauth.NewSecret(scheme+"$"+strings.Repeat("a", 53)))
		return
	}
	parts := strings.Split(scheme, "$")
	if len(parts) == 3 && parts[1] != "" {
		if d, err := newDerivation(parts[1], parts[2]); err == nil {
			d.salt, d.key = make([]byte, 16), make([]byte, 32)
			d.verify(password)
		}
	}
	if len(parts) == 4 {
		if params, err := parseArgon2Params(parts[3]); err == nil {
			params.key(password, make([]byte, argon2SaltBytes), argon2KeyBytes)
		}
	}
}
