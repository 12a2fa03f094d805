package backchannel

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const issuer = "https://issuer.example"

// desk is a store with clients, and a worker on it whose time only the test moves.
type desk struct {
	*testing.T
	store  *sqlstore.Store
	clock  *tokentest.Clock
	worker *Worker

	mu      sync.Mutex
	results []Result
	failed  []error
}

func newDesk(t *testing.T) *desk {
	d := &desk{T: t, store: teststore.New(t), clock: tokentest.NewClock()}
	d.worker = d.newWorker(d.store.Logouts)
	return d
}

// newWorker returns the worker of a node.
func (d *desk) newWorker(s store.LogoutStore) *Worker {
	set := new(keys.Set)
	var list []*keys.SigningKey
	for _, key := range testkeys.Shared() {
		list = append(list, key)
	}
	d.must(set.Replace(list, testkeys.Algorithms...))
	w := NewWorker(Settings{
		Store: s, Clients: d.store.Clients, Issuer: issuer, Keys: set, Now: d.clock.Now,
		Report: func(r Result) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.results = append(d.results, r)
		},
		StoreFailed: func(err error) {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.failed = append(d.failed, err)
		},
	})
	d.Cleanup(w.clients.close)
	return w
}

func (d *desk) must(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// client registers an application that is told at the URI.
func (d *desk) client(id, uri string) {
	d.Helper()
	d.must(d.store.Clients.AddClient(d.Context(), &store.Client{ID: id, ClientOpenID: store.ClientOpenID{BackchannelLogoutURI: uri}}))
}

// ended leaves a session of ada's in which the clients were approved, and ends it now.
func (d *desk) ended(session string, clients ...string) {
	d.Helper()
	add := func(f store.TokenFamily) {
		d.Helper()
		f.User.ID, f.User.Declared, f.ExpiresAt = "ada", true, d.clock.Now().Add(time.Hour)
		if outcome, err := d.store.Families.AddFamily(d.Context(), &f); outcome != store.Done || err != nil {
			d.Fatal(outcome, err)
		}
	}
	add(store.TokenFamily{ID: session, Grant: store.Grant{Origin: store.BrowserSession}})
	for _, id := range clients {
		add(store.TokenFamily{
			ID: session + id, Grant: store.Grant{ClientID: id, Origin: oauth.AuthorizationCode}, SignIn: store.SignIn{SessionID: session}, TellsLogout: true,
			Preconditions: store.Preconditions{SessionID: session},
		})
	}
	_, err := d.store.Families.EndFamilies(d.Context(), store.FamilyFilter{ID: session}, store.Ending{At: d.clock.Now(), Until: d.clock.Now().Add(time.Hour)})
	d.must(err)
}

// round delivers what is due now and waits for it.
func (d *desk) round() {
	d.worker.deliverDue(d.Context())
	d.worker.deliveries.Wait()
}

// taken returns the results since the last call, as "client outcome", and the results themselves.
func (d *desk) taken() (words []string, results []Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	results, d.results = d.results, nil
	for _, r := range results {
		words = append(words, fmt.Sprintf("%s %s", r.Logout.ClientID, r.Outcome))
	}
	return words, results
}

// left returns how many logouts are due until a time far away.
func (d *desk) left() int {
	d.Helper()
	list, err := d.store.Logouts.DueLogouts(context.Background(), d.clock.Now().Add(100*time.Hour), 100000)
	d.must(err)
	return len(list)
}

// receiver is an application that is told.
type receiver struct {
	*httptest.Server
	answer http.HandlerFunc
	mu     sync.Mutex
	tokens []string
	others []string // requests that are no back-channel logout
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	request.Body = io.NopCloser(nil)
	form := string(body)
	token, ok := tokenOf(form)
	r.mu.Lock()
	if ok && request.Method == http.MethodPost && request.Header.Get("Content-Type") == "application/x-www-form-urlencoded" {
		r.tokens = append(r.tokens, token)
	} else {
		r.others = append(r.others, request.Method+" "+request.URL.Path+" "+form)
	}
	r.mu.Unlock()
	r.answer(w, request)
}

func tokenOf(form string) (string, bool) {
	const name = "logout_token="
	if len(form) < len(name) || form[:len(name)] != name {
		return "", false
	}
	return form[len(name):], true
}

// told returns the tokens that have come.
func (r *receiver) told() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.tokens...)
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// read verifies a logout token with golang-jwt and returns header and claims.
func read(t *testing.T, token string, algorithm oauth.Algorithm) (header map[string]any, claims jwt.MapClaims) {
	t.Helper()
	key := testkeys.Shared()[algorithm]
	parsed, err := jwt.NewParser(jwt.WithValidMethods([]string{string(algorithm)}), jwt.WithoutClaimsValidation()).
		ParseWithClaims(token, jwt.MapClaims{}, func(*jwt.Token) (any, error) { return testkeys.Public(key), nil })
	if err != nil {
		t.Fatal(err)
	}
	return parsed.Header, parsed.Claims.(jwt.MapClaims)
}
