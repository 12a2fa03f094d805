package postgres

import (
	"context"
	"net"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// closeWithin is how long the termination of a connection may take.
const closeWithin = time.Second

// sockets are the open connections to a server. Closing a store terminates them one after the other, and closes each prepared statement.
// With a silent server that would take minutes.
type sockets struct {
	mu   sync.Mutex
	open map[*socket]struct{}
}

type socket struct {
	net.Conn
	of *sockets
}

// dial wraps a dial function and keeps track of the connections that it returns.
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

// hurry sets a short deadline on all operations of all connections.
func (s *sockets) hurry() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for connection := range s.open {
		_ = connection.SetDeadline(time.Now().Add(closeWithin)) // a connection without deadlines is closed
	}
}
