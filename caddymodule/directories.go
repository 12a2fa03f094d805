package caddymodule

import (
	"fmt"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/federation"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// peopleDirectory is a directory of people, shared by all configurations with the same settings of it: its connections, and how it went
// lately, outlive a reload.
type peopleDirectory struct {
	configuration.ProviderSettings
	key    string
	pooled *pooledDirectory
}

type pooledDirectory struct{ *ldap.Directory }

// Destruct closes the connections once no configuration uses the directory any more.
func (p *pooledDirectory) Destruct() error { return p.Close() }

// provisionDirectory takes a directory from the pool, or makes it. It connects to nobody.
func (a *App) provisionDirectory(settings configuration.ProviderSettings) error {
	d := &peopleDirectory{ProviderSettings: settings, key: directoryKey(settings.LDAP)}
	value, _, err := providers.LoadOrNew(d.key, func() (caddy.Destructor, error) {
		s := *settings.LDAP
		s.Now, s.Warn = node.Clock, warnOf("provider", settings.Name)
		made, err := ldap.New(s)
		if err != nil {
			return nil, err
		}
		return &pooledDirectory{made}, nil
	})
	if err != nil {
		return setting.At(fmt.Errorf("provider %s: %w", d.Name, err), a.Sources["provider "+d.Name])
	}
	d.pooled = value.(*pooledDirectory)
	a.directories = append(a.directories, d)
	return nil
}

// directoryKey is the name of a directory in the pool: all of its settings.
func directoryKey(s *ldap.Settings) string {
	password, rest := s.BindPassword.Reveal(), *s
	rest.BindPassword = oauth.Secret{}
	return fmt.Sprintf("%#v", []any{"ldap", password, fmt.Sprintf("%#v", rest)})
}

// passwordDirectories are those that our own issuer asks, in the order of the configuration.
func (a *App) passwordDirectories() (list []tokenissuer.PasswordDirectory) {
	for _, d := range a.directories {
		list = append(list, &federation.Directory{Name: d.Name, People: d.pooled, Accounts: a.accounts(), Rules: d.Rules})
	}
	return list
}

// target is what operators can ask about a directory.
func (d *peopleDirectory) target() admin.IdentityProvider {
	return admin.IdentityProvider{
		Name: d.Name, Kind: d.Kind(), Title: d.Title, URL: d.URL(), State: d.pooled.State, Test: d.pooled.Test,
	}
}
