package configuration

import (
	"errors"
	"fmt"
	"slices"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
)

// SignIn lists the ways to sign in. Without it people sign in with a password of ours.
type SignIn struct {
	// Password lets people sign in with a password of ours. Default: on if a declared user has a password.
	Password bool `json:"password,omitempty"`
	// DevisePepper is the pepper with which Devise hashed the passwords that were imported. Placeholders are replaced.
	DevisePepper string `json:"devise_pepper,omitempty"`
	// Providers are identity providers and directories, in the order of the sign-in page.
	Providers []Provider `json:"providers,omitempty"`
}

// parseSignIn reads a block. Several blocks add up.
//
//	sign_in {
//		password
//		devise_pepper <pepper>
//		provider <name> <issuer> [default] { … }
//		github   <name> [<url>] [default] { … }
//		ldap     <name> <url> { … }
//	}
func parseSignIn(d *caddyfile.Dispenser, signIn **SignIn, at *Sources) error {
	at.note(d, "sign_in")
	s := orNew(signIn)
	known := options{"password": flag(&s.Password), "devise_pepper": func(d *caddyfile.Dispenser) error {
		if err := setting.Text(d, &s.DevisePepper); err != nil {
			return err
		}
		return checkReference(d, "sign_in", "devise_pepper", s.DevisePepper, 1)
	}}
	for word, kind := range providerKinds {
		known[word] = func(d *caddyfile.Dispenser) error { return s.parseProvider(d, kind, at) }
	}
	return known.parseAlone(d, "unknown sign_in option %q")
}

// SignInSettings are the values of SignIn.
type SignInSettings struct {
	// Password reports whether people can sign in with a password. If DirectoriesAlone, that is only the password of a directory.
	Password, DirectoriesAlone bool
	// DevisePepper belongs to the hashes of Devise.
	DevisePepper oauth.Secret
	// Providers are identity providers and directories.
	Providers []ProviderSettings
	// Registration are the rules by which people make accounts; empty: they cannot.
	Registration []people.RegistrationRule
	// Only reports that there is no issuer for applications: people sign in at providers and get sessions at the hosts they visit.
	Only bool
}

// read reads the ways to sign in. Users are the declared ones.
func (c *SignIn) read(users []User, s *Settings, at *Sources) error {
	if c == nil {
		s.SignIn.Password = true
		return nil
	}
	s.SignIn.Password = c.Password || havePasswords(users)
	if c.DevisePepper != "" {
		pepper, err := setting.Resolve("devise_pepper", c.DevisePepper)
		if err != nil {
			return at.At(err, "sign_in")
		}
		s.SignIn.DevisePepper = oauth.NewSecret(pepper)
	}
	for _, c := range c.Providers {
		p, err := c.read(setting.Resolve)
		if err == nil {
			err = s.SignIn.fits(p)
		}
		if err == nil {
			err = c.Create.check(s.Issuer.Roles)
		}
		if err != nil {
			return at.At(fmt.Errorf("provider %s: %w", c.Name, err), "provider", c.Name)
		}
		s.SignIn.Providers = append(s.SignIn.Providers, p)
		if p.LDAP != nil && !s.SignIn.Password { // whose passwords are typed into the same form
			s.SignIn.Password, s.SignIn.DirectoriesAlone = true, true
		}
	}
	if !s.SignIn.Password { // neither on the page nor at the token endpoint
		s.Issuer.PasswordGrant = nil
	}
	if !s.SignIn.Password && len(s.SignIn.Providers) == 0 {
		return at.At(errors.New("nobody could sign in: add `password`, `provider`, `github` or `ldap` to sign_in"), "sign_in")
	}
	return nil
}

// fits refuses a provider that contradicts an earlier one.
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

// havePasswords reports whether one of the users has a password.
func havePasswords(users []User) bool {
	return slices.ContainsFunc(users, func(u User) bool { return u.PasswordHash != "" })
}

// hasProvider reports whether people sign in at a provider. It accepts nil.
func (c *SignIn) hasProvider() bool { return c != nil && len(c.Providers) > 0 }

// hasDirectory reports whether one of the providers is a directory.
func (c *SignIn) hasDirectory() bool {
	return slices.ContainsFunc(c.Providers, func(p Provider) bool { return p.Kind == kindLDAP })
}

// warn logs warnings about providers that admit no new people, or too many.
func (s *SignInSettings) warn(logger *zap.Logger, at *Sources) {
	for _, p := range s.Providers {
		if warning := p.warning(); warning != "" {
			logger.Warn(at.before("provider "+p.Name+" "+warning, "provider", p.Name))
		}
	}
}
