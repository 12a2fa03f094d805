package people

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"slices"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Links make the links with which people set a password, prove an address or become users, and do what such a link is for. A link is used by
// the change that it makes: the store compares it with the user in the same step, so of several uses at once one succeeds.
type Links struct {
	Users *Users
	Seals *signin.Seals
	// Page is the URL of the page that opens links.
	Page string
}

// Mails reports whether there is mail. Without it, operators hand links over.
func (l *Links) Mails() bool { return !l.Users.Post.IsOff() }

// MadeLink is a link for a person.
type MadeLink struct {
	User *store.User
	// URL is the link.
	URL oauth.Secret
	// Until is when it expires.
	Until time.Time
	// Mailed reports that it was mailed to the user.
	Mailed bool
}

// Errors of links that an operator asks for.
var (
	errLinkService  = errServiceSignsIn
	errLinkExternal = store.InvalidInput(errors.New("the user signs in at a provider and has no password here: the provider helps who cannot sign in there. " +
		"A lost second factor goes with: caddy oauth user factors remove"))
	errLinkInactive = store.InvalidInput(errors.New("the user is disabled or locked: enable the user first"))
	errInvitedHas   = store.InvalidInput(errors.New("the user has a password already: use `caddy oauth user recover` if it is lost"))
	errNoMail       = store.InvalidInput(errors.New("there is no `mail` in the configuration: ask without --mail, and hand the link over"))
)

// checkOwner returns an error for a user who gets no link.
func checkOwner(user *store.User) error {
	switch {
	case user.Declared:
		return store.ErrDeclared
	case user.Service:
		return errLinkService
	case user.Status != store.UserActive:
		return errLinkInactive
	case user.External && user.PasswordHash.IsEmpty():
		return errLinkExternal
	}
	return nil
}

// Invite makes a link with which the user with that id, who has no password, sets the first one. It is mailed if there is mail.
func (l *Links) Invite(ctx context.Context, id string) (MadeLink, error) {
	user, err := l.Users.User(ctx, id) // as it is stored: the link names its version
	if err != nil {
		return MadeLink{}, err
	}
	if err := checkOwner(user); err != nil {
		return MadeLink{}, err
	}
	if !user.PasswordHash.IsEmpty() {
		return MadeLink{}, errInvitedHas
	}
	return l.give(ctx, signin.NewLink(signin.InvitationLink, user), user, mail.Invitation, l.Mails())
}

// Recover makes a link with which a user who has lost everything sets a password and loses the second factors. It ends every session and
// token of the user at once, and every earlier link, removes the passkeys, and makes the earlier password worthless: a passkey that a thief has
// added would sign in before the link is used. The other factors stay until then, so that a mailbox alone does not do.
func (l *Links) Recover(ctx context.Context, user *store.User, mails bool) (MadeLink, error) {
	if err := checkOwner(user); err != nil {
		return MadeLink{}, err
	}
	if mails && !l.Mails() {
		return MadeLink{}, errNoMail
	}
	factors, err := l.Users.Families.Store.Factors(ctx, user.ID)
	if err != nil {
		return MadeLink{}, err
	}
	unknown := passwords.Hash(oauth.NewSecret(rand.Text() + rand.Text()))
	change := store.UserChange{NewHolder: true, RemovePasskeys: true, Edit: func(u *store.User) error {
		if !u.PasswordHash.IsEmpty() {
			u.PasswordHash = unknown
		}
		return nil
	}}
	err = l.Users.endUser(ctx, user.ID, func(end store.Ending) ([]store.Revocation, error) {
		return l.Users.Stored.ChangeUser(ctx, user.ID, change, end)
	})
	if err != nil {
		return MadeLink{}, err
	}
	for _, f := range factors {
		if f.Kind == store.Passkey {
			l.Users.Post.Notify(ctx, user, mail.FactorRemoved, f.Name)
		}
	}
	if err := l.Users.RevokeUser(ctx, user.ID); err != nil { // a thief, who cannot sign in any more, adds nothing to what this ends
		return MadeLink{}, err
	}
	if user, err = l.Users.User(ctx, user.ID); err != nil { // in its new version
		return MadeLink{}, err
	}
	return l.give(ctx, signin.NewLink(signin.RecoveryLink, user), user, mail.Recovery, mails)
}

// give makes a link that an operator has asked for.
func (l *Links) give(ctx context.Context, link signin.Link, user *store.User, kind mail.Kind, mails bool) (MadeLink, error) {
	link.Mailed = mails
	made, err := l.make(link)
	made.User, made.Mailed = user, mails
	if err == nil && mails {
		err = l.Users.Post.Send(ctx, l.letter(kind, user.Email, user, made, ""))
	}
	return made, err
}

// make makes a link.
func (l *Links) make(link signin.Link) (MadeLink, error) {
	sealed, until, err := l.Seals.SealLink(link)
	return MadeLink{URL: oauth.NewSecret(l.Page + "?pending=" + url.QueryEscape(sealed.Reveal())), Until: until}, err
}

// letter returns a letter. Without user or languages, it is in the default language.
func (l *Links) letter(kind mail.Kind, to string, user *store.User, made MadeLink, languages string) mail.Letter {
	letter := mail.Letter{Kind: kind, To: to, Languages: languages, Link: made.URL.Reveal(), Until: made.Until, At: l.Users.Families.Now()}
	if user != nil {
		letter.Name = user.Name
		if user.Profile != nil && user.Locale != "" {
			letter.Languages = user.Locale
		}
	}
	return letter
}

// Forgotten mails a link to the user with a canonical address, if there is one who has a password here or could set the first. It returns
// the user to whom it was mailed; nil: to nobody.
func (l *Links) Forgotten(ctx context.Context, email, languages string) (*store.User, error) {
	user, err := l.Users.Families.Directory.UserByEmail(ctx, email)
	if errors.Is(err, store.ErrNotFound) || err == nil && checkOwner(user) != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	link := signin.NewLink(signin.ResetLink, user)
	link.Mailed = true
	made, err := l.make(link)
	if err != nil {
		return nil, err
	}
	return user, l.Users.Post.Send(ctx, l.letter(mail.Reset, email, user, made, languages))
}

// OpenedLink is a genuine link that can be used now.
type OpenedLink struct {
	signin.Link
	// User is the user.
	User *store.User
	// Owner is what passwords.Validate needs to know.
	Owner passwords.Owner
}

// Open opens the text of a link. It changes nothing. The error is one of signin.Seals.OpenLink, or signin.ErrLinkSpent.
func (l *Links) Open(ctx context.Context, sealed oauth.Secret) (OpenedLink, error) {
	link, err := l.Seals.OpenLink(sealed)
	if err != nil {
		return OpenedLink{}, err
	}
	opened := OpenedLink{Link: link, Owner: passwords.Owner{Email: link.Email}}
	opened.User, err = l.Users.User(ctx, link.UserID)
	switch {
	case errors.Is(err, store.ErrNotFound), err == nil && (!link.IsFor(opened.User) || checkOwner(opened.User) != nil):
		return OpenedLink{}, signin.ErrLinkSpent
	case err != nil:
		return OpenedLink{}, err
	}
	if link.Purpose != signin.RecoveryLink { // which removes the factors
		opened.Owner, err = ownerOf(ctx, l.Users.Families, opened.User)
	}
	return opened, err
}

// SetPassword uses a link to set the password of its user, whom it returns. It ends every token and session of the user. The error is a
// passwords.Refusal, signin.ErrLinkSpent, or temporarily_unavailable. address is where the request comes from.
func (l *Links) SetPassword(ctx context.Context, opened OpenedLink, password oauth.Secret, address string) (*store.User, error) {
	change := store.UserChange{NewHolder: true, RemoveFactors: opened.Purpose == signin.RecoveryLink, Edit: func(u *store.User) error {
		if !opened.IsFor(u) {
			return signin.ErrLinkSpent
		}
		if opened.Mailed && !u.EmailVerified() {
			u.EmailVerifiedBy = store.VerifiedByMail
		}
		return nil
	}}
	return l.replacePassword(ctx, opened.Owner, opened.UserID, password, address, change)
}

// replacePassword sets a password within a change of its owner, tells the owner, and returns the user after it.
func (l *Links) replacePassword(ctx context.Context, owner passwords.Owner, id string, password oauth.Secret, address string, change store.UserChange) (*store.User, error) {
	hash, err := l.hash(ctx, owner, password, address)
	if err != nil {
		return nil, err
	}
	var before store.User
	edit := change.Edit
	change.Edit = func(u *store.User) error {
		if err := edit(u); err != nil {
			return err
		}
		before = *u
		u.PasswordHash = hash
		return nil
	}
	factors, err := l.Users.Families.Store.Factors(ctx, id)
	if err != nil {
		return nil, err
	}
	err = l.Users.endUser(ctx, id, func(end store.Ending) ([]store.Revocation, error) {
		return l.Users.Stored.ChangeUser(ctx, id, change, end)
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil, signin.ErrLinkSpent
	}
	if err != nil {
		return nil, err
	}
	if !before.PasswordHash.IsEmpty() { // otherwise it is the first one
		l.Users.Post.Notify(ctx, &before, mail.PasswordChanged, "")
	}
	if change.RemoveFactors && slices.ContainsFunc(factors, func(f *store.Factor) bool { return f.IsOf(&before) }) {
		l.Users.Post.Notify(ctx, &before, mail.FactorRemoved, "")
	}
	return l.Users.User(ctx, id)
}

// hash returns the hash of a new password. The caller has proved to be its owner, and waits for a slot as in a known browser.
func (l *Links) hash(ctx context.Context, owner passwords.Owner, password oauth.Secret, address string) (oauth.Secret, error) {
	if err := passwords.Validate(password, owner); err != nil {
		return oauth.Secret{}, err
	}
	leave, err := l.Users.Hasher.Enter(ctx, passwords.Attempt{Account: owner.Email, Address: address, Known: true})
	if err != nil {
		return oauth.Secret{}, err
	}
	defer leave()
	return passwords.Hash(password), nil
}

// ChangePassword sets the password of a user who has proved to be its owner. It ends every token and session of the user. The error is a
// passwords.Refusal, families.ErrSessionEnded if the user has changed meanwhile, or temporarily_unavailable.
func (l *Links) ChangePassword(ctx context.Context, user *store.User, password oauth.Secret, address string) (*store.User, error) {
	if user.Declared {
		return nil, store.ErrDeclared
	}
	owner, err := ownerOf(ctx, l.Users.Families, user)
	if err != nil {
		return nil, err
	}
	change := store.UserChange{Edit: func(u *store.User) error {
		if u.Version != user.Version {
			return families.ErrSessionEnded
		}
		return nil
	}}
	return l.replacePassword(ctx, owner, user.ID, password, address, change)
}

// OwnerOf returns what passwords.Validate needs to know of a user.
func (l *Links) OwnerOf(ctx context.Context, user *store.User) (passwords.Owner, error) {
	return ownerOf(ctx, l.Users.Families, user)
}

// CheckNewEmail returns the canonical form of an address that a user could have, or an error.
func CheckNewEmail(address string) (string, error) {
	email, err := store.CanonicalEmail(address)
	switch {
	case err != nil:
		return "", err
	case store.IsReservedEmail(email):
		return "", errors.New("no mail is sent to this address")
	}
	return email, mail.CheckAddress(email)
}

// AskAddress mails a link to a new address of a user, unless another user has it. It reports whether it did.
func (l *Links) AskAddress(ctx context.Context, user *store.User, email, languages string) (bool, error) {
	_, err := l.Users.Families.Directory.UserByEmail(ctx, email)
	if !errors.Is(err, store.ErrNotFound) {
		return false, err
	}
	link := signin.NewLink(signin.AddressLink, user)
	link.NewEmail, link.Mailed = email, true
	made, err := l.make(link)
	if err != nil {
		return false, err
	}
	letter := l.letter(mail.AddressConfirm, email, user, made, languages)
	letter.Name = "" // a user can write anything there, and anything as the address
	return true, l.Users.Post.Send(ctx, letter)
}

// ErrAddressTaken is the error for a link of an address that another user has got meanwhile.
var ErrAddressTaken = oauth.NewError(oauth.InvalidRequest, "link_address_taken")

// ChangeAddress uses a link to change the address of its user, and tells the former address. Sessions go on. The error is ErrAddressTaken,
// signin.ErrLinkSpent, or temporarily_unavailable. The caller has checked that the user is signed in: a link that was mailed to a wrong
// address is worth nothing to whoever reads it.
func (l *Links) ChangeAddress(ctx context.Context, opened OpenedLink) error {
	if l.Users.Declared.LookupUserByEmail(opened.NewEmail) != nil {
		return ErrAddressTaken
	}
	change := store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error {
		if !opened.IsFor(u) {
			return signin.ErrLinkSpent
		}
		u.SetEmail(opened.NewEmail)
		u.EmailVerifiedBy = store.VerifiedByMail
		return nil
	}}
	err := l.Users.endUser(ctx, opened.UserID, func(end store.Ending) ([]store.Revocation, error) {
		return l.Users.Stored.ChangeUser(ctx, opened.UserID, change, end)
	})
	l.Users.Usernames.Forget(opened.UserID)
	switch {
	case errors.Is(err, store.ErrTaken):
		return ErrAddressTaken
	case errors.Is(err, store.ErrNotFound):
		return signin.ErrLinkSpent
	case err != nil:
		return err
	}
	l.Users.Post.Notify(ctx, opened.User, mail.AddressChanged, opened.NewEmail)
	return nil
}

// ChangeProfile changes what a user may say about themselves: the name, and of the profile the names and the language.
func (l *Links) ChangeProfile(ctx context.Context, user *store.User, name string, profile store.Profile) error {
	return l.Users.UpdateUser(ctx, user.ID, store.UserChange{KeepsTokens: true, Edit: func(u *store.User) error {
		after := store.Profile{}
		if u.Profile != nil {
			after = *u.Profile
		}
		after.GivenName, after.FamilyName, after.Locale = profile.GivenName, profile.FamilyName, profile.Locale
		u.Name, u.Profile = cmp.Or(name, u.Email), &after
		return nil
	}})
}
