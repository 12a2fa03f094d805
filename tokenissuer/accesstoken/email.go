package accesstoken

import (
	"strings"
	"unicode"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Email returns the user's e-mail address in the form of store.CanonicalEmail; empty: the token names none, or several. Verified
// says that it is known to be the user's own. An address that only looks like ASCII is none: its owner is somebody
// else than the owner of the one that it looks like.
func (t *AccessToken) Email() (address string, verified bool) {
	if t.person != nil {
		return t.person.Email, t.person.EmailKnown
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
