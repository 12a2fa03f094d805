package caddymodule

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
)

// besideTLS adds to config a server at tlsAddr that serves the site at addr with TLS: HTTP/1.1, HTTP/2 and HTTP/3. Proxies trusted at the first
// address are trusted at the second.
func besideTLS(addr, tlsAddr string, config []byte) ([]byte, error) {
	var whole map[string]any
	if err := json.Unmarshal(config, &whole); err != nil {
		return nil, err
	}
	apps, _ := whole["apps"].(map[string]any)
	web, _ := apps["http"].(map[string]any)
	servers, _ := web["servers"].(map[string]any)
	for _, server := range servers {
		text, err := json.Marshal(server)
		if err != nil {
			return nil, err
		}
		listen, _ := server.(map[string]any)["listen"].([]any)
		_, port, _ := strings.Cut(addr, ":")
		if len(listen) != 1 || !strings.HasSuffix(listen[0].(string), ":"+port) {
			continue
		}
		var beside map[string]any
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), `"127.0.0.1/32"`, `"127.0.0.1/32","::1/128"`)), &beside); err != nil {
			return nil, err
		}
		delete(beside, "protocols")
		beside["listen"] = []any{tlsAddr}
		beside["automatic_https"] = map[string]any{"disable": true}
		beside["tls_connection_policies"] = []any{map[string]any{}}
		beside["packet_conn_wrappers"] = []any{map[string]any{"wrapper": orderedDatagrams{}.CaddyModule().ID.Name()}}
		servers["tls"] = beside
		apps["tls"] = map[string]any{"certificates": map[string]any{"load_pem": []any{testCertificate()}}}
		return json.Marshal(whole)
	}
	return config, nil // config has no site at addr
}

// testCertificate is the certificate of all tests with its key.
var testCertificate = sync.OnceValue(func() map[string]string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		DNSNames: []string{"localhost", "auth.localhost", "app.localhost", "wiki.localhost"}, IPAddresses: []net.IP{net.IPv6loopback, net.IPv4(127, 0, 0, 1)},
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err)
	}
	return map[string]string{
		"certificate": string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})),
		"key":         string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	}
})

// clientTLS returns a configuration that trusts testCertificate.
func clientTLS() *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(testCertificate()["certificate"]))
	return &tls.Config{RootCAs: roots, ServerName: "localhost"}
}

// freeTLSAddr is like freeAddr and prefers IPv6.
func freeTLSAddr(t *testing.T) string {
	t.Helper()
	_, port, _ := strings.Cut(freeAddr(t), ":")
	if listener, err := net.Listen("tcp", "[::1]:0"); err == nil {
		_ = listener.Close()
		return "[::1]:" + port
	}
	return "127.0.0.1:" + port
}

// orderedDatagrams tells the race detector that a datagram is sent before it is received, as it knows for TCP. Otherwise it would report a race
// with what a test did before it sent a request over HTTP/3.
type orderedDatagrams struct{}

func init() { caddy.RegisterModule(orderedDatagrams{}) }

func (orderedDatagrams) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "caddy.packetconns.ordered", New: func() caddy.Module { return orderedDatagrams{} }}
}

func (orderedDatagrams) WrapPacketConn(socket net.PacketConn) net.PacketConn {
	return orderedSocket{socket}
}

// datagrams counts the datagrams sent and received.
var datagrams atomic.Int64

type orderedSocket struct{ net.PacketConn }

func (s orderedSocket) ReadFrom(p []byte) (int, net.Addr, error) {
	n, from, err := s.PacketConn.ReadFrom(p)
	datagrams.Add(1)
	return n, from, err
}

func (s orderedSocket) WriteTo(p []byte, to net.Addr) (int, error) {
	datagrams.Add(1)
	return s.PacketConn.WriteTo(p, to)
}
