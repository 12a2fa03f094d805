package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

// numberSpellings are claims of another issuer with the form in which they are forwarded, numbers that equal them and numbers that do not.
// The forwarded form also equals the claim.
var numberSpellings = map[string]struct {
	claim  string
	passed string
	equal  []string
	others []string
}{
	"above 2^53":          {"1234567890123456789", "1234567890123456789", nil, []string{"1234567890123456800", "1234567890123456788", "1.2345678901234568e18"}},
	"above 2^64":          {"18446744073709551617", "18446744073709551617", []string{"18446744073709551617.0"}, []string{"18446744073709551616", "1"}},
	"one":                 {"1", "1", []string{"1.0", "1e0", "10e-1", "0.1E+1", "1.000", "0.001e3"}, []string{"-1", "10", "1.0000000000000000000001", "01", "+1", " 1", "1.", "0x1", "1_0"}},
	"zero":                {"0", "0", []string{"-0", "0.0", "-0.0", "0e9", "0e-99999999999999999999999"}, []string{"1"}},
	"negative":            {"-1234567890123456789", "-1234567890123456789", []string{"-1234567890123456789.0"}, []string{"1234567890123456789", "-1234567890123456800"}},
	"no double":           {"1e400", "1e400", []string{"10e399"}, []string{"1e401", "1e309", "1.7976931348623157e308"}},
	"a text":              {`"1"`, "1", nil, []string{"1.0", "1e0"}},
	"a text with a point": {`"1.0"`, "1.0", nil, []string{"1", "1.00"}},
	"several":             {`[7,1234567890123456789]`, "7 1234567890123456789", []string{"7.0", "1234567890123456789"}, []string{"1234567890123456800"}},
}

// endlessNumbers are claims whose values cannot be computed in bounded time.
var endlessNumbers = []string{"1e99999999999", "1e-99999999999", "9e999999999999999999999999999999", `[1,1e99999999999]`}

// TestV2NumbersInClaimsOfOthers: claims with numbers above 2^53, fractions, exponents → compared by value and passed on exactly. A string
// does not count as a number.
func TestV2NumbersInClaimsOfOthers(t *testing.T) {
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	routes := new(strings.Builder)
	for name, spelling := range numberSpellings {
		values := spelling.others
		if !strings.Contains(spelling.passed, " ") {
			values = append([]string{spelling.passed}, values...)
		}
		for _, value := range append(values, spelling.equal...) {
			path := "/" + pathOf(name) + "/" + pathOf(value)
			routes.WriteString(gated(path+"/rule", "issuer corp", `require claim account "`+value+`"`, "forward X-Account account"))
			routes.WriteString(gated(path+"/nested", "issuer corp", `require claim of.the.account "`+value+`"`, "forward X-Account of.the.account"))
			routes.WriteString(gated(path+"/expression", "issuer corp", `require expression "oauth_claim('account', '`+value+`')"`, "forward X-Account account"))
		}
	}
	routes.WriteString(handled("handle /all", "protect"+block("\t\t", []string{"issuer corp"}), "reverse_proxy UPSTREAM"+block("\t\t", []string{"header_up X-Account {http.auth.user.account}"})))
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+routes.String()+"}\n")
	f := g.forger()
	of := func(claim string) string {
		return g.watched(f.claiming(map[string]any{
			"client_id": "app", "sub": "u-1", "account": json.RawMessage(claim), "of": json.RawMessage(`{"the":{"account":` + claim + `}}`),
		}))
	}
	for name, spelling := range numberSpellings {
		t.Run(name, func(t *testing.T) {
			token := of(spelling.claim)
			equal := spelling.equal
			if !strings.Contains(spelling.passed, " ") {
				equal = append([]string{spelling.passed}, equal...)
			}
			for _, way := range []string{"rule", "nested", "expression"} {
				for _, value := range equal {
					g.passed(t, g.request("GET", "/"+pathOf(name)+"/"+pathOf(value)+"/"+way, bearer(token))).has(t, "X-Account", spelling.passed)
				}
				for _, value := range spelling.others {
					if header, _ := g.refused(t, g.request("GET", "/"+pathOf(name)+"/"+pathOf(value)+"/"+way, bearer(token)), http.StatusForbidden); header == nil {
						t.Errorf("%s is taken for %s", spelling.claim, value)
					}
				}
			}
			g.passed(t, g.request("GET", "/all", bearer(token))).has(t, "X-Account", spelling.passed)
		})
	}
	for _, claim := range endlessNumbers {
		g.passed(t, g.request("GET", "/all", bearer(of(claim)))).has(t, "X-Account", "")
	}
}

// pathOf spells a text in letters that have no special meaning in a path.
func pathOf(text string) string {
	var path strings.Builder
	for _, b := range []byte(text) {
		path.WriteString(string("abcdefghijklmnop"[b>>4]) + string("abcdefghijklmnop"[b&15]))
	}
	return path.String()
}

// TestV2NoSubjectOfAnotherAccount checks that an `accept` rule compares numbers exactly and derives one subject from all spellings of a
// number.
func TestV2NoSubjectOfAnotherAccount(t *testing.T) {
	s := newAcceptScene(t)
	s.gatehouse = startGatehouse(t, s.site("memory", "\t\taccept actions {\n\t\t\tclaims repository acme/app acme/taken", `		accept actions {
			claims owner 1234567890123456789 42
			subject owner:{owner}
			scopes deploy
		}
		accept actions {
			claims enterprise a*
			subject enterprise:{of.enterprise}
			scopes deploy
		}
		accept actions {
			claims repository acme/app acme/taken`).Replace(acceptSite))
	for claim, subject := range map[string]string{
		"1234567890123456789": "owner:1234567890123456789", "1234567890123456789.0": "owner:1234567890123456789", "42e0": "owner:42", "4.2e1": "owner:42",
		`"42"`: "owner:42", "1234567890123456788": "", "1234567890123456800": "", `"42.0"`: "", "42.00000000000000000001": "", "4.2e99999999999": "",
	} {
		status, body := s.presents(s.job(map[string]any{"repository": "x", "owner": json.RawMessage(claim)}))
		if subject == "" {
			if status == http.StatusOK {
				t.Errorf("owner %s: %s", claim, body)
			}
			continue
		}
		if status != http.StatusOK || claimsIn(t, body)["sub"] != subject {
			t.Errorf("owner %s: %d %s, want %s", claim, status, body, subject)
		}
	}
	for claim, subject := range map[string]string{
		"9007199254740993": "9007199254740993", "9007199254740992": "9007199254740992", "9007199254740993.0": "9007199254740993",
		"9.007199254740993e15": "9007199254740993", "1e400": "1e400", "1e99999999999": "",
	} {
		number := json.RawMessage(claim)
		status, body := s.presents(s.job(map[string]any{"repository": "x", "enterprise": "acme", "of": map[string]any{"enterprise": number}}))
		if subject == "" && status == http.StatusOK || subject != "" && (status != http.StatusOK || claimsIn(t, body)["sub"] != "enterprise:"+subject) {
			t.Errorf("enterprise %s: %d %s, want %q", claim, status, body, subject)
		}
	}
}
