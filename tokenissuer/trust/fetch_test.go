package trust

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG88NoURLOfATokenIsAsked: kid, jku, x5u and iss contain URLs and paths, and none is requested.
func TestG88NoURLOfATokenIsAsked(t *testing.T) {
	key := issuertest.NewSigner("k")
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("somebody came") }))
	defer trap.Close()
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.accepts(t, key.Token(p.URL, nil))
	for _, kid := range []string{trap.URL, trap.URL + "/keys", "../../" + trap.URL} {
		g.refuses(t, issuertest.NewSigner(kid).Token(p.URL, nil), oauth.InvalidToken, reasonUnknown)
	}
	g.refuses(t, key.Token(trap.URL, nil), oauth.InvalidToken, "issuer_wrong")
	g.refuses(t, issuertest.NewSigner("x").Token(trap.URL, nil), oauth.InvalidToken, reasonUnknown)
	g.refuses(t, issuertest.NewSigner(`","jku":"`+trap.URL).Token(p.URL, nil), oauth.InvalidToken, "header_unexpected")
}

// TestG88PlainHTTP: every URL of an issuer requires TLS, unless private networks are allowed.
func TestG88PlainHTTP(t *testing.T) {
	const plain = "http://127.0.0.1:1"
	for _, settings := range []Settings{{Issuer: plain}, {Issuer: "https://idp.example", JWKSURI: plain}, {Issuer: "https://idp.example", Introspection: &Introspection{Endpoint: plain}}} {
		if _, err := New(settings, fetch.Options{}); err == nil {
			t.Errorf("%+v was taken", settings)
		}
		settings.AllowPrivateNetwork = true
		if _, err := New(settings, fetch.Options{}); err != nil {
			t.Errorf("%+v: %v", settings, err)
		}
	}
}
