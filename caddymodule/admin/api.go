package admin

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func init() { caddy.RegisterModule(new(adminAPI)) }

// adminAPI serves the operator, on Caddy's admin endpoint, under /oauth/. It belongs to the process and not to a
// configuration: each request is for the one that runs at that time.
type adminAPI struct{ mux *http.ServeMux }

// CaddyModule returns the module's id.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.oauth", New: func() caddy.Module { return newAdminAPI() }}
}

// operation does what a request asks for and returns what to answer with; nil answers 204.
type operation func(*Target, *http.Request) (status int, answer any, err error)

func newAdminAPI() *adminAPI {
	a := &adminAPI{mux: http.NewServeMux()}
	for pattern, handler := range operations() {
		a.mux.HandleFunc(pattern, handler)
	}
	a.mux.HandleFunc("/", a.refuse)
	return a
}

// operations lists what an operator can do. GET shows no secret and no hash.
func operations() map[string]http.HandlerFunc {
	all := map[string]http.HandlerFunc{
		"POST /oauth/tokens/explain": serve("token", withBody(explainToken)),
		"GET /oauth/status":          serve("node", showStatus),
		"GET /oauth/routes":          serve("route", showRoutes),
		"GET /oauth/ready":           serveReady,
	}
	for _, kind := range []struct {
		what       string // there may be none of
		operations map[string]operation
	}{
		{"client", clientOperations}, {"organisation", organisationOperations}, {"user", userOperations}, {"client", tokenOperations},
		{"signing key", keyOperations}, {"store", backupOperations},
	} {
		for pattern, op := range kind.operations {
			all[pattern] = serve(kind.what, onIssuer(op))
		}
	}
	return all
}

// refuse answers what is none of the operations: a method that the path does not have, or a path that nobody has.
func (a *adminAPI) refuse(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if _, pattern := a.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeAdminError(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s", r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeAdminError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s takes %s", r.URL.Path, strings.Join(allowed, " and ")))
}

// Routes returns the one route; the paths below it are ours.
func (a *adminAPI) Routes() []caddy.AdminRoute {
	handler := caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a.mux.ServeHTTP(w, r)
		return nil
	})
	return []caddy.AdminRoute{{Pattern: "/oauth/", Handler: handler}}
}

var (
	errGateOnly = errors.New("this Caddy has no issuer of its own: it is a gate for tokens of others, without clients, keys and people")
	errClosing  = errors.New("the oauth app is shutting down")
	errNoStore  = errors.New("the database is away: try again when it is back")
)

// onIssuer is an operation that needs an issuer and its store.
func onIssuer(op operation) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		if t.Issuer == nil {
			return 0, nil, errGateOnly
		}
		if !t.Node.Enter() {
			return 0, nil, errClosing
		}
		defer t.Node.Leave()
		if !t.IsServing(r.Context()) {
			return 0, nil, errNoStore
		}
		return op(t, r.WithContext(sqlstore.WithTimeout(r.Context())))
	}
}

// serve runs an operation on the running configuration. What is the kind of thing that it is about.
func serve(what string, op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := Newest()
		if t == nil {
			writeAdminError(w, http.StatusServiceUnavailable, errNoApp)
			return
		}
		// A browser sends this type across sites only after it has asked, so no web page can make an operator's browser
		// change anything.
		if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); (r.Method == http.MethodPost || r.Method == http.MethodPatch) && media != "application/json" {
			writeAdminError(w, http.StatusUnsupportedMediaType, errors.New("send the request as application/json"))
			return
		}
		status, answer, err := op(t, r)
		if err != nil {
			writeAdminError(w, adminStatus(err), inWords(what, err))
			return
		}
		writeAdmin(w, status, answer)
	}
}

// adminStatus maps an error of the core to a status.
func adminStatus(err error) int {
	var own *oauth.Error
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, store.ErrTaken), errors.Is(err, tokenissuer.ErrDeclared), errors.Is(err, store.ErrInUse),
		errors.Is(err, errGateOnly): // 404 would say that the one that was asked for is not there
		return http.StatusConflict
	case tokenissuer.IsInvalidInput(err):
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code != oauth.ServerError && own.Code != oauth.TemporarilyUnavailable:
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code == oauth.ServerError:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// inWords puts an error that the operator can mend into a sentence.
func inWords(what string, err error) error {
	var own *oauth.Error
	var nobody nobodyMeant
	switch {
	case errors.As(err, &nobody):
		return nobody
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("there is no such %s", what)
	case errors.Is(err, store.ErrInUse):
		return fmt.Errorf("the %s still has users: remove them first", what)
	case errors.As(err, &own) && adminStatus(err) == http.StatusBadRequest:
		return fmt.Errorf("%s (%s)", own.Description, own.Reason)
	}
	return err
}

func writeAdminError(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	writeAdmin(w, status, map[string]string{"error": err.Error()})
}

func writeAdmin(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Cache-Control", "no-store")
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer, json.Deterministic(true)) // the operator is gone when this fails
}

const maxAdminBody = 64 << 10

// withBody is an operation that reads the request's body, strictly: a misspelled member would otherwise be an option left out.
func withBody[T any](op func(*Target, *http.Request, T) (int, any, error)) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		var body T
		err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, maxAdminBody), &body, json.RejectUnknownMembers(true))
		if err != nil {
			return 0, nil, tokenissuer.InvalidInput(fmt.Errorf("the request: %w", err))
		}
		return op(t, r, body)
	}
}

// changeNamed is an operation that changes the one thing that the path names, and records that under its kind of id.
func changeNamed(what, idField string, change func(*tokenissuer.Registry, context.Context, string) error) operation {
	return func(t *Target, r *http.Request) (int, any, error) {
		id := r.PathValue("id")
		if err := change(t.Registry, r.Context(), id); err != nil {
			return 0, nil, err
		}
		t.record(what, zap.String(idField, id))
		return http.StatusNoContent, nil, nil
	}
}

// listed answers with what an operator sees of each item; an empty list is [], not null.
func listed[T, V any](items []T, err error, view func(T) V) (int, any, error) {
	views := make([]V, 0, len(items))
	for _, item := range items {
		views = append(views, view(item))
	}
	return http.StatusOK, views, err
}

// namedMember is a member of a request to change something.
type namedMember struct {
	name  string
	given bool
}

// given lists the members that the request has, for the audit log.
func given(members []namedMember) (names []string) {
	for _, m := range members {
		if m.given {
			names = append(names, m.name)
		}
	}
	return names
}

// source says where something comes from, and whether it can be changed here.
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
		return 0, tokenissuer.InvalidInput(fmt.Errorf("%q is no duration: write it as 90s, 15m, 2h or 28d", text))
	}
	return d, nil
}

// record writes the audit line of an operator's change.
func (t *Target) record(what string, about ...zap.Field) {
	t.Logger.Named("audit").Info(what, append(about, zap.String("by", "operator"))...)
}
