package caddymodule

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/c2sp/wycheproof"
)

// wycheproofGroup is a key of the Wycheproof project, and the tokens that were made for it. Each group is an issuer here: what
// it publishes is the group's key.
type wycheproofGroup struct {
	Comment string
	Private json.RawMessage
	Public  json.RawMessage
	Tests   []struct {
		ID     int `json:"tcId"`
		JWS    json.RawMessage
		JWE    json.RawMessage
		Result string
	}
	name string
}

// keySet is what the group's issuer publishes. A group without a public half publishes what it has: a gate must not take it.
func (w *wycheproofGroup) keySet() string {
	key := string(w.Public)
	if key == "" {
		key = string(w.Private)
	}
	if strings.Contains(key, `"keys"`) {
		return key
	}
	return `{"keys":[` + key + `]}`
}

func readWycheproofGroups(t *testing.T) []*wycheproofGroup {
	t.Helper()
	var groups []*wycheproofGroup
	for _, name := range []string{"json_web_signature", "json_web_crypto", "json_web_key", "json_web_encryption"} {
		data, err := fs.ReadFile(wycheproof.TestVectors, name+"_test.json")
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ TestGroups []*wycheproofGroup }
		if err := json.Unmarshal(data, &file); err != nil {
			t.Fatal(err)
		}
		for i, group := range file.TestGroups {
			group.name = fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.TrimPrefix(name, "json_web_"), "_", "-"), i)
			groups = append(groups, group)
		}
	}
	return groups
}

// signer is the private key of a group, where it is one of the kinds that may sign; nil: it is not.
func (w *wycheproofGroup) signer(issuer, audience string) *forger {
	var k struct{ Kty, Crv, Alg, Kid, Use, D, X, Y, N, E string }
	if json.Unmarshal(w.Private, &k) != nil || k.Kid == "" {
		return nil
	}
	number := func(text string) *big.Int {
		raw, _ := base64.RawURLEncoding.DecodeString(text)
		return new(big.Int).SetBytes(raw)
	}
	f := &forger{kid: k.Kid, alg: k.Alg, issuer: issuer, audience: audience}
	switch k.Alg + k.Crv {
	case "ES256P-256":
		f.key = &ecdsa.PrivateKey{PublicKey: ecdsa.PublicKey{Curve: elliptic.P256(), X: number(k.X), Y: number(k.Y)}, D: number(k.D)} //nolint:staticcheck // as it is written
	case "RS256":
		f.key = &rsa.PrivateKey{PublicKey: rsa.PublicKey{N: number(k.N), E: int(number(k.E).Int64())}, D: number(k.D)}
	case "EdDSAEd25519":
		seed, _ := base64.RawURLEncoding.DecodeString(k.D)
		f.key = ed25519.NewKeyFromSeed(seed)
	default:
		return nil
	}
	return f
}

// TestWycheproofThroughTheFrontDoor shows every token of four files to a gate that trusts an issuer with exactly the key for
// which the token was made. None of them has claims, so none may pass, and the claims are read before a signature is checked:
// what the signatures are worth the verifier's own tests say of the same tokens. What shows here is that every valid token of
// an algorithm of a trusted issuer's gets as far as its claims, so that nothing else was wrong with it, and that the keys are in use: a proper
// token passes that was signed with the private half.
func TestWycheproofThroughTheFrontDoor(t *testing.T) {
	groups := readWycheproofGroups(t)
	p := startProvider(t)
	var trusts, routes strings.Builder
	for _, group := range groups {
		p.says("/"+group.name+"/jwks", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/jwk-set+json")
			_, _ = fmt.Fprint(w, group.keySet())
		})
		fmt.Fprintf(&trusts, "\t\ttrust %s %s/%s {\n\t\t\taudience http://ADDR\n\t\t\tjwks_uri %s/%s/jwks\n\t\t\ttyp at+jwt JWT none\n\t\t\tallow_private_network\n\t\t}\n",
			group.name, p.url, group.name, p.url, group.name)
		fmt.Fprintf(&routes, "\thandle /%s {\n\t\tprotect {\n\t\t\tissuer %s\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n", group.name, group.name)
	}
	caddyfile := siteWith("", routes.String())
	caddyfile = speakingH2(strings.Replace(caddyfile, "\t\tstore memory\n", "\t\tstore memory\n"+trusts.String(), 1))
	g := startBoth(t, caddyfile)
	for _, group := range groups {
		g.eventually(group.name+" has been fetched", func() bool { return isFetched(group.name) })
	}

	shown, reasons := 0, make(map[string]int)
	// Refusals of this configuration: of more than a thousand in a second, which a fast machine may get, few are audited.
	fresh, versions := 0, 1+len(transports)
	var live, judged []string // the groups whose key signs for good here, and the valid tokens of which the claims were read
	for _, group := range groups {
		if fresh += versions * len(group.Tests); fresh > 900 {
			g.reload(caddyfile)
			fresh = versions * len(group.Tests)
		}
		target := "/" + group.name
		if f := group.signer(p.url+target, g.url); f != nil {
			if status, _, _ := g.asked(t, g.request("GET", target, bearer(g.watched(f.good())))); status == http.StatusOK {
				live = append(live, group.name)
			}
			g.upstream.seen()
		}
		for _, c := range group.Tests {
			shown++
			g.audited()
			status, _, body := g.asked(t, g.request("GET", target, bearer(textOf(string(c.JWS)+string(c.JWE)))))
			if status != http.StatusUnauthorized && status != http.StatusBadRequest {
				t.Errorf("case %d of %s (%s): %d %s", c.ID, group.name, c.Result, status, body)
			}
			g.upstream.none(t)
			for _, line := range g.audited()[:1] {
				reasons[fmt.Sprint(line["reason"])]++
				if line["reason"] == "claims_malformed" && c.Result == "valid" {
					judged = append(judged, fmt.Sprint(group.name, "/", c.ID))
				}
			}
		}
	}
	for what, c := range map[string][2]any{
		"tokens shown": {shown, 649},
		"reasons": {reasons, map[string]int{
			"bearer_malformed": 22, "token_malformed": 225, "header_unexpected": 2, "algorithm_mismatch": 9, "issuer_wrong": 56, "claims_malformed": 335,
		}},
		"live groups": {live, []string{"signature-1", "signature-2", "signature-3", "signature-9", "signature-13", "signature-22", "crypto-1", "crypto-2", "crypto-3"}},
		"valid tokens of which the claims were read": {judged, []string{
			"signature-1/18", "signature-2/33", "signature-3/259", "signature-3/260", "signature-3/261", "signature-3/262", "signature-3/263",
			"signature-4/264", "signature-4/265", "signature-4/266", "signature-4/267", "signature-5/268", "signature-5/269", "signature-5/270", "signature-5/271",
			"signature-6/272", "signature-6/273", "signature-6/274", "signature-6/275", "signature-6/287", "signature-6/288", "signature-7/320",
			"signature-7/321", "signature-7/322", "signature-7/323", "signature-8/325", "signature-8/326", "signature-8/327", "signature-8/328",
			"signature-9/345", "signature-13/349", "signature-22/378", "crypto-1/18", "crypto-2/33", "key-3/5",
		}},
	} {
		if !reflect.DeepEqual(c[0], c[1]) {
			t.Errorf("%s: %v, want %v", what, c[0], c[1])
		}
	}
}

// isFetched reports whether a trusted issuer's keys are there, or were refused: what a gate must not take.
func isFetched(name string) bool {
	err := trustedNamed(name).issuer.Ready()
	return err == nil || errors.Unwrap(err) != nil
}

// textOf is a token as it is shown: the text of a JSON string, or the JSON itself.
func textOf(raw string) string {
	var text string
	if json.Unmarshal([]byte(raw), &text) == nil {
		return text
	}
	return raw
}
