package token

import (
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// gate is a Verifier whose inputs the test controls.
type gate struct {
	*tokentest.Clock
	keySet      *keys.Set
	revocations *RevocationSet
	verifier    *Verifier
	macs        *JTIMAC // nil: the verifier has none
	audiences   []string
	signing     map[oauth.Algorithm]*keys.SigningKey
}

func newGate(tb testing.TB) *gate {
	tb.Helper()
	g := &gate{
		Clock: tokentest.NewClock(), keySet: new(keys.Set), revocations: NewRevocationSet(),
		audiences: []string{tokentest.Audience}, signing: testkeys.Shared(),
	}
	g.sign(tb, oauth.ES256)
	g.revocations.MarkFresh(tokentest.Start)
	g.verifier = g.another()
	return g
}

// newMACGate returns a gate that requires a MAC in every jti.
func newMACGate(tb testing.TB) *gate {
	tb.Helper()
	g := newGate(tb)
	g.macs = NewJTIMAC(testkeys.Master(tb, 7, tokentest.Start))
	g.verifier = g.another()
	return g
}

// sign selects the key of the algorithm for signing.
func (g *gate) sign(tb testing.TB, algorithm oauth.Algorithm) {
	tb.Helper()
	list := []*keys.SigningKey{g.signing[oauth.RS256], g.signing[oauth.EdDSA], g.signing[oauth.ES256]}
	if err := g.keySet.Replace(list, algorithm); err != nil {
		tb.Fatal(err)
	}
}

// another returns a Verifier with the same keys and revocations and an empty cache.
func (g *gate) another() *Verifier {
	v := NewVerifier(tokentest.Issuer, g.keySet, g.revocations, 5*time.Minute, g.Now)
	if g.macs != nil {
		v.UseJTIMAC(g.macs)
	}
	return v
}

// wait advances the clock and keeps the revocations fresh.
func (g *gate) wait(d time.Duration) {
	g.Add(d)
	g.revocations.MarkFresh(g.Now())
}

// judge calls Verify on a Verifier with an empty cache, and again on one that may have the token in its cache. It
// compares Explain with the result.
func (g *gate) judge(tb testing.TB, token string) (*AccessToken, error) {
	tb.Helper()
	fresh, err := g.another().Verify(token, g.audiences)
	if x := g.verifier.Explain(token, g.audiences); x.Accepted != (err == nil) {
		tb.Errorf("Verify says %v, and Explain says %+v", err, x)
	} else if x.Accepted && x.Claims == nil {
		tb.Error("Explain accepts a token and has no claims")
	}
	if _, again := g.verifier.Verify(token, g.audiences); (again == nil) != (err == nil) {
		tb.Errorf("a fresh verifier says %v, one that may know the token says %v", err, again)
	}
	return fresh, err
}

func (g *gate) accepts(tb testing.TB, token string) *AccessToken {
	tb.Helper()
	t, err := g.judge(tb, token)
	if err != nil {
		tb.Fatalf("refused: %v", err)
	}
	return t
}

// refuses fails the test unless the token is refused for one of the reasons. Several are for tokens that can fail at
// more than one check.
func (g *gate) refuses(tb testing.TB, token string, reasons ...string) {
	tb.Helper()
	t, err := g.judge(tb, token)
	tokentest.WantRefusal(tb, t, err, reasons...)
}

// claims returns the claims of a good user token, with edits as for tokentest.Object.
func (g *gate) claims(edits ...string) string {
	now := g.Now().Unix()
	return tokentest.Object([]string{
		"iss", `"` + tokentest.Issuer + `"`, "sub", `"user-1"`, "aud", `"` + tokentest.Audience + `"`, "client_id", `"client-1"`,
		"scope", `"public trusted"`, "iat", strconv.FormatInt(now, 10), "exp", strconv.FormatInt(now+3600, 10),
		"jti", `"token-1"`, "sid", `"family-1"`, "org", `"org-1"`, "role", `"admin"`,
	}, edits)
}

// good returns a token of ours with edited claims.
func (g *gate) good(edits ...string) string {
	key := g.signing[oauth.ES256]
	return testkeys.Sign(key, testkeys.Header(key), g.claims(edits...))
}

// issue signs a good server token as an issuer does, with a MAC in its jti.
func (g *gate) issue(tb testing.TB, algorithm oauth.Algorithm) (string, *AccessToken) {
	tb.Helper()
	t := &AccessToken{
		Issuer: tokentest.Issuer, Subject: "client-1", Audience: g.audiences, ClientID: "client-1", Scopes: oauth.Scopes{oauth.ScopePublic},
		ID: NewID(0), IssuedAt: g.Now(), ExpiresAt: g.Now().Add(time.Hour), KeyID: g.signing[algorithm].ID,
	}
	claims, err := AppendClaims(nil, t)
	if err != nil {
		tb.Fatal(err)
	}
	signed, err := g.macs.Sign(g.signing[algorithm], claims)
	if err != nil {
		tb.Fatal(err)
	}
	t.ID = signed.ID(t.ID)
	return signed.Text, t
}

// cutLast cuts a token at its last dot.
func cutLast(token string) (signed, signature string) {
	i := len(token) - 1
	for token[i] != '.' {
		i--
	}
	return token[:i], token[i+1:]
}
