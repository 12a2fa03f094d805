package ldap_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	. "github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

func strangersCertificate(t testing.TB) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestP38Slow: a directory silent at any step, or byte by byte → temporarily_unavailable within the timeouts, bounded connections.
func TestP38Slow(t *testing.T) {
	silent := func(operation) []byte { return nil }
	for _, test := range []struct {
		name   string
		handle func(*fake, operation) []byte
		change func(*Settings)
	}{
		{"for the service account", but(ldap.ApplicationBindRequest, silent), func(*Settings) {}},
		{"for a search", but(ldap.ApplicationSearchRequest, silent), func(*Settings) {}},
		{"for StartTLS", but(ldap.ApplicationExtendedRequest, silent), func(s *Settings) { s.StartTLS = true }},
		{"for a TLS handshake", honest, func(s *Settings) { s.URL = "ldaps" + s.URL[len("ldap"):] }},
		{"byte by byte", but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			for _, b := range append([]byte{0x30, 0x84, 0, 0, 0xff, 0xff}, make([]byte, 1000)...) {
				if _, err := o.conn.Write([]byte{b}); err != nil {
					return nil
				}
				time.Sleep(10 * time.Millisecond) // the attack
			}
			return nil
		}), func(*Settings) {}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := newFake(t, test.handle).settings()
			s.Timeout, s.DialTimeout = 200*time.Millisecond, 200*time.Millisecond
			test.change(&s)
			d := open(t, s)
			begun := time.Now()
			wantNobody(t, d, "ada", "right", ReasonUnavailable)
			if took := time.Since(begun); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}

	t.Run("for whoever gives up", func(t *testing.T) {
		asked := make(chan struct{})
		f := newFake(t, but(ldap.ApplicationSearchRequest, func(operation) []byte { close(asked); return nil }))
		d := open(t, f.settings())
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-asked; cancel() }()
		if _, err := d.Authenticate(ctx, attempt("ada", "right")); err == nil {
			t.Error("signed in")
		}
		if d.State() != (signin.State{}) {
			t.Errorf("a browser that goes away is no fault of the directory: %+v", d.State())
		}
	})
	t.Run("for many at once", func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		enough, more, proceed := make(chan struct{}), make(chan struct{}, 20), make(chan struct{})
		f := newFake(t, but(ldap.ApplicationSearchRequest, func(o operation) []byte {
			mu.Lock()
			now++
			if most = max(most, now); now > 2 {
				more <- struct{}{}
			}
			if now == 2 && most == 2 {
				select {
				case <-enough:
				default:
					close(enough)
				}
			}
			mu.Unlock()
			<-proceed
			mu.Lock()
			now--
			mu.Unlock()
			return honest(nil, o)
		}))
		s := f.settings()
		s.Connections = 2
		d := open(t, s)
		var all sync.WaitGroup
		for n := range 20 {
			all.Go(func() {
				a := attempt("ada", "right")
				a.Address = string(rune('a' + n))
				if _, err := d.Authenticate(t.Context(), a); err != nil {
					t.Error(err)
				}
			})
		}
		<-enough
		select { // calls that need not wait return at once
		case <-more:
		case <-time.After(50 * time.Millisecond):
		}
		close(proceed)
		all.Wait()
		if most != 2 {
			t.Errorf("%d at once", most)
		}
	})
}

// TestP50AConnectionThatWasClosed: a directory that drops idle connections or restarts → unnoticed.
func TestP50AConnectionThatWasClosed(t *testing.T) {
	var drop sync.Map
	f := newFake(t, func(f *fake, o operation) []byte {
		if n, ok := drop.Load(o.connection); ok && n == o.tag {
			_ = o.conn.Close()
			return nil
		}
		return honest(f, o)
	})
	d := open(t, f.settings())
	signedIn(t, d, "ada", "right")
	drop.Store(1, f.operations[1].tag)
	signedIn(t, d, "ada", "right")
}
