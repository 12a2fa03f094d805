package pgtest

// ForProgram starts a server for a program other than a test, such as the benchmark. The program may only call the methods without a
// test: NewDatabase, DSN, Addr, Close.
func ForProgram() (*Server, error) { return create(nil, onDisk) }
