package caddymodule

import (
	"net/http"
	"strings"
	"testing"
)

// profileLines are the lines of a user with every profile claim.
const profileLines = `			email_verified
			given_name Ada
			family_name "King, Countess of Lovelace"
			preferred_username ada.l
			locale en-GB
			zoneinfo Europe/London
			picture https://example.com/ada.png
			phone +441234567890
			phone_verified
			address {
				formatted "12 St James's Square
London"
				street_address "12 St James's Square"
				locality London
				region "Greater London"
				postal_code "SW1Y 4JH"
				country Zoë
			}
`

// TestEveryClaimOfTheProfileIsForwarded checks the claims of a browser's session, which are forwarded like those of other issuers' tokens.
func TestEveryClaimOfTheProfileIsForwarded(t *testing.T) {
	claims := map[string][2]string{ // encoded, and with raw
		"sub": {"u-ada"}, "name": {"Ada%20Admin", "Ada Admin"}, "email": {"ada@acme.example"}, "email_verified": {"true"}, "given_name": {"Ada"},
		"family_name":        {"King%2C%20Countess%20of%20Lovelace", "King, Countess of Lovelace"},
		"preferred_username": {"ada.l"}, "locale": {"en-GB"}, "zoneinfo": {"Europe/London"}, "picture": {"https://example.com/ada.png"},
		"phone_number": {"+441234567890"}, "phone_number_verified": {"true"}, "org": {"acme"}, "role": {"admin"}, "acr": {"1"},
		"address.formatted":      {"12%20St%20James's%20Square%0ALondon", "12%20St%20James's%20Square%0ALondon"},
		"address.street_address": {"12%20St%20James's%20Square", "12 St James's Square"},
		"address.locality":       {"London"}, "address.region": {"Greater%20London", "Greater London"}, "address.postal_code": {"SW1Y%204JH", "SW1Y 4JH"},
		"address.country": {"Zo%C3%AB", "Zo%C3%AB"},
	}
	lines := new(strings.Builder)
	header := func(claim, kind string) string {
		return "Claim-" + strings.NewReplacer("_", "-", ".", "-").Replace(claim) + "-" + kind
	}
	for claim := range claims {
		lines.WriteString("\n\t\t\tforward + " + header(claim, "Encoded") + " " + claim + "\n\t\t\tforward + " + header(claim, "Raw") + " " + claim + " raw")
	}
	lines.WriteString("\n\t\t\tforward + X-Updated updated_at\n\t\t\tforward + Remote-User preferred_username")
	g := startHosts(t, `			name "Ada Admin"`+"\n", `			name "Ada Admin"`+"\n"+profileLines, "			forward + X-Name name", lines.String())
	v := g.signedIn(t, "ada@acme.example")
	if a, _ := v.walk(g.at("wiki", "/pages/1"), ""); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	seen := g.upstream.one(t)
	for claim, values := range claims {
		raw := values[1]
		if raw == "" {
			raw = values[0]
		}
		seen.has(t, http.CanonicalHeaderKey(header(claim, "Encoded")), values[0]).has(t, http.CanonicalHeaderKey(header(claim, "Raw")), raw)
	}
	seen.has(t, "Remote-User", "ada.l")
	if got := seen.Header["X-Updated"]; len(got) > 1 || len(got) == 1 && strings.Trim(got[0], "0123456789") != "" {
		t.Errorf("updated_at %q", got)
	}
	if logs := g.logs(); strings.Contains(logs, "never comes") {
		t.Error("warned of a claim that comes")
	}
}

// TestForwardedRawClaimsStayApart checks that different raw values never look the same, and that a string cannot be mistaken for a list.
func TestForwardedRawClaimsStayApart(t *testing.T) {
	p := startProvider(t)
	globals, _, _ := strings.Cut(trustSite, "\nhttp://ADDR {")
	g := startTrustGate(t, p, globals+"\nhttp://ADDR {\n"+gated("/any/*", "issuer corp", "forward Remote-User preferred_username raw")+"}\n")
	f := g.forger()
	seen := make(map[string]string)
	for name, want := range map[string]string{
		"ada": "ada", "Ada Lovelace": "Ada Lovelace", "Lovelace, Ada; x=\"y\"": "Lovelace, Ada; x=\"y\"", "Zoë": "Zo%C3%AB", "Zo%C3%AB": "Zo%25C3%25AB", "100%": "100%25",
		" ada": "%20ada", "ada ": "ada%20", "a\nb": "a%0Ab", "a\r\nX-Auth-Role: admin": "a%0D%0AX-Auth-Role:%20admin", "a\x00": "a%00", "a\x7f": "a%7F", "a\tb": "a%09b", "%20ada": "%2520ada",
	} {
		token := g.watched(f.claiming(map[string]any{"client_id": "app", "sub": "u-1", "preferred_username": name}))
		g.passed(t, g.request("GET", "/any/x", bearer(token))).has(t, "Remote-User", want)
		if other, twice := seen[want]; twice {
			t.Errorf("%q and %q are one", name, other)
		}
		seen[want] = name
	}
	several := g.watched(f.claiming(map[string]any{"client_id": "app", "sub": "u-1", "preferred_username": []string{"a", "b"}}))
	g.because(t, g.request("GET", "/any/x", bearer(several)), http.StatusUnauthorized, "identity_several")
	single := g.watched(f.claiming(map[string]any{"client_id": "app", "sub": "u-1", "preferred_username": []string{"a b"}}))
	g.passed(t, g.request("GET", "/any/x", bearer(single))).has(t, "Remote-User", "a b")
}

// TestAClaimThatNeverComes checks that loading a configuration warns of a claim that no token can have, with its line.
func TestAClaimThatNeverComes(t *testing.T) {
	const never = "the claim never comes"
	g := startHosts(t)
	for name, c := range map[string]struct {
		options string
		says    string
	}{
		"of the profile, tokens alone":    {"forward + Remote-User preferred_username", "only sessions of browsers do: add `challenge browser`"},
		"of the profile, in their place":  {"forward Remote-User address.locality raw", "only sessions of browsers do"},
		"of the profile, sessions":        {"challenge browser\n			forward + Remote-User preferred_username", ""},
		"sessions of a cookie":            {"token_from cookie accessToken\n			forward + Remote-User email", "add `challenge browser`"},
		"of nobody":                       {"challenge browser\n			forward + X-Department department", "`forward X-Department department` never sends anything"},
		"of nobody, required":             {"challenge browser\n			require claim department sales", "nobody passes `require claim department`"},
		"of the address, but the address": {"challenge browser\n			forward + X-Address address", "`forward X-Address address` never"},
		"mistyped":                        {"challenge browser\n			forward + X-Name Name", "`forward X-Name Name` never"},
		"of each token":                   {"forward X-Sub sub\n			forward X-Time iat\n			forward X-Groups groups\n			forward X-For act\n			require claim org acme", ""},
		"of the token":                    {"challenge browser\n			forward + X-Groups groups\n			forward + X-Class acr\n			require claim amr pwd", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := len(g.logs())
			g.reload(hostsCaddyfile("ROUTES", "handle /x/* {\n		protect {\n			"+c.options+"\n		}\n		respond 204\n	}"))
			logs := g.logs()[before:]
			if (c.says != "") != strings.Contains(logs, never) || !strings.Contains(logs, c.says) || c.says != "" && !strings.Contains(logs, "Caddyfile:") {
				t.Errorf("want %q", c.says)
			}
		})
	}
	p := startProvider(t)
	trusting := startTrustGate(t, p, strings.Replace(trustSite, "			issuer corp\n", "			issuer corp\n			forward X-Department department\n", 1))
	if strings.Contains(trusting.logs(), never) {
		t.Error("warned of a claim of another issuer")
	}
}
