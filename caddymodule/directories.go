package caddymodule

import (
	"fmt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// peopleDirectory is a directory of people, shared by all configurations with the same settings of it: its connections, and how it went
// lately, outlive a reload.
type peopleDirectory struct {
	configuration.ProviderSettings
	people *ldap.Directory
}

// directories are the directories of people, by all of their settings.
var directories = pool.New((*ldap.Directory).Close)

// provisionDirectory takes a directory from the pool, or makes it. It connects to nobody.
func (a *App) provisionDirectory(settings configuration.ProviderSettings) error {
	use, err := directories.Take(directoryKey(settings.LDAP), func() (*ldap.Directory, error) {
		s := *settings.LDAP
		s.Now, s.Warn = node.Clock, warnOf("provider", settings.Name)
		return ldap.New(s)
	})
	if err != nil {
		return setting.At(fmt.Errorf("provider %s: %w", settings.Name, err), a.Sources["provider "+settings.Name])
	}
	a.uses = append(a.uses, use)
	a.directories = append(a.directories, &peopleDirectory{settings, use.Value})
	return nil
}

// directoryKey is the name of a directory in the pool: all of its settings.
func directoryKey(s *ldap.Settings) string {
	password, rest := s.BindPassword.Reveal(), *s
	rest.BindPassword = oauth.Secret{}
	return fmt.Sprintf("%#v", []any{"ldap", password, fmt.Sprintf("%#v", rest)})
}

// passwordDirectories are those that our own issuer asks, in the order of the configuration.
func (a *App) passwordDirectories() (list []signin.PasswordDirectory) {
	for _, d := range a.directories {
		list = append(list, &federation.Directory{Name: d.Name, People: d.people, Accounts: a.accounts(), Rules: d.Rules})
	}
	return list
}

// target is what operators can ask about a directory.
func (d *peopleDirectory) target() admin.IdentityProvider {
	return admin.IdentityProvider{
		Name: d.Name, Kind: d.Kind(), Title: d.Title, URL: d.URL(), State: d.people.State, Test: d.people.Test,
	}
}
