package caddymodule

import (
	"cmp"
	"context"
	"crypto"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Forged tokens, some of them signed with our key. The claims of a token must not matter before its form is valid.

// forger signs any header and claims with its key.
type forger struct {
	key    crypto.Signer
	kid    string
	alg    string
	issuer string
	// audience is the audience of the tokens; empty: the issuer.
	audience string
}

// forger returns a forger with the key of a running gate. It turns off the gate's MAC of the jti, which forged tokens lack, because the
// tests check what follows it.
func (g *gateway) forger() *forger {
	g.t.Helper()
	g.app().node.Verifier.UseJTIMAC(nil)
	return g.signer()
}

// signer returns a forger with the key of a running gate.
func (g *gateway) signer() *forger {
	g.t.Helper()
	stored := g.storedKey()
	key, err := x509.ParsePKCS8PrivateKey(stored.Private)
	check(g.t, err)
	return &forger{key: key.(crypto.Signer), kid: stored.ID, alg: string(stored.Algorithm), issuer: g.url}
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func itoa(n int) string { return strconv.Itoa(n) }

// header returns a valid header with changes. A nil change removes the member.
func (f *forger) header(changes map[string]any) string {
	return changed(map[string]any{"alg": f.alg, "typ": "at+jwt", "kid": f.kid}, changes)
}

// claims returns the claims of a valid server token of conf with changes.
func (f *forger) claims(changes map[string]any) string {
	now := node.Clock().Unix()
	return changed(map[string]any{
		"iss": f.issuer, "sub": "conf", "aud": cmp.Or(f.audience, f.issuer), "client_id": "conf", "scope": "public",
		"iat": now, "exp": now + 600, "jti": oauth.NewID(),
	}, changes)
}

func changed(members, changes map[string]any) string {
	maps.Copy(members, changes)
	maps.DeleteFunc(members, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(members)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// token signs a header and claims without changing them.
func (f *forger) token(header, claims string) string {
	input := b64([]byte(header)) + "." + b64([]byte(claims))
	return input + "." + b64(f.sign(input))
}

// sign uses the forger's own algorithm, even if the header names another.
func (f *forger) sign(input string) []byte {
	signature, err := jwt.GetSigningMethod(f.alg).Sign(input, f.key)
	if err != nil {
		panic(err)
	}
	return signature
}

func (f *forger) good() string { return f.token(f.header(nil), f.claims(nil)) }

// with returns a token with changes in its header.
func (f *forger) with(header map[string]any) string { return f.token(f.header(header), f.claims(nil)) }

// claiming returns a token with changes in its claims.
func (f *forger) claiming(claims map[string]any) string {
	return f.token(f.header(nil), f.claims(claims))
}

// user returns a token with any role. The issuer omits a role that is not declared.
func (f *forger) user(id, organisation, role string) string {
	return f.claiming(map[string]any{"sub": id, "org": organisation, "role": role})
}

// mac returns a token with an HMAC.
func (f *forger) mac(header map[string]any, secret []byte) string {
	input := b64([]byte(f.header(header))) + "." + b64([]byte(f.claims(nil)))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + b64(mac.Sum(nil))
}

// TestForgeriesEndAtTheGate has one token for each kind of forgery. Package token tests all variants.
func TestForgeriesEndAtTheGate(t *testing.T) {
	setClock(t)
	g := startBoth(t, site)
	genuine := g.watched(g.token())
	g.passed(t, g.request("GET", "/any/x", bearer(genuine)))
	f := g.signer()
	parts := strings.Split(genuine, ".")
	for reason, token := range map[string]string{
		"tag_wrong": f.good(), "signature_wrong": parts[0] + "." + parts[1] + "." + b64(strangerTo(t, f).sign(parts[0]+"."+parts[1])),
	} {
		g.because(t, g.request("GET", "/any/x", bearer(g.watched(token))), 401, reason)
	}
	f = g.forger()
	stranger := strangerTo(t, f)
	stranger.kid = f.kid
	now := node.Clock().Unix()
	for name, token := range map[string]string{
		"G13 none": f.with(map[string]any{"alg": "none"}), "G15 another algorithm": f.with(map[string]any{"alg": "ES512"}), "G17 a member twice": f.token(f.header(nil)[:1]+`"alg":"none",`+f.header(nil)[1:], f.claims(nil)),
		"G19 a path as kid": f.with(map[string]any{"kid": "../../etc/passwd"}), "G20 a key in the header": f.with(map[string]any{"jwk": map[string]any{"kty": "EC"}}), "G21 crit": f.with(map[string]any{"crit": []string{"exp"}}),
		"G23 detached": parts[0] + ".." + parts[2], "G24 another typ": f.with(map[string]any{"typ": "JWT"}), "G25 a secret": confSecret, "G31 padding": f.good() + "=",
		"G33 dots": strings.Repeat(".", 8000), "G34 another's key": stranger.good(), "G35 a claim twice": f.token(f.header(nil), `{"sub":"admin",`+f.claims(nil)[1:]), "G36 expired": f.claiming(map[string]any{"exp": now - 6}),
		"G37 of the future": f.claiming(map[string]any{"nbf": now + 60}), "G38 another issuer": f.claiming(map[string]any{"iss": "https://evil.test"}), "G39 another audience": f.claiming(map[string]any{"aud": "https://other.test"}),
		"G40 nobody's": f.claiming(map[string]any{"sub": ""}), "G32 too long": strings.Repeat("a", 15000),
	} {
		t.Run(name, func(t *testing.T) {
			if len(token) > 100 { // short texts occur in the logs anyway
				g.watched(token)
			}
			g.refused(t, g.request("GET", "/any/x", bearer(token)), 401, 400)
			g.refused(t, g.request("GET", "/optional/x", bearer(token)), 401, 400)
		})
	}
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(f.good()))))
	for _, size := range []int{25_000, 1_000_000} {
		long := g.request("GET", "/any/x", bearer(strings.Repeat(".", size)))
		if size < 100_000 {
			g.headTooLarge(t, long)
		}
		g.turnedAway(t, long, http.StatusRequestHeaderFieldsTooLarge, 0)
	}
}

// strangerTo returns a forger for the same issuer with a key of its own.
func strangerTo(t *testing.T, f *forger) *forger {
	t.Helper()
	key, err := keys.NewSigningKey(oauth.ES256, time.Now())
	check(t, err)
	stored, err := key.Stored(nil)
	check(t, err)
	private, err := x509.ParsePKCS8PrivateKey(stored.Private)
	check(t, err)
	return &forger{key: private.(crypto.Signer), kid: stored.ID, alg: f.alg, issuer: f.issuer}
}

// claims parses a valid token.
func (g *gateway) claims(t *testing.T, tok string) *token.AccessToken {
	t.Helper()
	claims, err := g.app().node.Verifier.Verify(tok, []string{g.url})
	check(t, err)
	return claims
}

// revoke revokes a token by one of its names.
func (g *gateway) revoke(t *testing.T, tok *token.AccessToken, kind store.RevocationKind) {
	t.Helper()
	id := map[store.RevocationKind]string{
		store.RevokeToken: tok.ID, store.RevokeFamily: tok.FamilyID, store.RevokeUser: tok.Subject,
		store.RevokeClient: tok.ClientID, store.RevokeOrganisation: tok.Organisation, store.RevokeKey: tok.KeyID,
	}[kind]
	check(t, g.app().issuer.Families.Revoke(context.Background(), g.app().issuer.Families.RevocationOf(kind, id)))
}
