package caddymodule

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// peopleDirectory is an LDAP directory whose people sign in with their passwords there.
type peopleDirectory struct {
	configuration.ProviderSettings
	people *ldap.Directory
}

// directories holds the connections to directories, and the results of the last sign-ins.
var directories = pool.New((*ldap.Directory).Close)

func (o *others) takeDirectory(settings configuration.ProviderSettings, sources configuration.Sources, u *uses) error {
	use, err := directories.Take(directoryKey(settings.LDAP), func() (*ldap.Directory, error) {
		s := *settings.LDAP
		s.Now, s.Warn = node.Clock, warnOf("provider", settings.Name)
		return ldap.New(s)
	})
	if err != nil {
		return sources.At(fmt.Errorf("provider %s: %w", settings.Name, err), "provider", settings.Name)
	}
	o.directories = append(o.directories, &peopleDirectory{settings, keep(u, use)})
	return nil
}

// directoryKey is the key of a directory in the pool: all of its settings.
func directoryKey(s *ldap.Settings) string {
	password, rest := s.BindPassword.Reveal(), *s
	rest.BindPassword = oauth.Secret{}
	return fmt.Sprintf("%#v", []any{"ldap", password, fmt.Sprintf("%#v", rest)})
}

// passwordDirectories returns the directories that our own issuer asks, in the order of the configuration.
func (o *others) passwordDirectories(accounts signin.Accounts) (list []signin.PasswordDirectory) {
	for _, d := range o.directories {
		list = append(list, &signin.Directory{Name: d.Name, People: d.people, Accounts: accounts, Rules: d.Rules})
	}
	return list
}

// target returns the directory for operators.
func (d *peopleDirectory) target() admin.IdentityProvider {
	return admin.IdentityProvider{
		Name: d.Name, Kind: d.Kind(), Title: d.Title, URL: d.URL(), State: d.people.State, Test: d.people.Test,
	}
}
