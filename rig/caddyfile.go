//go:build linux

package rig

import (
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Setup configures a node. The zero value works.
type Setup struct {
	// Store follows `store` in the Caddyfile, such as `postgres {env.DSN}`; empty: SQLite in the node's directory.
	Store string
	// Issuer is the issuer URL that clients use, such as a Balancer's; empty: the node's own.
	Issuer string
	// Upstream is the host:port behind the gate, with further arguments of reverse_proxy; empty: the node answers with 200 and "ok".
	Upstream string
	// Global, OAuth and Site are further lines of the global options, of the oauth block and of the site.
	Global, OAuth, Site string
	// Limits are the lines of the limits block; empty: there are no limits.
	Limits string
	// Environment is added to the node's environment, in the form NAME=VALUE.
	Environment []string
}

// The clients of every node. Server is confidential and acts for itself. Portal is confidential, acts for people, and asks for their
// consent. Console is like Portal without consent. Device is public. Secret returns their secrets.
const (
	Server  = "server"
	Portal  = "portal"
	Console = "console"
	Device  = "device"
)

// Secret is the secret of a client.
func Secret(client string) string { return client + "-9f86d081884c7d659a2feaa0c55ad015a3bf4f1b" }

// Callback is the redirect URI of every client that has one.
const Callback = "https://application.example/callback"

// Password is every person's password.
const Password = "correct horse battery staple"

// The people of every node, by id. Email returns their addresses. Ada is an admin of the organisation acme, Grace one of its group
// managers and Ben one of its business managers.
const (
	Ada   = "u-ada"
	Grace = "u-grace"
	Ben   = "u-ben"
)

// Email returns a person's address.
func Email(user string) string { return strings.TrimPrefix(user, "u-") + "@acme.example" }

// passwordHash is a cheap hash of Password, because a rig signs in often.
var passwordHash = sync.OnceValue(func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte(Password), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(hash)
})

// configuration returns the node's Caddyfile. The site answers to any host name: its own, or a balancer's.
func (n *Node) configuration() string {
	store, upstream, limits := n.setup.Store, `respond ok 200`, "client off\n\t\t\tlogin off\n\t\t\tgrants off\n\t\t\trevocations off"
	if store == "" {
		store = "sqlite " + n.Dir + "/gatehouse.db"
	}
	if n.setup.Upstream != "" {
		upstream = "reverse_proxy " + n.setup.Upstream
	}
	if n.setup.Limits != "" {
		limits = n.setup.Limits
	}
	_, port, _ := strings.Cut(n.Addr, ":")
	return strings.NewReplacer("ADMIN", n.Admin, "ISSUER", n.Issuer, "STORE", store, "PORT", port, "WEB", WebOf(n.Issuer), "UPSTREAM", upstream,
		"GLOBAL", n.setup.Global, "LIMITS", limits, "OAUTH", n.setup.OAuth, "SITE", n.setup.Site, "CALLBACK", Callback, "-SECRET", Secret(""), "HASH", passwordHash(),
	).Replace(caddyfile)
}

const caddyfile = `{
	admin ADMIN
	persist_config off
	log {
		output stderr
		format json
		level DEBUG
	}
	GLOBAL
	oauth {
		issuer ISSUER
		store STORE
		tokens {
			refresh_grace 5m
			code 5m
		}
		limits {
			LIMITS
		}
		client server server-SECRET {
			grants client_credentials
			scopes public
		}
		client portal portal-SECRET {
			grants authorization_code refresh_token
			scopes public trusted refresh_token
			redirect_uris CALLBACK
		}
		client console console-SECRET {
			grants authorization_code refresh_token
			scopes public trusted refresh_token
			redirect_uris CALLBACK
			first_party
		}
		client device {
			type public
			grants authorization_code refresh_token
			scopes public trusted refresh_token
			redirect_uris CALLBACK
		}
		organisation acme "Acme Ltd"
		user u-ada {
			email ada@acme.example
			password HASH
			organisation acme
			role admin
		}
		user u-grace {
			email grace@acme.example
			password HASH
			organisation acme
			role group_manager
		}
		user u-ben {
			email ben@acme.example
			password HASH
			organisation acme
			role business_manager
		}
		OAUTH
	}
}

http://:PORT {
	bind 127.0.0.1
	oauth_server {
		ready
	}
	handle /api/* {
		protect
		UPSTREAM
	}
	handle /web/* {
		protect {
			challenge browser
			resource WEB
		}
		UPSTREAM
	}
	SITE
	handle {
		respond 404
	}
}
`
