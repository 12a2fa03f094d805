// Package ldaptest starts OpenLDAP servers for tests from Debian's package slapd, each in its own directory and on ports of 127.0.0.1.
// They have the people and groups of [Server.People].
//
// A test fails when the program is missing. With -short, which `make quick` uses, it is skipped.
package ldaptest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/loopback"
)

// Names that every server has.
const (
	Base          = "dc=example,dc=com"
	People        = "ou=people," + Base
	Groups        = "ou=groups," + Base
	AdminDN       = "cn=admin," + Base
	AdminPassword = "the directory's own password"
	// ReaderDN may read everything except passwords.
	ReaderDN       = "cn=reader," + Base
	ReaderPassword = "the reader's password"
)

// Server is an OpenLDAP server. Its methods fail the test that started it.
type Server struct {
	// URL is ldap://127.0.0.1:…, which also supports StartTLS. TLSURL is ldaps://127.0.0.1:….
	URL, TLSURL string
	// CAFile contains the certificate of the authority that signed the server's certificate, which is for 127.0.0.1 alone.
	CAFile string

	t       testing.TB
	dir     string
	command *exec.Cmd
	gone    chan struct{}
}

// Start starts a server with people and groups. The lines are added to the database section of slapd.conf.
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	if testing.Short() {
		t.Skip("it starts slapd")
	}
	dir, err := os.MkdirTemp("", "gatehouse-ldap-") // the path of t.TempDir may be too long for a socket of slapd
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, dir: dir, URL: "ldap://" + address(t), TLSURL: "ldaps://" + address(t), CAFile: filepath.Join(dir, "ca.pem")}
	t.Cleanup(func() {
		s.Stop()
		_ = os.RemoveAll(dir)
	})
	s.writeCertificates()
	s.writeConfiguration(lines)
	s.Run()
	s.fill()
	return s
}

func (s *Server) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatalf("slapd: %v", err)
	}
}

// address returns an address that stays reserved while the server is down.
func address(t testing.TB) string {
	t.Helper()
	port, err := loopback.Reserve()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	return port.Addr()
}

func (s *Server) write(name, content string) {
	s.t.Helper()
	s.must(os.WriteFile(filepath.Join(s.dir, name), []byte(content), 0o600))
}

// writeConfiguration writes slapd.conf. No identity may read the passwords of users; a bind compares them.
func (s *Server) writeConfiguration(lines []string) {
	s.t.Helper()
	s.must(os.Mkdir(filepath.Join(s.dir, "data"), 0o700))
	text := "include /etc/ldap/schema/core.schema\ninclude /etc/ldap/schema/cosine.schema\ninclude /etc/ldap/schema/inetorgperson.schema\n" +
		"include /etc/ldap/schema/nis.schema\nmodulepath /usr/lib/ldap\nmoduleload back_mdb\nmoduleload memberof\n" +
		fmt.Sprintf("pidfile %[1]s/pid\nTLSCACertificateFile %[1]s/ca.pem\nTLSCertificateFile %[1]s/server.pem\nTLSCertificateKeyFile %[1]s/server.key\n", s.dir) +
		"database mdb\nmaxsize 67108864\ndbnosync\nsuffix " + Base + "\nrootdn " + AdminDN + "\nrootpw \"" + AdminPassword + "\"\ndirectory " + s.dir + "/data\n"
	for _, line := range lines {
		text += line + "\n"
	}
	s.write("slapd.conf", text+"overlay memberof\nmemberof-refint true\n"+
		"access to attrs=userPassword by anonymous auth by * none\naccess to * by dn.exact=\""+ReaderDN+"\" read by users read by * read\n")
}

// Run starts the server, also after Stop.
func (s *Server) Run() {
	s.t.Helper()
	program, err := exec.LookPath("slapd")
	if err != nil {
		program = "/usr/sbin/slapd" // which is not in every PATH
	}
	output, err := os.Create(filepath.Join(s.dir, "log"))
	s.must(err)
	defer func() { _ = output.Close() }()
	s.command = exec.Command(program, "-d", "0", "-f", filepath.Join(s.dir, "slapd.conf"), "-h", s.URL+" "+s.TLSURL) //lint:ignore gosec paths of this package
	s.command.Stdout, s.command.Stderr = output, output
	s.command.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := s.command.Start(); err != nil {
		s.t.Fatalf("%v: install Debian's package slapd (make test does)", err)
	}
	gone := make(chan struct{})
	s.gone = gone
	go func(command *exec.Cmd) {
		_ = command.Wait() // the log says how it ended
		close(gone)
	}(s.command)
	for until := time.Now().Add(time.Minute); ; {
		conn, err := ldap.DialURL(s.URL)
		if err == nil {
			_ = conn.Close()
			return
		}
		select {
		case <-gone:
			log, _ := os.ReadFile(output.Name())
			s.t.Fatalf("slapd has ended: %s", log)
		case <-time.After(20 * time.Millisecond):
		}
		if time.Now().After(until) {
			s.t.Fatalf("slapd does not answer: %v", err)
		}
	}
}

// Stop kills the server. Its ports are free then.
func (s *Server) Stop() {
	_ = s.command.Process.Kill()
	<-s.gone
}

// Pause stops the server without closing its connections, until Continue.
func (s *Server) Pause() {
	s.t.Helper()
	s.must(s.command.Process.Signal(syscall.SIGSTOP))
}

// Continue continues a paused server.
func (s *Server) Continue() {
	s.t.Helper()
	s.must(s.command.Process.Signal(syscall.SIGCONT))
}

// writeCertificates creates an authority and a certificate for 127.0.0.1.
func (s *Server) writeCertificates() {
	s.t.Helper()
	now := time.Now()
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	authorityKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &authorityKey.PublicKey, authorityKey)
	s.must(err)
	s.writePEM("ca.pem", "CERTIFICATE", der)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	s.must(err)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "directory"}, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err = x509.CreateCertificate(rand.Reader, leaf, authority, &key.PublicKey, authorityKey)
	s.must(err)
	s.writePEM("server.pem", "CERTIFICATE", der)
	der, err = x509.MarshalPKCS8PrivateKey(key)
	s.must(err)
	s.writePEM("server.key", "PRIVATE KEY", der)
}

func (s *Server) writePEM(name, kind string, der []byte) {
	s.t.Helper()
	s.write(name, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}
