package caddymodule

import (
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// TestTheFloodgateWithoutAnIssuer: a gate for tokens of others has one too.
func TestTheFloodgateWithoutAnIssuer(t *testing.T) {
	for name, test := range map[string]struct {
		limits string
		want   tokenissuer.Limit
	}{
		"default": {"", defaultGateLimit},
		"set":     {"limits {\ngate 7/2s per ip\n}\n", tokenissuer.Limit{Failures: 7, Window: 2 * time.Second}},
		"off":     {"limits {\ngate off\n}\n", tokenissuer.Limit{}},
	} {
		t.Run(name, func(t *testing.T) {
			a := &App{Trust: []TrustConfig{{Name: "corp", Issuer: "https://id.example", Audience: []string{"a"}}}}
			if test.limits != "" {
				d := caddyfile.NewTestDispenser(test.limits)
				d.Next()
				if err := a.parseLimits(d); err != nil {
					t.Fatal(err)
				}
			}
			s, err := a.read()
			if err != nil || s.gateLimit != test.want {
				t.Errorf("%+v, %v", s.gateLimit, err)
			}
		})
	}
}
