package caddymodule

import (
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The files in testdata/populated are what a build of each schema version has left in its store: rows with that version's
// columns, beside those of the versions before. Their credentials are made with the master key that stands there.
const (
	oldRows   = "testdata/populated"
	oldSchema = "../tokenissuer/sqlstore/migrations"

	oldSecret   = "kP3wq8ZrT1vN6yXbC4mGdJ7sLfHa2uEoRi5tYn0QzWc"
	oldPassword = "correct horse battery staple"
	oldVerifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	oldKey      = "roNb7BVLco3a3HE7fNfwXfEdu0qYY_EwnD4HgpM601I"
	oldCode     = "hL3ugOJkbI0OvfVXTDrguShj0xwqpvGbiXMYxyRSzxQeCx9FowLVw8gc2Jf0SYzVC"

	// Refresh tokens: the current one of a family, one that was used an hour ago, and that of a family that was revoked.
	oldRefresh = "rVhNukbfz28rj2Rq6Jrnkj0000023ugf5uUpbatBPkFk75qcNy1zL7cTf9EqGShqx6jLHef"
	oldUsed    = "rVhNukbfz28rj2Rq6Jrnkj000001xYzkjuadPOaZxvQakr25kx8VPvFfAST5BuDACdjjgdZ"
	oldEnded   = "7eaPmyQ9ac0Ho7APUyKy0v0000015WvF6OmndUve6MkoLq6TYqYEoxQDoVh5mQR2d7rgi8e"
	// The current one of a family that version 5 wrote.
	oldRefresh5 = "AUmMsgFXPXgaHltd08lFuh0000037DGsud0MCLr73c2TQV7CbIrGkK7JVaBder9UlfSfGXx"

	// oldKEK is what the keys are sealed with in stores that were sealed.
	oldKEK = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
)

// schemaVersions are those of the migrations, in order, each once.
func schemaVersions(t *testing.T) []int64 {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(oldSchema, "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	var versions []int64
	for _, file := range files {
		number, _, _ := strings.Cut(filepath.Base(file), "_")
		version, err := strconv.ParseInt(number, 10, 64)
		if err != nil || slices.Contains(versions, version) {
			t.Fatalf("%s: its version is no number, or taken (%v)", file, err)
		}
		versions = append(versions, version)
	}
	if !slices.IsSorted(versions) || len(versions) == 0 {
		t.Fatalf("the versions are %v", versions)
	}
	return versions
}

func rowsOf(version int64) string { return filepath.Join(oldRows, fmt.Sprintf("%05d.sql", version)) }

// populate makes the store of a build of that version: each migration is followed by what builds of it have written.
func populate(t *testing.T, dialect goose.Dialect, db *sql.DB, version int64, sealed bool) {
	t.Helper()
	provider, err := goose.NewProvider(dialect, db, os.DirFS(oldSchema), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range schemaVersions(t) {
		if v > version {
			break
		}
		if _, err := provider.UpTo(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		insert(t, dialect, db, rowsOf(v))
	}
	if sealed {
		insert(t, dialect, db, filepath.Join(oldRows, "sealed.sql"))
	}
}

// insert runs the statements of a file, in which NOW is the time and X'…' are bytes, as SQLite writes them.
func insert(t *testing.T, dialect goose.Dialect, db *sql.DB, file string) {
	t.Helper()
	text := regexp.MustCompile(`(?m)^--.*$`).ReplaceAllString(readFile(t, file), "")
	text = strings.ReplaceAll(text, "NOW", strconv.FormatInt(time.Now().UnixMicro(), 10))
	if dialect == goose.DialectPostgres {
		text = strings.ReplaceAll(text, "X'", `'\x`)
	}
	for statement := range strings.SplitSeq(text, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v in %s", file, err, statement)
		}
	}
}

// TestF22EverySchemaVersionHasAFixture: whoever adds a migration leaves a store of the version before.
func TestF22EverySchemaVersionHasAFixture(t *testing.T) {
	versions := schemaVersions(t)
	for _, v := range versions[:len(versions)-1] {
		if _, err := os.Stat(rowsOf(v)); err != nil {
			t.Errorf("schema version %d has a successor, and there is no store of it: write %s, with the columns that it added", v, rowsOf(v))
		}
	}
}

// TestF22PopulatedStoresOfOlderSchemas: a store of every older version is brought up to date by a start, and everybody who is
// in it goes on: clients, people, families in every state, keys. What was ended stays ended.
func TestF22PopulatedStoresOfOlderSchemas(t *testing.T) {
	for _, version := range schemaVersions(t) {
		if _, err := os.Stat(rowsOf(version)); err != nil {
			continue // the newest needs none yet
		}
		for _, dialect := range []goose.Dialect{goose.DialectSQLite3, goose.DialectPostgres} {
			for _, sealed := range []bool{false, true} {
				name := fmt.Sprintf("%s version %d", dialect, version)
				if sealed {
					name += " sealed"
				}
				t.Run(name, func(t *testing.T) { livesOn(t, dialect, version, sealed) })
			}
		}
	}
}

func livesOn(t *testing.T, dialect goose.Dialect, version int64, sealed bool) {
	g := startGatehouse(t, "{\n\tadmin ADMIN\n}\n")
	driver, source, store := "sqlite", g.database(), "store sqlite DIR/state/oauth.db"
	if dialect == goose.DialectPostgres {
		driver, source = "pgx", pgtest.Shared(t).Database(t)
		store = "store postgres " + source
	} else if err := os.Mkdir(filepath.Dir(source), 0o700); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open(driver, source)
	if err != nil {
		t.Fatal(err)
	}
	populate(t, dialect, db, version, sealed)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(site, "store memory", store+"\n\t\tpassword_grant", 1)
	if sealed {
		g.writeKEK("kek", oldKEK)
		text = strings.Replace(text, "issuer http", "keys {\n\t\t\tencrypt_with {file.DIR/kek}\n\t\t}\n\t\tissuer http", 1)
	}
	g.reload(text)
	g.awaitServing()
	old := oldStore{g, version}
	old.readsWell(t, sealed)
	old.clientsGoOn(t)
	if version >= 2 {
		old.peopleGoOn(t)
	}
	g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"new","name":"new"}`)
}

// oldStore is a Gatehouse on a store that began with an earlier version.
type oldStore struct {
	*gatehouse
	version int64
}

// since is how many rows there are of a kind of which a version has left one more.
func (o oldStore) since(version int64) int {
	if o.version >= version {
		return 1
	}
	return 0
}

// readsWell reads everything through the contract of stores.
func (o oldStore) readsWell(t *testing.T, sealed bool) {
	t.Helper()
	s, ctx := o.app().node.Store(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	clients, err := s.Clients(ctx)
	must(err)
	for _, c := range clients {
		if (len(c.Secrets) == 2) == c.SignsAssertions() || len(c.Grants) != 4 || len(c.RedirectURIs) != 1 || c.CreatedAt.IsZero() || c.PKCERequired != (c.ID == "old-strict") ||
			c.PKCEOptional != (c.ID == "old-rp") || reflect.DeepEqual(c.OpenID, store.ClientOpenID{}) == (c.ID == "old-rp") ||
			(c.Origin == store.FromMetadata) != (c.Name == "Old agent") || c.LastUsedAt.IsZero() == (c.Name == "Old agent") ||
			(c.ClientKeys == store.ClientKeys{}) == (c.ID == "old-signer") || c.RevokePrevious != (c.ID == "old-swift") || len(c.CORSOrigins) != map[bool]int{true: 1}[c.ID == "old-page"] {
			t.Errorf("the client is read as %+v", c)
		}
	}
	if want := 2 + o.since(7) + o.since(9) + o.since(10) + o.since(12) + o.since(14) + o.since(17); len(clients) != want {
		t.Errorf("%d clients, want %d", len(clients), want)
	}
	if err := s.AddClient(ctx, &store.Client{ID: "old-gone"}); err == nil {
		t.Error("the id of a removed client is given again")
	}
	if o.version >= 11 {
		if err := s.AddClient(ctx, &store.Client{ID: "old-left", CreatedAt: time.Now()}); !errors.As(err, new(store.RemovedError)) {
			t.Errorf("the id of a user who was removed lately is given again: %v", err)
		}
		must(s.AddClient(ctx, &store.Client{ID: "old-free", CreatedAt: time.Now()}))
		must(s.RemoveClient(ctx, "old-free", o.app().issuer.RevocationOf(store.RevokeClient, "old-free")))
	}
	keys, err := s.SigningKeys(ctx)
	must(err)
	for _, k := range keys {
		if k.RevokedAt.IsZero() && (k.SealedWith != "") != sealed || k.RevokedAt.IsZero() && (len(k.Binding) > 0) != sealed {
			t.Errorf("the key %s is sealed with %q", k.ID, k.SealedWith)
		}
	}
	revocations, _, err := s.Revocations(ctx, store.FeedPosition{})
	must(err)
	if !slices.ContainsFunc(revocations, func(r store.Revocation) bool { return r.Kind == store.RevokeToken && r.ID == "old-jti" }) {
		t.Errorf("the revocations are %v", revocations)
	}
	if !strings.Contains(o.kids(), oldKey) || kidOf(t, o.token()) == "" {
		t.Errorf("the keys are %s", o.kids())
	}
	if o.version < 2 {
		return
	}
	users, err := s.Users(ctx, "old-acme")
	must(err)
	families, err := s.FamiliesOf(ctx, "old-ada", time.Now())
	must(err)
	organisations, err := s.Organisations(ctx)
	must(err)
	consent, err := s.Consent(ctx, "old-ada", "old-app")
	must(err)
	for _, u := range users {
		told := u.ID == "old-una" // by the columns of version 12
		if u.Name == "" || u.EmailVerified != told || (u.Profile != nil) != told || u.UpdatedAt.IsZero() == told || u.External != (u.ID == "old-wes") || u.Service || u.Version != "1" || len(u.Groups) != map[bool]int{true: 1}[u.ID == "old-gil"] {
			t.Errorf("the user is read as %+v", u)
		}
	}
	if want := 3 + o.since(3) + o.since(5); len(users) != 2+o.since(8)+2*o.since(12)+o.since(13) || len(families) != want || len(organisations) != 1 || consent.String() != "public" {
		t.Errorf("%d users, %d families (want %d), %d organisations, consent %s", len(users), len(families), want, len(organisations), consent)
	}
	must(s.AddPersonalToken(ctx, &store.PersonalToken{ID: "new", UserID: "old-ada", ExpiresAt: time.Now()}, "1")) // the table is there
	if o.version >= 15 {
		bot, err := s.User(ctx, "old-bot")
		must(err)
		tokens, err := s.PersonalTokens(ctx, "old-bot")
		must(err)
		if !bot.Service || len(tokens) != 1 || tokens[0].Name != "Old token" || tokens[0].Scopes.String() != "public" {
			t.Errorf("the service account is read as %+v with %+v", bot, tokens)
		}
	}
	declared, ended, err := s.Declarations(ctx)
	must(err)
	if slices.ContainsFunc(declared, func(d store.Declaration) bool { return d.ID == "old-declared" }) ||
		!slices.ContainsFunc(ended, func(d store.EndedDeclaration) bool { return d.ID == "old-declared" }) {
		t.Errorf("a client that is declared no more is not ended: %v, %v", declared, ended)
	}
	if master := o.app().node.MasterKey(); master == nil {
		t.Error("there is no master key")
	}
}

// asks posts a form as a client with the old secret.
func (o oldStore) asks(t *testing.T, client string, status int, form url.Values) string {
	t.Helper()
	form.Set("client_id", client)
	form.Set("client_secret", oldSecret)
	got, _, body := o.post("/oauth/token", form)
	if got != status {
		t.Errorf("%s, %s: %d %s, want %d", client, form.Get("grant_type"), got, body, status)
	}
	return body
}

// signInsGoOn: a sign-in of before gets host sessions, which end with it as its applications are told. Users of before can be linked
// to an identity, and one who had no password is active then.
func (o oldStore) signInsGoOn(t *testing.T) {
	t.Helper()
	s, ctx := o.app().node.Store(), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	old, err := s.Family(ctx, "openIDOfSchemaTwelve00")
	must(err)
	if old.SessionID != "signInOfSchemaTwelve00" || old.Code.Nonce != "an old nonce" || old.Claims == "" || len(old.Audience) != 1 || old.Provider != "" {
		t.Errorf("the family is read as %+v", old)
	}
	host := &store.TokenFamily{
		ID: "hostSessionOfTheNewOne", UserID: "old-una", UserVersion: "1", ClientID: store.BuiltInClientID, Origin: store.HostSession, SessionID: old.SessionID,
		CreatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour), Preconditions: store.Preconditions{SessionID: old.SessionID},
	}
	if outcome, err := s.AddFamily(ctx, host); outcome != store.Done || err != nil {
		t.Fatalf("a host session of an old sign-in: %v, %v", outcome, err)
	}
	ended, err := s.EndFamilies(ctx, store.FamilyFilter{ID: old.SessionID}, o.app().issuer.Ending())
	must(err)
	due, err := s.DueLogouts(ctx, time.Now().Add(time.Hour), 10)
	must(err)
	if len(ended) != 2 || len(due) != 1 || due[0].ClientID != "old-rp" {
		t.Errorf("with the sign-in there ended %v, and due are %v", ended, due)
	}
	if o.version >= 13 {
		atHost, err := s.Family(ctx, "atHostOfSchemaThirteen")
		must(err)
		identities, err := s.Identities(ctx, "old-wes")
		must(err)
		if atHost.Provider != "old-provider" || atHost.SessionID != "signInOfSchemaThirteen" || len(identities) != 1 || identities[0].Subject != "old-subject" || identities[0].DeclaredEmail+identities[0].Source != "" {
			t.Errorf("the sign-in at a provider is read as %+v, of %+v", atHost, identities)
		}
	}
	if vic, err := s.User(ctx, "old-vic"); err != nil || vic.IsActive() {
		t.Errorf("a user without a password is read as %+v, %v", vic, err)
	}
	must(s.LinkIdentity(ctx, store.Identity{Provider: "corp", Subject: "vic", UserID: "old-vic"}))
	if vic, err := s.User(ctx, "old-vic"); err != nil || !vic.IsActive() {
		t.Errorf("once linked the user is %+v, %v", vic, err)
	}
}

func (o oldStore) clientsGoOn(t *testing.T) {
	t.Helper()
	own := url.Values{"grant_type": {"client_credentials"}}
	body := o.asks(t, "old-app", http.StatusOK, own)
	if token := member(t, body, "access_token"); o.gate(token) != http.StatusOK || kidOf(t, token) != oldKey {
		t.Errorf("its token: %d, signed by %s", o.gate(token), kidOf(t, token))
	}
	o.asks(t, "old-off", http.StatusUnauthorized, own)
	o.asks(t, "old-gone", http.StatusUnauthorized, own)
}

func (o oldStore) peopleGoOn(t *testing.T) {
	t.Helper()
	good := func(body string) {
		t.Helper()
		if token := member(t, body, "access_token"); o.gate(token) != http.StatusOK {
			t.Errorf("the gate refuses %s", body)
		}
	}
	refresh := func(token string) url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}
	}
	password := func(name string) url.Values {
		return url.Values{"grant_type": {"password"}, "username": {name + "@acme.example"}, "password": {oldPassword}}
	}
	code := url.Values{"grant_type": {"authorization_code"}, "code": {oldCode}, "redirect_uri": {"https://old.example/cb"}, "code_verifier": {oldVerifier}}
	good(o.asks(t, "old-app", http.StatusOK, password("old-ada")))
	o.asks(t, "old-app", http.StatusBadRequest, password("old-ben"))
	good(o.asks(t, "old-app", http.StatusOK, code))
	o.asks(t, "old-app", http.StatusBadRequest, code) // once

	body := o.asks(t, "old-app", http.StatusOK, refresh(oldRefresh))
	good(body)
	o.asks(t, "old-app", http.StatusBadRequest, refresh(oldEnded))
	o.asks(t, "old-app", http.StatusBadRequest, refresh(oldUsed)) // a replay, which ends the family
	o.asks(t, "old-app", http.StatusBadRequest, refresh(member(t, body, "refresh_token")))
	if token := member(t, body, "access_token"); o.gate(token) != http.StatusUnauthorized {
		t.Errorf("after a replay its token: %d", o.gate(token))
	}
	if o.version >= 12 {
		o.signInsGoOn(t)
	}
	if o.version >= 5 {
		good(o.asks(t, "old-app", http.StatusOK, refresh(oldRefresh5)))
	}
}
