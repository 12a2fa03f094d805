package pgtest

// ForProgram starts a server for a program other than a test, such as the benchmark. The program may only call the methods without a
// test: NewDatabase, DSN, Addr, Close.
func ForProgram(settings ...string) (*Server, error) { return create(nil, onDisk, settings) }

// NewDatabase creates an empty database, which exists as long as the server, and returns its DSN.
func (s *Server) NewDatabase() (string, error) {
	name, err := s.createDatabase("template1")
	return s.DSN(name), err
}

// Close stops a server of ForProgram and removes its files.
func (s *Server) Close() error { return s.discard() }
