package trust

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

func (g *gate) explained(tok string) token.Explanation {
	return g.Explain(tok, []string{issuertest.Audience})
}

// finding returns the result of one check.
func finding(tb testing.TB, x token.Explanation, check string) token.Finding {
	tb.Helper()
	n := slices.IndexFunc(x.Findings, func(f token.Finding) bool { return f.Check == check })
	if n < 0 {
		tb.Fatalf("no check of the %s in %+v", check, x)
	}
	return x.Findings[n]
}

// TestExplainIsWhatVerifySays checks that Explain gives the reason of Verify, and claims only if they are signed.
func TestExplainIsWhatVerifySays(t *testing.T) {
	key := issuertest.NewSigner("k")
	g := newGate(t, issuertest.NewProvider(t, key))
	g.fetchNow()
	forged := issuertest.NewSigner("k")
	hour := issuertest.Start.Add(-time.Hour).Unix()
	for _, v := range []struct {
		name, token, check, reason string
		signed                     bool
	}{
		{"good", key.Token(g.provider.URL, nil), "", "", true},
		{"expired", key.Token(g.provider.URL, map[string]any{"exp": hour}), "time", "token_expired", true},
		{"for others", key.Token(g.provider.URL, map[string]any{"aud": "https://other.example"}), "audience", "audience_wrong", true},
		{"of another issuer", key.Token("https://other.example", nil), "issuer", "issuer_wrong", true},
		{"forged", forged.Token(g.provider.URL, nil), "signature", "signature_wrong", false},
		{"without a client", key.Token(g.provider.URL, map[string]any{"client_id": ""}), "claims", "claims_malformed", false},
		{"opaque", "opaque", "form", "token_malformed", false},
	} {
		t.Run(v.name, func(t *testing.T) {
			x := g.explained(v.token)
			_, err := g.judgeNow(v.token)
			if x.Accepted != (err == nil) || x.Undecided || (x.Claims != nil) != v.signed {
				t.Errorf("Verify says %v, Explain %+v", err, x)
			}
			if v.check == "" {
				return
			}
			if f := finding(t, x, v.check); f.Outcome != token.CheckFailed || f.Reason != v.reason || f.Note != "" {
				t.Errorf("%+v", f)
			}
			if reason := oauth.AsError(err).Reason; reason != v.reason {
				t.Errorf("Verify gives the reason %s", reason)
			}
		})
	}
}

// TestExplainNeverAsks: Explain neither fetches keys nor introspects a token. It reports what it cannot decide
// without a request as undecided.
func TestExplainNeverAsks(t *testing.T) {
	key := issuertest.NewSigner("k")
	g := newGate(t, issuertest.NewProvider(t, key), atKeys)
	good := key.Token(g.provider.URL, nil)
	undecided := func(token, reason, note string) {
		t.Helper()
		x := g.explained(token)
		if f := finding(t, x, "key"); !x.Undecided || x.Accepted || x.Claims != nil || f.Reason != reason || !strings.Contains(f.Note, note) {
			t.Errorf("%+v", x)
		}
	}
	undecided(good, reasonNotLoaded, "not fetched for an explanation")
	g.provider.Answer(issuertest.KeysPath, issuertest.Broken)
	g.fetchNow()
	undecided(good, reasonNotLoaded, "the last fetch failed: ")
	g.provider.Publish(key)
	g.fetchNow()
	undecided(issuertest.NewSigner("unknown").Token(g.provider.URL, nil), reasonUnknown, "not fetched for an explanation")
	if x := g.explained(issuertest.NewSigner("unknown").Token("https://other.example", nil)); x.Undecided || finding(t, x, "key").Note != "" {
		t.Errorf("a key would not make it a token of this issuer: %+v", x)
	}
	if n := g.provider.Fetches(); n != 2 {
		t.Errorf("%d fetches, of which the test made 2", n)
	}
	if x := g.explained(good); !x.Accepted || x.Undecided {
		t.Errorf("%+v", x)
	}
}

func TestExplainOfAnOpaqueToken(t *testing.T) {
	a := newAsker(t)
	x := a.explained("opaque")
	if f := finding(t, x, "introspection"); !x.Undecided || x.Accepted || f.Outcome != token.CheckNotReached || f.Note == "" {
		t.Errorf("%+v", x)
	}
	for tok, reason := range map[string]string{
		"no token": "token_malformed", "": "token_malformed", strings.Repeat("a", token.MaxTokenBytes+1): "token_too_long",
	} {
		x := a.explained(tok)
		if f := finding(t, x, "form"); x.Undecided || f.Outcome != token.CheckFailed || f.Reason != reason || finding(t, x, "introspection").Note != "" {
			t.Errorf("%.10q: %+v", tok, x)
		}
	}
	a.wantQuestions(t, 0)
	a.replies(issuertest.Status(http.StatusUnauthorized))
	a.refuses(t, "opaque", oauth.TemporarilyUnavailable, "introspection_failed")
	a.clock.Add(12 * time.Second)
	if f := finding(t, a.explained("opaque"), "introspection"); !strings.Contains(f.Note, "introspection failed 12 s ago: ") {
		t.Errorf("%+v", f)
	}
	a.wantQuestions(t, 1)
}

// TestTroubleIsHowTheLastQuestionWent: Trouble reports the last failed introspection until one gets a response,
// whatever that is. Readiness does not depend on it.
func TestTroubleIsHowTheLastQuestionWent(t *testing.T) {
	a := newAsker(t)
	trouble := func(want string) {
		t.Helper()
		got := ""
		if err := a.Trouble(); err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("trouble: %q, want %q", got, want)
		}
		if err := a.Ready(); err != nil {
			t.Errorf("not ready: %v", err)
		}
	}
	trouble("")
	failing := func(token string) {
		t.Helper()
		a.clock.Add(2 * failurePause)
		a.replies(issuertest.Status(http.StatusUnauthorized))
		a.refuses(t, token, oauth.TemporarilyUnavailable, "introspection_failed")
		a.clock.Add(2 * failurePause)
		trouble("introspection failed 2 s ago: the introspection endpoint answered with status 401")
	}
	failing("one")
	a.answers(nil)
	a.accepts(t, "two")
	trouble("")
	failing("three")
	a.accepts(t, "two") // from the cache
	trouble("introspection failed 2 s ago")
	a.replies(issuertest.Inactive)
	a.refuses(t, "four", oauth.InvalidToken, "token_inactive")
	trouble("")
	a.clock.Add(2 * failurePause)
	a.replies(issuertest.Text(`{"active":true,"five":1,"five":2}`))
	a.refuses(t, "five", oauth.TemporarilyUnavailable, "introspection_malformed")
	a.clock.Add(-time.Hour)
	trouble("introspection failed 0 s ago: ")
	if err := a.Trouble(); err == nil || strings.Contains(err.Error(), "five") || strings.Contains(err.Error(), ourSecret) {
		t.Errorf("trouble: %v", err)
	}
}

// TestTroubleOfKeys: Trouble reports missing keys.
func TestTroubleOfKeys(t *testing.T) {
	g := newGate(t, issuertest.NewProvider(t, issuertest.NewSigner("k")))
	if err := g.Trouble(); err == nil || oauth.AsError(err).Reason != reasonNotLoaded {
		t.Errorf("trouble: %v", err)
	}
	g.fetchNow()
	if err := g.Trouble(); err != nil {
		t.Errorf("trouble: %v", err)
	}
}
