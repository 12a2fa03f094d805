package signin

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// HostAttempt is a sign-in at a host. It is sealed into the state of the authorization request, so the server stores nothing for a visitor
// who does not return.
type HostAttempt struct {
	// Origin is the host's origin. The attempt is invalid at any other host.
	Origin string `json:"origin"`
	// Return is where the browser goes afterwards: a path with its query.
	Return string `json:"return"`
	// Shortened reports that Return is only a prefix of a path that was too long.
	Shortened bool `json:"shortened,omitzero"`
	// Verifier is the code_verifier (RFC 7636). Nonce is the nonce of OpenID Connect.
	Verifier string `json:"verifier"`
	Nonce    string `json:"nonce"`
	// Browser is a digest of the secret of the browser in which the attempt began.
	Browser string `json:"browser"`
	// Again reports that an earlier attempt came back to another browser.
	Again bool `json:"again,omitzero"`
	// Provider is where the user signs in. It is set if there is no issuer of ours, or if the route names it.
	Provider string `json:"provider,omitzero"`
	// MaxAge is the maximum age of the sign-in at the provider, in seconds. Zero means any age. Fresh requires a sign-in during this
	// attempt.
	MaxAge int64 `json:"max_age,omitzero"`
	Fresh  bool  `json:"fresh,omitzero"`
	// Began is when the attempt was sealed. Open sets it.
	Began time.Time `json:"-"`
}

// NewHostAttempt returns an attempt of the browser that owns a secret.
func NewHostAttempt(origin, returnTo string, browser oauth.Secret) HostAttempt {
	return HostAttempt{Origin: origin, Return: returnTo, Verifier: newVerifier(), Nonce: oauth.NewID(), Browser: digest(browser.Reveal())}
}

// newVerifier returns a code verifier of 256 bits (RFC 7636 §4.1).
func newVerifier() string {
	var bits [32]byte
	_, _ = rand.Read(bits[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(bits[:])
}

// Challenge returns the S256 code_challenge of the attempt.
func (a HostAttempt) Challenge() string { return digest(a.Verifier) }

// IsOf reports whether the attempt began in the browser with that secret.
func (a HostAttempt) IsOf(browser oauth.Secret) bool {
	return !browser.IsEmpty() && subtle.ConstantTimeCompare([]byte(digest(browser.Reveal())), []byte(a.Browser)) == 1
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// attemptLifetime is how long a sign-in may take. It equals the lifetime of the issuer's forms.
const attemptLifetime = 10 * time.Minute

// Seal returns the attempt as a state.
func (s *HostSessions) Seal(a HostAttempt) (oauth.Secret, error) {
	if s.families().Master == nil {
		return oauth.Secret{}, oauth.Unavailable("keys_not_loaded", nil)
	}
	return keys.Wrap(s.families().Master.HostSignIns, a.Origin, a, s.families().Now())
}

// Open is the reverse of Seal, for a state received at the host with that origin. late reports that the attempt has expired. The error
// means that the state is not one of the host's.
func (s *HostSessions) Open(state oauth.Secret, origin string) (a HostAttempt, late bool, err error) {
	a, err = openAttempt(s.families(), state, origin)
	return a, s.families().Now().Sub(a.Began) > attemptLifetime, err
}

func openAttempt(fs *families.Families, state oauth.Secret, origin string) (a HostAttempt, err error) {
	if fs.Master == nil {
		return a, oauth.Unavailable("keys_not_loaded", nil)
	}
	a, at, err := keys.UnwrapAny[HostAttempt](fs.Master.HostSignIns, origin, state)
	a.Began = at
	if err == nil && a.Origin != origin {
		err = oauth.NewError(oauth.InvalidRequest, "seal_broken")
	}
	return a, err
}

// HostBrowserCookie returns the name of the cookie with the browser's secret, for sign-ins at hosts of that scheme.
func HostBrowserCookie(scheme string) string {
	if scheme == "http" {
		return "gatehouse_sign_in"
	}
	return "__Host-gatehouse-sign-in"
}

// HostRequest describes the attempt of an authorization request of the built-in client.
type HostRequest struct {
	// Origin is the origin of the host that receives the answer.
	Origin                  string
	State, Nonce, Challenge string
}

// HostAttemptOf returns the attempt of a request to the issuer. It refuses a request that one of our hosts did not make for this attempt:
// the code would be valid in a browser that began another attempt.
func HostAttemptOf(fs *families.Families, r HostRequest) (HostAttempt, error) {
	a, err := openAttempt(fs, oauth.NewSecret(r.State), r.Origin)
	if err == nil && (r.Nonce != a.Nonce || r.Challenge != a.Challenge()) {
		err = oauth.NewError(oauth.InvalidRequest, "state_of_another_request")
	}
	return a, err
}
