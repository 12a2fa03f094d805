package admin

import (
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func init() { caddy.RegisterModule(new(api)) }

// api serves operators under /oauth/ of Caddy's admin endpoint. It belongs to the process, not to a configuration: each request is for the
// configuration that runs at that time.
type api struct{ mux *http.ServeMux }

// CaddyModule returns the module's id.
func (*api) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.oauth", New: func() caddy.Module { return newAPI() }}
}

func newAPI() *api {
	a := &api{mux: http.NewServeMux()}
	for route, op := range operations() {
		a.mux.HandleFunc(string(route), op.serve)
	}
	a.mux.HandleFunc("/", a.refuse)
	return a
}

// operations returns the operations by route. GET shows neither secrets nor hashes.
func operations() map[Route]operation {
	all := make(map[Route]operation)
	for _, kind := range kinds() {
		for route, op := range kind.operations {
			op.serve = serve(kind.what, kind.needs(op.run))
			all[route] = op
		}
	}
	ready := shows[readiness]("Shows whether this node can serve; 503 if it cannot", handler{})
	ready.serve = serveReady
	document := shows[jsontext.Value]("Shows this document", handler{})
	document.serve = serveDocument
	all[ShowReady], all[ShowDocument] = ready, document
	return all
}

// kind are the operations on one kind of thing.
type kind struct {
	what       string // the kind of thing, which a 404 names
	needs      func(answering) answering
	operations map[Route]operation
}

// kinds lists the operations but those of ready.go and openapi.go, which need no configuration.
func kinds() []kind {
	unchanged := func(run answering) answering { return run }
	return []kind{
		{"node", unchanged, nodeOperations}, {"provider", unchanged, providerOperations}, {"mail", unchanged, mailOperations},
		{"client", onTokens, clientOperations}, {"organisation", onIssuer, organisationOperations}, {"user", onIssuer, userOperations}, {"user or factor", onIssuer, factorOperations},
		{"user", onTokens, linkOperations}, {"session, user or client", onIssuer, sessionOperations}, {"user", onIssuer, importOperations},
		{"client", onIssuer, revocationOperations}, {"client", onTokens, tokenOperations}, {"signing key", onTokens, keyOperations},
		{"store", onIssuer, backupOperations}, {"user or event", onIssuer, auditOperations}, {"personal access token or user", onTokens, personalTokenOperations},
	}
}

// operationOf returns what runs the operation of a route, and the kind of thing that a 404 names.
func operationOf(route Route) (run answering, what string) {
	for _, kind := range kinds() {
		if op, has := kind.operations[route]; has {
			return kind.needs(op.run), kind.what
		}
	}
	panic("no operation: " + string(route)) // routes are constants
}

// refuse answers a request for an unknown path with 404, and one with an unknown method with 405.
func (a *api) refuse(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete} {
		if _, pattern := a.mux.Handler(&http.Request{Method: method, URL: r.URL, Host: r.Host}); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if len(allowed) == 0 {
		writeError(w, http.StatusNotFound, fmt.Errorf("there is nothing at %s", r.URL.Path))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	writeError(w, http.StatusMethodNotAllowed, fmt.Errorf("%s takes %s", r.URL.Path, strings.Join(allowed, " and ")))
}

// Routes returns one route for all paths below /oauth/.
func (a *api) Routes() []caddy.AdminRoute {
	handler := caddy.AdminHandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		a.mux.ServeHTTP(w, r)
		return nil
	})
	return []caddy.AdminRoute{{Pattern: "/oauth/", Handler: handler}}
}

var (
	errGateOnly     = errors.New("this Caddy has no issuer of its own: it is a gate for tokens of others, without clients, keys and people")
	errSessionsOnly = errors.New("this Caddy has no issuer of its own: people sign in at providers, and there are neither clients nor tokens nor keys for others")
	errClosing      = errors.New("the oauth app is shutting down")
	errNoStore      = errors.New("the database is away: try again when it is back")
)

// serve runs an operation on the running configuration. What is the kind of thing that a 404 names.
func serve(what string, op answering) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		t := newest()
		if t == nil {
			writeError(w, http.StatusServiceUnavailable, errNoApp)
			return
		}
		// A browser sends this media type across origins only after a preflight, so no web page can make an operator's browser
		// change anything.
		if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); (r.Method == http.MethodPost || r.Method == http.MethodPatch) && media != "application/json" {
			writeError(w, http.StatusUnsupportedMediaType, errors.New("send the request as application/json"))
			return
		}
		status, answer, err := op(t, r)
		if err != nil {
			writeError(w, statusOf(err), inWords(what, err))
			return
		}
		if v, is := answer.(versioned); is {
			answer = v.content
			w.Header().Set("ETag", v.version)
		}
		if p, is := answer.(page); is {
			if answer = p.items; p.next != "" {
				w.Header().Set("Link", "<"+p.next+`>; rel="next"`)
			}
		}
		writeAnswer(w, status, answer)
	}
}

// statusOf maps an error of the core to a status.
func statusOf(err error) int {
	var own *oauth.Error
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, store.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, errChanged):
		return http.StatusPreconditionFailed
	case errors.Is(err, store.ErrTaken), errors.Is(err, errImportRuns), errors.Is(err, store.ErrDeclared), errors.Is(err, store.ErrInUse),
		errors.Is(err, errGateOnly), errors.Is(err, errSessionsOnly), errors.Is(err, errNoMail), errors.Is(err, errNoAudit): // 404 would mean that the named thing does not exist
		return http.StatusConflict
	case store.IsInvalidInput(err):
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code != oauth.ServerError && own.Code != oauth.TemporarilyUnavailable:
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code == oauth.ServerError:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// inWords words an error that the operator can correct.
func inWords(what string, err error) error {
	var own *oauth.Error
	var unknown unknownMeant
	switch {
	case errors.As(err, &unknown):
		return unknown
	case errors.Is(err, store.ErrNotFound):
		return fmt.Errorf("there is no such %s", what)
	case errors.Is(err, store.ErrInUse):
		return fmt.Errorf("the %s still has users: remove them first", what)
	case errors.As(err, &own) && statusOf(err) == http.StatusBadRequest:
		return fmt.Errorf("%s (%s)", own.Description, own.Reason)
	}
	return err
}

func writeError(w http.ResponseWriter, status int, err error) {
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "2")
	}
	writeAnswer(w, status, map[string]string{"error": err.Error()})
}

// written is an answer that is written piece by piece, with its media type.
type written struct {
	media string
	write func(io.Writer) error
}

func writeAnswer(w http.ResponseWriter, status int, answer any) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	if answer == nil {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if long, ok := answer.(written); ok {
		w.Header().Set("Content-Type", long.media)
		w.WriteHeader(status)
		if err := long.write(w); err != nil {
			panic(http.ErrAbortHandler) // the operator must not take a part for the whole
		}
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.MarshalWrite(w, answer, json.Deterministic(true)) // the operator is gone when this fails
}
