// Package seed fills stores with as many token families as a large service has, in seconds. Most of them are rows
// that only add to the size of the store. Spread over the tables are real families that an issuer has created, whose
// codes, refresh tokens and cookies work.
package seed

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Plan describes the content of a store.
type Plan struct {
	Database
	// Issuer is the URL of the issuer that will use the store.
	Issuer string
	// ClientID and ClientSecret belong to the client of all families.
	ClientID, ClientSecret string
	Families               int // rows that only add to the size
	Revocations            int
	// Real is the number of working sign-ins, each with a code to exchange.
	Real int
}

const (
	// familiesOfUser is how many families a user has. Half of them belong to browsers and applications that are no
	// longer used.
	familiesOfUser = 5
	// usersOfOrganisation is how many users an organisation has.
	usersOfOrganisation = 100
	// chunks is the number of parts in which the rows are added. Some of the real families are created between two
	// parts, which spreads them over the tables.
	chunks = 16
	// realUsers is how many users the real families have.
	realUsers = 64
	// atOnce is how many real families are created concurrently.
	atOnce = 64
	// codeLife is the lifetime of the codes. It is longer than the default, because the store is still being filled.
	codeLife = 6 * time.Hour

	// RedirectURI is the redirect URI of the codes.
	RedirectURI = "https://app.example/callback"
	// passwordHash is an argon2id hash with the costs of new ones, of an unused password.
	passwordHash = "$argon2id$v=19$m=19456,t=2,p=1$yXa/aZkhUX8piebebAAWpQ$HznGJ7IpMFKJ97enetQiFCNU3xnfnVJQbbPZM8/VJRQ"
)

// Real holds the credentials of the real families, and names of what is stored.
type Real struct {
	Codes, Cookies     []string
	Organisation, User string
}

// Fill fills a store that no other process has open.
func Fill(ctx context.Context, p Plan) (Real, error) {
	st, err := p.open(ctx)
	if err != nil {
		return Real{}, err
	}
	defer func() { _ = st.Close() }() // every write has been committed
	bulk, err := p.openBulk(ctx)
	if err != nil {
		return Real{}, err
	}
	defer func() { _ = bulk.Close() }()
	parts, client, err := p.issuer(ctx, st.Store)
	if err != nil {
		return Real{}, err
	}
	if err := p.people(ctx, bulk); err != nil {
		return Real{}, fmt.Errorf("people: %w", err)
	}
	users, err := addPeople(ctx, st.Store)
	if err != nil {
		return Real{}, err
	}
	real := Real{Organisation: "seed-org-0", User: "seed-user-1"}
	for chunk := range chunks {
		if err := p.families(ctx, bulk, chunk); err != nil {
			return Real{}, fmt.Errorf("families: %w", err)
		}
		share := p.Real*(chunk+1)/chunks - p.Real*chunk/chunks
		if err := real.add(ctx, parts, client, users, share); err != nil {
			return Real{}, fmt.Errorf("real families: %w", err)
		}
	}
	return real, p.finish(ctx, bulk)
}

// issuer returns an issuer on the store, with the client.
func (p Plan) issuer(ctx context.Context, st store.Store) (*issuer.Parts, *store.Client, error) {
	now := time.Now()
	client := &store.Client{
		ID: p.ClientID, Secrets: []store.ClientSecret{{Digest: sha256.Sum256([]byte(p.ClientSecret)), CreatedAt: now}},
		Grants:       []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode, oauth.RefreshTokenGrant},
		RedirectURIs: []string{RedirectURI}, FirstParty: true, CreatedAt: now,
	}
	client.SetDefaults()
	if err := st.Clients.AddClient(ctx, client); err != nil && !errors.Is(err, store.ErrTaken) {
		return nil, nil, err
	}
	master, err := keys.LoadMasterKey(ctx, st.Keys, nil, now)
	if err != nil {
		return nil, nil, err
	}
	lifetimes := store.DefaultLifetimes
	lifetimes.Code = codeLife
	parts := issuer.New(
		issuer.Settings{Policy: clients.Policy{URL: p.Issuer, Audience: []string{p.Issuer}}, Lifetimes: lifetimes},
		issuer.Node{Keys: new(keys.Set), Revocations: token.NewRevocationSet(), Now: time.Now},
	)
	parts.Families.Opened = families.Opened{Store: families.StoreOf(st), Directory: st.Directory(), Master: master, JTIMAC: token.NewJTIMAC(master)}
	return parts, client, nil
}

// addPeople adds the users of the real families.
func addPeople(ctx context.Context, st store.Store) ([]*store.User, error) {
	users := make([]*store.User, realUsers)
	for i := range users {
		id := fmt.Sprintf("real-user-%d", i)
		err := st.Users.AddUser(ctx, &store.User{
			ID: id, Email: id + "@acme.example", Name: id, Organisation: "seed-org-0", Role: store.RoleMember,
			Status: store.UserActive, PasswordHash: oauth.NewSecret(passwordHash), CreatedAt: time.Now(),
		}, false)
		if err == nil {
			users[i], err = st.Users.User(ctx, id)
		}
		if err != nil {
			return nil, fmt.Errorf("adding %s: %w", id, err)
		}
	}
	return users, nil
}

// add creates real families, as many concurrently as a busy node does.
func (r *Real) add(ctx context.Context, parts *issuer.Parts, client *store.Client, users []*store.User, count int) error {
	type made struct {
		cookie, code string
		err          error
	}
	all := make(chan made)
	slots := make(chan struct{}, atOnce)
	go func() {
		for i := range count {
			slots <- struct{}{}
			go func() {
				cookie, code, err := openAndApprove(ctx, parts, client, users[i%len(users)])
				<-slots
				all <- made{cookie, code, err}
			}()
		}
	}()
	var errs []error
	for range count {
		m := <-all
		errs = append(errs, m.err)
		r.Cookies, r.Codes = append(r.Cookies, m.cookie), append(r.Codes, m.code)
	}
	return errors.Join(errs...)
}

// openAndApprove signs a user in and approves a request of the client.
func openAndApprove(ctx context.Context, parts *issuer.Parts, client *store.Client, user *store.User) (cookie, code string, err error) {
	session, secret, err := parts.Sessions.OpenSession(ctx, signin.SignedIn{User: user}, "Firefox on Linux", oauth.NewID())
	if err != nil {
		return "", "", err
	}
	request := &issuer.AuthorizationRequest{
		ID: oauth.NewID(), ClientID: client.ID, RedirectURI: RedirectURI, Scopes: client.Scopes, At: time.Now(),
	}
	granted, err := parts.Authorizations.Approve(ctx, request, client, session, client.Scopes)
	return secret.Reveal(), granted.Reveal(), err
}

// Database is where a store is.
type Database struct {
	Path string // of SQLite
	DSN  string // of PostgreSQL; empty: SQLite
}

func (d Database) open(ctx context.Context) (*sqlstore.Store, error) {
	if d.DSN != "" {
		return sqlstore.OpenPostgres(ctx, oauth.NewSecret(d.DSN), 0, sqlstore.Options{})
	}
	return sqlstore.OpenSQLite(ctx, d.Path, sqlstore.Options{})
}

// openBulk opens a connection whose writes need not survive a crash of the machine.
func (d Database) openBulk(ctx context.Context) (*sql.DB, error) {
	driver, name, first := "sqlite", (&url.URL{Scheme: "file", Opaque: d.Path, RawQuery: "_busy_timeout=10000"}).String(), `PRAGMA synchronous = OFF; PRAGMA cache_size = -1000000`
	if d.DSN != "" {
		driver, name, first = "pgx", d.DSN, `SET synchronous_commit = off`
	}
	db, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.ExecContext(ctx, first); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// run executes statements in which SERIES(from, to) stands for a table n with a column i, and RANDOM for a new id.
func (d Database) run(ctx context.Context, db *sql.DB, text string, args ...any) error {
	series, random := `(WITH RECURSIVE n(i) AS (SELECT %s UNION ALL SELECT i + 1 FROM n WHERE i < %s) SELECT i FROM n)`, `substr(hex(randomblob(11)), 1, 22)`
	if d.DSN != "" {
		series, random = `(SELECT i FROM generate_series(CAST(%s AS BIGINT), CAST(%s AS BIGINT)) AS g(i))`, `substr(md5(random()::text || i), 1, 22)`
	}
	text = strings.ReplaceAll(text, "SERIES", fmt.Sprintf(series, "$1", "$2"))
	_, err := db.ExecContext(ctx, strings.ReplaceAll(text, "RANDOM", random), args...)
	return err
}
