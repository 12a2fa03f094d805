package caddymodule

import (
	"cmp"
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
)

func init() { caddy.RegisterModule(new(adminAPI)) }

// adminAPI serves the operator, on Caddy's admin endpoint, under /oauth/. It belongs to the process and not to a
// configuration: each request is for the app that runs at that time.
type adminAPI struct{ mux *http.ServeMux }

// CaddyModule returns the module's id.
func (*adminAPI) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "admin.api.oauth", New: func() caddy.Module { return newAdminAPI() }}
}

// operation does what a request asks for and returns what to answer with; nil answers 204.
type operation func(*App, *http.Request) (status int, answer any, err error)

// newAdminAPI lists what an operator can do. GET shows no secret and no hash.
func newAdminAPI() *adminAPI {
	a := &adminAPI{mux: http.NewServeMux()}
	for pattern, op := range map[string]operation{
		"GET /oauth/clients":                     listClients,
		"POST /oauth/clients":                    addClient,
		"GET /oauth/clients/{id}":                showClient,
		"DELETE /oauth/clients/{id}":             removeClient,
		"POST /oauth/clients/{id}/rotate-secret": rotateSecret,
		"POST /oauth/clients/{id}/disable":       disableClient,
		"POST /oauth/clients/{id}/enable":        enableClient,
		"POST /oauth/tokens":                     mintToken,
		"POST /oauth/tokens/explain":             explainToken,
		"POST /oauth/revocations":                addRevocation,
		"GET /oauth/keys":                        listKeys,
	} {
		a.mux.HandleFunc(pattern, serveOperation(op))
	}
	a.mux.HandleFunc("/", a.refuse)
	return a
}

// refuse answers what is none of the operations: a method that the path does not have, or a path that nobody has.
func (a *adminAPI) refuse(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
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

// serveOperation runs an operation on the running app.
func serveOperation(op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		app := running.newest()
		if app == nil {
			writeAdminError(w, http.StatusServiceUnavailable, errors.New("no oauth app is running: is there an oauth block in the configuration?"))
			return
		}
		// A browser sends this type across sites only after it has asked, so no web page can make an operator's browser
		// change anything.
		if media, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); r.Method == http.MethodPost && media != "application/json" {
			writeAdminError(w, http.StatusUnsupportedMediaType, errors.New("send the request as application/json"))
			return
		}
		if !app.engine.enter() {
			writeAdminError(w, http.StatusServiceUnavailable, errors.New("the oauth app is shutting down"))
			return
		}
		defer app.engine.leave()
		status, answer, err := op(app, r)
		if err != nil {
			writeAdminError(w, adminStatus(err), inWords(err))
			return
		}
		writeAdmin(w, status, answer)
	}
}

// adminStatus maps an error of the core to a status.
func adminStatus(err error) int {
	var own *tokenissuer.Error
	var tooLong *http.MaxBytesError
	switch {
	case errors.As(err, &tooLong):
		return http.StatusRequestEntityTooLarge
	case errors.Is(err, tokenissuer.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, tokenissuer.ErrTaken), errors.Is(err, tokenissuer.ErrDeclared):
		return http.StatusConflict
	case tokenissuer.IsInvalidInput(err):
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code != tokenissuer.ServerError && own.Code != tokenissuer.TemporarilyUnavailable:
		return http.StatusBadRequest
	case errors.As(err, &own) && own.Code == tokenissuer.ServerError:
		return http.StatusInternalServerError
	}
	return http.StatusServiceUnavailable
}

// inWords puts an error that is the operator's to mend into a sentence.
func inWords(err error) error {
	var own *tokenissuer.Error
	switch {
	case errors.Is(err, tokenissuer.ErrNotFound):
		return errors.New("there is no such client")
	case errors.As(err, &own) && adminStatus(err) == http.StatusBadRequest:
		return fmt.Errorf("%s (%s)", own.Description, own.Reason)
	}
	return err
}

func writeAdminError(w http.ResponseWriter, status int, err error) {
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

// readAdmin reads the body of a request strictly: a misspelled member would otherwise be an option left out.
func readAdmin(r *http.Request, into any) error {
	err := json.UnmarshalRead(http.MaxBytesReader(nil, r.Body, maxAdminBody), into, json.RejectUnknownMembers(true))
	if err != nil {
		return tokenissuer.InvalidInput(fmt.Errorf("the request: %w", err))
	}
	return nil
}

// clientView is what an operator sees of a client.
type clientView struct {
	ID           string                  `json:"id"`
	Name         string                  `json:"name"`
	Type         tokenissuer.ClientType  `json:"type"`
	Grants       []tokenissuer.GrantType `json:"grants"`
	Scopes       []string                `json:"scopes"`
	RedirectURIs []string                `json:"redirect_uris,omitempty"`
	FirstParty   bool                    `json:"first_party,omitzero"`
	Disabled     bool                    `json:"disabled"`
	Source       string                  `json:"source"`
	CreatedAt    time.Time               `json:"created_at,omitzero"`
	Secrets      []secretView            `json:"secrets,omitempty"`
	// Secret is there once: in the answer to the request that made it.
	Secret string `json:"client_secret,omitzero"`
}

type secretView struct {
	CreatedAt time.Time `json:"created_at,omitzero"`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

func viewOf(c *tokenissuer.Client) clientView {
	view := clientView{
		ID: c.ID, Name: c.Name, Type: c.Type, Grants: c.Grants, Scopes: c.Scopes, RedirectURIs: c.RedirectURIs,
		FirstParty: c.FirstParty, Disabled: c.Disabled, Source: "store", CreatedAt: c.CreatedAt,
	}
	if c.Declared {
		view.Source = "config"
	}
	for _, s := range c.Secrets {
		view.Secrets = append(view.Secrets, secretView{s.CreatedAt, s.ExpiresAt})
	}
	return view
}

func listClients(app *App, r *http.Request) (int, any, error) {
	clients, err := app.registry.Clients(r.Context())
	views := make([]clientView, 0, len(clients))
	for _, c := range clients {
		views = append(views, viewOf(c))
	}
	return http.StatusOK, views, err
}

func showClient(app *App, r *http.Request) (int, any, error) {
	client, err := app.registry.Client(r.Context(), r.PathValue("id"))
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, viewOf(client), nil
}

// newClient is the request to add a client.
type newClient struct {
	ID           string                  `json:"id,omitzero"`
	Name         string                  `json:"name,omitzero"`
	Type         tokenissuer.ClientType  `json:"type,omitzero"`
	Grants       []tokenissuer.GrantType `json:"grants,omitempty"`
	Scopes       []string                `json:"scopes,omitempty"`
	RedirectURIs []string                `json:"redirect_uris,omitempty"`
	FirstParty   bool                    `json:"first_party,omitzero"`
}

func addClient(app *App, r *http.Request) (int, any, error) {
	var n newClient
	if err := readAdmin(r, &n); err != nil {
		return 0, nil, err
	}
	client, secret, err := app.registry.AddClient(r.Context(), tokenissuer.Client{
		ID: n.ID, Name: n.Name, Type: n.Type, Grants: n.Grants, Scopes: n.Scopes,
		RedirectURIs: n.RedirectURIs, FirstParty: n.FirstParty,
	})
	if err != nil {
		return 0, nil, err
	}
	app.record("client added", client.ID)
	view := viewOf(client)
	view.Secret = secret.Reveal()
	return http.StatusCreated, view, nil
}

func removeClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client removed", app.registry.RemoveClient(r.Context(), r.PathValue("id")))
}

func disableClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client disabled", app.registry.DisableClient(r.Context(), r.PathValue("id")))
}

func enableClient(app *App, r *http.Request) (int, any, error) {
	return app.changeClient(r, "client enabled", app.registry.EnableClient(r.Context(), r.PathValue("id")))
}

// changeClient records a change that went well.
func (a *App) changeClient(r *http.Request, what string, err error) (int, any, error) {
	if err == nil {
		a.record(what, r.PathValue("id"))
	}
	return http.StatusNoContent, nil, err
}

// defaultOverlap is how long an old secret stays good unless the operator says otherwise.
const defaultOverlap = "24h"

func rotateSecret(app *App, r *http.Request) (int, any, error) {
	var request struct {
		Overlap string `json:"overlap,omitzero"`
	}
	if err := readAdmin(r, &request); err != nil {
		return 0, nil, err
	}
	overlap, err := optionalDuration(cmp.Or(request.Overlap, defaultOverlap))
	if err != nil {
		return 0, nil, err
	}
	id := r.PathValue("id")
	secret, err := app.registry.RotateSecret(r.Context(), id, overlap)
	if err != nil {
		return 0, nil, err
	}
	app.record("client secret rotated", id)
	return http.StatusOK, clientSecret{id, secret.Reveal()}, nil
}

type clientSecret struct {
	ID     string `json:"id"`
	Secret string `json:"client_secret"`
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
func (a *App) record(what, id string) {
	a.logger.Named("audit").Info(what, zap.String("client_id", id), zap.String("by", "operator"))
}
