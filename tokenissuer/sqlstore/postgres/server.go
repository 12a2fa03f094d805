// Package postgres connects to one database of a PostgreSQL server: connection strings, connection settings, detection of silent
// connections, notifications between nodes, and the meaning of errors. It does not know the tables.
package postgres

import (
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"math/big"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	// RequestTimeout is how long a request waits for a connection and its answer.
	RequestTimeout = 2 * time.Second
	// BackgroundTimeout is how long a query waits that no request waits for, unless it sets a deadline.
	BackgroundTimeout = time.Minute
	// pingWithin is how long a connection that no request has used for IdleAfter may take to answer a ping. When a host or a firewall
	// dies silently, all connections are dead and none reports it. The time allows for two of them and a new one.
	pingWithin = RequestTimeout / 3
	// IdleAfter is how long a connection may be unused before it is pinged.
	IdleAfter = time.Second
	// maxJitter spreads attempts to reconnect. Otherwise all nodes would come back in the same millisecond.
	maxJitter = 100 * time.Millisecond
	// oldest is the oldest supported version.
	oldest = 150000
)

// Options are the settings of a Server.
type Options struct {
	Warn func(format string, args ...any)
	// ServerTimeout is how long the server lets a transaction be idle, and a statement of a request run. A node that is cut off must not
	// hold a lock for longer than others wait for it.
	ServerTimeout time.Duration
	// NotifyTimeout is how long a notification, and a query on the listening connection, may take.
	NotifyTimeout time.Duration
	// Silence is how long a listener hears nothing before it checks the connection.
	Silence time.Duration
}

// Server opens connections to one database.
type Server struct {
	config  *pgx.ConnConfig
	options Options
	sockets sockets
	// failedAt is when a connection last failed, in Unix nanoseconds.
	failedAt atomic.Int64
}

// New parses the connection string. It does not connect.
func New(dsn oauth.Secret, options Options) (*Server, error) {
	config, err := parse(dsn)
	if err != nil {
		return nil, err
	}
	s := &Server{config: config, options: options}
	config.DialFunc = s.sockets.dial(config.DialFunc)
	return s, nil
}

// Requests returns a pool of at most size connections for requests. It connects when it is used.
func (s *Server) Requests(size int) *sql.DB {
	return s.open(size, sessionSettings(s.options.ServerTimeout, s.options.ServerTimeout), stdlib.OptionShouldPing(isSilent))
}

// Background is Requests for queries that no request waits for. It detects a silent connection only by using it.
func (s *Server) Background(size int) *sql.DB {
	return s.open(size, sessionSettings(s.options.ServerTimeout, BackgroundTimeout), stdlib.OptionShouldPing(neverPing))
}

// Unlimited returns a pool of one connection without a limit on the time of statements.
func (s *Server) Unlimited() *sql.DB { return s.open(1, "") }

// Hurry ends all operations on all connections within a second. Without it, closing the pools of a silent server takes minutes.
func (s *Server) Hurry() { s.sockets.hurry() }

// sessionSettings returns the settings of a connection: how long a transaction may be idle and a statement may run. An acknowledged
// commit must survive a crash of the server: they override a weaker setting of the database, and keep a stricter one.
func sessionSettings(idle, statement time.Duration) string {
	return fmt.Sprintf(`SET idle_in_transaction_session_timeout = %d; SET statement_timeout = %d;
		SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit', true) IN ('off', 'local')`,
		idle.Milliseconds(), statement.Milliseconds())
}

// open returns a pool of at most size connections with these settings. It connects when it is used.
func (s *Server) open(size int, settings string, options ...stdlib.OptionOpenDB) *sql.DB {
	options = append(options, stdlib.OptionBeforeConnect(s.spread), stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		s.failedAt.Store(0)
		if settings == "" {
			return nil
		}
		_, err := conn.PgConn().Exec(ctx, settings).ReadAll()
		return err
	}))
	db := sql.OpenDB(stdlib.GetConnector(*s.config, options...))
	db.SetMaxOpenConns(size)
	db.SetMaxIdleConns(size)
	db.SetConnMaxIdleTime(5 * time.Minute)
	return db
}

func neverPing(context.Context, stdlib.ShouldPingParams) bool { return false }

// isSilent pings a connection that was idle, and closes it when it does not answer. The library alone would wait as long as the request
// has time.
func isSilent(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration < IdleAfter {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	return p.Conn.Ping(ctx) != nil // true: the library's own ping finds it closed, and the pool uses another one
}

// spread delays attempts to connect that follow a failed one by a random time.
func (s *Server) spread(ctx context.Context, _ *pgx.ConnConfig) error {
	last := s.failedAt.Swap(time.Now().UnixNano()) // assume failure until the connection is open
	if last == 0 || time.Since(time.Unix(0, last)) > time.Second {
		return nil
	}
	return Pause(ctx, maxJitter)
}

// Pause waits for a random time up to limit, or until ctx ends.
func Pause(ctx context.Context, limit time.Duration) error {
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

// CheckVersion warns of a server that is older than the oldest supported version.
func (s *Server) CheckVersion(ctx context.Context, db *sql.DB) error {
	var version string
	if err := db.QueryRowContext(ctx, `SHOW server_version_num`).Scan(&version); err != nil {
		return err
	}
	if n, err := strconv.Atoi(version); err == nil && n < oldest {
		s.options.Warn("the database server speaks PostgreSQL %s; Gatehouse is tested with 15 and later", version)
	}
	return nil
}
