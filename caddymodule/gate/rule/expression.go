package rule

import (
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/requestpath"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// expression is Caddy's `expression` matcher, evaluated after the token is verified.
type expression struct {
	program   caddyhttp.MatchExpression
	readsPath bool // it may read the path
	readQuery bool // it may read the query
	// namesMethod, namesHost: it may read these by a placeholder, which shows those of the request as it came
	namesMethod, namesHost bool
}

func newExpression(ctx caddy.Context, text, source string) (*expression, error) {
	e := &expression{
		program:     caddyhttp.MatchExpression{Expr: text},
		readsPath:   mentions(text, "path", "uri", "file", "expression"),
		readQuery:   mentions(text, "query", "uri"),
		namesMethod: mentions(text, "request.method", "orig_method"),
		namesHost:   mentions(text, "host"),
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

// mentions reports whether an expression contains one of the words, ignoring case.
func mentions(expression string, words ...string) bool {
	expression = strings.ToLower(expression)
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(expression, word) })
}

// check refuses a request if the expression is false in some reading or cannot be evaluated. It also refuses if the
// expression may depend on something that Caddy and the upstream read differently: Caddy takes a malformed query for an
// empty one, an ambiguous path for one of its readings, no method from the query, and the host as it stands, in upper case or with a dot at its end.
func (x *expression) check(e *Input) error {
	if x.readsPath && e.Exam.Ambiguous || x.readQuery && requestpath.IsQueryMalformed(e.Request.URL.RawQuery) {
		return oauth.NewError(oauth.AccessDenied, "expression_failed")
	}
	if x.namesMethod && queryNamesMethod(e.Request) || x.namesHost && !requestpath.IsNameCanonical(e.Request.Host) {
		return oauth.NewError(oauth.AccessDenied, "expression_failed")
	}
	for _, reading := range e.allReadings() {
		switch holds, err := matchReading(e.Request, reading, x.program.MatchWithError); {
		case err != nil:
			return oauth.NewError(oauth.AccessDenied, "expression_failed").WithCause(err)
		case !holds:
			return oauth.NewError(oauth.AccessDenied, "expression_false")
		}
	}
	return nil
}
