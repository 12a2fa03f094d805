package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// operation handles a request and returns the answer; a nil answer is 204.
type operation func(*Target, *http.Request) (status int, answer any, err error)

// onIssuer is an operation that needs an issuer and its store.
func onIssuer(op operation) operation {
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

// onTokens is an operation that needs an issuer for applications.
func onTokens(op operation) operation {
	return onIssuer(func(t *Target, r *http.Request) (int, any, error) {
		if t.SessionsOnly {
			return 0, nil, errSessionsOnly
		}
		return op(t, r)
	})
}

const maxBody = 64 << 10

// withBody is an operation with a JSON body. An unknown member is an error.
func withBody[T any](op func(*Target, *http.Request, T) (int, any, error)) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		var body T
		text, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxBody))
		if err == nil {
			err = strictjson.Unmarshal(text, &body, json.RejectUnknownMembers(true))
		}
		if err != nil {
			return 0, nil, malformed(err)
		}
		return op(t, r, body)
	}
}

// malformed is the error of a body that cannot be read.
func malformed(err error) error { return store.InvalidInput(fmt.Errorf("the request: %w", err)) }

// changeNamed is an operation that changes the thing that the path names, and logs its id as idField.
func changeNamed(what, idField string, change func(*people.Registry) func(context.Context, string) error) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		id := r.PathValue("id")
		if err := change(t.Registry)(r.Context(), id); err != nil {
			return 0, nil, err
		}
		t.record(r.Context(), what, zap.String(idField, id))
		return http.StatusNoContent, nil, nil
	}
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
