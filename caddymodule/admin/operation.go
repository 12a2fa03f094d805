package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// operation is what serves a route, and what the document says about it.
type operation struct {
	summary string
	handler
	// answer is the type of the answer with that status; nil: it has no content. media is its media type; empty: JSON.
	answer reflect.Type
	media  string
	status int
	// query is a struct whose members the query may have; nil: none.
	query reflect.Type
	serve http.HandlerFunc
}

// shows is an operation that answers 200 with a T, adds one that answers 201, and changes one that answers 204.
func shows[T any](summary string, h handler) operation {
	return operation{summary: summary, handler: h, answer: reflect.TypeFor[T](), status: http.StatusOK}
}

// writes is an operation that answers with a T a line.
func writes[T any](summary string, h handler) operation {
	op := shows[T](summary, h)
	op.media = jsonLines
	return op
}

func adds[T any](summary string, h handler) operation {
	return operation{summary: summary, handler: h, answer: reflect.TypeFor[T](), status: http.StatusCreated}
}

func changes(summary string, h handler) operation {
	return operation{summary: summary, handler: h, status: http.StatusNoContent}
}

// by is the operation with a query of that type, which queryOf reads.
func (op operation) by(query reflect.Type) operation {
	op.query = query
	return op
}

// answering handles a request and returns the answer; a nil answer is 204.
type answering func(*Target, *http.Request) (status int, answer any, err error)

// handler handles the requests of an operation.
type handler struct {
	run answering
	// body is the type of the request's content; nil: it has none.
	body reflect.Type
}

// bare is a handler of requests without content.
func bare(run answering) handler { return handler{run: run} }

// around is the handler with something before it.
func (h handler) around(wrap func(answering) answering) handler {
	h.run = wrap(h.run)
	return h
}

// onIssuer needs an issuer and its store.
func onIssuer(op answering) answering {
	return func(t *Target, r *http.Request) (int, any, error) {
		if t.OwnIssuer == nil {
			return 0, nil, errGateOnly
		}
		if !t.Node.Life.Enter() {
			return 0, nil, errClosing
		}
		defer t.Node.Life.Leave()
		if !t.IsServing(r.Context()) {
			return 0, nil, errNoStore
		}
		return op(t, r.WithContext(sqlstore.WithTimeout(r.Context())))
	}
}

// onTokens needs an issuer for applications.
func onTokens(op answering) answering {
	return onIssuer(func(t *Target, r *http.Request) (int, any, error) {
		if t.SessionsOnly {
			return 0, nil, errSessionsOnly
		}
		return op(t, r)
	})
}

const maxBody = 64 << 10

// withBody is a handler of requests with a T in JSON. An unknown member is an error.
func withBody[T any](op func(*Target, *http.Request, T) (int, any, error)) handler {
	return withLongBody(maxBody, op)
}

// withLongBody is withBody for requests with up to that many bytes.
func withLongBody[T any](most int64, op func(*Target, *http.Request, T) (int, any, error)) handler {
	return handler{body: reflect.TypeFor[T](), run: func(t *Target, r *http.Request) (int, any, error) {
		var body T
		text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, most))
		if err == nil {
			err = strictjson.Unmarshal(text, &body, json.RejectUnknownMembers(true))
		}
		if err != nil {
			return 0, nil, malformed(err)
		}
		return op(t, r, body)
	}}
}

// withMembers is a handler of requests with some members of a T: a merge patch (RFC 7396).
func withMembers[T any](op func(*Target, *http.Request, store.Patch) (int, any, error)) handler {
	h := withBody(op)
	h.body = reflect.TypeFor[T]()
	return h
}

// malformed is the error of a body that cannot be read.
func malformed(err error) error { return store.InvalidInput(fmt.Errorf("the request: %w", err)) }

// changeNamed changes the thing that the path names, and logs its id as idField.
func changeNamed(what, idField string, change func(*people.Registry) func(context.Context, string) error) handler {
	return bare(func(t *Target, r *http.Request) (int, any, error) {
		id := r.PathValue("id")
		if err := change(t.Registry)(r.Context(), id); err != nil {
			return 0, nil, err
		}
		t.record(r.Context(), what, zap.String(idField, id))
		return http.StatusNoContent, nil, nil
	})
}

// listed answers with a view of each item. An empty list is [], not null.
func listed[T, V any](items []T, err error, view func(T) V) (int, any, error) {
	views := make([]V, 0, len(items))
	for _, item := range items {
		views = append(views, view(item))
	}
	return http.StatusOK, views, err
}

// source returns the origin of a thing: declared ones cannot be changed at run time.
func source(declared bool) string {
	if declared {
		return "config"
	}
	return "store"
}

func optionalDuration(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := caddy.ParseDuration(text)
	if err != nil {
		return 0, store.InvalidInput(fmt.Errorf("%q is no duration: write it as 90s, 15m, 2h or 28d", text))
	}
	return d, nil
}

// operatorKey is the key of AsOperator in a context.
type operatorKey struct{}

// AsOperator returns the context of requests that a user makes as an operator: the audit lines of changes name the user. Without it they
// say only that it was an operator, as of the admin endpoint, which knows no names.
func AsOperator(ctx context.Context, userID string) context.Context {
	return context.WithValue(ctx, operatorKey{}, userID)
}

// record writes the audit line of an operator's change.
func (t *Target) record(ctx context.Context, what string, about ...zap.Field) {
	about = append(about, zap.String("by", "operator"))
	if userID, ok := ctx.Value(operatorKey{}).(string); ok {
		about = append(about, zap.String("operator", userID))
	}
	t.Logger.Named("audit").Info(what, about...)
}
