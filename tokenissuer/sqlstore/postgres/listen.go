package postgres

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// reconnectPause is the longest pause between two attempts to listen.
const reconnectPause = time.Second

// changesChannel is the channel on which nodes notify each other.
const changesChannel = "gatehouse"

// Watch calls changed when a node has notified the others, and whenever a notification may have been lost, until ctx ends. It reconnects
// when the connection is lost.
func (s *Server) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := s.listen(ctx, changed)
		switch Code(err) {
		case "0A000", "42601": // the server does not know LISTEN: it is only compatible with PostgreSQL
			s.options.Warn("the database cannot notify: changes made by other nodes are seen within a second: %v", err)
			return
		}
		_ = Pause(ctx, reconnectPause) // if it fails, so does the loop's condition
	}
}

// listen listens on its own connection until it is lost.
func (s *Server) listen(ctx context.Context, changed func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), s.options.NotifyTimeout)
		defer cancel()
		_ = conn.Close(closing) // the connection is not used again
	}()
	if err := s.within(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, `LISTEN `+changesChannel)
		return err
	}); err != nil {
		return err
	}
	changed() // for notifications that were missed without a connection
	for {
		if err := s.await(ctx, conn); err != nil {
			return err
		}
		changed()
	}
}

// await waits for a notification, and meanwhile checks that the connection is alive.
func (s *Server) await(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, s.options.Silence)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !pgconn.Timeout(err) {
			return err
		}
		if err := s.within(ctx, conn.Ping); err != nil {
			return err
		}
	}
}

// within bounds a query to a server that may have died silently.
func (s *Server) within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.options.NotifyTimeout)
	defer cancel()
	return ask(ctx)
}

// Notifier notifies other nodes of changes. A step does not wait for its notification. A node that misses it polls within a second
// anyway.
type Notifier struct {
	db      *sql.DB
	timeout time.Duration
	pending chan struct{}
	start   sync.Once
	stop    sync.Once
	stopped chan struct{}
}

// Notifier returns a Notifier that uses connections of db.
func (s *Server) Notifier(db *sql.DB) *Notifier {
	return &Notifier{db: db, timeout: s.options.NotifyTimeout, pending: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Tell notifies the other nodes. Concurrent calls share one notification. On a nil Notifier it does nothing.
func (n *Notifier) Tell() {
	if n == nil {
		return
	}
	n.start.Do(func() { go n.send() })
	select {
	case n.pending <- struct{}{}:
	default:
	}
}

// Close stops the notifier. On a nil Notifier it does nothing.
func (n *Notifier) Close() {
	if n != nil {
		n.stop.Do(func() { close(n.stopped) })
	}
}

func (n *Notifier) send() {
	for {
		select {
		case <-n.stopped:
			return
		case <-n.pending:
			ctx, cancel := context.WithTimeout(context.Background(), n.timeout)
			_, _ = n.db.ExecContext(ctx, `NOTIFY `+changesChannel) // a node that misses it polls
			cancel()
		}
	}
}
