package rule

import (
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/httpcaddyfile"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ruleKinds lists the kinds of `require` for error texts.
const ruleKinds = "scope, any_scope, user, email_domain, role, group, claim, expression, acr or max_age"

// Parse reads one `require`. A role that is not declared is a roleError, which counts only if all issuers are ours.
func Parse(h httpcaddyfile.Helper) (rule *Rule, roleError, err error) {
	matchers, _, err := parseMatcher(h)
	if err != nil {
		return nil, nil, err
	}
	if h.CountRemainingArgs() < 2 {
		return nil, nil, h.Errf("write a rule as `require [<matcher>] <kind> <value>...`, with %s", ruleKinds)
	}
	h.NextArg()
	rule = &Rule{MatcherSets: matchers}
	switch kind := h.Val(); kind {
	case "expression":
		err = rule.readExpression(h)
	case "max_age":
		err = rule.readMaxAge(h)
	default:
		err = rule.readValues(h, kind, h.RemainingArgs())
	}
	if err != nil {
		return nil, nil, err
	}
	if err := CheckRoles(rolesOf(h), rule.Roles); err != nil {
		roleError = h.Errf("%v", err)
	}
	return rule, roleError, nil
}

// readValues reads the rules whose argument is a list of strings.
func (r *Rule) readValues(h httpcaddyfile.Helper, kind string, values []string) (err error) {
	switch kind {
	case "scope":
		r.Scopes, err = values, RefuseMatchers(h, values)
		return err
	case "any_scope":
		r.AnyScope, err = values, RefuseMatchers(h, values)
		return err
	case "user":
		r.Users = values
		if err = setting.RefusePlaceholders(h.Dispenser, values); err != nil {
			return err
		}
		_, err = canonicalUsers(values)
	case "email_domain":
		r.EmailDomains = values
		if err = setting.RefusePlaceholders(h.Dispenser, values); err != nil {
			return err
		}
		_, err = canonicalDomains(values)
	case "role":
		r.Roles = values // whether they are declared is a roleError of Parse
	case "group":
		r.Groups = values
		return setting.RefusePlaceholders(h.Dispenser, values)
	case "claim":
		if len(values) < 2 {
			return h.Errf("require claim %s needs a value", values[0])
		}
		r.Claim, r.Values = values[0], values[1:]
		return setting.RefusePlaceholders(h.Dispenser, values)
	case "acr":
		r.ACR, err = values, checkACR(values)
	default:
		return h.Errf("unknown rule %q: use %s", kind, ruleKinds)
	}
	if err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// readMaxAge reads a duration. Zero could never be met: the sign-in would have to be as recent as the request.
func (r *Rule) readMaxAge(h httpcaddyfile.Helper) error {
	d, err := setting.Duration(h.Dispenser)
	if err != nil {
		return err
	}
	if r.MaxAge = caddy.Duration(d); d == 0 {
		return h.Errf("max_age 0s: use whole seconds, at least one")
	}
	if err := checkMaxAge(r.MaxAge); err != nil {
		return h.Errf("%v", err)
	}
	return nil
}

// readExpression reads CEL as Caddy's own matcher does: a single token unquoted, several tokens verbatim with their
// quotes.
func (r *Rule) readExpression(h httpcaddyfile.Helper) error {
	r.Source = setting.Source(h.Dispenser)
	if h.CountRemainingArgs() > 1 {
		r.Expression = strings.Join(h.RemainingArgsRaw(), " ")
	} else if h.NextArg() {
		r.Expression = h.Val()
	}
	switch first, _, _ := strings.Cut(strings.TrimSpace(r.Expression), " "); {
	case first == "":
		return h.Errf("require expression needs an expression")
	case strings.HasPrefix(first, "@") || strings.HasPrefix(first, "/"):
		return h.Errf("%s is no expression: a matcher comes first", first)
	}
	return nil
}

// rolesOf returns the roles that the global options declare. Caddy parses those before the sites.
func rolesOf(h httpcaddyfile.Helper) store.RoleCatalogue {
	var block struct {
		Roles []struct {
			Name store.Role `json:"name"`
		} `json:"roles"`
	}
	if option, ok := h.Option("oauth").(httpcaddyfile.App); ok {
		_ = json.Unmarshal(option.Value, &block) // the parser of the oauth block wrote it
	}
	var declared []store.RoleDeclaration
	for _, role := range block.Roles {
		declared = append(declared, store.RoleDeclaration{Name: role.Name})
	}
	return store.NewRoleCatalogue(declared...)
}

// CheckRoles refuses undeclared roles: such a rule could never be met.
func CheckRoles(roles store.RoleCatalogue, names []string) error {
	for _, name := range names {
		if err := roles.Check(store.Role(name)); err != nil {
			return err
		}
	}
	return nil
}

// parseMatcher reads a matcher. Call it before reading arguments: a matcher read as an argument would leave a rule that
// applies to every request.
func parseMatcher(h httpcaddyfile.Helper) (caddyhttp.RawMatcherSets, bool, error) {
	if h.CountRemainingArgs() == 0 {
		return nil, false, h.ArgErr()
	}
	set, found, err := h.MatcherToken()
	if err != nil {
		return nil, false, h.WrapErr(err)
	}
	if !found {
		h.Prev()
		return nil, false, nil
	}
	if set == nil { // the matcher is *
		return nil, true, nil
	}
	return caddyhttp.RawMatcherSets{set}, true, nil
}

// RefuseMatchers refuses a matcher among scopes. It would be read as a scope, and the scopes before it would be required
// of every request.
func RefuseMatchers(h httpcaddyfile.Helper, scopes []string) error {
	for _, name := range scopes {
		if name == "*" || strings.HasPrefix(name, "@") || strings.HasPrefix(name, "/") {
			return h.Errf("%s stands among scopes: a matcher comes first", name)
		}
	}
	return nil
}
