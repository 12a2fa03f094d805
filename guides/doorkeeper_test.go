package guides

import (
	"bytes"
	"crypto/sha256"
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver pgx

	"github.com/gatehouse-auth/gatehouse/internal/mariadbtest"
	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

const (
	pepper = "a pepper of the old service"
	// livePeople is how many people can sign in.
	livePeople = 8
)

// application is a client of the old service.
type application struct {
	Name         string `json:"name"`
	RedirectURI  string `json:"redirect_uri"`
	Scopes       string `json:"scopes"`
	Confidential bool   `json:"confidential"`
	uid, secret  string
}

// person is a person of the old service.
type person struct {
	Email    string `json:"email"`
	Password string `json:"password"`
	State    string `json:"state,omitempty"`
	id       string
}

// move is a service on its way from Doorkeeper to Gatehouse. Its clients know one address, that of the Caddy in front.
type move struct {
	t            *testing.T
	dir          string
	addresses    *strings.Replacer // those of the page and those of the test
	page         []string          // the blocks of caddyfile on the page
	front        string
	admins       [2]string // of the Caddy in front, and of that with Gatehouse
	dsn          string    // for the import
	applications []application
	people       []person
	stopOld      func()
	client       *http.Client
	api          atomic.Int64 // requests that reached the new API

	mu      sync.Mutex
	revoked []session
	counts  map[string]int
}

// oldDatabase is an empty database.
type oldDatabase struct {
	db          *sql.DB
	dsn, rails  string // for the import, and for Rails
	hashed      string // the strategy of hash_application_secrets
	importFlags []string
}

// startMove starts the old service in a database, the Caddy in front of it, and Gatehouse beside it.
func startMove(t *testing.T, database oldDatabase) *move {
	t.Helper()
	m := &move{t: t, dir: t.TempDir(), dsn: database.dsn, counts: make(map[string]int), client: &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 32}}}
	m.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	old, front := freeAddr(t), freeAddr(t)
	m.front, m.admins = "http://"+front, [2]string{freeAddr(t), freeAddr(t)}
	m.applications = []application{
		{Name: "Portal", RedirectURI: "https://portal.example.com/callback", Scopes: "public orders.read", Confidential: true},
		{Name: "Shop", RedirectURI: "https://shop.example.com/callback\nhttps://shop.example.com/other", Scopes: "public orders.read", Confidential: true},
		{Name: "Phone", RedirectURI: "com.example.phone:/callback", Scopes: "public orders.read"},
		{Name: "Robot", RedirectURI: "https://robot.example.com/none", Scopes: "public", Confidential: true},
	}
	for i := range livePeople {
		m.people = append(m.people, person{Email: fmt.Sprintf("person%d@example.com", i), Password: fmt.Sprintf("the password of number %d", i)})
	}
	m.people = append(m.people, person{Email: "unconfirmed@example.com", Password: "never been confirmed", State: "unconfirmed"},
		person{Email: "locked@example.com", Password: "has been locked out", State: "locked"})
	env := append(os.Environ(), "DATABASE_URL="+database.rails, "SERVICE_ROOT="+m.dir, "DEVISE_PEPPER="+pepper, "RAILS_ENV=production")
	if database.hashed != "" {
		env = append(env, "HASHED="+database.hashed)
	}
	m.makeTables(env)
	service := exec.Command("puma", "--bind", "tcp://"+old, "--threads", "1:8", "--environment", "production", "config.ru")
	service.Dir, service.Env = "testdata/doorkeeper", env
	m.stopOld = start(t, service, old)

	newAPI := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.api.Add(1)
		_ = json.NewEncoder(w).Encode(map[string]string{"served_by": "the new API", "person": r.Header.Get("X-Auth-Subject")})
	}))
	t.Cleanup(newAPI.Close)
	m.addresses = strings.NewReplacer("https://api.example.com", m.front, "\napi.example.com {", "\n"+m.front+" {", "127.0.0.1:3000", old, "127.0.0.1:3001", strings.TrimPrefix(newAPI.URL, "http://"),
		"localhost:2019", m.admins[0], "localhost:2020", m.admins[1], ":9080", portOf(freeAddr(t)), ":9081", portOf(freeAddr(t)), ":9082", portOf(freeAddr(t)))
	text, err := os.ReadFile("../docs/migration-doorkeeper.md")
	check(t, err)
	for _, found := range regexp.MustCompile("(?ms)^[ ]*```caddyfile\n(.*?)^[ ]*```$").FindAllStringSubmatch(string(text), -1) {
		m.page = append(m.page, strings.TrimPrefix(strings.ReplaceAll("\n"+found[1], "\n   ", "\n"), "\n"))
	}
	m.run(gatehouseBefore, m.admins[1])
	m.run(frontBefore, front)
	return m
}

func portOf(addr string) string { return addr[strings.LastIndex(addr, ":"):] }

// The Caddyfiles of the page, in its order.
const (
	gatehouseBefore = iota
	frontBefore
	frontWaits
	frontHolds
	gatehouseOpen
)

// caddyfile writes a Caddyfile of the page. The last one has only sites.
func (m *move) caddyfile(number int) (path string) {
	m.t.Helper()
	text := m.page[number]
	switch number {
	case gatehouseOpen:
		settings, _, _ := strings.Cut(m.page[gatehouseBefore], "\nhttp://")
		text = settings + "\n" + text
	case frontBefore, frontWaits, frontHolds:
		text = "{\n\tadmin localhost:2019\n}\n" + text
	}
	path = filepath.Join(m.dir, fmt.Sprintf("Caddyfile%d", number))
	check(m.t, os.WriteFile(path, []byte(m.addresses.Replace(text)), 0o600))
	return path
}

// run starts a Caddy.
func (m *move) run(number int, addr string) {
	m.t.Helper()
	home := filepath.Join(m.dir, fmt.Sprint(number))
	command := exec.Command(caddy, "run", "--config", m.caddyfile(number), "--adapter", "caddyfile")
	command.Env = append(os.Environ(), "XDG_DATA_HOME="+home, "XDG_CONFIG_HOME="+home, "DEVISE_PEPPER="+pepper)
	start(m.t, command, addr)
}

// reload gives a Caddy the next Caddyfile of the page.
func (m *move) reload(number int, admin string) {
	m.t.Helper()
	command := exec.Command(caddy, "reload", "--config", m.caddyfile(number), "--adapter", "caddyfile", "--address", admin)
	if out, err := command.CombinedOutput(); err != nil {
		m.t.Fatalf("%s: %v\n%s", command, err, out)
	}
}

// makeTables makes the tables with what they have at first.
func (m *move) makeTables(env []string) {
	m.t.Helper()
	plan, err := json.Marshal(map[string]any{"people": m.people, "applications": m.applications})
	check(m.t, err)
	setup := exec.Command("ruby", "testdata/doorkeeper/setup.rb")
	setup.Env, setup.Stdin = env, bytes.NewReader(plan)
	var said bytes.Buffer
	setup.Stderr = &said
	out, err := setup.Output()
	if err != nil {
		m.t.Fatalf("%s: %v\n%s", setup, err, &said)
	}
	var made struct {
		People       []int
		Applications []struct{ UID, Secret string }
		Versions     string
	}
	if err := json.Unmarshal(out, &made); err != nil || len(made.People) != len(m.people) || len(made.Applications) != len(m.applications) {
		m.t.Fatalf("%s: %v\n%s", setup, err, out)
	}
	for i := range m.people {
		m.people[i].id = fmt.Sprint(made.People[i])
	}
	for i, a := range made.Applications {
		m.applications[i].uid, m.applications[i].secret = a.UID, a.Secret
	}
	m.t.Logf("the old service: %s", made.Versions)
}

func (m *move) count(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts[what]++
	return m.counts[what]
}

func (m *move) counted(what string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.counts[what]
}

// answer is what a request of a client is answered with.
type answer struct {
	status int
	body   string
	member map[string]any
}

func (a answer) text(name string) string {
	text, _ := a.member[name].(string)
	return text
}

func (m *move) do(request *http.Request) (a answer) {
	m.t.Helper()
	response, err := m.client.Do(request)
	if err != nil {
		m.t.Errorf("%s %s: %v", request.Method, request.URL, err)
		return a
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		m.t.Errorf("%s %s: %v", request.Method, request.URL, err)
	}
	a.status, a.body = response.StatusCode, string(body)
	_ = json.Unmarshal(body, &a.member)
	m.count("requests")
	return a
}

// post sends a form of an application. The shop says who it is in the header, and the others in the form.
func (m *move) post(path string, a application, fields ...string) answer {
	m.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(fields); i += 2 {
		form.Set(fields[i], fields[i+1])
	}
	inHeader := a.Name == "Shop"
	if !inHeader {
		form.Set("client_id", a.uid)
		if a.Confidential {
			form.Set("client_secret", a.secret)
		}
	}
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodPost, m.front+path, strings.NewReader(form.Encode()))
	check(m.t, err)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if inHeader {
		request.SetBasicAuth(url.QueryEscape(a.uid), url.QueryEscape(a.secret))
	}
	return m.do(request)
}

// get asks the API.
func (m *move) get(token string) answer {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.front+"/orders", nil)
	check(m.t, err)
	request.Header.Set("Authorization", "Bearer "+token)
	return m.do(request)
}

// session is what an application has of a person.
type session struct {
	m               *move
	application     application
	person          person
	access, refresh string
}

// signIn gets tokens by the code flow. It returns false if the code was not taken, or nothing came of it.
func (s *session) signIn() bool {
	s.m.t.Helper()
	verifier := strings.Repeat("verifier-of-the-phone-", 3)
	sum := sha256.Sum256([]byte(verifier))
	callback, _, _ := strings.Cut(s.application.RedirectURI, "\n")
	query := url.Values{"client_id": {s.application.uid}, "redirect_uri": {callback}, "response_type": {"code"}, "scope": {"public orders.read"}, "state": {"s"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}, "code_challenge_method": {"S256"}}
	b := newBrowser(s.m.t)
	b.email, b.password = s.person.Email, s.person.Password
	at := b.sentTo(s.m.front+"/oauth/authorize?"+query.Encode(), to(callback))
	got := s.m.post("/oauth/token", s.application, "grant_type", "authorization_code", "code", at.Query().Get("code"), "redirect_uri", callback, "code_verifier", verifier)
	s.m.count("sign-ins")
	return s.takes("a code", got)
}

func (s *session) passwordGrant() bool {
	s.m.t.Helper()
	s.m.count("password grants")
	return s.takes("a password", s.m.post("/oauth/token", s.application, "grant_type", "password", "username", s.person.Email, "password", s.person.Password, "scope", "public"))
}

func (s *session) refreshes() bool {
	s.m.t.Helper()
	s.m.count("refreshes")
	return s.takes("a refresh token", s.m.post("/oauth/token", s.application, "grant_type", "refresh_token", "refresh_token", s.refresh))
}

// takes takes the tokens of an answer.
func (s *session) takes(what string, got answer) bool {
	s.m.t.Helper()
	if got.status != http.StatusOK || got.text("access_token") == "" || got.text("refresh_token") == "" {
		s.m.t.Errorf("%s of %s at %s: %d %s", what, s.person.Email, s.application.Name, got.status, got.body)
		return false
	}
	s.access, s.refresh = got.text("access_token"), got.text("refresh_token")
	return true
}

// calls asks the API in the name of the person.
func (s *session) calls() bool {
	s.m.t.Helper()
	got := s.m.get(s.access)
	if got.status != http.StatusOK || fmt.Sprint(got.member["person"]) != s.person.id {
		s.m.t.Errorf("the API for %s at %s: %d %s", s.person.Email, s.application.Name, got.status, got.body)
		return false
	}
	return true
}

// isActive asks about the access token.
func (s *session) isActive() bool {
	s.m.t.Helper()
	asker := s.application
	if !asker.Confidential {
		return true // it cannot ask
	}
	got := s.m.post("/oauth/introspect", asker, "token", s.access)
	if got.status != http.StatusOK || got.member["active"] != true && got.member["active"] != false {
		s.m.t.Errorf("introspection for %s: %d %s", s.application.Name, got.status, got.body)
	}
	return got.member["active"] == true
}

// revokes ends the session at the wish of its application.
func (s *session) revokes() bool {
	s.m.t.Helper()
	if got := s.m.post("/oauth/revoke", s.application, "token", s.access); got.status != http.StatusOK {
		s.m.t.Errorf("revoking a token of %s at %s: %d %s", s.person.Email, s.application.Name, got.status, got.body)
		return false
	}
	s.m.mu.Lock()
	defer s.m.mu.Unlock()
	s.m.revoked = append(s.m.revoked, *s)
	return true
}

// ended checks that neither token is good.
func (s *session) ended() {
	s.m.t.Helper()
	if got := s.m.get(s.access); got.status != http.StatusUnauthorized {
		s.m.t.Errorf("a revoked token of %s at %s: the API answers %d", s.person.Email, s.application.Name, got.status)
	}
	if s.application.Confidential && s.isActive() {
		s.m.t.Errorf("a revoked token of %s at %s is active", s.person.Email, s.application.Name)
	}
	if got := s.m.post("/oauth/token", s.application, "grant_type", "refresh_token", "refresh_token", s.refresh); got.status != http.StatusBadRequest || got.text("error") != "invalid_grant" {
		s.m.t.Errorf("a revoked refresh token of %s at %s: %d %s", s.person.Email, s.application.Name, got.status, got.body)
	}
}

// load lets clients work until the returned function is called. Those that have a refresh token never ask a person again; visitors sign in
// and sign out; the robot has tokens of its own.
func (m *move) load(sessions []*session) (end func()) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	each := func(step func(turn int) bool) {
		all.Go(func() {
			for turn := 1; ; turn++ {
				select {
				case <-stop:
					return
				case <-time.After(200 * time.Millisecond):
				}
				if !step(turn) {
					return
				}
			}
		})
	}
	for _, s := range sessions {
		each(func(turn int) bool {
			switch {
			case turn%3 == 0:
				return s.refreshes()
			case turn%5 == 0:
				if !s.isActive() {
					m.t.Errorf("a live token of %s at %s is not active", s.person.Email, s.application.Name)
				}
			}
			return s.calls()
		})
	}
	for i := range 2 {
		visitor := session{m: m, application: m.applications[i], person: m.people[i]}
		each(func(int) bool { return visitor.signIn() && visitor.calls() && visitor.revokes() })
	}
	robot := m.applications[3]
	each(func(int) bool {
		got := m.post("/oauth/token", robot, "grant_type", "client_credentials")
		if got.status != http.StatusOK {
			m.t.Errorf("the robot: %d %s", got.status, got.body)
			return false
		}
		if m.count("robot tokens")%2 == 0 {
			if got := m.post("/oauth/revoke", robot, "token", got.text("access_token")); got.status != http.StatusOK {
				m.t.Errorf("the robot revokes: %d %s", got.status, got.body)
			}
			return true
		}
		if got := m.get(got.text("access_token")); got.status != http.StatusOK {
			m.t.Errorf("the API for the robot: %d %s", got.status, got.body)
		}
		return true
	})
	return func() {
		close(stop)
		all.Wait()
	}
}

// imports runs the command of the page and returns what it says at the end.
func (m *move) imports(args ...string) string {
	m.t.Helper()
	began := time.Now()
	command := exec.Command(caddy, append([]string{"oauth", "--address", m.admins[1], "import", "doorkeeper", "--from", m.dsn, "--devise", "users"}, args...)...)
	var listed, summary bytes.Buffer
	command.Stdout, command.Stderr = &listed, &summary
	if err := command.Run(); err != nil {
		m.t.Errorf("%s: %v\n%s%s", command, err, &listed, &summary)
	}
	m.t.Logf("import %s in %s:\n%s%s", strings.Join(args, " "), time.Since(began).Round(time.Millisecond), &listed, &summary)
	return summary.String()
}

// TestDK41ADoorkeeperMovesUnderLoad: the clients of a real Doorkeeper with Devise, in PostgreSQL, and hashed in MariaDB, work on while its tables are
// imported, the Caddy in front is led to Gatehouse and the old service stops → no request fails, nobody who has a refresh token signs in again,
// live tokens are live, revoked ones stay revoked, and everybody signs in with the password that they had.
func TestDK41ADoorkeeperMovesUnderLoad(t *testing.T) {
	t.Run("PostgreSQL", func(t *testing.T) {
		dsn := pgtest.Shared(t).Database(t)
		db, err := sql.Open("pgx", dsn)
		check(t, err)
		t.Cleanup(func() { _ = db.Close() })
		moves(t, oldDatabase{db: db, dsn: dsn, rails: dsn})
	})
	t.Run("MariaDB with digests", func(t *testing.T) {
		db, dsn := mariadbtest.Start(t)
		t.Cleanup(func() { _ = db.Close() })
		rails := strings.Replace(dsn, "mysql://root@/", "mysql2://root@localhost/", 1)
		moves(t, oldDatabase{db: db, dsn: dsn, rails: rails, hashed: "Doorkeeper::SecretStoring::BCrypt", importFlags: []string{"--tokens", "sha256"}})
	})
}

func moves(t *testing.T, database oldDatabase) {
	m := startMove(t, database)
	rows := func(of string) (n int) {
		t.Helper()
		check(t, database.db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+of).Scan(&n))
		return n
	}
	// What clients have got, by each grant that gives a person's tokens.
	var busy, idle []*session
	for i, p := range m.people[:livePeople] {
		for j, a := range m.applications[:3] {
			s := &session{m: m, application: a, person: p}
			if j == 1 && i%2 == 0 && !s.passwordGrant() || !(j == 1 && i%2 == 0) && !s.signIn() {
				t.Fatal("the old service gives no tokens")
			}
			if i%3 == 0 {
				busy = append(busy, s)
			} else {
				idle = append(idle, s)
			}
		}
	}
	for _, s := range idle[:4] {
		s.revokes()
	}
	idle = idle[4:]
	end := m.load(busy)
	time.Sleep(3 * time.Second)

	m.imports(append(database.importFlags, "--dry-run")...)
	m.imports(database.importFlags...)
	time.Sleep(3 * time.Second)
	m.imports(database.importFlags...)
	m.reload(frontWaits, m.admins[0])
	time.Sleep(5 * time.Second)
	m.reload(frontHolds, m.admins[0])
	held := time.Now()
	for added := true; added; {
		time.Sleep(3 * time.Second)
		_, tokens, _ := strings.Cut(m.imports(database.importFlags...), "tokens: ")
		added = strings.Contains(tokens, " added")
	}
	signIns := m.counted("sign-ins")
	live := rows("oauth_access_tokens WHERE revoked_at IS NULL")
	if summary := m.imports(append(database.importFlags, "--dry-run")...); !strings.Contains(summary, fmt.Sprintf("applications: nothing was stored; it would be: %d unchanged\n", rows("oauth_applications"))) ||
		!strings.Contains(summary, fmt.Sprintf("people: nothing was stored; it would be: %d unchanged\n", rows("users"))) ||
		!strings.Contains(summary, fmt.Sprintf("tokens: nothing was stored; it would be: %d unchanged, %d revoked\n", live, rows("oauth_access_tokens")-live)) {
		t.Errorf("what was brought over differs from the tables, with %d live tokens:\n%s", live, summary)
	}
	if n := m.counted("sign-ins"); n != signIns || m.api.Load() > 0 {
		t.Errorf("%d sign-ins went on while requests were held, and %d requests reached the new API", n-signIns, m.api.Load())
	}
	m.reload(gatehouseOpen, m.admins[1])
	t.Logf("requests were held for %s", time.Since(held).Round(time.Millisecond))
	time.Sleep(3 * time.Second)
	m.stopOld()
	m.imports(database.importFlags...)
	refreshes := m.counted("refreshes")
	time.Sleep(5 * time.Second)
	end()
	if m.counted("refreshes") == refreshes || m.api.Load() == 0 {
		t.Error("the clients stood still after the old service had stopped")
	}

	// Who did nothing meanwhile goes on with what they had.
	for _, s := range idle {
		if !s.isActive() || !s.calls() || !s.refreshes() || !s.calls() || !s.isActive() {
			t.Errorf("%s does not go on at %s", s.person.Email, s.application.Name)
		}
	}
	for _, s := range m.revoked {
		s.ended()
	}
	for _, p := range m.people[:livePeople] {
		s := &session{m: m, application: m.applications[0], person: p}
		if !s.signIn() || !s.calls() {
			t.Errorf("%s does not sign in with the password that they had", p.Email)
		}
	}
	for _, p := range m.people[livePeople:] {
		got := m.post("/oauth/token", m.applications[1], "grant_type", "password", "username", p.Email, "password", p.Password)
		if got.status != http.StatusBadRequest || got.text("error") != "invalid_grant" {
			t.Errorf("%s comes in: %d %s", p.Email, got.status, got.body)
		}
	}
	var names []string
	for name := range m.counts {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		t.Logf("%d %s", m.counts[name], name)
	}
	t.Logf("%d applications, %d people, %d rows of tokens, %d of them live; %d sessions revoked", rows("oauth_applications"), rows("users"), rows("oauth_access_tokens"), live, len(m.revoked))
}
