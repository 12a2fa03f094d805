package tokenissuer

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/redirect"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// requestUnderSeal is a request with its time as a number, so that the length of what is sealed tells nothing, and with a digest of
// the secret of the browser.
type requestUnderSeal struct {
	AuthorizationRequest
	AtMicros int64  `json:"at"`
	Browser  string `json:"browser"`
}

// SealRequest wraps a request for its way through the browser that owns the secret. It can be opened for ten minutes, on
// every node. A request that has no ID gets one.
func (c *Credentials) SealRequest(r *AuthorizationRequest, browser oauth.Secret, now time.Time) (oauth.Secret, error) {
	if r.ID == "" {
		r.ID = oauth.NewID()
	}
	return keys.Wrap(c.Master.Requests, "", requestUnderSeal{*r, r.At.UnixMicro(), browserDigest(browser)}, now)
}

// OpenRequest is the reverse of SealRequest. The client and its redirect URI are looked at again: they may have gone
// meanwhile. A value that is not ours, not this browser's or too old is an error for a page.
func (is *Issuer) OpenRequest(ctx context.Context, pending, browser oauth.Secret) (AuthorizationRequest, *store.Client, redirect.Target, error) {
	s, err := keys.Unwrap[requestUnderSeal](is.Master.Requests, "", pending, is.Now())
	if err != nil || !isOfBrowser(s.Browser, browser) {
		return AuthorizationRequest{}, nil, redirect.Target{}, keys.ErrUnwrapped
	}
	s.At = time.UnixMicro(s.AtMicros)
	return is.resolve(ctx, s.AuthorizationRequest)
}

// ReopenRequest is OpenRequest for a browser that need not be the one in which the request began. It returns the request as if it came
// now, and undecided: it is worth no more than a link with its parameters, which anybody can make.
func (is *Issuer) ReopenRequest(ctx context.Context, pending oauth.Secret) (AuthorizationRequest, *store.Client, redirect.Target, error) {
	s, err := keys.Unwrap[requestUnderSeal](is.Master.Requests, "", pending, is.Now())
	if err != nil {
		return AuthorizationRequest{}, nil, redirect.Target{}, keys.ErrUnwrapped
	}
	s.ID, s.At = "", is.Now().Truncate(time.Microsecond)
	return is.resolve(ctx, s.AuthorizationRequest)
}

// resolve returns a request with its client and where its answer goes.
func (is *Issuer) resolve(ctx context.Context, r AuthorizationRequest) (AuthorizationRequest, *store.Client, redirect.Target, error) {
	client, target, err := is.ResolveRedirect(ctx, r.ClientID, r.RedirectURI, "")
	target = target.WithState(r.State)
	if r.FormPost {
		target = target.WithResponseMode(redirect.FormPostMode)
	}
	return r, client, target, err
}

// browserDigest is what is sealed of the secret of a browser.
func browserDigest(browser oauth.Secret) string {
	digest := browser.Digest()
	return base64.RawURLEncoding.EncodeToString(digest[:])
}

// isOfBrowser reports whether a digest is that of the browser's secret.
func isOfBrowser(digest string, browser oauth.Secret) bool {
	return !browser.IsEmpty() && subtle.ConstantTimeCompare([]byte(digest), []byte(browserDigest(browser))) == 1
}

// FormToken proves that a form was made by us, for this browser and what the names say: the page, the user, the pending
// request. It is not guessable, and worth nothing in another browser (RFC 9700 §4.7). No two are the same.
func (c *Credentials) FormToken(browser oauth.Secret, names ...string) oauth.Secret {
	nonce := oauth.NewID()
	return oauth.NewSecret(nonce + c.formMAC(nonce, browser, names))
}

func (c *Credentials) formMAC(nonce string, browser oauth.Secret, names []string) string {
	digest := sha256.Sum256([]byte(strings.Join(names, "\x00")))
	return keys.MAC(c.Master.Forms, nonce+"\x00"+browser.Reveal()+"\x00"+string(digest[:]))
}

// OpenFormToken returns what tells the form from every other, and whether the token is genuine. It compares in constant
// time.
func (c *Credentials) OpenFormToken(token, browser oauth.Secret, names ...string) (nonce string, genuine bool) {
	text := token.Reveal()
	if browser.IsEmpty() || len(text) != oauth.IDLength+keys.MACLength {
		return "", false
	}
	nonce = text[:oauth.IDLength]
	return nonce, hmac.Equal([]byte(c.formMAC(nonce, browser, names)), []byte(text[oauth.IDLength:]))
}

// NewBrowser returns the secret by which a browser is recognised before anybody has signed in.
func NewBrowser() oauth.Secret { return oauth.NewSecret(oauth.NewID()) }

// device is what the cookie of a known device holds.
type device struct {
	ID      string `json:"id"`
	UserID  string `json:"user"`
	Version string `json:"version"`
	// Login is what the user has typed to sign in; empty: nothing.
	Login string `json:"login,omitzero"`
}

// Device returns the cookie for a browser in which a user has just signed in. It is no credential: it gives the
// browser a count of failures of its own, until the user has another password, role or status.
func (c *Credentials) Device(who SignedIn, now time.Time) (oauth.Secret, error) {
	return keys.Wrap(c.Master.Devices, "", device{oauth.NewID(), who.User.ID, who.User.Version, who.Login}, now)
}

// deviceSkew is by how much a device may seem older than its user, because clocks of nodes differ. An id is free for another
// owner only weeks after it was removed.
const deviceSkew = time.Hour

// deviceOf returns the id of a device that is known to the user of a login; "" for any other, and for one of an earlier owner of the
// user's id. Where nobody has the login as an address, the device is known if somebody has signed in there with that very login: it
// is one that only a directory knows.
func (is *Issuer) deviceOf(ctx context.Context, cookie oauth.Secret, user *store.User, login string) string {
	if cookie.IsEmpty() || login == "" {
		return ""
	}
	d, since, err := keys.UnwrapAny[device](is.Master.Devices, "", cookie)
	if err == nil && user.ID == "" && d.Login == login {
		user, err = is.Directory.User(ctx, d.UserID)
	}
	if err != nil || user.ID == "" || d.UserID != user.ID || d.Version != user.Version || since.Add(deviceSkew).Before(user.CreatedAt) {
		return ""
	}
	return d.ID
}

// ProviderSignIn is a sign-in that goes on at somebody else's identity provider. It travels as the provider's state through the
// browser, sealed.
type ProviderSignIn struct {
	// ID opens one session.
	ID string `json:"id"`
	// Nonce, Verifier, Fresh and MaxAge, in seconds, are what the provider's answer is held against.
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier"`
	Fresh    bool   `json:"fresh,omitzero"`
	MaxAge   int64  `json:"max_age,omitzero"`
	// Pending is the sealed request that follows; empty: none.
	Pending string `json:"pending,omitempty"`
	// Began is when it began, in Unix seconds.
	Began int64 `json:"began"`
	// Browser is a digest of the secret of the browser in which it began.
	Browser string `json:"browser"`
}

// SealProviderSignIn wraps a sign-in for its way through the browser that owns the secret. It can be opened for ten minutes, on
// every node, and by the name of that provider alone.
func (c *Credentials) SealProviderSignIn(s ProviderSignIn, provider string, browser oauth.Secret, now time.Time) (oauth.Secret, error) {
	s.ID, s.Began, s.Browser = oauth.NewID(), now.Unix(), browserDigest(browser)
	return keys.Wrap(c.Master.ProviderSignIns, atProvider("in", provider, oauth.Secret{}), s, now)
}

// OpenProviderSignIn is the reverse of SealProviderSignIn. A value that is not ours, not of this provider and browser, or too old is
// an error for a page. With the error for another browser comes the pending request, and nothing else.
func (c *Credentials) OpenProviderSignIn(state, provider string, browser oauth.Secret, now time.Time) (ProviderSignIn, error) {
	s, err := keys.Unwrap[ProviderSignIn](c.Master.ProviderSignIns, atProvider("in", provider, oauth.Secret{}), oauth.NewSecret(state), now)
	switch {
	case err != nil:
		return ProviderSignIn{}, err
	case !isOfBrowser(s.Browser, browser):
		return ProviderSignIn{Pending: s.Pending}, keys.ErrUnwrapped
	}
	return s, nil
}

// SealProviderSignOut wraps where a browser goes when it has signed out of a provider, as SealProviderSignIn wraps a sign-in.
func (c *Credentials) SealProviderSignOut(location, provider string, browser oauth.Secret, now time.Time) (oauth.Secret, error) {
	return keys.Wrap(c.Master.ProviderSignIns, atProvider("out", provider, browser), location, now)
}

// OpenProviderSignOut is the reverse of SealProviderSignOut.
func (c *Credentials) OpenProviderSignOut(state, provider string, browser oauth.Secret, now time.Time) (string, error) {
	return keys.Unwrap[string](c.Master.ProviderSignIns, atProvider("out", provider, browser), oauth.NewSecret(state), now)
}

func atProvider(direction, provider string, browser oauth.Secret) string {
	return direction + "\x00" + provider + "\x00" + browser.Reveal()
}
