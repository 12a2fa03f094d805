package main

// gatePeers are the other projects compared with ours, at versions that build without changes. Each is configured to
// do the same: verify the signature, issuer, audience and lifetime of a bearer token with the issuer's key, and
// forward the request.
var gatePeers = []peer{
	{
		name: "forward_auth to a small Go verifier", algorithms: []string{"ES256", "RS256"}, asks: true,
		files:     map[string]string{"Caddyfile": forwardAuthCaddyfile},
		arguments: []string{"run", "--adapter", "caddyfile", "--config", "{{.Dir}}/Caddyfile"},
	},
	{
		name: "caddy-security", algorithms: []string{"ES256", "RS256"},
		module:    module{"github.com/greenpau/caddy-security", "v1.1.30", "./cmd/authcrunch"},
		files:     map[string]string{"Caddyfile": securityCaddyfile},
		arguments: []string{"run", "--adapter", "caddyfile", "--config", "{{.Dir}}/Caddyfile"},
	},
	{
		name: "oauth2-proxy", algorithms: []string{"RS256"},
		module: module{"github.com/oauth2-proxy/oauth2-proxy/v7", "v7.8.1", "."},
		arguments: []string{
			"--http-address={{.Addr}}", "--upstream=http://{{.Upstream}}", "--provider=oidc", "--skip-oidc-discovery", "--skip-jwt-bearer-tokens",
			"--oidc-issuer-url={{.Issuer}}", "--oidc-jwks-url={{.Issuer}}/jwks", "--login-url={{.Issuer}}/login", "--redeem-url={{.Issuer}}/token",
			"--client-id={{.Audience}}", "--client-secret=unused-here", "--cookie-secret=0123456789abcdef0123456789abcdef", "--email-domain=*",
			"--oidc-email-claim=sub", "--request-logging=false", "--auth-logging=false", "--standard-logging=false",
		},
	},
	{
		name: "oathkeeper", algorithms: []string{"ES256", "RS256"},
		module:    module{"github.com/ory/oathkeeper", "v0.40.9", "."},
		files:     map[string]string{"config.yml": oathkeeperConfig, "rules.json": oathkeeperRules},
		arguments: []string{"serve", "--config", "{{.Dir}}/config.yml", "--disable-telemetry"},
	},
}

const peerCaddyOptions = `
	admin {{.Admin}}
	persist_config off
	auto_https off
	grace_period 1s
	log {
		level ERROR
	}
`

const forwardAuthCaddyfile = `{` + peerCaddyOptions + `}
http://{{.Addr}} {
	bind 127.0.0.1
	forward_auth {{.Helper}} {
		uri /verify
		copy_headers X-Auth-Subject
	}
	reverse_proxy {{.Upstream}}
}
`

const securityCaddyfile = `{` + peerCaddyOptions + `
	order authorize before reverse_proxy
	security {
		authorization policy bench {
			crypto key bench-{{.Algorithm}} verify from file {{.KeyFile}}
			set token sources header
			validate bearer header
			disable auth redirect
			acl rule {
				match iss {{.Issuer}}
				match aud {{.Audience}}
				allow stop
			}
			acl default deny
		}
	}
}
http://{{.Addr}} {
	bind 127.0.0.1
	authorize with bench
	reverse_proxy {{.Upstream}}
}
`

const oathkeeperConfig = `
serve:
  proxy: {host: {{.Host}}, port: {{.Port}}}
  api: {host: {{.Host}}, port: {{.APIPort}}}
  prometheus: {host: {{.Host}}, port: 0}
access_rules:
  repositories: ["file://{{.Dir}}/rules.json"]
log: {level: error}
authenticators:
  jwt:
    enabled: true
    config:
      jwks_urls: ["{{.Issuer}}/jwks"]
      trusted_issuers: ["{{.Issuer}}"]
      target_audience: ["{{.Audience}}"]
      allowed_algorithms: ["{{.Algorithm}}"]
authorizers:
  allow: {enabled: true}
mutators:
  noop: {enabled: true}
`

const oathkeeperRules = `[{
	"id": "orders",
	"upstream": {"url": "http://{{.Upstream}}"},
	"match": {"url": "http://{{.Addr}}/<.*>", "methods": ["GET"]},
	"authenticators": [{"handler": "jwt"}],
	"authorizer": {"handler": "allow"},
	"mutators": [{"handler": "noop"}]
}]
`
