package faultproxy

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// aWhile is how long a test waits for what must happen; aMoment is how long it checks that nothing does.
const (
	aWhile  = time.Minute
	aMoment = 200 * time.Millisecond
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// echo starts a server that sends every line back and reports it on heard.
func echo(t *testing.T) (addr string, heard <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { must(t, listener.Close()) })
	lines := make(chan string, 100)
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = connection.Close() }()
				for words := bufio.NewScanner(connection); words.Scan(); {
					lines <- words.Text()
					if _, err := io.WriteString(connection, words.Text()+"\n"); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String(), lines
}

// client is a connection through the proxy.
type client struct {
	*net.TCPConn
	t *testing.T
}

func dial(t *testing.T, p *Proxy) client {
	t.Helper()
	connection, err := net.Dial("tcp4", p.Addr())
	must(t, err)
	t.Cleanup(func() { _ = connection.Close() })
	return client{connection.(*net.TCPConn), t}
}

func (c client) say(line string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	must(c.t, err)
}

// hears reads one line and compares it.
func (c client) hears(want string) {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(aWhile)))
	got := make([]byte, len(want)+1)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want+"\n" {
		c.t.Fatalf("got %q, %v, want %q", got, err, want)
	}
}

// hearsNothing reads for a moment and expects nothing.
func (c client) hearsNothing() {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(aMoment)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		c.t.Fatalf("read %d bytes, %v, want silence", n, err)
	}
}

// isReset expects an RST and no byte before it.
func (c client) isReset() {
	c.t.Helper()
	must(c.t, c.SetReadDeadline(time.Now().Add(aWhile)))
	if n, err := c.Read(make([]byte, 1)); n != 0 || !errors.Is(err, syscall.ECONNRESET) {
		c.t.Fatalf("read %d bytes, %v, want a reset", n, err)
	}
}

func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(aWhile):
		t.Fatalf("waited in vain for %s", what)
		panic("unreachable")
	}
}

func TestPassesBytesAndEnds(t *testing.T) {
	addr, heard := echo(t)
	c := dial(t, Start(t, addr))
	long := strings.Repeat("x", 60_000)
	for _, line := range []string{"one", long, "three"} {
		c.say(line)
		c.hears(line)
		if await(t, heard, "the line at the server") != line {
			t.Error("the server heard something else")
		}
	}
	c.say("last words")
	must(t, c.CloseWrite())
	c.hears("last words")
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("read %d bytes, %v, want the end", n, err)
	}
}

func TestCut(t *testing.T) {
	addr, _ := echo(t)
	p := Start(t, addr)
	c := dial(t, p)
	c.say("one")
	c.hears("one")
	for range 2 {
		p.Cut()
		c.isReset()
		if _, err := net.Dial("tcp4", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("a new connection: %v, want a refusal", err)
		}
		p.Restore()
		c = dial(t, p)
		c.say("two")
		c.hears("two")
	}
}

func TestBlackhole(t *testing.T) {
	addr, heard := echo(t)
	p := Start(t, addr)
	old := dial(t, p)
	old.say("one")
	old.hears("one")
	await(t, heard, "the line")

	p.Blackhole()
	young := dial(t, p)
	for _, c := range []client{old, young} {
		c.say("two")
		c.hearsNothing()
	}
	if len(heard) != 0 {
		t.Error("the server heard something")
	}
	p.Restore()
	for _, c := range []client{old, young} {
		c.hears("two")
	}
}

// TestBlackholeHidesTheEnd: a server does not learn that its client has gone, until the network is back.
func TestBlackholeHidesTheEnd(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	must(t, err)
	defer func() { _ = listener.Close() }()
	p := Start(t, listener.Addr().String())
	c := dial(t, p)
	served, err := listener.Accept()
	must(t, err)
	server := client{served.(*net.TCPConn), t}
	defer func() { _ = server.Close() }()
	c.say("one")
	server.hears("one")
	p.Blackhole()
	must(t, c.SetLinger(0))
	must(t, c.Close())
	server.hearsNothing()
	p.Restore()
	server.isReset()
}

func TestHalfDead(t *testing.T) {
	addr, _ := echo(t)
	p := Start(t, addr)
	old := dial(t, p)
	old.say("one")
	old.hears("one")
	p.HalfDead()
	young := dial(t, p)
	young.say("two")
	young.hears("two")
	old.say("three")
	old.hearsNothing()
	p.Restore()
	old.hears("three")
}

func TestDelays(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*Proxy)
		least time.Duration
	}{
		{"latency", func(p *Proxy) { p.Latency(150 * time.Millisecond) }, 300 * time.Millisecond},
		{"every chunk lost", func(p *Proxy) { p.Loss(1) }, 2 * retransmission},
		{"every second chunk lost", func(p *Proxy) { p.Loss(0.5) }, retransmission},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			addr, _ := echo(t)
			p := Start(t, addr)
			client := dial(t, p)
			client.say("one")
			client.hears("one")
			c.fault(p)
			began := time.Now()
			client.say("two")
			client.hears("two")
			if took := time.Since(began); took < c.least {
				t.Errorf("there and back took %v, want at least %v", took, c.least)
			}
		})
	}
}

// TestCutAfterRequest sends the request in two pieces, after other bytes on the connection.
func TestCutAfterRequest(t *testing.T) {
	addr, heard := echo(t)
	p := Start(t, addr)
	happened := p.CutAfterRequest([]byte("commit"))
	c, other := dial(t, p), dial(t, p)
	for _, c := range []client{c, other} {
		c.say("begin")
		c.hears("begin")
		await(t, heard, "the line")
	}
	_, err := io.WriteString(c, "com")
	must(t, err)
	c.hearsNothing()
	c.say("mit")
	await(t, happened, "the cut")
	c.isReset()
	if line := await(t, heard, "the request"); line != "commit" {
		t.Errorf("the server heard %q", line)
	}
	other.say("commit")
	other.hears("commit")
}

func TestSwallowReplies(t *testing.T) {
	addr, heard := echo(t)
	p := Start(t, addr)
	happened := p.SwallowReplies([]byte("commit"))
	c, other := dial(t, p), dial(t, p)
	c.say("begin")
	c.hears("begin")
	await(t, heard, "the line")
	c.say("commit")
	await(t, happened, "the lost answer")
	if line := await(t, heard, "the request"); line != "commit" {
		t.Errorf("the server heard %q", line)
	}
	c.hearsNothing()
	other.say("commit")
	other.hears("commit")
}

func TestRestoreDisarms(t *testing.T) {
	addr, _ := echo(t)
	p := Start(t, addr)
	p.CutAfterRequest([]byte("commit"))
	p.Latency(time.Hour)
	p.Restore()
	c := dial(t, p)
	c.say("commit")
	c.hears("commit")
}

// TestCommitWithoutAnAnswer shows the purpose of the package: the client gets an error, and the row exists.
func TestCommitWithoutAnAnswer(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	p := Start(t, strings.Split(strings.SplitN(dsn, "@", 2)[1], "/")[0])
	db, err := sql.Open("pgx", pgtest.Via(dsn, p.Addr()))
	must(t, err)
	defer func() { _ = db.Close() }()
	_, err = db.ExecContext(t.Context(), "CREATE TABLE rows (id int)")
	must(t, err)
	for _, fault := range []struct {
		name string
		arm  func([]byte) <-chan struct{}
	}{{"cut", p.CutAfterRequest}, {"swallowed", p.SwallowReplies}} {
		t.Run(fault.name, func(t *testing.T) {
			_, err := db.ExecContext(t.Context(), "TRUNCATE rows")
			must(t, err)
			happened := fault.arm([]byte("commit"))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			transaction, err := db.BeginTx(ctx, nil)
			must(t, err)
			_, err = transaction.ExecContext(ctx, "INSERT INTO rows VALUES (1)")
			must(t, err)
			committed := make(chan error, 1)
			go func() { committed <- transaction.Commit() }()
			await(t, happened, "the fault")
			cancel() // the client would wait for the discarded answer
			if await(t, committed, "the error") == nil {
				t.Error("the client got an answer")
			}
			var rows int
			must(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM rows").Scan(&rows))
			if rows != 1 {
				t.Errorf("there are %d rows, want 1", rows)
			}
		})
	}
}
