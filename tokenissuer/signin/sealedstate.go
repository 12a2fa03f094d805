package signin

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Seals seals the state that a browser carries: the state of a sign-in at a provider, form tokens, and the cookies of known devices.
// Package keys implements the sealing.
type Seals struct {
	Families *families.Families
}

// BrowserDigest returns the digest of a browser's secret, which is sealed in place of the secret.
func BrowserDigest(browser oauth.Secret) string {
	digest := browser.Digest()
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// IsOfBrowser reports whether a digest is that of the browser's secret.
func IsOfBrowser(digest string, browser oauth.Secret) bool {
	return !browser.IsEmpty() && subtle.ConstantTimeCompare([]byte(digest), []byte(BrowserDigest(browser))) == 1
}

// FormToken returns a token that proves that a form was made here, for this browser and these names: the page, the user, the pending
// request. It cannot be guessed and is worthless in another browser (RFC 9700 §4.7). Every token is different.
func (s *Seals) FormToken(browser oauth.Secret, names ...string) oauth.Secret {
	nonce := oauth.NewID()
	return oauth.NewSecret(nonce + s.formMAC(nonce, browser, names))
}

func (s *Seals) formMAC(nonce string, browser oauth.Secret, names []string) string {
	digest := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return keys.MAC(s.Families.Master.Forms, nonce+"\x00"+browser.Reveal()+"\x00"+string(digest[:]))
}

// OpenFormToken returns the nonce that identifies the form, and reports whether the token is genuine. It compares in constant time.
func (s *Seals) OpenFormToken(token, browser oauth.Secret, names ...string) (nonce string, genuine bool) {
	text := token.Reveal()
	if browser.IsEmpty() || len(text) != oauth.IDLength+keys.MACLength {
		return "", false
	}
	nonce = text[:oauth.IDLength]
	return nonce, hmac.Equal([]byte(s.formMAC(nonce, browser, names)), []byte(text[oauth.IDLength:]))
}

// NewBrowser returns a secret that identifies a browser before a user has signed in.
func NewBrowser() oauth.Secret { return oauth.NewSecret(oauth.NewID()) }

// device is the content of a device cookie.
type device struct {
	ID      string `json:"id"`
	UserID  string `json:"user"`
	Version string `json:"version"`
	// Login is what the user typed to sign in, or empty.
	Login string `json:"login,omitzero"`
}

// Device returns the device cookie for a browser in which a user has just signed in. It is not a credential. Failures in that browser are
// counted separately until the user's password, role or status changes.
func (s *Seals) Device(who SignedIn) (oauth.Secret, error) {
	return keys.Wrap(s.Families.Master.Devices, "", device{oauth.NewID(), who.User.ID, who.User.Version, who.Login}, s.Families.Now())
}

// deviceSkew is the tolerance for a device that seems older than its user, because the clocks of nodes differ. The id of a removed user can
// be reused only weeks later.
const deviceSkew = time.Hour

// deviceOf returns the id of a device that the user of a login has used before. It returns "" for any other device, and for one of an
// earlier owner of the user's id. If no user has the login as an address, the device must have been used to sign in with that very login.
// Then only a directory knows it.
func (si *SignIns) deviceOf(ctx context.Context, cookie oauth.Secret, user *store.User, login string) string {
	if cookie.IsEmpty() || login == "" {
		return ""
	}
	d, since, err := keys.UnwrapAny[device](si.Families.Master.Devices, "", cookie)
	if err == nil && user.ID == "" && d.Login == login {
		user, err = si.Families.Directory.User(ctx, d.UserID)
	}
	if err != nil || user.ID == "" || d.UserID != user.ID || d.Version != user.Version || since.Add(deviceSkew).Before(user.CreatedAt) {
		return ""
	}
	return d.ID
}

// ProviderSignIn is a sign-in that continues at an identity provider. The browser carries it, sealed, as the state for the provider.
type ProviderSignIn struct {
	// ID identifies the sign-in, which can open one session.
	ID string `json:"id"`
	// Nonce, Verifier, Fresh and MaxAge, in seconds, are what the provider's answer is checked against.
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Fresh    bool   `json:"fresh,omitzero"`
	MaxAge   int64  `json:"max_age,omitzero"`
	// Pending is the sealed request that follows, or empty.
	Pending string `json:"pending,omitempty"`
	// Began is when the sign-in began, in Unix seconds.
	Began int64 `json:"began"`
	// Browser is the digest of the secret of the browser in which the sign-in began.
	Browser string `json:"browser"`
}

// SealProviderSignIn seals a sign-in for the browser that owns the secret. Every node can open it, for ten minutes, and only for that
// provider.
func (s *Seals) SealProviderSignIn(in ProviderSignIn, provider string, browser oauth.Secret) (oauth.Secret, error) {
	now := s.Families.Now()
	in.ID, in.Began, in.Browser = oauth.NewID(), now.Unix(), BrowserDigest(browser)
	return keys.Wrap(s.Families.Master.ProviderSignIns, atProvider("in", provider, oauth.Secret{}), in, now)
}

// OpenProviderSignIn is the reverse of SealProviderSignIn. It fails, with an error for a page, if the value is forged, expired, or sealed
// for another provider or browser. For another browser, it returns only the pending request with the error.
func (s *Seals) OpenProviderSignIn(state, provider string, browser oauth.Secret) (ProviderSignIn, error) {
	in, err := keys.Unwrap[ProviderSignIn](s.Families.Master.ProviderSignIns, atProvider("in", provider, oauth.Secret{}), oauth.NewSecret(state), s.Families.Now())
	switch {
	case err != nil:
		return ProviderSignIn{}, err
	case !IsOfBrowser(in.Browser, browser):
		return ProviderSignIn{Pending: in.Pending}, keys.ErrUnwrapped
	}
	return in, nil
}

// SealProviderSignOut seals where a browser goes after a sign-out at a provider. The seal is like that of SealProviderSignIn.
func (s *Seals) SealProviderSignOut(location, provider string, browser oauth.Secret) (oauth.Secret, error) {
	return keys.Wrap(s.Families.Master.ProviderSignIns, atProvider("out", provider, browser), location, s.Families.Now())
}

// OpenProviderSignOut is the reverse of SealProviderSignOut.
func (s *Seals) OpenProviderSignOut(state, provider string, browser oauth.Secret) (string, error) {
	return keys.Unwrap[string](s.Families.Master.ProviderSignIns, atProvider("out", provider, browser), oauth.NewSecret(state), s.Families.Now())
}

func atProvider(direction, provider string, browser oauth.Secret) string {
	return direction + "\x00" + provider + "\x00" + browser.Reveal()
}
