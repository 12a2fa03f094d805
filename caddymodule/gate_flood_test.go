package caddymodule

import (
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// floodSite takes tokens of ours, and those of another issuer, which no tag protects.
var floodSite = `{
	admin ADMIN
	skip_install_trust
	log {
		output file LOG
		level DEBUG
	}
	servers {
		trusted_proxies static 127.0.0.1/32
	}
	oauth {
		issuer http://ADDR
		store memory
		client conf SECRET {
			scopes public
		}
		trust corp PROVIDER {
			audience http://ADDR
			allow_private_network
		}
	}
}
http://ADDR {
	oauth_server
` + gated("/api/*", "issuer self corp") + handled("handle", "respond 404") + "}\n"

// floodScene is a node, and clients at any address, as a trusted proxy names them.
type floodScene struct{ *gateway }

// send asks as a client at that address, on a connection that may be kept.
func (s *floodScene) send(address, path, token string) (status int, closed bool) {
	request, err := http.NewRequest(http.MethodGet, s.url+path, nil)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	request.Header.Set("X-Forwarded-For", address)
	request.Header.Set("Authorization", "Bearer "+token)
	client := &http.Client{Transport: &http.Transport{}, Timeout: patience}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		s.t.Error(err)
		return 0, false
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Close
}

const (
	flooder  = "192.0.2.7"
	stranger = "192.0.2.8"
)

// TestG81GoodTokensPassBesideAFlood of forged tokens of another issuer, each of which costs a signature: known and new ones,
// from the address of the flood and from another.
func TestG81GoodTokensPassBesideAFlood(t *testing.T) {
	p := startProvider(t)
	s := &floodScene{startGate(t, trusting(p, floodSite))}
	good := s.server("public")
	theirs := *p.signer()
	theirs.audience = s.url
	forger := strangerTo(t, &theirs)
	forger.kid = theirs.kid
	forged := forger.good()
	middle := len(forged) - 40 // in the signature
	var flood sync.WaitGroup
	for i := range 8 {
		flood.Go(func() {
			for n := range 40 {
				other := "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				token := forged[:middle] + string(other[n]) + string(other[i]) + forged[middle+2:]
				if status, closed := s.send(flooder, "/api/x", token); status != http.StatusUnauthorized || closed {
					t.Errorf("a forged token: %d, closed %v", status, closed)
				}
			}
		})
	}
	for range 20 {
		for _, address := range []string{stranger, flooder} {
			for name, token := range map[string]string{"known": good, "new": theirs.good()} {
				if status, closed := s.send(address, "/api/x", token); status != http.StatusOK || closed {
					t.Errorf("a %s token from %s: %d, closed %v", name, address, status, closed)
				}
			}
		}
	}
	flood.Wait()
	if log := s.logs(); strings.Contains(log, `"level":"error"`) {
		t.Errorf("the flood has written errors:\n%s", log)
	}
}
