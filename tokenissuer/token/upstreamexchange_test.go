package token

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestConcurrentExchangesOfOneOpaqueToken: two requests with one opaque token, whose claims change between them → each upstream gets a token
// with the claims that its request was admitted with.
func TestConcurrentExchangesOfOneOpaqueToken(t *testing.T) {
	keys := newSet(t, testkeys.Shared()[oauth.ES256])
	macs := NewJTIMAC(testkeys.Master(t, 7, tokentest.Start))
	synctest.Test(t, func(t *testing.T) {
		signing, goOn := make(chan struct{}, 2), make(chan struct{})
		u := NewUpstreamTokens(UpstreamIssuer{
			URL: tokentest.Issuer, Credentials: func() UpstreamCredentials { return UpstreamCredentials{Keys: keys, JTIMAC: macs} },
			Birth: func() time.Time { return tokentest.Start },
			Now:   func() time.Time { signing <- struct{}{}; <-goOn; return tokentest.Start },
		})
		u.UseExchange()
		exchange := func(scope string) <-chan string {
			exchanged := make(chan string, 1)
			go func() {
				text, err := u.ExchangeForUpstream(Exchange{Shown: oauth.NewSecret("opaque"), Trust: "corp", Audience: "orders", Token: &AccessToken{
					Issuer: "https://other.example", Subject: "ada", Audience: []string{"x"}, ClientID: "c", ID: "j", Scopes: oauth.Scopes{scope},
					IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour),
				}})
				if err != nil {
					t.Error(err)
				}
				exchanged <- text.Reveal()
			}()
			return exchanged
		}
		before := exchange("admin")
		<-signing
		after := exchange("read")
		synctest.Wait()
		close(goOn)
		for scope, exchanged := range map[string]<-chan string{"admin": before, "read": after} {
			if got := claimsOf(t, <-exchanged)["scope"]; got != scope {
				t.Errorf("admitted with %s, the upstream is told %v", scope, got)
			}
		}
	})
}
