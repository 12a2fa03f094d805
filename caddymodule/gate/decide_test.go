package gate

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestG77AVerdictThatIsNone: if a verifier returns neither a token nor one of our errors, the request is refused.
func TestG77AVerdictThatIsNone(t *testing.T) {
	for name, err := range map[string]error{"no token": nil, "unknown error": io.ErrUnexpectedEOF} {
		t.Run(name, func(t *testing.T) {
			p := benchmarkedGate(nil)
			p.challenger.usual = answers.Challenge{Realm: "test"}.Prepare()
			p.tokens.verifier = verdict(func(string, []string) (*token.AccessToken, error) { return nil, err })
			w := httptest.NewRecorder()
			request := caddyhttp.PrepareRequest(ordinaryRequest(), caddy.NewReplacer(), w, new(caddyhttp.Server))
			if err := p.ServeHTTP(w, request, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
				t.Error("it passed")
				return nil
			})); err != nil || w.Code != http.StatusInternalServerError || strings.Contains(w.Body.String(), "EOF") {
				t.Errorf("%d %s (%v)", w.Code, w.Body, err)
			}
		})
	}
}
