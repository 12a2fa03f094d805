package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestV2NumbersInClaimsOfOthers: claims with numbers above 2^53, fractions, exponents → compared by value and passed on exactly. A string
// does not count as a number. Package token has every spelling.
func TestV2NumbersInClaimsOfOthers(t *testing.T) {
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	routes := new(strings.Builder)
	for i, value := range []string{"1234567890123456789", "1.0"} {
		for way, rule := range map[string]string{
			"rule": `claim account "` + value + `"`, "nested": `claim of.the.account "` + value + `"`, "expression": `expression "oauth_claim('account', '` + value + `')"`,
		} {
			routes.WriteString(gated(fmt.Sprintf("/%s/%d", way, i), "issuer corp", "require "+rule, "forward X-Account of.the.account"))
		}
	}
	routes.WriteString(handled("handle /all", "protect"+block("\t\t", []string{"issuer corp"}), "reverse_proxy UPSTREAM"+block("\t\t", []string{"header_up X-Account {http.auth.user.account}"})))
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+routes.String()+"}\n")
	f := g.forger()
	for _, c := range []struct {
		claim, passed string
		equals        [2]bool
	}{
		{"1234567890123456789", "1234567890123456789", [2]bool{true, false}}, {"1234567890123456788", "1234567890123456788", [2]bool{}},
		{"1e0", "1", [2]bool{false, true}}, {`"1"`, "1", [2]bool{}}, {`"1.0"`, "1.0", [2]bool{false, true}},
		{`[7,1234567890123456789]`, "7 1234567890123456789", [2]bool{true, false}},
		{"1e99999999999", "", [2]bool{}}, {`[1,1e99999999999]`, "", [2]bool{}}, // which cannot be computed in bounded time
	} {
		t.Run(c.claim, func(t *testing.T) {
			token := g.watched(f.claiming(map[string]any{
				"client_id": "app", "sub": "u-1", "account": json.RawMessage(c.claim), "of": json.RawMessage(`{"the":{"account":` + c.claim + `}}`),
			}))
			for i, equal := range c.equals {
				for _, way := range []string{"rule", "nested", "expression"} {
					request := g.request("GET", fmt.Sprintf("/%s/%d", way, i), bearer(token))
					if equal {
						g.passed(t, request).has(t, "X-Account", c.passed)
					} else {
						g.refused(t, request, http.StatusForbidden)
					}
				}
			}
			g.passed(t, g.request("GET", "/all", bearer(token))).has(t, "X-Account", c.passed)
		})
	}
}

// TestV2NoSubjectOfAnotherAccount checks that an `accept` rule compares numbers exactly and derives one subject from all spellings of a
// number.
func TestV2NoSubjectOfAnotherAccount(t *testing.T) {
	s := newAcceptScene(t)
	s.gatehouse = startGatehouse(t, s.site("memory", "\t\taccept actions {\n\t\t\tclaims repository acme/app acme/taken", `		accept actions {
			claims owner 1234567890123456789 42
			subject owner:{of.owner}
			scopes deploy
		}
		accept actions {
			claims repository acme/app acme/taken`).Replace(acceptSite))
	for claim, subject := range map[string]string{
		"1234567890123456789": "1234567890123456789", "1234567890123456789.0": "1234567890123456789", "4.2e1": "42", `"42"`: "42",
		"1234567890123456788": "", `"42.0"`: "", "42.00000000000000000001": "", "4.2e99999999999": "",
	} {
		number := json.RawMessage(claim)
		status, body := s.presents(s.job(map[string]any{"repository": "x", "owner": number, "of": map[string]any{"owner": number}}))
		if subject == "" && status == http.StatusOK || subject != "" && (status != http.StatusOK || claimsIn(t, body)["sub"] != "owner:"+subject) {
			t.Errorf("owner %s: %d %s, want %q", claim, status, body, subject)
		}
	}
	of := map[string]any{"owner": json.RawMessage("1e99999999999")}
	if status, body := s.presents(s.job(map[string]any{"repository": "x", "owner": 42, "of": of})); status != http.StatusBadRequest || member(t, body, "error") != "invalid_grant" {
		t.Errorf("a number that no subject can have: %d %s", status, body)
	}
}
