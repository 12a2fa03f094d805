package main

import "text/template"

const (
	clientID     = "bench"
	clientSecret = "2f8c0d3e9a7b4c61850f1d2e3c4b5a69788796a5b4c3d2e1"
	// portalID is the client that people sign in to. It has the same secret as the other client.
	portalID = "portal"
	callback = "https://portal.example/callback"

	// userEmail signs in with a slow hash, as new passwords have. The other user signs in at almost no cost, for
	// measurements of what follows the sign-in.
	userEmail    = "ada@acme.example"
	quickEmail   = "ben@acme.example"
	userPassword = "correct-horse-battery-staple"
	// tokenAnswerBytes is the approximate length of a client_credentials response.
	tokenAnswerBytes = 560
	// userHash is the argon2id hash of userPassword with the costs of new hashes: 19 MiB, 2 passes.
	userHash = "$argon2id$v=19$m=19456,t=2,p=1$yXa/aZkhUX8piebebAAWpQ$HznGJ7IpMFKJ97enetQiFCNU3xnfnVJQbbPZM8/VJRQ"
	// quickHash is its bcrypt hash at the lowest cost.
	quickHash = "$2a$04$fgyFlIOX/WCyQpCepdOONuqup5nP5HmM9JeH9Ih2gnH2l5HsJnjhW"
)

// words are the parameters of the Caddyfile templates below.
type words struct {
	sites
	Upstream               string
	IssuerURL              string
	Store, Algorithm       string
	OpenID, Personal       bool
	Client, Portal, Secret string
	Callback               string
	Email, Hash            string
	QuickEmail, QuickHash  string
	Trusted                []string // other issuers; ProtectedExternal accepts the first
	ExternalAudience       string
	TokenAnswer            string
}

// sites are the addresses of one server. Each thing that is compared has a site on its own port.
type sites struct {
	Admin                                        string
	Bare                                         string // reverse_proxy
	Told                                         string // reverse_proxy that sends the upstream the headers that protect sends
	Respond, SameAnswer                          string // respond 401; the last has every header of our refusal
	Answer                                       string // respond 200 with as many bytes as a token response
	Issuer, Protected, Silent, ProtectedExternal string // ours alone
	Mixed                                        string // ours alone: the issuer and a gate for the tokens of all issuers
	Web                                          string // ours alone: a gate at which browsers sign in
	Posted, MCP, Tools                           string // ours alone: a gate for tokens of one resource, as an MCP server, and with rules for its tools
}

// bareSites are part of both sides of a comparison.
const bareSites = `
http://{{.Bare}} {
	bind 127.0.0.1
	reverse_proxy {{.Upstream}}
}
http://{{.Told}} {
	bind 127.0.0.1
	request_header X-Auth-Subject {{.Client}}
	request_header X-Auth-Client {{.Client}}
	request_header X-Auth-Scope public
	reverse_proxy {{.Upstream}}
}
http://{{.Respond}} {
	bind 127.0.0.1
	respond 401
}
http://{{.Answer}} {
	bind 127.0.0.1
	header {
		Content-Type application/json
		Cache-Control no-store
		Pragma no-cache
	}
	respond "{{.TokenAnswer}}" 200
}
http://{{.SameAnswer}} {
	bind 127.0.0.1
	header {
		Content-Type "application/json; charset=utf-8"
		Cache-Control no-store
		Pragma no-cache
		Vary Accept
		WWW-Authenticate "Bearer realm=\"http://{{.Respond}}\", error=\"invalid_token\", error_description=\"The access token is invalid\", resource_metadata=\"http://{{.Respond}}/.well-known/oauth-protected-resource\""
	}
	respond "{\"error\":\"invalid_token\",\"error_description\":\"The access token is invalid\"}" 401
}
`

// bareCaddyfile configures a Caddy without Gatehouse.
var bareCaddyfile = template.Must(template.New("bare").Parse(`{
	admin {{.Admin}}
	persist_config off
	auto_https off
	grace_period 1s
}
` + bareSites))

// oursCaddyfile configures a Caddy with Gatehouse. It leaves everything else at the defaults, because that is what
// people run. There are two exceptions. The log goes to a file. The token is forwarded to the upstream, as the bare
// Caddy does; by default protect removes it, and ours would send half a kilobyte less.
var oursCaddyfile = template.Must(template.New("ours").Parse(`{
	admin {{.Admin}}
	persist_config off
	auto_https off
	grace_period 1s
	oauth {
		issuer {{.IssuerURL}}
		{{with .Store}}store {{.}}{{end}}
		keys {
			algorithm {{.Algorithm}}
		}
		tokens {
			code 10m
		}
		{{if .OpenID}}openid{{end}}
		{{if .Personal}}personal_tokens {
			scopes public
		}{{end}}
		client {{.Client}} {{.Secret}} {
			grants client_credentials password refresh_token
			scopes public
		}
		client {{.Portal}} {{.Secret}} {
			grants authorization_code refresh_token
			scopes public trusted refresh_token {{if .OpenID}}openid profile email{{end}}
			redirect_uris {{.Callback}}
			first_party
			{{if .OpenID}}id_token_alg {{.Algorithm}}{{end}}
		}
		password_grant {
			refresh_tokens
		}
		limits {
			login off
			grants off
			revocations off
		}
		organisation acme
		user u-ada {
			email {{.Email}}
			password {{.Hash}}
			organisation acme
		}
		user u-ben {
			email {{.QuickEmail}}
			password {{.QuickHash}}
			organisation acme
		}
		{{range $i, $issuer := .Trusted}}
		trust partner{{$i}} {{.}} {
			audience {{$.ExternalAudience}}
			jwks_uri {{.}}/jwks
			allow_private_network
		}
		{{end}}
	}
}
` + bareSites + `
http://{{.Issuer}} {
	bind 127.0.0.1
	oauth_server {
		ready
	}
}
http://{{.Protected}} {
	bind 127.0.0.1
	protect {
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.Web}} {
	bind 127.0.0.1
	protect {
		challenge browser
		resource http://{{.Web}}
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.Posted}} {
	bind 127.0.0.1
	protect {
		resource http://{{.MCP}}
		resource_required
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.MCP}} {
	bind 127.0.0.1
	protect {
		resource http://{{.MCP}}
		mcp
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.Tools}} {
	bind 127.0.0.1
	protect {
		resource http://{{.MCP}}
		mcp
		tool delete_* drop_* {
			deny
		}
		tool write_* {
			scope trusted
		}
		tool read_* {
			scope public
		}
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.Silent}} {
	bind 127.0.0.1
	protect {
		forward off
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
{{if .Trusted}}
http://{{.ProtectedExternal}} {
	bind 127.0.0.1
	protect {
		issuer partner0
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
http://{{.Mixed}} {
	bind 127.0.0.1
	oauth_server
	protect {
		issuer self {{range $i, $_ := .Trusted}} partner{{$i}}{{end}}
		upstream_token relay
	}
	reverse_proxy {{.Upstream}}
}
{{end}}
`))
