package signin

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// LinkPurpose is what a Link is for.
type LinkPurpose string

// The purposes of links.
const (
	// ResetLink replaces a forgotten password.
	ResetLink LinkPurpose = "reset"
	// InvitationLink sets the first password of a user.
	InvitationLink LinkPurpose = "invitation"
	// RecoveryLink sets a password and removes the second factors.
	RecoveryLink LinkPurpose = "recovery"
	// AddressLink proves a new address of a user.
	AddressLink LinkPurpose = "address"
	// RegistrationLink proves the address of a person who is not a user yet. UserID is what the user's id will be.
	RegistrationLink LinkPurpose = "registration"
)

// The lifetimes of links.
const (
	linkLifetime       = 30 * time.Minute
	invitationLifetime = 7 * store.Day
)

// Lifetime returns how long a link of the purpose can be used.
func (p LinkPurpose) Lifetime() time.Duration {
	if p == InvitationLink {
		return invitationLifetime
	}
	return linkLifetime
}

// Link is what a link for one person says. Nothing is stored for it: it describes the user as the user was when it was made, and is
// worthless as soon as that has changed. Its use changes it, so it can be used once.
type Link struct {
	Purpose LinkPurpose `json:"purpose"`
	UserID  string      `json:"user"`
	// Version is the user's, and Created when the user was added, in microseconds since 1970: an id can be reused.
	Version string `json:"version,omitzero"`
	Created int64  `json:"created,omitzero"`
	// Email is the address of the user.
	Email string `json:"email"`
	// NewEmail is the address that an AddressLink proves.
	NewEmail string `json:"new_email,omitzero"`
	// Mailed reports that the link was mailed to the address that it names, and not handed over by an operator.
	Mailed bool `json:"mailed,omitzero"`
	// Pending is the sealed request that follows a RegistrationLink in the browser that asked for it, of which Browser is the digest.
	Pending string `json:"pending,omitzero"`
	Browser string `json:"browser,omitzero"`
}

// NewLink returns a link for a user as the user is now.
func NewLink(purpose LinkPurpose, user *store.User) Link {
	return Link{Purpose: purpose, UserID: user.ID, Version: user.Version, Created: user.CreatedAt.UnixMicro(), Email: user.Email}
}

// maxPending is the longest Pending in bytes. Programs that show mail cut longer links.
const maxPending = 1024

// NewRegistration returns a link for a person with an address and without a user. pending is what follows in the browser that asks. It is
// left out if it is too long for a link.
func NewRegistration(email string, pending, browser oauth.Secret) Link {
	l := Link{Purpose: RegistrationLink, UserID: oauth.NewID(), Email: email, Mailed: true}
	if text := pending.Reveal(); text != "" && len(text) <= maxPending {
		l.Pending, l.Browser = text, BrowserDigest(browser)
	}
	return l
}

// PendingIn returns what follows the use of the link in a browser, or nothing if another browser has asked for the link.
func (l Link) PendingIn(browser oauth.Secret) oauth.Secret {
	if !IsOfBrowser(l.Browser, browser) {
		return oauth.Secret{}
	}
	return oauth.NewSecret(l.Pending)
}

// IsFor reports whether the link was made for the user as the user is now.
func (l Link) IsFor(user *store.User) bool {
	return !user.Declared && !user.Service && user.Status == store.UserActive && user.ID == l.UserID && user.Version == l.Version &&
		user.CreatedAt.UnixMicro() == l.Created && user.Email == l.Email
}

// ErrLinkExpired is the error for a link that is too old.
var ErrLinkExpired = oauth.NewError(oauth.InvalidRequest, "link_expired")

// ErrLinkSpent is the error for a link that was used, or whose user has changed since.
var ErrLinkSpent = oauth.NewError(oauth.InvalidRequest, "link_spent")

// SealLink seals a link, and returns when it expires. Every node and every browser can open it.
func (s *Seals) SealLink(l Link) (sealed oauth.Secret, until time.Time, err error) {
	now := s.Families.Now()
	sealed, err = keys.Wrap(s.Families.Master.Links, "", l, now)
	return sealed, now.Add(l.Purpose.Lifetime()), err
}

// OpenLink is the reverse of SealLink. The error is keys.ErrUnwrapped for a forged link, or ErrLinkExpired. The caller compares it with the
// user.
func (s *Seals) OpenLink(sealed oauth.Secret) (Link, error) {
	l, at, err := keys.UnwrapAny[Link](s.Families.Master.Links, "", sealed)
	if age := s.Families.Now().Sub(at); err == nil && (age >= l.Purpose.Lifetime() || age < -store.Leeway) {
		err = ErrLinkExpired
	}
	return l, err
}

// AfterLink returns the sign-in of a user who has just set a password with a link. A second factor is still to be proved.
func AfterLink(user *store.User, now time.Time) SignedIn {
	return SignedIn{User: user, AuthTime: now, Proof: store.Proof{ACR: oauth.PasswordACR, AMR: passwordAMR}, Login: user.Email}
}
