// Package mailtest has mail servers for tests: one in this process, whose answers the test chooses, and OpenSMTPD from Debian's package
// opensmtpd. Each has a certificate for 127.0.0.1 alone, of an authority of its own.
package mailtest

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net"
	netmail "net/mail"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-smtp"
)

// The account of every Server.
const (
	User     = "gatehouse"
	Password = "the mail server's password"
)

// Options say what a Server lacks. The zero value has STARTTLS, and wants User and Password.
type Options struct {
	// Implicit is TLS from the beginning. NoTLS has none at all.
	Implicit, NoTLS bool
	// Open wants no authentication.
	Open bool
	// Mechanisms are the ways to authenticate that it announces, and serves if it knows them; nil: PLAIN. It announces them before STARTTLS, too.
	Mechanisms []string
}

// Server is a mail server in this process.
type Server struct {
	// URL is that of the server. CA is its authority's certificate, in PEM, and in CAFile.
	URL, CA, CAFile string

	// Answer decides the answers to MAIL, RCPT and DATA; nil: all are accepted. It is set before the first mail.
	Answer func(step, argument string) error
	// Repeats is what the server says that a client has sent whose password is wrong.
	Repeats string

	options Options
	mails   chan Mail
	mu      sync.Mutex
	steps   []string
}

// Mail is a mail that a server has taken.
type Mail struct {
	From, To string
	// TLS reports that it came over TLS.
	TLS bool
	// Mechanism is how the client authenticated.
	Mechanism string
	// Raw is the mail as it came.
	Raw string
}

// Start starts a server. The end of the test stops it.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	authority := NewAuthority(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{URL: "smtp://" + listener.Addr().String(), CA: authority.CA, CAFile: authority.CAFile, options: options, mails: make(chan Mail, 1000)}
	server := smtp.NewServer(smtp.BackendFunc(func(c *smtp.Conn) (smtp.Session, error) { return s.session(c), nil }))
	server.Domain, server.EnableSMTPUTF8, server.ErrorLog = "mail.example", true, quiet{}
	server.ReadTimeout, server.WriteTimeout, server.AllowInsecureAuth = time.Minute, time.Minute, true
	config := &tls.Config{Certificates: []tls.Certificate{authority.Certificate}, MinVersion: tls.VersionTLS12}
	switch {
	case options.Implicit:
		s.URL = "smtps://" + listener.Addr().String()
		listener = tls.NewListener(listener, config)
	case !options.NoTLS:
		server.TLSConfig = config
	}
	go func() { _ = server.Serve(listener) }() // Close ends it
	t.Cleanup(func() { _ = server.Close() })
	return s
}

type quiet struct{}

func (quiet) Printf(string, ...any) {}
func (quiet) Println(...any)        {}

// Next returns the next mail. It waits for it.
func (s *Server) Next(t testing.TB) Mail {
	t.Helper()
	select {
	case m := <-s.mails:
		return m
	case <-time.After(20 * time.Second):
		t.Fatalf("no mail has come; the steps were %q", s.Steps())
		return Mail{}
	}
}

// Waiting returns the number of mails that Next has not returned.
func (s *Server) Waiting() int { return len(s.mails) }

// Steps returns what clients have asked for, as "RCPT <ada@example.com>".
func (s *Server) Steps() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.steps)
}

func (s *Server) step(step, argument string) error {
	s.mu.Lock()
	s.steps = append(s.steps, strings.TrimSpace(step+" "+argument))
	s.mu.Unlock()
	if s.Answer == nil {
		return nil
	}
	return s.Answer(step, argument)
}

// Reply is the answer of a server: 451 is temporary, 550 permanent.
func Reply(code int, text string) error {
	return &smtp.SMTPError{Code: code, EnhancedCode: smtp.EnhancedCode{code / 100, 1, 1}, Message: text}
}

func (s *Server) session(c *smtp.Conn) smtp.Session {
	_, isTLS := c.TLSConnectionState()
	_ = s.step("HELO", c.Hostname())
	return &session{server: s, isTLS: isTLS || s.options.Implicit, isKnown: s.options.Open}
}

// session is one connection. After STARTTLS it is another.
type session struct {
	server              *Server
	isTLS, isKnown      bool
	mechanism, from, to string
}

// Mail begins a mail.
func (s *session) Mail(from string, _ *smtp.MailOptions) error {
	if !s.isKnown {
		return smtp.ErrAuthRequired
	}
	s.from = from
	return s.server.step("MAIL", from)
}

// Rcpt sets the recipient.
func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	s.to = to
	return s.server.step("RCPT", to)
}

// Data takes the mail.
func (s *session) Data(r io.Reader) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	if err := s.server.step("DATA", ""); err != nil {
		return err
	}
	s.server.mails <- Mail{From: s.from, To: s.to, TLS: s.isTLS, Mechanism: s.mechanism, Raw: string(raw)}
	return nil
}

// Reset forgets the mail.
func (s *session) Reset() { s.from, s.to = "", "" }

// Logout ends the session.
func (*session) Logout() error { return nil }

// Parsed is a mail as its reader sees it.
type Parsed struct {
	Header  netmail.Header
	Subject string
	// Text and HTML are the decoded parts.
	Text, HTML string
}

// Parse reads a mail of two parts.
func (m Mail) Parse(t testing.TB) Parsed {
	t.Helper()
	message, err := netmail.ReadMessage(strings.NewReader(m.Raw))
	if err != nil {
		t.Fatalf("%v: %s", err, m.Raw)
	}
	p := Parsed{Header: message.Header}
	if p.Subject, err = new(mime.WordDecoder).DecodeHeader(message.Header.Get("Subject")); err != nil {
		t.Fatal(err)
	}
	media, parameters, err := mime.ParseMediaType(message.Header.Get("Content-Type"))
	if err != nil || media != "multipart/alternative" {
		t.Fatalf("%q, %v", media, err)
	}
	for parts := multipart.NewReader(message.Body, parameters["boundary"]); ; {
		part, err := parts.NextRawPart()
		if errors.Is(err, io.EOF) {
			return p
		}
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(quotedprintable.NewReader(part))
		if err != nil {
			t.Fatal(err)
		}
		switch media, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type")); media {
		case "text/plain":
			p.Text = string(text)
		case "text/html":
			p.HTML = string(text)
		default:
			t.Fatalf("a part of %q", media)
		}
	}
}

// Authority is a certificate authority with a certificate for 127.0.0.1.
type Authority struct {
	CA, CAFile  string
	Certificate tls.Certificate
	// CertificateFile and KeyFile are the certificate and its key, in PEM.
	CertificateFile, KeyFile string
}

// NewAuthority makes an authority, with its files in a directory of the test.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		must(os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
		return path
	}
	issue := func(name string, isCA bool, parent *x509.Certificate, by *ecdsa.PrivateKey) ([]byte, *ecdsa.PrivateKey) {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		must(err)
		template := &x509.Certificate{
			SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour),
			NotAfter: time.Now().Add(24 * time.Hour), IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		}
		if !isCA {
			template.IPAddresses, template.KeyUsage = []net.IP{net.IPv4(127, 0, 0, 1)}, x509.KeyUsageDigitalSignature
		}
		if parent == nil {
			parent, by = template, key
		}
		der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
		must(err)
		return der, key
	}
	root, rootKey := issue("the authority of "+t.Name(), true, nil, nil)
	parsed, err := x509.ParseCertificate(root)
	must(err)
	leaf, key := issue("127.0.0.1", false, parsed, rootKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	must(err)
	a := &Authority{CAFile: write("ca.pem", "CERTIFICATE", root), CertificateFile: write("server.pem", "CERTIFICATE", leaf), KeyFile: write("server.key", "PRIVATE KEY", keyDER)}
	content, err := os.ReadFile(a.CAFile)
	must(err)
	a.CA = string(bytes.TrimSpace(content))
	a.Certificate, err = tls.LoadX509KeyPair(a.CertificateFile, a.KeyFile)
	must(err)
	return a
}
