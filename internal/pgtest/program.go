package pgtest

// ForProgram starts a server for a program other than a test, such as the benchmark. Of its methods only those that take no
// test and fail none are for it: NewDatabase, DSN, Addr, Close.
func ForProgram(settings ...string) (*Server, error) { return create(nil, onDisk, settings) }

// NewDatabase creates an empty database, which lives as long as the server, and returns its DSN.
func (s *Server) NewDatabase() (string, error) {
	name, err := s.createDatabase("template1")
	return s.DSN(name), err
}

// Close ends a server of ForProgram, and removes what it has written.
func (s *Server) Close() error { return s.discard() }
