package gate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// expression is Caddy's own matcher `expression`, asked of a request whose token was verified.
type expression struct {
	program   caddyhttp.MatchExpression
	readsPath bool // it may read the path
	readQuery bool // it may read the query
}

// newExpression compiles an expression.
func newExpression(ctx caddy.Context, text, source string) (*expression, error) {
	e := &expression{
		program:   caddyhttp.MatchExpression{Expr: text},
		readsPath: mentions(text, "path", "uri", "file", "expression"),
		readQuery: mentions(text, "query", "uri"),
	}
	err := e.program.Provision(ctx)
	if err == nil {
		return e, nil
	}
	if source == "" {
		return nil, fmt.Errorf("require expression: %w", err)
	}
	return nil, fmt.Errorf("require expression, at %s: %w", source, err)
}

// mentions reports whether an expression has one of the words anywhere, in any case.
func mentions(expression string, words ...string) bool {
	expression = strings.ToLower(expression)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(expression, word) })
}

// check refuses a request for which the expression is false in some reading, or cannot be evaluated, or was not told what
// an upstream may read: Caddy takes a malformed query for an empty one, and an ambiguous path for one of its readings.
func (x *expression) check(e *examination) error {
	if x.readsPath && e.exam.Ambiguous || x.readQuery && isQueryMalformed(e.request.URL.RawQuery) {
		return oauth.NewError(oauth.AccessDenied, "expression_failed")
	}
	for _, reading := range e.allReadings() {
		switch holds, err := x.program.MatchWithError(reading); {
		case err != nil:
			return oauth.NewError(oauth.AccessDenied, "expression_failed").WithCause(err)
		case !holds:
			return oauth.NewError(oauth.AccessDenied, "expression_false")
		}
	}
	return nil
}
