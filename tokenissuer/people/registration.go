package people

import (
	"context"
	"errors"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// RegistrationRule says which people may make an account, and what they get.
type RegistrationRule struct {
	// Domains are the domains of their addresses, in the form of signin.CanonicalDomain. If it is empty, any address will do.
	Domains []string
	// Creation and Groups are the organisation, role and groups of the users.
	signin.Creation
	Groups []string
}

// Registration lets people make their own accounts, with a link that proves their address. Nothing is stored before the link is used. The
// link has the id of the user to be, so it can be used once: a second use finds that the id is taken.
type Registration struct {
	// Links make the links. Their Page opens them.
	Links *Links
	// Rules are tried in their order, those with domains first.
	Rules []RegistrationRule
}

// ruleFor returns the rule for a canonical address, or nil if there is none.
func (g *Registration) ruleFor(email string) *RegistrationRule {
	var found *RegistrationRule
	for i := range g.Rules {
		switch rule := &g.Rules[i]; {
		case slices.Contains(rule.Domains, signin.DomainOf(email)):
			return rule
		case len(rule.Domains) == 0 && found == nil:
			found = rule
		}
	}
	return found
}

// Admits reports whether a person with a canonical address may make an account. It does not reveal whether there is one.
func (g *Registration) Admits(email string) bool { return g.ruleFor(email) != nil }

// RegistrationLetter is a letter to a person who has asked for an account.
type RegistrationLetter struct {
	Kind mail.Kind
	// UserID is the user with the address, or the user to be.
	UserID string
}

// Ask mails a link to a person with a canonical address, or a letter that says how to sign in if there is a user with it. pending is what
// follows in the browser.
func (g *Registration) Ask(ctx context.Context, email, languages string, pending, browser oauth.Secret) (RegistrationLetter, error) {
	user, err := g.Links.Users.Families.Directory.UserByEmail(ctx, email)
	if err == nil {
		sent := RegistrationLetter{Kind: mail.AccountExists, UserID: user.ID}
		if user.External && user.PasswordHash.IsEmpty() {
			sent.Kind = mail.AccountElsewhere
		}
		return sent, g.Links.Users.Post.Send(ctx, g.Links.letter(sent.Kind, email, user, MadeLink{}, languages))
	}
	if !errors.Is(err, store.ErrNotFound) {
		return RegistrationLetter{}, err
	}
	link := signin.NewRegistration(email, pending, browser)
	made, err := g.Links.make(link)
	if err != nil {
		return RegistrationLetter{}, err
	}
	sent := RegistrationLetter{Kind: mail.Registration, UserID: link.UserID}
	return sent, g.Links.Users.Post.Send(ctx, g.Links.letter(sent.Kind, email, nil, made, languages))
}

// ErrRegistrationClosed is the error for a link to an address whose owners may not make an account any more.
var ErrRegistrationClosed = oauth.NewError(oauth.InvalidRequest, "registration_closed")

// errRegistrationFailed: the organisation or the role of a rule does not exist any more.
var errRegistrationFailed = oauth.NewError(oauth.ServerError, "registration_failed")

// Open opens the text of a link. It changes nothing. The error is one of signin.Seals.OpenLink, ErrRegistrationClosed, signin.ErrLinkSpent if
// the link was used, or ErrAddressTaken.
func (g *Registration) Open(ctx context.Context, sealed oauth.Secret) (signin.Link, error) {
	link, err := g.Links.Seals.OpenLink(sealed)
	switch {
	case err != nil:
		return signin.Link{}, err
	case link.Purpose != signin.RegistrationLink:
		return signin.Link{}, keys.ErrUnwrapped
	case !g.Admits(link.Email):
		return signin.Link{}, ErrRegistrationClosed
	}
	return link, g.checkFree(ctx, link)
}

// checkFree returns an error if there is a user with the id or the address of a link.
func (g *Registration) checkFree(ctx context.Context, link signin.Link) error {
	_, err := g.Links.Users.User(ctx, link.UserID)
	if err == nil {
		return signin.ErrLinkSpent
	}
	if errors.Is(err, store.ErrNotFound) {
		_, err = g.Links.Users.Families.Directory.UserByEmail(ctx, link.Email)
	}
	switch {
	case err == nil:
		return ErrAddressTaken
	case errors.Is(err, store.ErrNotFound):
		return nil
	}
	return err
}

// ErrNameUnfit is the error for a name that a user cannot have.
var ErrNameUnfit = oauth.NewError(oauth.InvalidRequest, "name_unfit")

// Register uses a link to add a user, whom it returns. Without a name, the user is called by the address. The error is ErrNameUnfit, a
// passwords.Refusal, one of Open, or temporarily_unavailable. address is where the request comes from.
func (g *Registration) Register(ctx context.Context, link signin.Link, name string, password oauth.Secret, address string) (*store.User, error) {
	rule, users := g.ruleFor(link.Email), g.Links.Users
	if rule == nil {
		return nil, ErrRegistrationClosed
	}
	user := store.User{
		ID: link.UserID, Email: link.Email, Name: name, EmailVerifiedBy: store.VerifiedByMail, Organisation: rule.Organisation, Role: rule.Role,
		Groups: rule.Groups, Status: store.UserActive,
	}
	if user.Validate() != nil { // everything else was checked before
		return nil, ErrNameUnfit
	}
	var err error
	if user.PasswordHash, err = g.Links.hash(ctx, passwords.Owner{Email: link.Email}, password, address); err != nil {
		return nil, err
	}
	_, err = users.AddUser(ctx, user, oauth.Secret{})
	switch {
	case errors.Is(err, store.ErrTaken): // meanwhile, by this link or by another
		if err := g.checkFree(ctx, link); err != nil {
			return nil, err
		}
		return nil, signin.ErrLinkSpent // its user was removed
	case store.IsInvalidInput(err):
		return nil, errRegistrationFailed.WithCause(err)
	case err != nil:
		return nil, err
	}
	return users.User(ctx, user.ID) // with its version
}
