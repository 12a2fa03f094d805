package ldap

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// maxAnswer bounds the response to one operation, in bytes. It suffices for a thousand groups with long names.
const maxAnswer = 1 << 20

// wire is a network connection that limits the number of bytes read. The library would buffer any amount.
type wire struct {
	net.Conn
	left atomic.Int64
}

func (w *wire) Read(p []byte) (int, error) {
	left := w.left.Load()
	if left <= 0 {
		return 0, fmt.Errorf("the directory has sent more than %d bytes", maxAnswer)
	}
	n, err := w.Conn.Read(p[:min(int64(len(p)), left)])
	w.left.Add(int64(-n))
	return n, err
}

// connection is a connection to a directory. It runs one operation at a time.
type connection struct {
	conn *ldap.Conn
	wire *wire
	plan *plan
	// idleSince is when the connection was returned to the pool.
	idleSince time.Time
}

// dial connects and secures the connection.
func (p *plan) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, p.DialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	w := &wire{Conn: raw}
	w.left.Store(maxAnswer)
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() }) // this ends pending reads and writes
	secured, err := p.secure(ctx, w)
	if !stop() {
		err = fmt.Errorf("%w: %w", errTimeout, cmp.Or(err, context.Cause(ctx)))
	}
	if err != nil {
		_ = raw.Close() // nothing was written that could be lost
		return nil, err
	}
	c := &connection{conn: ldap.NewConn(secured, secured != net.Conn(w)), wire: w, plan: p}
	c.conn.Start()
	return c, nil
}

// secure starts TLS if the settings require it. Otherwise it refuses any address but loopback, whatever the host name resolved to.
func (p *plan) secure(ctx context.Context, w *wire) (net.Conn, error) {
	if !p.overTLS && !p.StartTLS {
		if !p.Insecure && !isLoopback(w.RemoteAddr()) {
			return nil, fmt.Errorf("%s is not loopback, and the connection has no TLS: use ldaps:// or start_tls", w.RemoteAddr())
		}
		return w, nil
	}
	if p.StartTLS {
		if err := askForTLS(w); err != nil {
			return nil, fmt.Errorf("StartTLS: %w", err)
		}
	}
	secured := tls.Client(w, p.tls)
	if err := secured.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS: %w", err)
	}
	return secured, nil
}

// startTLS is the StartTLS request with message id 1 (RFC 4511 §4.14.1).
const startTLS = "\x30\x1d\x02\x01\x01\x77\x18\x80\x16" + "1.3.6.1.4.1.1466.20037"

// askForTLS returns nil if TLS begins with the next byte. The library's StartTLS blocks if the first message is not the response. askForTLS
// reads the response byte by byte, so that no plaintext is left in a buffer when TLS begins.
func askForTLS(w *wire) error {
	if _, err := w.Write([]byte(startTLS)); err != nil {
		return err
	}
	answer, err := ber.ReadPacket(w)
	if err != nil {
		return err
	}
	if len(answer.Children) < 2 || answer.Children[0].Value != any(int64(1)) || answer.Children[1].Tag != ldap.ApplicationExtendedResponse {
		return errors.New("the directory has sent something else than the answer")
	}
	return ldap.GetLDAPError(answer)
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && oauth.IsLoopback(tcp.IP.String())
}

// errBroken is wrapped by errors after which a connection is unusable. After a timeout such an error also wraps errTimeout.
var (
	errBroken  = errors.New("the connection is broken")
	errTimeout = errors.New("the directory has not answered in time")
)

// do runs one operation. It closes the connection when ctx ends or the timeout expires, which also ends the library's reads. An error
// returned by the directory is an *ldap.Error; any other error wraps errBroken.
func (c *connection) do(ctx context.Context, timeout time.Duration, operation func() error) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c.wire.left.Store(maxAnswer)
	stop := context.AfterFunc(ctx, c.close)
	err := operation()
	switch {
	case !stop():
		return fmt.Errorf("%w: %w: %w", errBroken, errTimeout, context.Cause(ctx))
	case err == nil || isAnswer(err):
		return err
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// bind verifies a password. An empty password would be an unauthenticated bind, which succeeds (RFC 4513 §5.1.2), and so would an empty
// name.
func (c *connection) bind(ctx context.Context, dn string, password oauth.Secret) error {
	if dn == "" || password.IsEmpty() {
		return errors.New("a bind needs a name and a password")
	}
	return c.do(ctx, c.plan.Timeout, func() error { return c.conn.Bind(dn, password.Reveal()) })
}

// search returns at most limit entries. If there are more, the error wraps errTooMany.
func (c *connection) search(ctx context.Context, base string, scope int, filter string, attributes []string, limit int) (entries []*ldap.Entry, err error) {
	seconds := int((c.plan.Timeout + time.Second - 1) / time.Second)
	request := ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, limit, seconds, false, filter, attributes, nil)
	err = c.do(ctx, c.plan.Timeout, func() error {
		result, err := c.conn.Search(request)
		if result != nil {
			entries = result.Entries
		}
		if len(entries) > limit {
			return errors.Join(errTooMany, err)
		}
		return err
	})
	if ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded) {
		err = errors.Join(errTooMany, err)
	}
	return entries, err
}

// close closes the network connection first, so that the library does not wait for the directory.
func (c *connection) close() {
	_ = c.wire.Close()
	_ = c.conn.Close()
}
