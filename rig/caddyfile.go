//go:build linux

package rig

import (
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"
)

// Setup is what a node may be told. The zero value works.
type Setup struct {
	// Store stands behind `store` in the Caddyfile, such as `postgres {env.DSN}`; empty: SQLite in the node's directory.
	Store string
	// Issuer is the URL under which clients know the issuer, such as a Balancer's; empty: the node's own.
	Issuer string
	// Upstream is the host:port behind the gate, with what else reverse_proxy is to be told; empty: the node answers for it
	// with 200 and "ok".
	Upstream string
	// Global, OAuth and Site are further lines of the global options, of the oauth block and of the site.
	Global, OAuth, Site string
	// Limits are the lines of the limits block; empty: nothing is limited.
	Limits string
	// Environment is added to the node's, NAME=VALUE.
	Environment []string
}

// The clients that every node has. Server is confidential and acts for itself; Portal is confidential, acts for people, and
// asks for their consent; Console is Portal without asking; Device is public. Their secrets are Secret's.
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

// Password is the password of everybody.
const Password = "correct horse battery staple"

// The people that every node has, by id; the address is Email's. Ada is an admin of the organisation acme, Grace one of its
// group managers and Ben one of its business managers.
const (
	Ada   = "u-ada"
	Grace = "u-grace"
	Ben   = "u-ben"
)

// Email is the address of one of them.
func Email(user string) string { return strings.TrimPrefix(user, "u-") + "@acme.example" }

// passwordHash is a hash of Password that costs next to nothing: a rig signs in often, and is not about that.
var passwordHash = sync.OnceValue(func() string {
	hash, err := bcrypt.GenerateFromPassword([]byte(Password), bcrypt.MinCost)
	if err != nil {
		panic(err)
	}
	return string(hash)
})

// configuration is the node's Caddyfile. The site answers under whatever name it is called by: its own, or a balancer's.
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
