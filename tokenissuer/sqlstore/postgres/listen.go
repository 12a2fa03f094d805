package postgres

import (
	"context"
	"database/sql"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// reconnectPause is the longest time between two attempts to listen.
const reconnectPause = time.Second

// changesChannel is where nodes notify each other.
const changesChannel = "gatehouse"

// Watch calls changed when a node has notified the others, and whenever a notification may have been lost, until ctx ends. It
// connects again when the connection is lost.
func (s *Server) Watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := s.listen(ctx, changed)
		switch Code(err) {
		case "0A000", "42601": // the statement is not known: a database of another make
			s.options.Warn("the database cannot notify: changes made by other nodes are seen within a second: %v", err)
			return
		}
		_ = Pause(ctx, reconnectPause) // ended: so does the loop
	}
}

// listen listens on a connection of its own until that is lost.
func (s *Server) listen(ctx context.Context, changed func()) error {
	conn, err := pgx.ConnectConfig(ctx, s.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), s.options.NotifyTimeout)
		defer cancel()
		_ = conn.Close(closing) // it is of no further use
	}()
	if err := s.within(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, `LISTEN `+changesChannel)
		return err
	}); err != nil {
		return err
	}
	changed() // for what came while the connection was down
	for {
		if err := s.await(ctx, conn); err != nil {
			return err
		}
		changed()
	}
}

// await waits for a notification, and makes sure meanwhile that the connection is alive.
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

// Notifier tells other nodes that something is new. A step does not wait for its notification, and a node that misses it asks a
// second later anyway.
type Notifier struct {
	db      *sql.DB
	timeout time.Duration
	pending chan struct{}
	start   sync.Once
	stop    sync.Once
	stopped chan struct{}
}

// Notifier returns one that uses connections of db.
func (s *Server) Notifier(db *sql.DB) *Notifier {
	return &Notifier{db: db, timeout: s.options.NotifyTimeout, pending: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// Tell notifies the other nodes. Many calls at a time become one notification. A nil Notifier does nothing.
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

// Close ends the notifier. A nil one does nothing.
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
			_, _ = n.db.ExecContext(ctx, `NOTIFY `+changesChannel) // see above
			cancel()
		}
	}
}
