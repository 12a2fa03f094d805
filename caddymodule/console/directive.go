package console

import (
	"encoding/json"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() {
	httpcaddyfile.RegisterHandlerDirective("oauth_console", parseDirective)
	// Before oauth_server, which answers every other path below /oauth/.
	httpcaddyfile.RegisterDirectiveOrder("oauth_console", httpcaddyfile.Before, "basic_auth")
}

// againPath asks for a fresh sign-in, and leads back.
const againPath = "/again"

// parseDirective reads `oauth_console`, without arguments. It is a route for the paths of the console with a `protect` for browsers of
// operators, and the console.
func parseDirective(h httpcaddyfile.Helper) (caddyhttp.MiddlewareHandler, error) {
	h.Next() // the name of the directive
	source := setting.Source(h.Dispenser)
	if h.NextArg() {
		return nil, h.ArgErr()
	}
	if h.NextBlock(0) {
		return nil, h.Errf("oauth_console has no options: `console` in the oauth block says who operates it")
	}
	operators, err := operatorsOf(h)
	if err != nil {
		return nil, err
	}
	paths := func(list ...string) caddyhttp.RawMatcherSets {
		return caddyhttp.RawMatcherSets{caddy.ModuleMap{"path": h.JSON(caddyhttp.MatchPath(list))}}
	}
	protect := &gate.Protect{
		Challenge: "browser", ForwardOff: true, Source: source,
		Require: []*rule.Rule{
			{Roles: operators},
			{ACR: []string{oauth.TwoFactorACR}},
			{MaxAge: caddy.Duration(recentSignIn - freshLead), MatcherSets: paths(Base + againPath)},
		},
	}
	return &caddyhttp.Subroute{Routes: caddyhttp.RouteList{{
		MatcherSetsRaw: paths(Base, Base+"/*"),
		HandlersRaw: []json.RawMessage{
			// The access log skips what the gate refuses, too: a query holds names of people.
			caddyconfig.JSONModuleObject(caddyhttp.VarsMiddleware{caddyhttp.LogSkipVar: true}, "handler", "vars", nil),
			caddyconfig.JSONModuleObject(protect, "handler", "oauth_protect", nil),
			caddyconfig.JSONModuleObject(&Handler{Source: source}, "handler", "oauth_console", nil),
		},
		Terminal: true,
	}}}, nil
}

// freshLead is how much younger than necessary the sign-in is that againPath asks for, so that there is time for a change.
const freshLead = 10 * time.Minute

// operatorsOf returns the roles that the block `console` names. Caddy parses the global options before the sites.
func operatorsOf(h httpcaddyfile.Helper) ([]string, error) {
	var block configuration.Block
	if option, is := h.Option("oauth").(httpcaddyfile.App); is {
		_ = json.Unmarshal(option.Value, &block) // the parser of the oauth block wrote it
	}
	if block.Console == nil {
		return nil, h.Errf("%v", errNoConsole)
	}
	return block.Console.AllRoles(), nil
}
