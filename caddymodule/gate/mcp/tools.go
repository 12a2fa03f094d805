package mcp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/rule"
)

// Config is `mcp` of a `protect`: the route is an MCP server.
type Config struct {
	// Tools are the rules about tools. Every rule with a pattern that fits a tool has to hold.
	Tools []*Tool `json:"tools,omitempty"`
}

// Tool is a rule about tools: who may call them.
type Tool struct {
	// Patterns name the tools: by name, with * for any characters.
	Patterns []string `json:"patterns"`
	// Scopes that the token of a caller must all hold.
	Scopes []string `json:"scopes,omitempty"`
	// Require lists further rules.
	Require []*rule.Rule `json:"require,omitempty"`
	// Deny refuses all calls of the tools, except of those that a more specific rule names.
	Deny bool `json:"deny,omitempty"`

	rules []*rule.Rule // of Scopes and Require
}

// Provision checks the rules and loads their matchers.
func (c *Config) Provision(ctx caddy.Context) error {
	for _, tool := range c.Tools {
		if err := tool.check(); err != nil {
			return err
		}
		tool.rules = nil
		if len(tool.Scopes) > 0 {
			tool.rules = append(tool.rules, &rule.Rule{Scopes: tool.Scopes})
		}
		tool.rules = append(tool.rules, tool.Require...)
		for _, r := range tool.rules {
			if err := r.Provision(ctx); err != nil {
				return fmt.Errorf("tool %s: %w", strings.Join(tool.Patterns, " "), err)
			}
		}
	}
	return nil
}

func (t *Tool) check() error {
	if len(t.Patterns) == 0 {
		return errors.New("tool needs the name of one, or a pattern")
	}
	for _, pattern := range t.Patterns {
		if pattern == "" || strings.ContainsFunc(pattern, func(c rune) bool { return c <= ' ' || c == '{' || c == '}' || c == 0x7f }) {
			return fmt.Errorf("tool %q: write a name as clients send it, or a pattern with *", pattern)
		}
	}
	if t.Deny && len(t.Scopes)+len(t.Require) > 0 {
		return fmt.Errorf("tool %s: deny stands beside scope or require: nobody could call it anyway", strings.Join(t.Patterns, " "))
	}
	return nil
}

// Rules are those of all tools. Call it after Provision.
func (c *Config) Rules() (rules []*rule.Rule) {
	if c == nil {
		return nil
	}
	for _, tool := range c.Tools {
		rules = append(rules, tool.rules...)
	}
	return rules
}

// Reads reports whether requests have to be read.
func (c *Config) Reads() bool { return c != nil && len(c.Tools) > 0 }

// RulesFor returns the rules of a tool. Denied: every call is refused. A `deny` yields to a rule that names the tool
// more closely: as `tool *` yields to `tool read_*`, and that to `tool read_file`.
func (c *Config) RulesFor(tool string) (rules []*rule.Rule, denied bool) {
	deny, allow := -1, -1
	for _, t := range c.Tools {
		closeness := t.closeness(tool)
		switch {
		case closeness < 0:
		case t.Deny:
			deny = max(deny, closeness)
		case allow < 0:
			allow, rules = closeness, t.rules
		default:
			allow, rules = max(allow, closeness), slices.Concat(rules, t.rules)
		}
	}
	return rules, deny >= 0 && deny >= allow
}

// closeness returns how closely the rule names a tool; negative: not at all.
func (t *Tool) closeness(tool string) int {
	closest := -1
	for _, pattern := range t.Patterns {
		if literal, ok := match(pattern, tool); ok {
			closest = max(closest, literal)
		}
	}
	return closest
}

// exactly is the closeness of a name without *.
const exactly = 1 << 30

// match reports whether a pattern fits a name, byte for byte, and how many bytes of it are no *.
func match(pattern, name string) (closeness int, ok bool) {
	first, rest, wild := strings.Cut(pattern, "*")
	if !wild {
		return exactly, pattern == name
	}
	closeness = len(first)
	if name, ok = strings.CutPrefix(name, first); !ok {
		return 0, false
	}
	for {
		part, more, wild := strings.Cut(rest, "*")
		closeness += len(part)
		if !wild {
			return closeness, strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return 0, false
		}
		name, rest = name[i+len(part):], more
	}
}

// InWords describes the rule as it stands in a Caddyfile.
func (t *Tool) InWords(ruleInWords func(*rule.Rule) string) string {
	words := strings.Join(t.Patterns, " ") + ": "
	if t.Deny {
		return words + "deny"
	}
	var parts []string
	for _, r := range t.rules {
		parts = append(parts, ruleInWords(r))
	}
	if len(parts) == 0 {
		return words + "allow"
	}
	return words + strings.Join(parts, ", ")
}
