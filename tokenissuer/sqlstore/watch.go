package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

var (
	// silence is how long a listener hears nothing before it asks whether the connection is still there. Tests shorten it.
	silence = 20 * time.Second
	// notifyWithin is how long that query may take, and a notification.
	notifyWithin = 2 * time.Second
)

// reconnectPause is the longest time between two attempts to listen.
const reconnectPause = time.Second

// changesChannel is where nodes notify each other.
const changesChannel = "gatehouse"

// Watch calls changed when another node may have recorded a revocation or changed a key, until ctx ends. It is a hint: calls
// may be lost or come for nothing, and a database that cannot notify brings none. Callers that rely on it ask now and then.
func (s *Store) Watch(ctx context.Context, changed func()) {
	if s.dialect.watch != nil {
		s.dialect.watch(ctx, changed)
	}
}

// watch listens, and connects again when the connection is lost.
func (p *postgres) watch(ctx context.Context, changed func()) {
	for ctx.Err() == nil {
		err := p.listen(ctx, changed)
		if isNotUnderstood(err) {
			p.options.warn("the database cannot notify: changes made by other nodes are seen within a second: %v", err)
			return
		}
		_ = pause(ctx, reconnectPause) // ended: so does the loop
	}
}

// isNotUnderstood reports whether the database refuses a statement because it is of another make.
func isNotUnderstood(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && (refusal.Code == "0A000" || refusal.Code == "42601")
}

// listen listens on a connection of its own until that is lost.
func (p *postgres) listen(ctx context.Context, changed func()) error {
	conn, err := pgx.ConnectConfig(ctx, p.config.Copy())
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.Background(), notifyWithin)
		defer cancel()
		_ = conn.Close(closing) // it is of no use any more
	}()
	if err := within(ctx, func(ctx context.Context) error {
		_, err := conn.Exec(ctx, `LISTEN `+changesChannel)
		return err
	}); err != nil {
		return err
	}
	changed() // what came while nobody listened
	for {
		if err := await(ctx, conn); err != nil {
			return err
		}
		changed()
	}
}

// await waits for a notification, and makes sure meanwhile that the connection is alive.
func await(ctx context.Context, conn *pgx.Conn) error {
	for {
		waiting, cancel := context.WithTimeout(ctx, silence)
		_, err := conn.WaitForNotification(waiting)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil || !pgconn.Timeout(err) {
			return err
		}
		if err := within(ctx, conn.Ping); err != nil {
			return err
		}
	}
}

// within bounds a query to a server that may have died silently.
func within(ctx context.Context, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, notifyWithin)
	defer cancel()
	return ask(ctx)
}

// notifier tells other nodes that there is something new. It is no part of the step that it tells of: a step need not
// wait for it, and who misses it asks a second later anyway.
type notifier struct {
	db      *sql.DB
	within  time.Duration // how long a notification may take
	pending chan struct{}
	start   sync.Once
	stop    sync.Once
	stopped chan struct{}
}

func newNotifier(db *sql.DB) *notifier {
	return &notifier{db: db, within: notifyWithin, pending: make(chan struct{}, 1), stopped: make(chan struct{})}
}

// tell says that something is new. Many calls at a time become one notification.
func (n *notifier) tell() {
	if n == nil {
		return
	}
	n.start.Do(func() { go n.send() })
	select {
	case n.pending <- struct{}{}:
	default:
	}
}

func (n *notifier) close() {
	if n != nil {
		n.stop.Do(func() { close(n.stopped) })
	}
}

func (n *notifier) send() {
	for {
		select {
		case <-n.stopped:
			return
		case <-n.pending:
			ctx, cancel := context.WithTimeout(context.Background(), n.within)
			_, _ = n.db.ExecContext(ctx, `NOTIFY `+changesChannel) // see above
			cancel()
		}
	}
}
