// Package postgres starts the PostgreSQL server of the benchmark as the tests start theirs: Debian's package, syncing
// to disk as in production.
package postgres

import "github.com/gatehouse-auth/gatehouse/internal/pgtest"

// Server is a running server.
type Server struct{ server *pgtest.Server }

// Start starts a server that ends at the latest when this process ends.
func Start() (*Server, error) {
	server, err := pgtest.ForProgram()
	if err != nil {
		return nil, err
	}
	return &Server{server}, nil
}

// Database creates an empty database and returns its DSN.
func (s *Server) Database() (string, error) { return s.server.NewDatabase() }

// Close stops the server.
func (s *Server) Close() error { return s.server.Close() }
