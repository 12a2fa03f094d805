package signin

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// HalfSignIn is a sign-in that lacks its second factor. The browser carries it, sealed; nothing is stored for it.
type HalfSignIn struct {
	// ID identifies the sign-in, which can open one session.
	ID string `json:"id"`
	// Pending is the sealed request that follows, or empty.
	Pending string `json:"pending,omitzero"`
	// Secret is that of the authenticator that the user can add, or empty. Passkey reports that the user can add a passkey.
	Secret  string `json:"secret,omitzero"`
	Passkey bool   `json:"passkey,omitzero"`
	// Session is the session that is the first factor. It must still live. Empty: the user has just signed in.
	Session string `json:"session,omitzero"`

	User    halfUser    `json:"user"`
	Proof   store.Proof `json:"proof"`
	Login   string      `json:"login,omitzero"`
	At      int64       `json:"at,omitzero"` // SignedIn.AuthTime in microseconds since 1970
	Browser string      `json:"browser"`     // the digest of the browser's secret
}

// halfUser is the user of a HalfSignIn, as of the first factor.
type halfUser struct {
	ID       string `json:"id"`
	Version  string `json:"version"`
	Declared bool   `json:"declared,omitzero"`
	Email    string `json:"email,omitzero"` // DeclaredEmail
	Provider string `json:"provider,omitzero"`
	Subject  string `json:"subject,omitzero"`
}

// SealHalfSignIn seals a sign-in after its first factor, for the browser that owns the secret. ID, Pending, Secret, Passkey and Session are those
// of half. Every node can open it, for ten minutes.
func (s *Seals) SealHalfSignIn(who SignedIn, half HalfSignIn, browser oauth.Secret) (oauth.Secret, error) {
	half.Proof, half.Login, half.Browser = who.Proof, who.Login, BrowserDigest(browser)
	half.User = halfUser{who.User.ID, who.User.Version, who.User.Declared, who.User.DeclaredEmail(), who.Provider, who.Subject}
	if !who.AuthTime.IsZero() {
		half.At = who.AuthTime.UnixMicro()
	}
	return keys.Wrap(s.Families.Master.HalfSignIns, "", half, s.Families.Now())
}

// OpenHalfSignIn is the reverse of SealHalfSignIn. It fails, with an error for a page, if the value is forged, expired, or of another
// browser, and with invalid_grant if the user has changed since the first factor.
func (s *Seals) OpenHalfSignIn(ctx context.Context, sealed, browser oauth.Secret) (HalfSignIn, SignedIn, error) {
	half, err := keys.Unwrap[HalfSignIn](s.Families.Master.HalfSignIns, "", sealed, s.Families.Now())
	switch {
	case err != nil:
		return HalfSignIn{}, SignedIn{}, err
	case !IsOfBrowser(half.Browser, browser):
		return HalfSignIn{}, SignedIn{}, keys.ErrUnwrapped
	}
	user, err := s.Families.Directory.User(ctx, half.User.ID)
	switch {
	case errors.Is(err, store.ErrNotFound),
		err == nil && (!user.IsActive() || user.Version != half.User.Version || user.Declared != half.User.Declared ||
			user.DeclaredEmail() != half.User.Email):
		return half, SignedIn{}, oauth.NewError(oauth.InvalidGrant, "user_changed")
	case err != nil:
		return half, SignedIn{}, err
	}
	who := SignedIn{User: user, Provider: half.User.Provider, Subject: half.User.Subject, Proof: half.Proof, Login: half.Login, Session: half.Session}
	if half.At != 0 {
		who.AuthTime = time.UnixMicro(half.At)
	}
	return half, who, nil
}
