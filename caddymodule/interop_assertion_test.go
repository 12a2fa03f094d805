package caddymodule

import (
	"crypto/x509"
	"encoding/pem"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
)

// pemOf encodes a private key as a PEM block.
func pemOf(t *testing.T, f *forger) string {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(f.key)
	check(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// TestQ204InteropNodeAssertions: jose, oauth4webapi, openid-client and the TypeScript SDK sign assertions → tokens; one for another
// server → invalid_client.
func TestQ204InteropNodeAssertions(t *testing.T) {
	corp := startProvider(t)
	var block strings.Builder
	var list []map[string]string
	for _, alg := range []string{"ES256", "RS256", "EdDSA"} {
		key := issuertest.NewSignerOf("", alg).Private
		f := &forger{key: key, kid: "key", alg: alg}
		id := "robot-" + strings.ToLower(alg)
		set := strings.Replace(keySetOf(t, f), "EdDSA", "Ed25519", 1) // as current libraries publish it
		block.WriteString("client " + id + " {\n\t\t\tjwks `" + set + "`\n\t\t\tgrants client_credentials authorization_code refresh_token\n\t\t\tscopes public mcp:use\n\t\t\tredirect_uris CALLBACK\n\t\t}\n\t\t")
		list = append(list, map[string]string{"id": id, "alg": alg, "pem": pemOf(t, f)})
	}
	site := strings.Replace(interopSite, "scope orders.read", `scope mcp:use "Use the notes" {
			server_tokens
		}
		client agent SECRET {
			grants urn:ietf:params:oauth:grant-type:jwt-bearer
			scopes public mcp:use
		}
		trust corp `+corp.url+` {
			audience http://ADDR
			allow_private_network
		}
		accept corp {
			id_jag
			link verified_email
		}
		`+block.String()+`scope orders.read`, 1)
	site = strings.Replace(site, "email ada@acme.example", "email ada@acme.example\n\t\t\temail_verified", 1)
	site = strings.Replace(site, "\thandle {\n\t\trespond 404", `	handle /mcp* {
		protect mcp:use {
			mcp
		}
		reverse_proxy `+startMCPServer(t)+`
	}
	handle {
		respond 404`, 1)
	g, given := startInterop(t, site)
	given["server"], given["keys"] = g.url+"/mcp", list
	given["idp"] = map[string]string{"issuer": corp.url, "kid": corp.signer().kid, "pem": pemOf(t, corp.signer())}
	given["agent"] = map[string]string{"id": "agent", "secret": confSecret}
	runScript(t, "assertions.mjs", given)
}
