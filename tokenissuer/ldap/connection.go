package ldap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// maxAnswer is how many bytes a directory may send in answer to one operation. A thousand groups with long names fit.
const maxAnswer = 1 << 20

// wire is a network connection that takes a bounded number of bytes: the library would read and keep whatever a directory sends.
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

// connection is a connection to a directory, for one operation at a time.
type connection struct {
	conn *ldap.Conn
	wire *wire
	plan *plan
	// idleSince is when it was put back into the pool.
	idleSince time.Time
}

// dial connects, and returns when the connection is as secure as it has to be.
func (p *plan) dial(ctx context.Context) (*connection, error) {
	ctx, cancel := context.WithTimeout(ctx, p.DialTimeout)
	defer cancel()
	raw, err := new(net.Dialer).DialContext(ctx, "tcp", p.address)
	if err != nil {
		return nil, err
	}
	c := &connection{wire: &wire{Conn: raw}, plan: p}
	c.wire.left.Store(maxAnswer) // the library begins to read before the first operation
	if err := c.secure(ctx); err != nil {
		_ = raw.Close() // nothing was written that could be lost
		return nil, err
	}
	return c, nil
}

// secure begins TLS where the settings ask for it, and otherwise refuses any host that is not loopback: a name may have turned out to
// be another's.
func (c *connection) secure(ctx context.Context) error {
	p := c.plan
	if p.overTLS {
		secured := tls.Client(c.wire, p.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		c.conn = ldap.NewConn(secured, true)
		c.conn.Start()
		return nil
	}
	if !p.StartTLS && !p.Insecure && !isLoopback(c.wire.RemoteAddr()) {
		return fmt.Errorf("%s is not loopback, and the connection has no TLS: use ldaps:// or start_tls", c.wire.RemoteAddr())
	}
	c.conn = ldap.NewConn(c.wire, false)
	c.conn.Start()
	if !p.StartTLS {
		return nil
	}
	if err := c.do(ctx, p.DialTimeout, func() error { return c.conn.StartTLS(p.tls) }); err != nil {
		c.close()
		return fmt.Errorf("StartTLS: %w", err)
	}
	return nil
}

func isLoopback(address net.Addr) bool {
	tcp, ok := address.(*net.TCPAddr)
	return ok && oauth.IsLoopback(tcp.IP.String())
}

// errBroken is the cause of errors after which a connection cannot be used any more, errTimeout of those that took too long, which
// are broken too.
var (
	errBroken  = errors.New("the connection is broken")
	errTimeout = errors.New("the directory has not answered in time")
)

// do runs one operation, which ends with ctx or after the timeout. What the directory has answered is an *ldap.Error; any other error
// wraps errBroken.
func (c *connection) do(ctx context.Context, timeout time.Duration, operation func() error) error {
	deadline := time.Now().Add(timeout)
	if until, ok := ctx.Deadline(); ok && until.Before(deadline) {
		deadline = until
	}
	c.wire.left.Store(maxAnswer)
	if err := c.wire.SetDeadline(deadline); err != nil {
		return fmt.Errorf("%w: %w", errBroken, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = c.wire.SetDeadline(time.Unix(1, 0)) }) // it is closed then, by the library's reader
	err := operation()
	switch {
	case !stop():
		return fmt.Errorf("%w: %w: %w", errBroken, errTimeout, context.Cause(ctx))
	case err == nil:
		if err = c.wire.SetDeadline(time.Time{}); err == nil {
			return nil
		}
	case isAnswer(err):
		return errors.Join(err, c.wire.SetDeadline(time.Time{}))
	case !time.Now().Before(deadline):
		return fmt.Errorf("%w: %w: %w", errBroken, errTimeout, err)
	}
	return fmt.Errorf("%w: %w", errBroken, err)
}

// bind proves a password. An empty one would be an unauthenticated bind, which succeeds (RFC 4513 §5.1.2), and so would an empty name.
func (c *connection) bind(ctx context.Context, dn string, password oauth.Secret) error {
	if dn == "" || password.IsEmpty() {
		return errors.New("a bind needs a name and a password")
	}
	return c.do(ctx, c.plan.Timeout, func() error { return c.conn.Bind(dn, password.Reveal()) })
}

// search returns at most limit entries, and an error that wraps errTooMany when there are more.
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

func (c *connection) close() { _ = c.conn.Close() } // nothing was written that could be lost
