package gate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// TestG81WhatIsDearToHold: a place in a proxy's connections, and a body that is kept in memory because nobody reads it.
func TestG81WhatIsDearToHold(t *testing.T) {
	for name, test := range map[string]struct {
		version int
		body    string
		trusted bool
		want    bool
	}{
		"HTTP/1": {1, "", false, false}, "HTTP/1 with a body": {1, "x", false, false}, "HTTP/1 of a proxy": {1, "", true, true},
		"HTTP/2": {2, "", false, false}, "HTTP/2 with a body": {2, "x", false, true}, "HTTP/2 of a proxy": {2, "", true, true},
		"HTTP/3 with a body": {3, "x", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(test.body))
			r.ProtoMajor = test.version
			r = caddyhttp.PrepareRequest(r, caddy.NewReplacer(), nil, nil)
			caddyhttp.SetVar(r.Context(), caddyhttp.TrustedProxyVarKey, test.trusted)
			if got := isCostlyToHold(r); got != test.want {
				t.Errorf("%v", got)
			}
		})
	}
}
