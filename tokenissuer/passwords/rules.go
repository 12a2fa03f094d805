package passwords

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"fmt"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// The minimum lengths of a password in characters: alone, and beside a second factor (NIST SP 800-63B §3.1.1.2).
const (
	minAlone  = 12
	minBeside = 8
)

// Owner is the person whose password is checked.
type Owner struct {
	// Email is the person's address.
	Email string
	// HasFactor reports whether the person has a second factor.
	HasFactor bool
}

// MinLength returns the minimum length of the owner's password, in characters.
func (o Owner) MinLength() int {
	if o.HasFactor {
		return minBeside
	}
	return minAlone
}

// Fault is why a password is refused.
type Fault string

// The faults.
const (
	TooShort  Fault = "too_short"
	TooLong   Fault = "too_long" // or it contains NUL
	TooCommon Fault = "too_common"
	IsAddress Fault = "is_address"
)

// Refusal is the error for a password that is not accepted.
type Refusal struct {
	Fault Fault
	// MinLength is Owner.MinLength.
	MinLength int
}

// Error says what to do.
func (r Refusal) Error() string {
	switch r.Fault {
	case TooShort:
		return fmt.Sprintf("use a password of at least %d characters", r.MinLength)
	case TooLong:
		return fmt.Sprintf("use a password of at most %d bytes, without NUL", MaxBytes)
	case TooCommon:
		return "many people use this password, so it is among the first that are guessed: use another"
	case IsAddress:
		return "the password is the e-mail address or its beginning: use another"
	}
	return "use another password"
}

// Validate returns a Refusal for a new password that is too short or too long, that many people use, or that is the owner's address. There
// are no rules about its characters.
func Validate(password oauth.Secret, owner Owner) error {
	refuse := func(f Fault) error { return Refusal{f, owner.MinLength()} }
	raw := password.Reveal()
	text := string(normalised(password))
	if len(raw) > MaxBytes || len(text) > MaxBytes || strings.ContainsRune(text, 0) {
		return refuse(TooLong)
	}
	if utf8.RuneCountInString(text) < owner.MinLength() {
		return refuse(TooShort)
	}
	folded := norm.NFKC.String(strings.ToLower(text))
	address := strings.ToLower(owner.Email)
	if local, _, _ := strings.Cut(address, "@"); address != "" && (folded == address || folded == local) {
		return refuse(IsAddress)
	}
	if isCommon(folded) {
		return refuse(TooCommon)
	}
	return nil
}

// normalised returns a password as it is hashed: in NFKC, because the same characters can be typed in several encodings (NIST SP 800-63B
// §3.1.1.2).
func normalised(password oauth.Secret) []byte { return norm.NFKC.Bytes([]byte(password.Reveal())) }

// common are the 100,000 most used passwords of at least eight characters, in lower case and NFKC, sorted, one on each line. They come from
// Mark Burnett's ten million passwords.
//
//go:embed common.txt.gz
var common []byte

// isCommon reports whether many people use a password, which is in lower case and NFKC. It reads through the list, which takes a few
// milliseconds and keeps nothing in memory: less than the hash of the password.
func isCommon(folded string) bool {
	list, err := gzip.NewReader(bytes.NewReader(common))
	if err != nil {
		return false // a test reads the list
	}
	for lines := bufio.NewScanner(list); lines.Scan(); {
		if line := lines.Bytes(); string(line) >= folded {
			return string(line) == folded
		}
	}
	return false
}
