package caller

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types/ref"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func init() {
	caddy.RegisterModule(MatchScope{})
	caddy.RegisterModule(MatchClaim{})
}

// MatchScope matches requests whose token has all of these scopes. The token is the one that a `protect` of the same
// request verified. Without a token it does not match: on routes without `protect`, before it, and for anonymous
// requests. So a `not` around it matches there.
type MatchScope []string

// scopeChecker is the oauth block, which knows the scopes that tokens can have.
type scopeChecker interface {
	CheckScopes(names oauth.Scopes) error
}

// CaddyModule returns the module's id.
func (MatchScope) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.oauth_scope", New: func() caddy.Module { return new(MatchScope) }}
}

// Provision refuses scopes that no token can have.
func (m MatchScope) Provision(ctx caddy.Context) error {
	app, err := setting.App(ctx, "oauth_scope", "")
	if err != nil {
		return err
	}
	if len(m) == 0 {
		return errors.New("oauth_scope needs a scope")
	}
	if issuer, ok := app.(scopeChecker); ok {
		return issuer.CheckScopes(oauth.Scopes(m))
	}
	return oauth.CheckScopeNames(m)
}

// UnmarshalCaddyfile reads
//
//	oauth_scope <name>...
//
// Several lines add up.
func (m *MatchScope) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	for d.Next() {
		names := d.RemainingArgs()
		if len(names) == 0 {
			return d.ArgErr()
		}
		if err := errors.Join(setting.RefusePlaceholders(d, names), refuseBlock(d)); err != nil {
			return err
		}
		if err := oauth.CheckScopeNames(names); err != nil {
			return d.Errf("oauth_scope: %v", err)
		}
		*m = append(*m, names...)
	}
	return nil
}

// MatchWithError reports whether the request's token holds the scopes.
func (m MatchScope) MatchWithError(r *http.Request) (bool, error) {
	token := Token(r)
	return token != nil && len(m) > 0 && token.Scopes.Missing(m...) == "", nil
}

// CELLibrary provides the function of that name, as in oauth_scope('orders.read', 'orders.write').
func (MatchScope) CELLibrary(ctx caddy.Context) (cel.Library, error) {
	return celLibrary("oauth_scope", func(names []string) (caddyhttp.RequestMatcherWithError, error) {
		m := MatchScope(names)
		return m, m.Provision(ctx)
	})
}

// MatchClaim matches requests whose token has all of these claims, each with one of its values. Values are compared
// byte for byte, and numbers by their value; an array needs one such element. It finds the token like MatchScope,
// with the same caveat for `not`.
type MatchClaim map[string][]string

// CaddyModule returns the module's id.
func (MatchClaim) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "http.matchers.oauth_claim", New: func() caddy.Module { return new(MatchClaim) }}
}

// Provision refuses conditions that no token can meet.
func (m MatchClaim) Provision(ctx caddy.Context) error {
	if _, err := setting.App(ctx, "oauth_claim", ""); err != nil {
		return err
	}
	if len(m) == 0 {
		return errors.New("oauth_claim needs a claim")
	}
	for name, values := range m {
		if name == "" || len(values) == 0 {
			return fmt.Errorf("oauth_claim %s needs a value", name)
		}
	}
	return nil
}

// UnmarshalCaddyfile reads
//
//	oauth_claim <name> <value>...
//
// Several lines ask for several claims; lines of one claim add up.
func (m *MatchClaim) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	if *m == nil {
		*m = make(MatchClaim)
	}
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) < 2 {
			return d.Errf("write it as `oauth_claim <name> <value>...`")
		}
		if err := errors.Join(setting.RefusePlaceholders(d, args), refuseBlock(d)); err != nil {
			return err
		}
		(*m)[args[0]] = append((*m)[args[0]], args[1:]...)
	}
	return nil
}

// MatchWithError reports whether the request's token has the claims.
func (m MatchClaim) MatchWithError(r *http.Request) (bool, error) {
	token := Token(r)
	if token == nil || len(m) == 0 {
		return false, nil
	}
	for name, values := range m {
		if !token.HasClaim(name, values) {
			return false, nil
		}
	}
	return true, nil
}

// CELLibrary provides the function of that name, as in oauth_claim('role', 'admin', 'group_manager').
func (MatchClaim) CELLibrary(ctx caddy.Context) (cel.Library, error) {
	return celLibrary("oauth_claim", func(args []string) (caddyhttp.RequestMatcherWithError, error) {
		m := MatchClaim{args[0]: args[1:]}
		return m, m.Provision(ctx)
	})
}

// celLibrary makes a CEL function of one or more strings from a matcher.
func celLibrary(name string, matcher func([]string) (caddyhttp.RequestMatcherWithError, error)) (cel.Library, error) {
	return caddyhttp.CELMatcherImpl(name, name+"_request_list", []*cel.Type{cel.ListType(cel.StringType)},
		func(data ref.Val) (caddyhttp.RequestMatcherWithError, error) {
			args, err := data.ConvertToNative(reflect.TypeFor[[]string]())
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			names := args.([]string)
			if len(names) == 0 {
				return nil, fmt.Errorf("%s needs an argument", name)
			}
			return matcher(names)
		})
}

// refuseBlock returns an error if a block follows.
func refuseBlock(d *caddyfile.Dispenser) error {
	if d.NextBlock(0) {
		return d.Errf("there is nothing to set here: %s", d.Val())
	}
	return nil
}

// Interface guards.
var (
	_ caddy.Provisioner                 = (*MatchScope)(nil)
	_ caddyfile.Unmarshaler             = (*MatchScope)(nil)
	_ caddyhttp.RequestMatcherWithError = (*MatchScope)(nil)
	_ caddyhttp.CELLibraryProducer      = (*MatchScope)(nil)
	_ caddy.Provisioner                 = (*MatchClaim)(nil)
	_ caddyfile.Unmarshaler             = (*MatchClaim)(nil)
	_ caddyhttp.RequestMatcherWithError = (*MatchClaim)(nil)
	_ caddyhttp.CELLibraryProducer      = (*MatchClaim)(nil)
)
