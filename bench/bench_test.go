package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
)

func newTestBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{machine: &machine{results: new(report.Report)}, ctx: t.Context(), report: new(report.Scenario)}
	t.Cleanup(b.close)
	return b
}

// parts returns the decoded parts of a token. It fails unless each is canonical base64url.
func parts(t *testing.T, token string) (header, payload map[string]any, signature []byte) {
	t.Helper()
	texts := strings.Split(token, ".")
	if len(texts) != 3 {
		t.Fatalf("%d parts: %s", len(texts), token)
	}
	decoded := make([][]byte, 3)
	for i, text := range texts {
		var err error
		if decoded[i], err = base64.RawURLEncoding.Strict().DecodeString(text); err != nil {
			t.Fatalf("part %d of %s: %v", i, token, err)
		}
	}
	for i, part := range []*map[string]any{&header, &payload} {
		if err := json.Unmarshal(decoded[i], part); err != nil {
			t.Fatalf("part %d of %s: %v", i, token, err)
		}
	}
	return header, payload, decoded[2]
}

// TestTheProviderSignsWhatItPublishes: a benchmark of tokens that are refused would measure nothing.
func TestTheProviderSignsWhatItPublishes(t *testing.T) {
	p := newTestBench(t).startProvider(0)
	keys := published(t, p)
	for _, algorithm := range []string{"RS256", "ES256", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			tokens := p.tokens(algorithm, 3)
			if slices.Sort(tokens); len(slices.Compact(tokens)) != 3 {
				t.Error("two tokens are equal")
			}
			header, payload, signature := parts(t, tokens[0])
			if header["alg"] != algorithm || payload["iss"] != p.issuer || payload["aud"] != externalAudience {
				t.Errorf("%v %v", header, payload)
			}
			text := tokens[0][:strings.LastIndexByte(tokens[0], '.')]
			if !verify(t, keys[header["kid"].(string)], []byte(text), signature) {
				t.Error("the signature is not by the published key")
			}
		})
	}
}

func published(t *testing.T, p *provider) map[string]map[string]string {
	t.Helper()
	response, err := http.Get(p.issuer + "/jwks")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	var set struct{ Keys []map[string]string }
	if err := json.Unmarshal(text, &set); err != nil {
		t.Fatal(err)
	}
	keys := make(map[string]map[string]string)
	for _, key := range set.Keys {
		keys[key["kid"]] = key
	}
	return keys
}

func verify(t *testing.T, key map[string]string, text, signature []byte) bool {
	t.Helper()
	member := func(name string) []byte {
		decoded, err := base64.RawURLEncoding.DecodeString(key[name])
		if err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	digest := sha256.Sum256(text)
	switch key["kty"] {
	case "RSA":
		public := &rsa.PublicKey{N: new(big.Int).SetBytes(member("n")), E: int(new(big.Int).SetBytes(member("e")).Int64())}
		return rsa.VerifyPKCS1v15(public, crypto.SHA256, digest[:], signature) == nil
	case "EC":
		public, err := ecdsa.ParseUncompressedPublicKey(elliptic.P256(), slices.Concat([]byte{4}, member("x"), member("y")))
		if err != nil {
			t.Fatal(err)
		}
		r, s := new(big.Int).SetBytes(signature[:32]), new(big.Int).SetBytes(signature[32:])
		return ecdsa.Verify(public, digest[:], r, s)
	}
	return ed25519.Verify(member("x"), text, signature)
}

// TestEveryBadTokenIsAnother: a flood of equal tokens could be answered from a cache.
func TestEveryBadTokenIsAnother(t *testing.T) {
	p := newTestBench(t).startProvider(0)
	good := p.token("ES256")
	f := newForger(good)
	const count = 10_000
	for _, kind := range append(f.kinds(), f.forgeries()...) {
		t.Run(kind.name, func(t *testing.T) {
			l := kind.requests("bench.example")
			seen := make(map[string]bool)
			var request []byte
			for i := range count {
				request = l.Request(i, request[:0])
				seen[string(request)] = true
			}
			if len(seen) != count || seen[string(get("bench.example", "/orders/1", good))] {
				t.Errorf("%d of %d differ, or the good one is among them", len(seen), count)
			}
			if kind.name == "malformed" || kind.name == "oversize" {
				return
			}
			_, token, _ := strings.Cut(string(request), "Bearer ")
			token = strings.TrimSpace(token)
			if header, _, signature := parts(t, token); header["alg"] != "ES256" || len(signature) != 64 {
				t.Errorf("%v, a signature of %d bytes: it falls by its form", header, len(signature))
			}
		})
	}
}

// TestSidesAreHeldAgainstOneAnother checks that sides are compared by name, round by round.
func TestSidesAreHeldAgainstOneAnother(t *testing.T) {
	outs := outcomes{
		{side{name: "bare"}, []cost{{cpu: 100, rate: 50}, {cpu: 10, rate: 500}, {cpu: 1, rate: 5000}}},
		{side{name: "ours", against: "bare"}, []cost{{cpu: 110, rate: 45}, {cpu: 11, rate: 450}, {cpu: 4, rate: 100}}},
	}
	if got := fmt.Sprintf("%.2f", outs.ratio("ours", cpuOf)); got != "1.10" {
		t.Errorf("CPU ratio %s, want 1.10", got)
	}
	if got := fmt.Sprintf("%.2f", outs.ratio("ours", rateOf)); got != "0.90" {
		t.Errorf("rate ratio %s, want 0.90", got)
	}
	if outs.named("nobody") != nil || outs.named("ours").rate() != 100 {
		t.Errorf("%v, %v", outs.named("nobody"), outs.named("ours").rate())
	}
}

// TestTheCheckSaysWhatIsBeyondABound checks that steps beyond their bound are reported, and no others.
func TestTheCheckSaysWhatIsBeyondABound(t *testing.T) {
	limit := limits[0]
	within := map[string][]cost{limit.name: {{cpu: 100 * limit.cpu, mallocs: 50 + limit.mallocs}}, limit.against: {{cpu: 100, mallocs: 50}}}
	for _, other := range limits[1:] {
		within[other.name] = []cost{{}}
		if within[other.against] == nil {
			within[other.against] = []cost{{cpu: 100}}
		}
	}
	b := newTestBench(t)
	if beyond := b.judge(within); len(beyond) > 0 {
		t.Errorf("%q", beyond)
	}
	within[limit.name][0].cpu *= 1.01
	within[limit.name][0].mallocs++
	beyond := b.judge(within)
	if len(beyond) != 2 || !strings.Contains(beyond[0], "more allocations") || !strings.Contains(beyond[1], "processor time") {
		t.Errorf("%q", beyond)
	}
}

// TestTheSignInFormIsFoundInAPage checks that the form is found together with its hidden fields.
func TestTheSignInFormIsFoundInAPage(t *testing.T) {
	fields, action, err := formIn(strings.NewReader(`<form action="/oauth/login"><input name="a" value="1"><input type="checkbox" name="c" value="2">` +
		`<button name="b">in</button></form><form action="/other"></form>`))
	if err != nil || action != "/oauth/login" || fields.Encode() != "a=1" {
		t.Errorf("%v, %q, %v", fields, action, err)
	}
	if _, _, err := formIn(strings.NewReader("<p>none</p>")); err == nil {
		t.Error("a form was found where none is")
	}
}

// TestAScenarioEndsAtTheFirstError checks that the error names its step, and that any other panic is not recovered.
func TestAScenarioEndsAtTheFirstError(t *testing.T) {
	odd, ended := errors.New("odd"), true
	err := attempt(func() {
		named("a step", func() { must(0, odd) })
		ended = false
	})
	if !errors.Is(err, odd) || err.Error() != "a step: odd" || !ended {
		t.Errorf("%v, ended: %v", err, ended)
	}
	if err := attempt(func() { named("a step", func() { check(nil) }) }); err != nil {
		t.Error(err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a mistake in the benchmark has become an error")
		}
	}()
	_ = attempt(func() { panic("a mistake") })
}

func TestScenariosAreChosenByName(t *testing.T) {
	if all, err := choose(options{}); err != nil || len(all) != len(scenarios) {
		t.Errorf("%d scenarios, %v", len(all), err)
	}
	some, err := choose(options{only: "issue,start"})
	if err != nil || len(some) != 2 || some[0].name != "issue" || some[1].name != "start" {
		t.Errorf("%v, %v", some, err)
	}
	if _, err := choose(options{only: "isue"}); err == nil {
		t.Error("a scenario that does not exist was chosen")
	}
	if peers, err := choose(options{only: "peers"}); err != nil || len(peers) != 1 || peers[0].name != "peers" {
		t.Errorf("%v, %v: it runs when it is named, and is not among all", peers, err)
	}
	if check, err := choose(options{check: true}); err != nil || len(check) != 1 || check[0].name != "check" {
		t.Errorf("%v, %v", check, err)
	}
}
