package configuration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
)

// SignIn says where people sign in. Without it they do so with a password that is kept here.
type SignIn struct {
	// Password lets people sign in with a password that is kept here. Default: if a declared user has one.
	Password bool `json:"password,omitempty"`
	// Providers are others at whom people sign in, in the order in which the sign-in page offers them.
	Providers []Provider `json:"providers,omitempty"`
}

// parseSignIn reads where people sign in. Several blocks add up.
//
//	sign_in {
//		password
//		provider <name> <issuer> [default] { … }
//		github   <name> [<url>] [default] { … }
//		ldap     <name> <url> { … }
//	}
func (b *Block) parseSignIn(d *caddyfile.Dispenser) error {
	b.note(d, "sign_in")
	s := orNew(&b.SignIn)
	known := options{"password": flag(&s.Password)}
	for word, kind := range providerKinds {
		known[word] = func(d *caddyfile.Dispenser) error { return b.parseProvider(d, kind) }
	}
	return known.parseAlone(d, "unknown sign_in option %q")
}

// SignInSettings are where people sign in, as it was read.
type SignInSettings struct {
	// Password reports whether people can sign in with a password: with one that is kept here or, if DirectoriesAlone, with that of a
	// directory and no other.
	Password, DirectoriesAlone bool
	// Providers are others at whom people can sign in.
	Providers []ProviderSettings
}

// readSignIn reads where people sign in. It follows readDirectory, which knows who has a password.
func (b *Block) readSignIn(s *Settings) error {
	if b.SignIn == nil {
		s.SignIn.Password = true
		return nil
	}
	s.SignIn.Password = b.SignIn.Password || b.hasPasswords()
	for _, c := range b.SignIn.Providers {
		p, err := c.read(setting.Resolve)
		if err == nil {
			err = s.SignIn.fits(p)
		}
		if err == nil {
			err = b.checkCreation(s, c.Create)
		}
		if err != nil {
			return b.at(fmt.Errorf("provider %s: %w", c.Name, err), "provider", c.Name)
		}
		s.SignIn.Providers = append(s.SignIn.Providers, p)
		if p.LDAP != nil && !s.SignIn.Password { // whose passwords are typed into the same form
			s.SignIn.Password, s.SignIn.DirectoriesAlone = true, true
		}
	}
	if !s.SignIn.Password { // neither on the page nor at the token endpoint
		s.PasswordGrant = nil
	}
	if !s.SignIn.Password && len(s.SignIn.Providers) == 0 {
		return b.at(errors.New("nobody could sign in: add `password`, `provider`, `github` or `ldap` to sign_in"), "sign_in")
	}
	return nil
}

// fits refuses a provider that the ones before it leave no room for.
func (s *SignInSettings) fits(p ProviderSettings) error {
	for _, other := range s.Providers {
		switch {
		case other.Name == p.Name:
			return errors.New("it is there twice")
		case other.Default && p.Default:
			return fmt.Errorf("provider %s is the default already: only one can be", other.Name)
		}
		for _, domain := range p.Domains {
			if slices.Contains(other.Domains, domain) {
				return fmt.Errorf("provider %s has the domain %s already", other.Name, domain)
			}
		}
	}
	return nil
}

// checkCreation refuses a role that is not known. An organisation that is not declared may be in the store, where Start looks.
func (b *Block) checkCreation(s *Settings, c *Creation) error {
	if c == nil || c.Role == "" {
		return nil
	}
	return s.Roles.Check(c.role())
}

// hasPasswords reports whether a declared user has a password.
func (b *Block) hasPasswords() bool {
	return slices.ContainsFunc(b.Users, func(u User) bool { return u.PasswordHash != "" })
}

// hasProvider reports whether some provider vouches for people.
func (b *Block) hasProvider() bool { return b.SignIn != nil && len(b.SignIn.Providers) > 0 }

// hasDirectory reports whether some provider is a directory, to which passwords are sent.
func (b *Block) hasDirectory() bool {
	return b.SignIn != nil && slices.ContainsFunc(b.SignIn.Providers, func(p Provider) bool { return p.Kind == kindLDAP })
}

// warnOfProviders says which providers let in nobody new, or anybody, and that a grant is off that sign_in leaves no passwords for.
func (b *Block) warnOfProviders(logger *zap.Logger, s Settings) {
	if b.PasswordGrant != nil && s.PasswordGrant == nil {
		logger.Warn(b.before("password_grant is off, because nobody signs in with a password: add `password` to sign_in, or take password_grant away", "sign_in"))
	}
	for _, p := range s.SignIn.Providers {
		if warning := p.warning(); warning != "" {
			logger.Warn(b.before("provider "+p.Name+" "+warning, "provider", p.Name))
		}
	}
}
