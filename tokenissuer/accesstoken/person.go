package accesstoken

import (
	"sync/atomic"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

var errTokenRevoked = oauth.NewError(oauth.InvalidToken, "token_revoked").WithDescription("The access token was revoked")

// Person is what the session of a browser says of its user, beside the claims of every token.
type Person struct {
	Name, Email   string
	EmailVerified bool
	// EmailKnown says that Email is the user's own, by the word of the operator or of a provider that has verified it. Rules
	// go by it.
	EmailKnown bool
	Groups     []string
	// ACR and AMR say how the user has signed in (OpenID Connect Core §2); empty: it is not known.
	ACR string
	AMR []string
}

// WithPerson says of whom a session is. No token is signed that says it.
func (t *AccessToken) WithPerson(p *Person) { t.person = p }

// claim is Claim for the claims of a Person.
func (p *Person) claim(name string) []string {
	switch name {
	case "name":
		return text(p.Name)
	case "email":
		return text(p.Email)
	case "email_verified":
		if p.EmailVerified {
			return []string{"true"}
		}
		return []string{"false"}
	case ClaimGroups:
		return p.Groups
	case "acr":
		return text(p.ACR)
	case "amr":
		return p.AMR
	}
	return nil
}

// size estimates the memory of the texts, in bytes.
func (p *Person) size() int {
	n := len(p.Name) + len(p.Email)
	for _, group := range p.Groups {
		n += 16 + len(group)
	}
	return n
}

// CheckUnsigned checks a token that stands for a session and was never signed, as Verify checks those that were: expiry and
// revocation. Known is the generation at which it was last found good.
func (v *Verifier) CheckUnsigned(t *AccessToken, known *atomic.Uint64) error {
	now := v.now()
	if err := t.checkExpiry(now, 0); err != nil {
		return err
	}
	if err := v.checkFresh(now); err != nil {
		return err
	}
	generation := v.Generation() // before the check: a concurrent change is then checked next time
	if known.Load() == generation {
		return nil
	}
	if v.revocations.Revoked(t) {
		return errTokenRevoked
	}
	known.Store(generation)
	return nil
}
