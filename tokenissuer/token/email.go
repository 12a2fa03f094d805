package token

import (
	"strings"
	"unicode"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Email returns the user's e-mail address in the form of store.CanonicalEmail; empty: the token names none, or several. Verified
// reports that the user is known to own it. It does not return an address whose canonical form is ASCII and whose spelling is not:
// the two may have different owners.
func (t *AccessToken) Email() (address string, verified bool) {
	if t.extra.person != nil {
		return t.extra.person.Email, t.extra.person.EmailKnown
	}
	said := t.Claim("email")
	if len(said) != 1 {
		return "", false
	}
	address, err := store.CanonicalEmail(said[0])
	if err != nil || isASCII(address) && !isASCII(said[0]) {
		return "", false
	}
	vouched := t.Claim("email_verified")
	return address, len(vouched) == 1 && vouched[0] == "true"
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > unicode.MaxASCII })
}
