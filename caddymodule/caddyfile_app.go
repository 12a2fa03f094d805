package caddymodule

import (
	"encoding/json"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
)

func init() { httpcaddyfile.RegisterGlobalOption("oauth", parseGlobalOption) }

// parseGlobalOption reads the global option `oauth`. Several blocks, as imported files have them, become one.
//
//	oauth {
//		issuer       <url>
//		audience     <audience>...
//		store        sqlite [<path>] | postgres <dsn> | memory {
//			pool    <connections>
//			migrate off
//		}
//		keys {
//			algorithm    ES256 | RS256 | EdDSA
//			rotate       <duration> | off
//			encrypt_with <key> [<old>...]
//		}
//		tokens {
//			authorization_code | client_credentials | password | admin_created <duration>
//			refresh | refresh_idle | code <duration>
//			refresh_grace <duration> [same_address] | 0
//		}
//		pkce           required
//		session_scopes <scope>...
//		password_grant {
//			refresh_tokens
//		}
//		scope <name> [<words>] {
//			server_tokens
//		}
//		client <id> [<secret>] {
//			name          <name>
//			type          confidential | public | native
//			grants        <grant>...
//			scopes        <scope>...
//			redirect_uris <uri>...
//			cors_origins  <origin>...
//			first_party
//			pkce          required
//			revoke_previous_access_token
//			tokens { … }
//		}
//		role <name> [<words>] [manages <role>...]
//		organisation <id> [<name>]
//		user <id> {
//			email        <address>
//			name         <name>
//			password     <hash> | {env.NAME} | {file./path}
//			organisation <id>
//			role         <role>
//			groups       <group>...
//		}
//		trust <name> <issuer> {
//			audience              <audience>...
//			algorithms            RS256 | ES256 | EdDSA...
//			typ                   at+jwt | JWT | none...
//			jwks_uri              <url>
//			max_stale             <duration>
//			introspection <url> {
//				client <id> <secret>
//				cache  <duration>
//			}
//			allow_private_network
//		}
//		revocation {
//			max_staleness <duration>
//		}
//		limits {
//			client      <failures>/<window> per ip | off
//			login       <failures>/<window> per account|ip
//			login       off
//			grants      <grants>/<window> per user | off
//			revocations <revocations>/<window> per client | off
//			gate        <failures>/<window> per ip | off
//		}
//		brand [<name>] {
//			logo <file>
//		}
//	}
func parseGlobalOption(d *caddyfile.Dispenser, existing any) (any, error) {
	app := new(App)
	if earlier, ok := existing.(httpcaddyfile.App); ok {
		if err := json.Unmarshal(earlier.Value, app); err != nil {
			return nil, d.WrapErr(err)
		}
	}
	if err := app.UnmarshalCaddyfile(d); err != nil {
		return nil, err
	}
	return httpcaddyfile.App{Name: "oauth", Value: caddyconfig.JSON(app, nil)}, nil
}

// UnmarshalCaddyfile reads one block; see parseGlobalOption for the grammar.
func (a *App) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	a.note(d, "oauth")
	options := map[string]func(*caddyfile.Dispenser) error{
		"issuer": a.parseIssuer, "audience": a.parseAudience, "store": a.parseStore, "keys": a.parseKeys,
		"tokens":         func(d *caddyfile.Dispenser) error { return parseTokens(d, &a.Tokens) },
		"pkce":           func(d *caddyfile.Dispenser) error { return parsePKCE(d, &a.PKCE) },
		"password_grant": a.parsePasswordGrant, "session_scopes": a.parseSessionScopes, "scope": a.parseScope, "client": a.parseClient,
		"role": a.parseRole, "organisation": a.parseOrganisation, "user": a.parseUser,
		"trust": a.parseTrust, "revocation": a.parseRevocation, "limits": a.parseLimits, "brand": a.parseBrand,
	}
	for d.NextBlock(0) {
		parse, ok := options[d.Val()]
		if !ok {
			return d.Errf("unknown oauth option %q", d.Val())
		}
		if err := parse(d); err != nil {
			return err
		}
	}
	return nil
}

func (a *App) parseIssuer(d *caddyfile.Dispenser) error {
	if err := once(d, "issuer", a.Issuer != ""); err != nil {
		return err
	}
	value, err := oneArg(d)
	if err != nil {
		return err
	}
	if err := refuseRequest(d, value); err != nil {
		return err
	}
	if !isPlaceholder(value) {
		if err := checkIssuer(value); err != nil {
			return d.Errf("%v", err)
		}
	}
	a.Issuer = value
	a.note(d, "issuer")
	return nil
}

func (a *App) parseAudience(d *caddyfile.Dispenser) error {
	before := len(a.Audience)
	err := parseAudience(d, &a.Audience)
	for _, value := range a.Audience[before:] {
		a.note(d, "audience", value)
	}
	return err
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*App)(nil)
