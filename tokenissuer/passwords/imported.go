package passwords

import (
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"math/bits"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/bcrypt"
	"golang.org/x/crypto/scrypt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// DeviseScheme precedes a bcrypt hash of Devise, as in $devise$2a$12$…. It is of the password as it was typed, followed by the pepper, and of
// the first 72 bytes of both: what Ruby's bcrypt hashes.
const DeviseScheme = "$devise"

// VerifyImported is Verify, and verifies hashes of Devise too, with the pepper that Devise was configured with.
func VerifyImported(password, pepper, hash oauth.Secret) bool {
	if text, devise := strings.CutPrefix(hash.Reveal(), DeviseScheme); devise {
		return VerifyTruncated(oauth.NewSecret(password.Reveal()+pepper.Reveal()), oauth.NewSecret(text))
	}
	return Verify(password, hash)
}

// VerifyTruncated reports whether a bcrypt hash is that of the first 72 bytes of a secret, as other implementations hash longer ones.
func VerifyTruncated(secret, hash oauth.Secret) bool {
	text := secret.Reveal()
	return bcrypt.CompareHashAndPassword([]byte(hash.Reveal()), []byte(text[:min(len(text), maxBcryptBytes)])) == nil
}

// IsWhole reports whether a hash that VerifyTruncated has verified proves every byte of the secret, so that the secret may be hashed anew.
// Otherwise its end may be wrong, and whoever knows the right one could not use it any more.
func IsWhole(secret oauth.Secret) bool { return len(secret.Reveal()) < maxBcryptBytes }

// IsDevise reports whether a hash is one of Devise.
func IsDevise(hash oauth.Secret) bool { return strings.HasPrefix(SchemeOf(hash), DeviseScheme) }

// SpendImported is Spend for hashes that VerifyImported verifies.
func SpendImported(password oauth.Secret, scheme string) {
	Spend(password, strings.TrimPrefix(scheme, DeviseScheme))
}

// The maximum costs of an imported hash; see maxArgon2Memory.
const (
	maxScryptMemory = 256 << 20 // bytes
	maxScryptWork   = 16        // times that memory
	maxIterations   = 5_000_000
)

// maxImportedCost is the longest that an imported hash may take to verify, by CostOf, and DearestSchemes how many schemes a failed sign-in pays
// for at most, beside its own and the current one: whoever guesses makes us do that work.
const (
	maxImportedCost = time.Second
	DearestSchemes  = 4
)

// ValidateImported is ValidateHash, and refuses hashes of another server that take too long to verify.
func ValidateImported(hash oauth.Secret) error {
	if err := ValidateHash(hash); err != nil {
		return err
	}
	if cost := CostOf(SchemeOf(hash)); cost > maxImportedCost {
		return fmt.Errorf("the hash costs too much: verifying it takes about %s", cost.Round(100*time.Millisecond))
	}
	return nil
}

// CostOf estimates how long it takes to verify a hash of a scheme, on a server of 2020. It compares schemes, and measures nothing.
func CostOf(scheme string) time.Duration {
	scheme = strings.TrimPrefix(scheme, DeviseScheme)
	parts := strings.Split(scheme, "$")
	switch {
	case len(parts) == 3 && strings.HasPrefix(parts[1], "2"):
		cost, _ := strconv.Atoi(parts[2])
		return 50 * time.Microsecond << min(max(cost, 0), 31)
	case len(parts) == 3 && parts[1] == "scrypt":
		values, err := numbers(parts[2], "ln", "r", "p")
		if err != nil || values[0] > 24 || values[1] > 64 || values[2] > 64 {
			return 0
		}
		return time.Duration(128*values[1]*values[2]<<values[0]) * 5 / 2
	case len(parts) == 3:
		values, err := numbers(parts[2], "i")
		if err != nil {
			return 0
		}
		return time.Duration(values[0]) * 250
	case len(parts) == 4:
		a, err := parseArgon2Params(parts[3])
		if err != nil {
			return 0
		}
		return time.Duration(a.memory) * time.Duration(a.time) * 500
	}
	return 0
}

// derivation is a scrypt or PBKDF2 hash in PHC form: $scrypt$ln=17,r=8,p=1$salt$key or $pbkdf2-sha256$i=600000$salt$key.
type derivation struct {
	scheme    string // everything before the salt
	salt, key []byte
	derive    func(password, salt []byte, length int) ([]byte, error)
}

// parseDerivation parses a hash. known reports whether it begins as one of scrypt or PBKDF2.
func parseDerivation(text string) (d derivation, known bool, err error) {
	parts := strings.Split(text, "$")
	if len(parts) < 2 || parts[0] != "" || parts[1] != "scrypt" && !strings.HasPrefix(parts[1], "pbkdf2-") {
		return d, false, nil
	}
	if len(parts) != 5 {
		return d, true, errors.New("the hash is malformed: write it as $scrypt$ln=17,r=8,p=1$salt$key or $pbkdf2-sha256$i=600000$salt$key")
	}
	if d, err = newDerivation(parts[1], parts[2]); err != nil {
		return d, true, err
	}
	decode := base64.RawStdEncoding.Strict().DecodeString
	var saltErr, keyErr error
	d.salt, saltErr = decode(parts[3])
	d.key, keyErr = decode(parts[4])
	if saltErr != nil || keyErr != nil || len(d.salt) == 0 || len(d.salt) > 64 || len(d.key) < 16 || len(d.key) > 64 {
		return d, true, errors.New("salt and key of the hash must be base64 without padding, the key of 16 to 64 bytes")
	}
	return d, true, nil
}

// newDerivation returns the function of a scheme.
func newDerivation(name, params string) (derivation, error) {
	d := derivation{scheme: "$" + name + "$" + params}
	if name == "scrypt" {
		values, err := numbers(params, "ln", "r", "p")
		if err != nil {
			return d, err
		}
		if values[0] > 24 || values[1] > 64 || values[2] > 64 || 128*values[1]<<values[0] > maxScryptMemory || 128*values[1]*values[2]<<values[0] > maxScryptMemory*maxScryptWork {
			return d, fmt.Errorf("the scrypt hash costs too much: use at most %d MiB", maxScryptMemory>>20)
		}
		d.derive = func(password, salt []byte, length int) ([]byte, error) {
			return scrypt.Key(password, salt, 1<<values[0], values[1], values[2], length)
		}
		return d, nil
	}
	digests := map[string]func() hash.Hash{"pbkdf2-sha256": sha256.New, "pbkdf2-sha512": sha512.New}
	digest := digests[name]
	if digest == nil {
		return d, fmt.Errorf("unknown hash %q: use pbkdf2-sha256 or pbkdf2-sha512", name)
	}
	values, err := numbers(params, "i")
	if err != nil {
		return d, err
	}
	if values[0] > maxIterations {
		return d, fmt.Errorf("the PBKDF2 hash costs too much: use at most %d iterations", maxIterations)
	}
	d.derive = func(password, salt []byte, length int) ([]byte, error) {
		return pbkdf2.Key(digest, string(password), salt, values[0], length)
	}
	return d, nil
}

// numbers parses parameters in the form ln=17,r=8,p=1. All are positive.
func numbers(params string, names ...string) ([]int, error) {
	fields := strings.Split(params, ",")
	values := make([]int, len(names))
	malformed := fmt.Errorf("the parameters of the hash are %s", strings.Join(names, "=…,")+"=…")
	if len(fields) != len(names) {
		return nil, malformed
	}
	for i, name := range names {
		digits, found := strings.CutPrefix(fields[i], name+"=")
		n, err := strconv.ParseUint(digits, 10, 31)
		if !found || err != nil || n == 0 {
			return nil, malformed
		}
		values[i] = int(n) // of 31 bits
	}
	return values, nil
}

// verify reports whether the hash is that of the password.
func (d derivation) verify(password oauth.Secret) bool {
	key, err := d.derive(normalised(password), d.salt, len(d.key))
	return err == nil && subtle.ConstantTimeCompare(key, d.key) == 1
}

// Canonical returns a hash as it is stored, from the form of other programs: Django's pbkdf2_sha256$600000$salt$key, passlib's
// $pbkdf2-sha256$29000$salt$key, and Werkzeug's scrypt:32768:8:1$salt$key. Other hashes are returned unchanged.
func Canonical(hash oauth.Secret) oauth.Secret {
	text := hash.Reveal()
	parts := strings.Split(text, "$")
	encode := base64.RawStdEncoding.EncodeToString
	switch {
	case len(parts) == 4 && (parts[0] == "pbkdf2_sha256" || parts[0] == "pbkdf2_sha512"):
		text = fmt.Sprintf("$%s$i=%s$%s$%s", strings.ReplaceAll(parts[0], "_", "-"), parts[1], encode([]byte(parts[2])), strings.TrimRight(parts[3], "="))
	case len(parts) == 5 && strings.HasPrefix(parts[1], "pbkdf2-") && !strings.Contains(parts[2], "="):
		text = fmt.Sprintf("$%s$i=%s$%s$%s", parts[1], parts[2], strings.ReplaceAll(parts[3], ".", "+"), strings.ReplaceAll(parts[4], ".", "+"))
	case len(parts) == 3 && strings.HasPrefix(parts[0], "scrypt:"):
		cost := strings.Split(parts[0], ":")
		key, err := hex.DecodeString(parts[2])
		if n, wrong := strconv.ParseUint(cost[min(1, len(cost)-1)], 10, 32); err == nil && wrong == nil && len(cost) == 4 && bits.OnesCount64(n) == 1 {
			text = fmt.Sprintf("$scrypt$ln=%d,r=%s,p=%s$%s$%s", bits.TrailingZeros64(n), cost[2], cost[3], encode([]byte(parts[1])), encode(key))
		}
	}
	return oauth.NewSecret(text)
}
