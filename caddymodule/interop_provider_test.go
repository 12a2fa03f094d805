package caddymodule

import (
	"strings"
	"testing"
)

// providerSite trusts node oidc-provider, which the script serves at PROVIDER.
const providerSite = `{
	admin ADMIN
	storage file_system DIR/storage
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		trust corp PROVIDER {
			audience https://orders.example/
			allow_private_network
			TRUST
		}
	}
}

http://ADDR {
	log
	@write path /jwt/write
	handle /jwt/* {
		protect orders.read {
			issuer corp
			require @write scope orders.write
		}
		reverse_proxy UPSTREAM
	}
	handle /opaque/* {
		protect orders.read {
			issuer corp
			audience https://exchange.example/
		}
		reverse_proxy UPSTREAM
	}
	handle {
		respond 404
	}
}
`

// TestInteropOIDCProvider trusts a third-party provider, in a configuration without its own issuer.
func TestInteropOIDCProvider(t *testing.T) {
	address := freeAddr(t)
	p := &provider{url: "http://" + address}
	site := trusting(p, providerSite, "introspection "+p.url+"/token/introspection {", "\tclient gateway gateway-secret-that-is-long-enough", "\tcache 1s", "}")
	g := startGate(t, site)
	runScript(t, "oidc-provider.mjs", map[string]any{
		"provider": p.url, "jwt": g.url + "/jwt/x", "write": g.url + "/jwt/write", "opaque": g.url + "/opaque/x",
		"api":     map[string]string{"jwt": "https://orders.example/", "opaque": "https://exchange.example/"},
		"gateway": map[string]string{"id": "gateway", "secret": "gateway-secret-that-is-long-enough"},
	})
}

// TestInteropJose runs a script that makes good and forged tokens with jose.
func TestInteropJose(t *testing.T) {
	p := &provider{url: "http://" + freeAddr(t)}
	g := startGate(t, trusting(p, gateOnly(trustSite)))
	runScript(t, "jose.mjs", map[string]any{"provider": p.url, "route": g.url + "/any/x", "audience": g.url})
}

// streamSite has a client whose tokens last for seconds. APP is the script's own server.
const streamSite = `{
	admin ADMIN
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer http://ADDR
		store memory
		client conf SECRET {
			scopes public
		}
		client brief SECRET {
			scopes public
			tokens {
				client_credentials 3s
			}
		}
	}
}

http://ADDR {
	log
	oauth_server
	handle /app/* {
		protect
		reverse_proxy APP
	}
	handle {
		respond 404
	}
}
`

// TestG71InteropStreams opens WebSockets and event streams with third-party clients.
func TestG71InteropStreams(t *testing.T) {
	app := freeAddr(t)
	g := startGate(t, strings.ReplaceAll(streamSite, "APP", app))
	runScript(t, "streams.mjs", map[string]any{
		"issuer": g.url, "upstream": "http://" + app, "client": map[string]string{"id": "conf", "secret": confSecret},
	})
}
