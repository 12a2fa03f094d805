package gate

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/caller"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// benchmarkedGate is a gate that accepts every token. It measures everything except the verification.
func benchmarkedGate(tok *token.AccessToken) *Protect {
	verifier := verdict(func(string, []string) (*token.AccessToken, error) { return tok, nil })
	own := &OwnIssuer{
		Policy: new(clients.Policy), Verifier: verifier, Now: time.Now, IsClosing: func() bool { return false }, IsServing: func(context.Context) bool { return true },
	}
	shared := NewShared(zap.NewNop(), endpoint.NewAudit(zap.NewNop(), caller.Address), time.Now, own, nil)
	shared.cookies = []string{"accessToken", "session"}
	p := &Protect{shared: shared, logger: zap.NewNop()}
	p.tokens.shared, p.tokens.issuers, p.tokens.verifier = shared, []routeIssuer{{name: Self}}, verifier
	p.credentials = credentials{tokens: &p.tokens, hidden: shared.cookies}
	p.cors.tokens, p.rules.tokens, p.browser = &p.tokens, &p.tokens, &hostSignIn{tokens: &p.tokens}
	p.forwarding = forwarding{tokens: &p.tokens, claims: defaultForward}
	return p
}

// verdict is an OwnVerifier that knows every token.
type verdict func(tok string, audiences []string) (*token.AccessToken, error)

func (v verdict) Recall(tok string, audiences []string) (*token.AccessToken, bool, error) {
	t, err := v(tok, audiences)
	return t, true, err
}

func (v verdict) VerifyAdmitted(tok string, audiences []string, _ token.Admission) (*token.AccessToken, error) {
	return v(tok, audiences)
}

func (verdict) Generation() uint64 { return 0 }

// discard is a ResponseWriter that discards the response.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkOrdinaryRequest measures the gate's own share of a request with a short response.
func BenchmarkOrdinaryRequest(b *testing.B) {
	p := benchmarkedGate(&token.AccessToken{Subject: "u-ada", ClientID: "portal", ExpiresAt: time.Now().Add(time.Hour)})
	p.credentials.upstreamToken = relayToken // otherwise the same request would have no token the next time
	next := caddyhttp.HandlerFunc(func(w http.ResponseWriter, r *http.Request) error {
		_, cancel := context.WithCancel(r.Context()) // as http.Transport does
		cancel()
		w.WriteHeader(http.StatusOK)
		_, err := w.Write([]byte("ok"))
		return err
	})
	w, body := &discard{make(http.Header)}, ordinaryRequest()
	b.ReportAllocs()
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context()) // as http.Server does
		if err := p.ServeHTTP(w, body.WithContext(ctx), next); err != nil {
			b.Fatal(err)
		}
		cancel()
	}
}
