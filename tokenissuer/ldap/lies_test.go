package ldap_test

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
)

// enough is the time limit for a sign-in in these tests. Each operation has a fifth of a second, but the machine may be busy.
const enough = 30 * time.Second

// step is one response in the conversation of a sign-in.
type step struct {
	name string
	tag  ber.Tag // of the request
	// holds reports whether the step answers an operation.
	holds func(o operation) bool
	// answer returns the honest response.
	answer func(o operation) []byte
	change func(*Settings)
	// tls reports that the conversation is unencrypted until the directory starts TLS.
	tls bool
}

func conversation() []step {
	bindAs := func(dn string) func(operation) bool {
		return func(o operation) bool { return o.tag == ldap.ApplicationBindRequest && o.name() == dn }
	}
	nothing := func(*Settings) {}
	groups := func(o operation) bool {
		return o.tag == ldap.ApplicationSearchRequest && o.packet.Children[0].Data.String() == "ou=groups,dc=example,dc=com"
	}
	return []step{
		{"StartTLS", ldap.ApplicationExtendedRequest, func(o operation) bool { return o.tag == ldap.ApplicationExtendedRequest }, func(o operation) []byte {
			return result(o, ldap.ApplicationExtendedResponse, 0)
		}, func(s *Settings) { s.StartTLS = true }, true},
		{"the bind of the service account", ldap.ApplicationBindRequest, bindAs("cn=reader,dc=example,dc=com"), func(o operation) []byte { return honest(nil, o) }, nothing, false},
		{"the search for a person", ldap.ApplicationSearchRequest, func(o operation) bool { return o.tag == ldap.ApplicationSearchRequest && !groups(o) },
			func(o operation) []byte { return honest(nil, o) }, nothing, false},
		{"the bind of a person", ldap.ApplicationBindRequest, bindAs(adaDN), func(o operation) []byte { return honest(nil, o) }, nothing, false},
		{"the search for groups", ldap.ApplicationSearchRequest, groups, func(o operation) []byte {
			return append(entry(o, "cn=staff,ou=groups,dc=example,dc=com", nil), result(o, ldap.ApplicationSearchResultDone, 0)...)
		}, func(s *Settings) { s.GroupBase = "ou=groups,dc=example,dc=com" }, false},
	}
}

// lie is a dishonest response of a directory. It returns the bytes to write, and may do anything else.
type lie struct {
	name string
	tell func(o operation, answer []byte) []byte
}

// liesAbout returns the lies about one response: closing, stalling or changing the value at each of its bytes, and other responses as a
// whole.
func liesAbout(s step) (list []lie) {
	sample := s.answer(operation{id: 1, tag: s.tag})
	for n := range sample {
		list = append(list,
			lie{fmt.Sprintf("closes after %d bytes", n), func(o operation, answer []byte) []byte {
				_, _ = o.conn.Write(answer[:n])
				_ = o.conn.Close()
				return nil
			}},
			lie{fmt.Sprintf("stalls after %d bytes", n), func(_ operation, answer []byte) []byte { return answer[:n] }})
		for _, value := range []byte{0x00, 0x80, 0xff, sample[n] ^ 1} {
			list = append(list, lie{fmt.Sprintf("has %#02x for byte %d", value, n), func(_ operation, answer []byte) []byte {
				answer[n] = value
				return answer
			}})
		}
	}
	always := func(answer []byte) func(operation, []byte) []byte {
		return func(operation, []byte) []byte { return answer }
	}
	return append(list,
		lie{"another message id", func(o operation, _ []byte) []byte { o.id += 7; return s.answer(o) }},
		lie{"message id 0, for a notice", func(o operation, _ []byte) []byte { o.id = 0; return s.answer(o) }},
		lie{"another message id, and then the right one", func(o operation, answer []byte) []byte {
			other := o
			other.id += 7
			return append(s.answer(other), answer...)
		}},
		lie{"another kind of answer", func(o operation, _ []byte) []byte { return result(o, ldap.ApplicationModifyResponse, 0) }},
		lie{"the answer twice", func(_ operation, answer []byte) []byte { return slices.Concat(answer, answer) }},
		lie{"a message without an operation", always([]byte{0x30, 0x03, 0x02, 0x01, 0x01})},
		lie{"an empty message", always([]byte{0x30, 0x00})},
		lie{"an endless message", always([]byte{0x30, 0x80, 0x02, 0x01, 0x01})},
		lie{"a huge length", always([]byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff, 0x02})},
		lie{"a length beyond all measure", always([]byte{0x30, 0x88, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})},
		lie{"garbage", always([]byte("HTTP/1.1 400 Bad Request\r\n\r\n"))},
		lie{"nothing but zeros", always(make([]byte, 4096))},
		lie{"messages for others without end", func(o operation, _ []byte) []byte {
			piece := bytes.Repeat(result(operation{id: o.id + 7}, ldap.ApplicationSearchResultDone, 0), 1000)
			for {
				if _, err := o.conn.Write(piece); err != nil {
					return nil
				}
			}
		}},
		lie{"referrals without end", func(o operation, _ []byte) []byte {
			reference := ber.Encode(ber.ClassApplication, ber.TypeConstructed, ldap.ApplicationSearchResultReference, nil, "")
			reference.AppendChild(text("ldap://elsewhere.example.com"))
			piece := bytes.Repeat(message(o.id, reference), 1000)
			for {
				if _, err := o.conn.Write(piece); err != nil {
					return nil
				}
			}
		}},
	)
}

// TestV8EachStepOfADirectory: a directory that stalls, lies or closes at each step → the sign-in ends at its deadline, nothing in the
// clear.
func TestV8EachStepOfADirectory(t *testing.T) {
	certificate := strangersCertificate(t)
	authority := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}))
	before := runtime.NumGoroutine()
	for _, s := range conversation() {
		t.Run(s.name, func(t *testing.T) {
			var running sync.WaitGroup
			turns := make(chan struct{}, 8) // more would exceed the deadlines
			for _, lie := range liesAbout(s) {
				turns <- struct{}{}
				running.Go(func() {
					defer func() { <-turns }()
					askALiar(t, s, lie, certificate, authority)
				})
			}
			running.Wait()
		})
	}
	tokentest.Eventually(t, "nothing runs any more", func() bool { return runtime.NumGoroutine() <= before+2 })
}

func askALiar(t *testing.T, s step, lie lie, certificate tls.Certificate, authority string) {
	var reformed, inClear atomic.Bool
	f := startFake(t, func(f *fake, o operation) []byte {
		_, secured := o.conn.(*tls.Conn)
		if s.tls && !secured && o.tag != ldap.ApplicationExtendedRequest {
			inClear.Store(true)
		}
		switch {
		case !s.holds(o):
			return honest(f, o)
		case reformed.Load():
			return s.answer(o)
		}
		return lie.tell(o, s.answer(o))
	})
	f.certificate = certificate
	defer f.close()
	settings := f.settings()
	settings.Timeout, settings.DialTimeout, settings.Connections, settings.CA = 200*time.Millisecond, 200*time.Millisecond, 1, authority
	s.change(&settings)
	d, err := New(settings)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = d.Close() }()
	signIn := func() error {
		ended := make(chan error, 1)
		go func() {
			_, err := d.Authenticate(t.Context(), attempt("ada", "right"))
			ended <- err
		}()
		select {
		case err := <-ended:
			return err
		case <-time.After(enough):
			return errEndless
		}
	}
	if err := signIn(); errors.Is(err, errEndless) {
		t.Errorf("%s %s: %v", s.name, lie.name, err)
		return
	}
	if inClear.Load() {
		t.Errorf("%s %s: something else was said in the clear", s.name, lie.name)
	}
	reformed.Store(true)
	for deadline := time.Now().Add(enough); ; { // not long on a busy machine
		err := signIn()
		if err == nil {
			return
		}
		if errors.Is(err, errEndless) || time.Now().After(deadline) {
			t.Errorf("%s %s: nobody is signed in afterwards: %v", s.name, lie.name, err)
			return
		}
	}
}

var errEndless = fmt.Errorf("the sign-in has not ended after %s", enough)

// beginTLS is the server's side of StartTLS.
func beginTLS(conn net.Conn, certificate tls.Certificate) net.Conn {
	return tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{certificate}})
}
