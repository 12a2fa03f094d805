package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// closeWithin is how long connections have to say goodbye.
const closeWithin = time.Second

// sockets are the open connections to a server. Closing a store says goodbye on each, one after the other and for each
// statement that was prepared; with a server that is silent that would take minutes.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
}

type socket struct {
	net.Conn
	of *sockets
}

// dial dials as another function does, and remembers what that returns.
func (s *sockets) dial(dial pgconn.DialFunc) pgconn.DialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		connection, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		made := &socket{connection, s}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.open == nil {
			s.open = make(map[*socket]struct{})
		}
		s.open[made] = struct{}{}
		return made, nil
	}
}

// Close closes the connection.
func (s *socket) Close() error {
	s.of.mu.Lock()
	delete(s.of.open, s)
	s.of.mu.Unlock()
	return s.Conn.Close()
}

// hurry ends soon whatever is under way on any connection.
func (s *sockets) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for connection := range s.open {
		_ = connection.SetDeadline(time.Now().Add(closeWithin)) // one that cannot have a deadline is closed
	}
}
