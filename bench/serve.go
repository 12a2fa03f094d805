package main

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
)

// headerTimeout is for the servers of this program, whose only client is the benchmark.
const headerTimeout = time.Minute

// startUpstream starts this program as the upstream.
func startUpstream(ctx context.Context) (*proc.Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self, upstreamCommand, addr)
	cmd.Stderr = os.Stderr
	return proc.Start(ctx, cmd, addr, nil)
}

// serveUpstream answers every request with the same small body. A smaller response makes protect's share of the cost
// larger.
func serveUpstream(addr string) error {
	body := []byte(`{"orders":[]}`)
	server := &http.Server{
		Addr: addr, ReadHeaderTimeout: headerTimeout,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(body)
		}),
	}
	return server.ListenAndServe()
}

// serveVerifier is the small service that many people put behind Caddy's forward_auth. It verifies each token with
// golang-jwt and returns its subject.
func serveVerifier(addr, keyFile, issuer, algorithm string) error {
	key, err := readPublicKey(keyFile)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: addr, ReadHeaderTimeout: headerTimeout, Handler: verifier(key, issuer, algorithm)}
	return server.ListenAndServe()
}

// verifier answers 204 to a good token.
func verifier(key any, issuer, algorithm string) http.HandlerFunc {
	parser := jwt.NewParser(jwt.WithValidMethods([]string{algorithm}), jwt.WithIssuer(issuer), jwt.WithAudience(externalAudience),
		jwt.WithExpirationRequired())
	return func(w http.ResponseWriter, r *http.Request) {
		text, found := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		var claims jwt.RegisteredClaims
		_, err := parser.ParseWithClaims(text, &claims, func(*jwt.Token) (any, error) { return key, nil })
		if !found || err != nil {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("X-Auth-Subject", claims.Subject)
		w.WriteHeader(http.StatusNoContent)
	}
}

func readPublicKey(file string) (any, error) {
	text, err := os.ReadFile(file) //lint:ignore gosec written by this program
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s holds no PEM block", file)
	}
	return x509.ParsePKIXPublicKey(block.Bytes)
}
