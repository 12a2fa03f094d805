package token

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func TestAGoodTokenOfEachAlgorithmIsAccepted(t *testing.T) {
	g := newGate(t)
	for _, key := range g.signing {
		got := g.accepts(t, testkeys.Sign(key, testkeys.Header(key), g.claims("auth_time", "1799999000", "level", `"gold"`, "act", `{"sub":"admin","client_id":"portal"}`)))
		want := &AccessToken{
			Issuer: tokentest.Issuer, Subject: "user-1", Audience: []string{tokentest.Audience}, ClientID: "client-1",
			Scopes: oauth.Scopes{"public", "trusted"}, ID: "token-1", IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour),
			KeyID: key.ID, SignIn: SignIn{FamilyID: "family-1", Organisation: "org-1", Role: "admin", AuthTime: time.Unix(1799999000, 0)},
			Actors: []store.Actor{{Subject: "admin", ClientID: "portal"}}, extra: extraClaims{values: map[string]claimValue{"level": {texts: []string{"gold"}}}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v\nwant %+v", key.Algorithm, got, want)
		}
	}
}

// TestG44ACachedTokenDiesAtOnce: a cached token is refused as soon as it expires, and stays valid when a key is
// added. TestG44CacheOutlivesNothing covers the rest.
func TestG44ACachedTokenDiesAtOnce(t *testing.T) {
	g := newGate(t)
	token := g.good()
	g.accepts(t, token)
	if err := g.keySet.Replace([]*keys.SigningKey{g.signing[oauth.ES256], testkeys.Foreign()[oauth.ES256]}, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	g.accepts(t, token)
	g.wait(time.Hour + store.Leeway)
	g.accepts(t, token)
	g.wait(time.Second)
	g.refuses(t, token, "token_expired")
	if _, cached := g.verifier.cache.get(oauth.DigestOf(token)); cached {
		t.Error("the dead token is still cached")
	}
}

func TestExplainShowsEveryFaultAndNoClaimsOfAForgery(t *testing.T) {
	g := newGate(t)
	key := g.signing[oauth.ES256]
	outcome := func(x Explanation) string {
		var list []string
		for _, f := range x.Findings {
			list = append(list, f.Check+" "+f.Outcome)
		}
		return strings.Join(list, ", ")
	}
	for _, v := range []struct {
		name, token, want string
		claims            bool
	}{
		{"good", g.good(), "form passed, type passed, key passed, claims passed, issuer passed, audience passed, time passed, signature passed, revocation passed", true},
		{"no token", "x", "form failed, type not reached, key not reached, claims not reached, issuer not reached, audience not reached, time not reached, signature not reached, revocation not reached", false},
		{"everything wrong", testkeys.Sign(testkeys.Foreign()[oauth.ES256], testkeys.Header(key, "typ", `"JWT"`), g.claims("iss", `"x"`, "aud", `"x"`, "exp", "1")),
			"form passed, type failed, key passed, claims passed, issuer failed, audience failed, time failed, signature failed, revocation passed", false},
		{"expired, but ours", g.good("exp", "1"), "form passed, type passed, key passed, claims passed, issuer passed, audience passed, time failed, signature passed, revocation passed", true},
		{"unknown key", testkeys.Sign(key, testkeys.Header(key, "kid", `"x"`), g.claims()), "form passed, type passed, key failed, claims not reached, issuer not reached, audience not reached, time not reached, signature not reached, revocation not reached", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			x := g.verifier.Explain(v.token, g.audiences)
			if outcome(x) != v.want {
				t.Errorf("got  %s\nwant %s", outcome(x), v.want)
			}
			if (x.Claims != nil) != v.claims {
				t.Errorf("claims %+v", x.Claims)
			}
		})
	}
}
