package caddymodule

import (
	"encoding/json"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const gateAccepts, gateRefuses, issuerKnows = "The gate accepts this token.\n", "The gate refuses this token.\n",
	"Whether the gate accepts this token, only its issuer can say, which was not asked.\n"

// explains checks the verdict and the given lines, and that no unsigned claim is shown.
func (g *trustGate) explains(t *testing.T, token, verdict string, lines ...string) string {
	t.Helper()
	out, err := g.run(token, "token", "explain")
	check(t, err)
	if !strings.HasPrefix(out, verdict) {
		t.Errorf("it says\n%s", out)
	}
	for _, want := range lines {
		if !hasLine(out, strings.Fields(want)) {
			t.Errorf("it lacks %q:\n%s", want, out)
		}
	}
	if !hasLine(out, []string{"signature", "passed"}) && strings.Contains(out, "\nsubject") {
		t.Errorf("it shows claims that nobody signed:\n%s", out)
	}
	if token = strings.TrimSpace(token); token != "" && strings.Contains(out, token) {
		t.Errorf("it shows the token:\n%s", out)
	}
	return out
}

const ofCorp = "It was taken for a token of trust corp."

// TestCommandTokenExplainOfATrustedIssuer checks that the token's issuer decides which verifier explains it, with and without an issuer of
// our own.
func TestCommandTokenExplainOfATrustedIssuer(t *testing.T) {
	for kind, site := range map[string]string{"beside our own issuer": trustSite, "gate only": gateOnly(trustSite)} {
		t.Run(kind, func(t *testing.T) {
			p := startProvider(t)
			g := startTrustGate(t, p, site)
			g.awaitKeys()
			f := g.forger()
			stranger := *f
			stranger.key = issuertest.NewSignerOf("", "ES256").Private
			strangers := (&forger{key: f.key, kid: f.kid, alg: f.alg, issuer: "https://nobody.example"}).good()
			good := g.watched(f.claiming(map[string]any{"sub": "ada", "sid": "f-1"}))
			for _, test := range []struct {
				name, token, verdict string
				lines                []string
			}{
				{"good", good, gateAccepts, []string{ofCorp, "signature passed", "revocation passed", "subject ada", "key " + f.kid}},
				{"forged", stranger.good(), gateRefuses, []string{ofCorp, "signature failed", "time passed"}},
				{"an unknown key", f.with(map[string]any{"kid": "unknown"}), issuerKnows, []string{ofCorp, "key failed key_unknown not fetched for an explanation"}},
				{"of nobody", strangers, gateRefuses,
					[]string{"issuer failed issuer_unknown " + p.url + " (trust corp)"}},
				{"opaque", "0pa-que", gateRefuses, []string{"introspection failed token_malformed nobody introspects"}},
			} {
				t.Run(test.name, func(t *testing.T) {
					out := g.explains(t, test.token+"\n", test.verdict, test.lines...)
					if named := strings.Contains(out, ofCorp); named != (test.lines[0] == ofCorp) {
						t.Errorf("it names the trust: %t\n%s", named, out)
					}
					if judged, _, _ := strings.Cut(out, "It says, and nobody has verified it:"); strings.Contains(judged, "nobody.example") {
						t.Errorf("it shows an issuer that nobody signed as if somebody had:\n%s", out)
					}
					if test.token != "" && (g.shown("/any/x", test.token) == http.StatusOK) != (test.verdict == gateAccepts) {
						t.Error("the gate sees it otherwise")
					}
				})
			}
			if kind == "beside our own issuer" {
				if out := g.explains(t, g.watched(g.token()), gateAccepts, "signature passed", "subject conf"); strings.Contains(out, "trust") {
					t.Errorf("of a token of ours it names a trust:\n%s", out)
				}
				theirs := &forger{key: f.key, kid: f.kid, alg: f.alg, issuer: g.url} // the trusted issuer's key signs a token with our iss
				g.explains(t, g.watched(theirs.good()), gateRefuses, "key failed key_unknown")
				if out := g.explains(t, strangers, gateRefuses); !strings.Contains(out, "known here: "+g.url+", "+p.url+" (trust corp)") {
					t.Errorf("it does not say who is known:\n%s", out)
				}
			}
			out, err := g.run(good, "token", "explain", "--audience", "https://other.example", "--json")
			x := decoded[explanation](t, out)
			if err != nil || x.Accepted || x.Undecided || len(x.Trust) != 1 || x.Trust[0] != "corp" || x.Subject != "ada" || x.Family != "f-1" {
				t.Errorf("for another audience: %v\n%s", err, out)
			}
		})
	}
}

// TestStatusOfAnIssuerThatDoesNotAnswerQuestions checks that `status` reports a failing introspection until it works again. The node stays
// ready.
func TestStatusOfAnIssuerThatDoesNotAnswerQuestions(t *testing.T) {
	now := setClock(t)
	p := startProvider(t)
	g := startTrustGate(t, p, gateOnly(trustSite), "introspection "+p.url+providerIntrospect+" {", "\tclient gateway gateway-secret", "}")
	stands := func(want, up string) {
		t.Helper()
		out, err := g.run("", "status")
		if err != nil || !regexp.MustCompile(`(?m)^trust corp +`+want).MatchString(out) {
			t.Errorf("status: %v\n%s", err, out)
		}
		if strings.Contains(out, "opaque-") || strings.Contains(out, "gateway-secret") {
			t.Errorf("status shows a secret:\n%s", out)
		}
		if _, _, text := g.operate(http.MethodGet, "/metrics", ""); !strings.Contains(text, `gatehouse_trusted_issuer_up{trust="corp"} `+up) {
			t.Errorf("metrics, want %s:\n%s", up, text)
		}
		g.must(http.StatusOK, http.MethodGet, "/oauth/ready", "")
	}
	stands("good$", "1")
	opaque := g.watched(p.knows("opaque-eccbc87e4b5ce2fe28308fd9f2a7baf3", map[string]any{
		"active": true, "sub": "ada", "aud": g.url, "token_type": "Bearer", "exp": node.Clock().Unix() + 3600,
	}))
	p.says(providerIntrospect, func(w http.ResponseWriter, r *http.Request) { // it also echoes the request
		w.Header().Set("Location", "https://evil.example/?"+r.PostFormValue("token")+"&"+r.Header.Get("Authorization"))
		w.WriteHeader(http.StatusFound)
	})
	g.refused(t, g.request("GET", "/any/x", bearer(opaque)), 503)
	now.advance(12 * time.Second)
	stands("introspection failed 12 s ago: .", "0")
	if status := g.ok("status", "--json"); !strings.Contains(toldStatus(t, status).Trust["corp"], "introspection failed 12 s ago") {
		t.Errorf("status: %s", status)
	}
	p.says(providerIntrospect, nil)
	g.passed(t, g.request("GET", "/any/x", bearer(opaque)))
	stands("good$", "1")
}

// TestExplainOfSeveralIntrospections checks that the explanation of an opaque token is undecided if several issuers have introspection. The
// route chooses the issuer.
func TestExplainOfSeveralIntrospections(t *testing.T) {
	p, other := startProvider(t), startProvider(t)
	site := strings.Replace(gateOnly(trustSite), "\t\ttrust corp", "\t\ttrust partner "+other.url+" {\n\t\t\taudience http://ADDR\n\t\t\tallow_private_network\n"+
		"\t\t\tintrospection "+other.url+providerIntrospect+" {\n\t\t\t\tclient gateway gateway-secret\n\t\t\t}\n\t\t}\n\t\ttrust corp", 1)
	g := startTrustGate(t, p, site, "introspection "+p.url+providerIntrospect+" {", "\tclient gateway gateway-secret", "}")
	answer := g.must(http.StatusOK, http.MethodPost, "/oauth/tokens/explain", `{"token":"opaque"}`)
	var x struct {
		Undecided bool
		Trust     []string
		Findings  []token.Finding
	}
	check(t, json.Unmarshal([]byte(answer), &x))
	if !x.Undecided || strings.Join(x.Trust, " ") != "partner corp" || len(x.Findings) != 3 || !strings.Contains(x.Findings[2].Promise, "trust corp") {
		t.Errorf("explained %s", answer)
	}
}
