package sqlstore

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"net"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// LeastPostgresPool is the smallest pool: one connection listens, two are for what no request waits for.
	LeastPostgresPool = reserved + 2
	reserved          = 3

	// patience is how long a request waits for a connection and its answer.
	patience = 2 * time.Second
	// backgroundTimeout is how long a query waits that no request does, unless it says otherwise.
	backgroundTimeout = time.Minute
	// queuedPerConnection is how many requests may wait or work for each connection.
	queuedPerConnection = 64
	// pingWithin is how long a connection that no request has used for idleAfter may take to prove that it is alive. When a
	// host or a firewall has died silently, all connections are dead and none says so: it leaves time for two of them and a
	// new one.
	pingWithin = patience / 3
	idleAfter  = time.Second
	// maxJitter spreads the attempts to reconnect, so that not every node comes back in the same millisecond.
	maxJitter = 100 * time.Millisecond
	// oldestPostgres is the first version that this was made for.
	oldestPostgres = 150000
)

// OpenPostgres opens a database of a PostgreSQL server, which any number of nodes share. The pool bounds its
// connections, all together; 0 is 16.
func OpenPostgres(ctx context.Context, dsn oauth.Secret, pool int, options Options) (*Store, error) {
	fail := func(err error) (*Store, error) {
		return nil, fmt.Errorf("opening PostgreSQL database: %w", err)
	}
	config, err := parsePostgres(dsn)
	if err != nil {
		return fail(err)
	}
	if pool == 0 {
		pool = 16
	}
	if pool < LeastPostgresPool {
		return fail(fmt.Errorf("a pool of %d connections is too small: use %d or more", pool, LeastPostgresPool))
	}
	p := &postgres{config: config, options: options}
	config.DialFunc = p.sockets.dial(config.DialFunc)
	q := &queue{room: int64(pool * queuedPerConnection), patience: patience}
	waiting := &queue{room: math.MaxInt64, patience: backgroundTimeout}
	requests := p.open(pool-reserved, sessionSettings(serverTimeout), stdlib.OptionShouldPing(isSilent))
	background := p.open(reserved-1, sessionSettings(backgroundTimeout), stdlib.OptionShouldPing(neverPing)) // see forsake
	s := &Store{
		write: requests, read: handle{db: requests, queue: q}, feed: handle{db: background, queue: waiting, remote: true}, options: options,
		dialect: dialect{
			goose: goose.DialectPostgres, erase: eraseNothing, shareLock: " FOR SHARE", concurrent: true,
			newRunner: func(_ context.Context, db *sql.DB, _ Options) (runner, error) {
				return newTransactions(db, q), nil
			},
			migrating: func() *sql.DB { return p.open(1, "") },
			place:     "ctid", placeAmong: "ctid = ANY (ARRAY(%s))",
			notify: newNotifier(background), watch: p.watch, hurry: p.sockets.hurry,
			clock:    `SELECT CAST(EXTRACT(EPOCH FROM clock_timestamp()) * 1000000 AS BIGINT)`,
			estimate: `SELECT COALESCE(CAST(reltuples AS BIGINT), -1) FROM pg_class WHERE oid = to_regclass($1)`,
		},
	}
	if err := p.check(ctx, background); err != nil {
		return fail(errors.Join(err, s.Close()))
	}
	if s, err = open(ctx, s); err != nil {
		return fail(err)
	}
	return s, nil
}

// postgres makes connections to one database.
type postgres struct {
	config  *pgx.ConnConfig
	options Options
	sockets sockets
	// failedAt is when a connection could not be made last, in Unix nanoseconds.
	failedAt atomic.Int64
}

// serverTimeout is how long the server lets a transaction do nothing, and a statement of a request run. A node that is cut
// off must not hold a lock for longer than others wait for it.
var serverTimeout = 5 * time.Second

// sessionSettings are those of a connection whose statements may take so long. What is acknowledged must survive a crash of the
// server: a setting of the database that says otherwise is overruled, a stricter one kept.
func sessionSettings(statement time.Duration) string {
	return fmt.Sprintf(`SET idle_in_transaction_session_timeout = %d; SET statement_timeout = %d;
		SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit', true) IN ('off', 'local')`,
		serverTimeout.Milliseconds(), statement.Milliseconds())
}

// open returns a pool of at most size connections with these settings. It connects when it is used.
func (p *postgres) open(size int, settings string, options ...stdlib.OptionOpenDB) *sql.DB {
	options = append(options, stdlib.OptionBeforeConnect(p.spread), stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		p.failedAt.Store(0)
		if settings == "" {
			return nil
		}
		_, err := conn.PgConn().Exec(ctx, settings).ReadAll()
		return err
	}))
	db := sql.OpenDB(stdlib.GetConnector(*p.config, options...))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

func neverPing(context.Context, stdlib.ShouldPingParams) bool { return false }

// isSilent pings a connection that was idle, and closes it when there is no answer. The library would wait for one for as
// long as the request has time.
func isSilent(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration < idleAfter {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	return p.Conn.Ping(ctx) != nil // true: the library's own ping finds it closed, and another one is used
}

// spread makes attempts that follow a failed one wait a random moment.
func (p *postgres) spread(ctx context.Context, _ *pgx.ConnConfig) error {
	last := p.failedAt.Swap(time.Now().UnixNano()) // until the connection is there
	if last == 0 || time.Since(time.Unix(0, last)) > time.Second {
		return nil
	}
	return pause(ctx, maxJitter)
}

// pause waits for a random time up to limit, or until ctx ends.
func pause(ctx context.Context, limit time.Duration) error {
	n, err := rand.Int(rand.Reader, big.NewInt(int64(limit)))
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(time.Duration(n.Int64())):
		return nil
	}
}

// check warns of a server that is older than what this was made for.
func (p *postgres) check(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, `SHOW server_version_num`).Scan(&version); err != nil {
		return err
	}
	if n, err := strconv.Atoi(version); err == nil && n < oldestPostgres {
		p.options.warn("the database server speaks PostgreSQL %s; Gatehouse is tested with 15 and later", version)
	}
	return nil
}

// eraseNothing: PostgreSQL overwrites nothing in place. Older states leave with VACUUM, and with the write-ahead log.
func eraseNothing(context.Context, *sql.DB) error { return nil }

// IsUnreachable reports whether an opening failed because the database could not be asked just then, so that it is worth
// trying again: unlike a wrong password, or a schema of another version.
func IsUnreachable(err error) bool {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		switch refusal.Code[:min(2, len(refusal.Code))] {
		case "08", "53", "57", "40": // connection, resources, operator intervention (starting up), conflict
			return true
		}
		return refusal.Code == "25006" // read-only: a standby that is about to be promoted
	}
	var uncertified *tls.CertificateVerificationError
	if errors.As(err, &uncertified) {
		return false
	}
	var failure *pgconn.ConnectError
	var network net.Error
	return errors.As(err, &failure) || errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, driver.ErrBadConn) ||
		errors.Is(err, pgconn.ErrConnClosed) // the server went away between two queries
}
