package caddymodule

import (
	"bytes"
	"cmp"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
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

// Tokens that somebody forged, some of them by somebody who can sign with our key: what a token says must not matter
// before its form is right.

// forger signs whatever it is told to.
type forger struct {
	key    crypto.Signer
	kid    string
	alg    string
	issuer string
	// audience is whom the tokens are meant for; empty: the issuer.
	audience string
}

// forger has the key of a running gate, and turns the tags off there: what is forged has none, and the checks behind that one
// are to be seen.
func (g *gateway) forger() *forger {
	g.t.Helper()
	g.app().node.Verifier.UseJTIMAC(nil)
	return g.signer()
}

// signer is a forger with the key of a running gate.
func (g *gateway) signer() *forger {
	g.t.Helper()
	stored := g.storedKey()
	key, err := x509.ParsePKCS8PrivateKey(stored.Private)
	if err != nil {
		g.t.Fatal(err)
	}
	return &forger{key: key.(crypto.Signer), kid: stored.ID, alg: string(stored.Algorithm), issuer: g.url}
}

func b64(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

func itoa(n int) string { return strconv.Itoa(n) }

// header is a good header with changes: nil takes a member away.
func (f *forger) header(changes map[string]any) string {
	return changed(map[string]any{"alg": f.alg, "typ": "at+jwt", "kid": f.kid}, changes)
}

// claims are those of a good server token of conf with changes.
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

// token signs a header and claims, both as they are.
func (f *forger) token(header, claims string) string {
	input := b64([]byte(header)) + "." + b64([]byte(claims))
	return input + "." + b64(f.sign(input))
}

// sign signs as the forger's own algorithm does, whatever the header says.
func (f *forger) sign(input string) []byte {
	signature, err := jwt.GetSigningMethod(f.alg).Sign(input, f.key)
	if err != nil {
		panic(err)
	}
	return signature
}

func (f *forger) good() string { return f.token(f.header(nil), f.claims(nil)) }

// with is a token with changes in its header.
func (f *forger) with(header map[string]any) string { return f.token(f.header(header), f.claims(nil)) }

// claiming is a token with changes in its claims.
func (f *forger) claiming(claims map[string]any) string {
	return f.token(f.header(nil), f.claims(claims))
}

// user is a token with whatever stands in it, also a role that nobody has declared, which the issuer leaves out.
func (f *forger) user(id, organisation, role string) string {
	return f.claiming(map[string]any{"sub": id, "org": organisation, "role": role})
}

// mac is a token with an HMAC.
func (f *forger) mac(header map[string]any, secret []byte) string {
	input := b64([]byte(f.header(header))) + "." + b64([]byte(f.claims(nil)))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(input))
	return input + "." + b64(mac.Sum(nil))
}

// refuseAll sends every token, each as the only flaw of its request, then a good one.
func (g *gateway) refuseAll(t *testing.T, f *forger, tokens map[string]string) {
	t.Helper()
	for name, token := range tokens {
		t.Run(name, func(t *testing.T) {
			if len(token) > 100 { // a word is in the logs anyway
				g.tokens = append(g.tokens, token)
			}
			g.refused(t, g.request("GET", "/any/x", bearer(token)), 401, 400)
			g.refused(t, g.request("GET", "/optional/x", bearer(token)), 401, 400)
		})
	}
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(f.good()))))
}

// TestG13AlgorithmNone: alg none in any case, with and without a signature → 401.
func TestG13AlgorithmNone(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	tokens := make(map[string]string)
	for _, alg := range []string{"none", "None", "NONE", "nOnE", ""} {
		input := b64([]byte(f.header(map[string]any{"alg": alg}))) + "." + b64([]byte(f.claims(nil)))
		tokens[alg+" without signature"] = input + "."
		tokens[alg+" without second dot"] = input
		tokens[alg+" with signature"] = f.with(map[string]any{"alg": alg})
		tokens[alg+" without kid"] = f.with(map[string]any{"alg": alg, "kid": nil})
	}
	g.refuseAll(t, f, tokens)
}

// TestG14PublicKeyAsHMACSecret: HS256 keyed with our public key in any encoding → 401.
func TestG14PublicKeyAsHMACSecret(t *testing.T) {
	for _, algorithm := range []string{"ES256", "RS256", "EdDSA"} {
		t.Run(algorithm, func(t *testing.T) {
			g := startBoth(t, strings.Replace(site, "store memory", "store memory\n\t\tkeys {\n\t\t\talgorithm "+algorithm+"\n\t\t}", 1))
			f := g.forger()
			der, err := x509.MarshalPKIXPublicKey(f.key.Public())
			check(t, err)
			block := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
			jwks, _ := g.app().node.Keys.JWKS()
			secrets := map[string][]byte{
				"DER": der, "PEM": block, "PEM trimmed": bytes.TrimSpace(block), "JWKS": jwks,
				"kid": []byte(f.kid), "empty": nil, "secret": []byte("secret"), "your-256-bit-secret": []byte("your-256-bit-secret"),
			}
			switch key := f.key.Public().(type) {
			case *ecdsa.PublicKey:
				point, err := key.Bytes()
				check(t, err)
				secrets["point"], secrets["x and y"], secrets["x"] = point, point[1:], point[1:33]
			case *rsa.PublicKey:
				secrets["modulus"], secrets["PKCS #1"] = key.N.Bytes(), x509.MarshalPKCS1PublicKey(key)
			case ed25519.PublicKey:
				secrets["point"] = key
			}
			tokens := make(map[string]string)
			for name, secret := range secrets {
				tokens[name] = f.mac(map[string]any{"alg": "HS256"}, secret)
				tokens[name+", alg unchanged"] = f.mac(nil, secret)
				tokens[name+", no kid"] = f.mac(map[string]any{"alg": "HS256", "kid": nil}, secret)
			}
			g.refuseAll(t, f, tokens)
		})
	}
}

// TestG15AnotherAlgorithm: a token signed with one of our keys under another algorithm → 401.
func TestG15AnotherAlgorithm(t *testing.T) {
	g := startBoth(t, strings.Replace(site, "store memory", "store memory\n\t\tkeys {\n\t\t\talgorithm RS256\n\t\t}", 1))
	f := g.forger()
	key := f.key.(*rsa.PrivateKey)
	signed := func(alg string, hash crypto.Hash, pss *rsa.PSSOptions) string {
		input := b64([]byte(f.header(map[string]any{"alg": alg}))) + "." + b64([]byte(f.claims(nil)))
		h := hash.New()
		h.Write([]byte(input))
		var options crypto.SignerOpts = hash
		if pss != nil {
			options = pss
		}
		signature, err := key.Sign(rand.Reader, h.Sum(nil), options)
		check(t, err)
		return input + "." + b64(signature)
	}
	tokens := map[string]string{
		"RS384":                         signed("RS384", crypto.SHA384, nil),
		"RS512":                         signed("RS512", crypto.SHA512, nil),
		"RS512 signature, RS256 header": signed("RS256", crypto.SHA512, nil),
	}
	// TestG28 in one: no salt length makes PS256 acceptable.
	for _, salt := range []int{rsa.PSSSaltLengthEqualsHash, 0, 20, 64} {
		tokens["PS256, salt "+itoa(salt)] = signed("PS256", crypto.SHA256, &rsa.PSSOptions{SaltLength: max(salt, rsa.PSSSaltLengthEqualsHash), Hash: crypto.SHA256})
		tokens["PS256 as RS256, salt "+itoa(salt)] = signed("RS256", crypto.SHA256, &rsa.PSSOptions{SaltLength: salt, Hash: crypto.SHA256})
	}
	for _, alg := range []string{"ES256", "ES256K", "EdDSA", "Ed448", "HS256", "PS384"} {
		tokens["RS256 signature as "+alg] = f.with(map[string]any{"alg": alg})
	}
	g.refuseAll(t, f, tokens)
}

func TestG15AnotherAlgorithmOnACurve(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	tokens := make(map[string]string)
	for _, alg := range []string{"RS256", "PS256", "ES384", "ES512", "ES256K", "EdDSA", "Ed25519", "Ed448", "HS256", "HS512"} {
		tokens[alg] = f.with(map[string]any{"alg": alg})
	}
	input := b64([]byte(f.header(map[string]any{"alg": "ES512"}))) + "." + b64([]byte(f.claims(nil)))
	digest := sha512.Sum512([]byte(input))
	r, s, _ := ecdsa.Sign(rand.Reader, f.key.(*ecdsa.PrivateKey), digest[:])
	tokens["ES512 with SHA-512"] = input + "." + b64(append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...))
	g.refuseAll(t, f, tokens)
}

// TestG16To18HeaderMembers: alg or kid absent, of another type, twice, in another case, unknown, 10 KiB → 401.
func TestG16To18HeaderMembers(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	claims := f.claims(nil)
	kid, alg := f.kid, f.alg
	raw := func(header string) string { return f.token(header, claims) }
	g.refuseAll(t, f, map[string]string{
		// G16
		"alg absent":   f.with(map[string]any{"alg": nil}),
		"alg null":     raw(`{"alg":null,"typ":"at+jwt","kid":"` + kid + `"}`),
		"alg number":   f.with(map[string]any{"alg": 256}),
		"alg array":    f.with(map[string]any{"alg": []string{"ES256"}}),
		"alg lower":    f.with(map[string]any{"alg": "es256"}),
		"alg trailing": f.with(map[string]any{"alg": "ES256 "}),
		// G17
		"alg twice":           raw(`{"alg":"none","alg":"` + alg + `","typ":"at+jwt","kid":"` + kid + `"}`),
		"alg twice, escaped":  raw(`{"\u0061lg":"none","alg":"` + alg + `","typ":"at+jwt","kid":"` + kid + `"}`),
		"kid twice":           raw(`{"alg":"` + alg + `","typ":"at+jwt","kid":"x","kid":"` + kid + `"}`),
		"ALG beside alg":      f.with(map[string]any{"ALG": "none"}),
		"Kid beside kid":      f.with(map[string]any{"Kid": "x"}),
		"ALG alone":           f.with(map[string]any{"alg": nil, "ALG": alg}),
		"typ twice":           raw(`{"alg":"` + alg + `","typ":"JWT","typ":"at+jwt","kid":"` + kid + `"}`),
		"header array":        raw(`["` + alg + `"]`),
		"header string":       raw(`"` + alg + `"`),
		"header with tail":    raw(f.header(nil) + "{}"),
		"header with mark":    raw("\ufeff" + f.header(nil)),
		"header invalid utf8": raw(strings.Replace(f.header(nil), "at+jwt", "at+jwt\",\"x\":\"\xff", 1)),
		// G18
		"kid absent":  f.with(map[string]any{"kid": nil}),
		"kid empty":   f.with(map[string]any{"kid": ""}),
		"kid unknown": f.with(map[string]any{"kid": "unknown"}),
		"kid long":    f.with(map[string]any{"kid": strings.Repeat("k", 7000)}),
		"kid array":   f.with(map[string]any{"kid": []string{kid}}),
		"kid space":   f.with(map[string]any{"kid": kid + " "}),
		"kid case":    f.with(map[string]any{"kid": strings.ToUpper(kid)}),
		"kid NUL":     f.with(map[string]any{"kid": kid + "\x00"}),
	})
}

// TestG19KeyIDIsNoPath: a kid that is a path, SQL, a pipe or a URL → 401, no file, database or network access.
func TestG19KeyIDIsNoPath(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	tokens := make(map[string]string)
	for _, kid := range []string{
		"../../etc/passwd", "/dev/null", "x\x00", "' UNION SELECT 'x", "| id", "`id`", "http://127.0.0.1:1/jwks", "{env.HOME}", "{file./etc/passwd}",
	} {
		tokens[kid] = f.with(map[string]any{"kid": kid})
		tokens[kid+" with an HMAC under nothing"] = f.mac(map[string]any{"alg": "HS256", "kid": kid}, nil)
	}
	g.refuseAll(t, f, tokens)
}

// TestG20ReferencesToKeys: jku, x5u, x5c, jwk headers → 401, no connection, even if the embedded key fits.
func TestG20ReferencesToKeys(t *testing.T) {
	g := startBoth(t, site)
	canary, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer func() { _ = canary.Close() }()
	called := make(chan struct{}, 100)
	go func() {
		for {
			connection, err := canary.Accept()
			if err != nil {
				return
			}
			called <- struct{}{}
			_ = connection.Close()
		}
	}()
	ours := g.forger()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	theirs := &forger{key: private, kid: ours.kid, alg: ours.alg, issuer: ours.issuer}
	point, _ := private.PublicKey.Bytes()
	jwk := map[string]any{"kty": "EC", "crv": "P-256", "x": b64(point[1:33]), "y": b64(point[33:])}
	location := "http://" + canary.Addr().String() + "/jwks"
	tokens := map[string]string{"their key under our kid": theirs.good()}
	for name, member := range map[string]map[string]any{
		"jwk": {"jwk": jwk}, "jku": {"jku": location}, "x5u": {"x5u": location}, "x5c": {"x5c": []string{b64(point)}},
		"x5t": {"x5t": "AAAA"}, "jwk and kid of their own": {"jwk": jwk, "kid": "theirs"},
	} {
		tokens[name+", their signature"] = theirs.with(member)
		tokens[name+", our signature"] = ours.with(member)
	}
	g.refuseAll(t, ours, tokens)
	select {
	case <-called:
		t.Error("somebody followed a reference in a token")
	case <-time.After(50 * time.Millisecond):
	}
}

// TestG21To25Forms: crit, b64, JWE, nested or JSON form, detached payload, empty parts, another typ, our own codes and refresh tokens →
// 401.
func TestG21To25Forms(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	good := f.good()
	parts := strings.Split(good, ".")
	family := f.claims(map[string]any{"nonce": "n", "auth_time": node.Clock().Unix()})
	g.refuseAll(t, f, map[string]string{
		// G21
		"crit exp":       f.with(map[string]any{"crit": []string{"exp"}, "exp": 1}),
		"crit empty":     f.with(map[string]any{"crit": []string{}}),
		"crit string":    f.with(map[string]any{"crit": "b64"}),
		"crit null":      f.token(strings.Replace(f.header(nil), "{", `{"crit":null,`, 1), f.claims(nil)),
		"b64 false":      f.with(map[string]any{"b64": false, "crit": []string{"b64"}}),
		"b64 true":       f.with(map[string]any{"b64": true}),
		"unknown member": f.with(map[string]any{"x": 1}),
		// G22
		"JWE":              b64([]byte(`{"alg":"dir","enc":"A128GCM"}`)) + "..AAAA.AAAA.AAAA",
		"JWE of five":      strings.Repeat("AAAA.", 4) + "AAAA",
		"zip":              f.with(map[string]any{"zip": "DEF"}),
		"cty JWT":          f.with(map[string]any{"cty": "JWT"}),
		"nested":           f.token(f.header(nil), good),
		"JSON form":        `{"payload":"` + parts[1] + `"}`,
		"JSON form in b64": b64([]byte(`{"payload":"` + parts[1] + `","protected":"` + parts[0] + `","signature":"` + parts[2] + `"}`)),
		// G23
		"detached":         parts[0] + ".." + parts[2],
		"two parts":        parts[0] + "." + parts[1],
		"four parts":       good + "." + parts[2],
		"trailing dot":     good + ".",
		"leading dot":      "." + good,
		"dots only":        "..",
		"no header":        "." + parts[1] + "." + parts[2],
		"no signature":     parts[0] + "." + parts[1] + ".",
		"another's middle": parts[0] + "." + strings.Split(f.good(), ".")[1] + "." + parts[2],
		// G24
		"typ JWT":        f.with(map[string]any{"typ": "JWT"}),
		"typ absent":     f.with(map[string]any{"typ": nil}),
		"typ id_token":   f.with(map[string]any{"typ": "id_token"}),
		"typ logout":     f.with(map[string]any{"typ": "logout+jwt"}),
		"typ dpop":       f.with(map[string]any{"typ": "dpop+jwt"}),
		"typ assertion":  f.with(map[string]any{"typ": "gateway-assertion+jwt"}),
		"typ with space": f.with(map[string]any{"typ": "at+jwt "}),
		"typ long s":     f.with(map[string]any{"typ": "at+jw\u017f"}),
		// G25
		"id token":        f.token(f.header(map[string]any{"typ": "JWT"}), family),
		"opaque":          oauth.NewID(),
		"refresh token":   strings.Repeat("A", 43),
		"assertion":       f.token(f.header(map[string]any{"typ": "JWT"}), f.claims(map[string]any{"aud": f.issuer + "/oauth/token"})),
		"client secret":   confSecret,
		"the client's id": "conf",
	})
	for _, typ := range []string{"at+jwt", "application/at+jwt", "AT+JWT", "Application/AT+JWT"} {
		g.passed(t, g.request("GET", "/any/x", bearer(f.with(map[string]any{"typ": typ}))))
	}
}

// TestG26To31Signatures: DER, wrong length, r or s of 0, PS256, other base64 spellings, padding → 401.
func TestG26To31Signatures(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	good := f.good()
	dot := strings.LastIndexByte(good, '.')
	input, signature := good[:dot], func() []byte { s, _ := base64.RawURLEncoding.DecodeString(good[dot+1:]); return s }()
	signed := func(s []byte) string { return input + "." + b64(s) }
	n := elliptic.P256().Params().N
	order := n.FillBytes(make([]byte, 32))
	digest := sha256.Sum256([]byte(input))
	asn1, _ := f.key.Sign(rand.Reader, digest[:], crypto.SHA256)
	zero := make([]byte, 32)
	over := new(big.Int).Add(new(big.Int).SetBytes(signature[:32]), n).Bytes()
	parts := strings.Split(good, ".")
	g.refuseAll(t, f, map[string]string{
		// G26
		"DER":        signed(asn1),
		"63 bytes":   signed(signature[:63]),
		"65 bytes":   signed(append(bytes.Clone(signature), 0)),
		"66 bytes":   signed(append(append([]byte{0}, signature[:32]...), append([]byte{0}, signature[32:]...)...)),
		"128 bytes":  signed(append(bytes.Clone(signature), signature...)),
		"r is 0":     signed(append(bytes.Clone(zero), signature[32:]...)),
		"s is 0":     signed(append(bytes.Clone(signature[:32]), zero...)),
		"both are 0": signed(make([]byte, 64)),
		"both are n": signed(append(bytes.Clone(order), order...)),
		"r plus n":   signed(append(over, signature[32:]...)),
		"swapped":    signed(append(bytes.Clone(signature[32:]), signature[:32]...)),
		// G31
		"padding":           good + "=",
		"padding in header": parts[0] + "=." + parts[1] + "." + parts[2],
		"two paddings":      good + "==",
		"standard alphabet": strings.Map(func(r rune) rune {
			return map[bool]rune{true: '+', false: r}[r == '-']
		}, parts[0]+"."+b64([]byte(strings.Replace(f.claims(nil), "public", "p\u07ff", 1)))+"."+parts[2]),
		"slash":                         input + "." + strings.Repeat("/", 86),
		"unused bits in the signature":  good[:len(good)-1] + other(good[len(good)-1]),
		"another length of base64":      good + "A",
		"the signature of another part": parts[1] + "." + parts[0] + "." + parts[2],
	})
}

// other is a base64url digit that differs in its last bits, which a signature of 64 bytes does not use.
func other(digit byte) string {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(alphabet[strings.IndexByte(alphabet, digit)^1])
}

// TestG27TheOtherSignatureOfARevokedToken: the second valid signature of a revoked ECDSA token → 401. An ECDSA signature (r, s) has a
// second valid form (r, n-s). It makes another string of the same token, and the revocation of the token must hit it.
func TestG27TheOtherSignatureOfARevokedToken(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	good := g.watched(f.good())
	dot := strings.LastIndexByte(good, '.')
	signature, _ := base64.RawURLEncoding.DecodeString(good[dot+1:])
	s := new(big.Int).Sub(elliptic.P256().Params().N, new(big.Int).SetBytes(signature[32:]))
	second := g.watched(good[:dot+1] + b64(append(bytes.Clone(signature[:32]), s.FillBytes(make([]byte, 32))...)))
	g.passed(t, g.request("GET", "/any/x", bearer(good)))
	g.revoke(t, g.claims(t, good), store.RevokeToken)
	g.refused(t, g.request("GET", "/any/x", bearer(good)), 401)
	header, _ := g.refused(t, g.request("GET", "/any/x", bearer(second)), 401)
	if got := parameters(t, header)["error_description"]; got != "The access token was revoked" {
		t.Errorf("the second form is refused because %q", got)
	}
}

// TestG32TokenLength: a token of 8,192 bytes → judged; longer → 401, then 431.
func TestG32TokenLength(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	sized := func(size int) string { // a good token of that many bytes
		pad := size - 700
		for range 10 {
			token := f.claiming(map[string]any{"jti": "j", "pad": strings.Repeat("p", pad)})
			if len(token) == size {
				return token
			}
			pad += (size - len(token)) * 3 / 4
			if len(token) < size && pad == size {
				break
			}
		}
		for extra := range 8 { // base64 has lengths in steps; the header's length varies with a typ
			for _, typ := range []string{"at+jwt", "application/at+jwt"} {
				token := f.token(f.header(map[string]any{"typ": typ}), f.claims(map[string]any{"jti": "j", "pad": strings.Repeat("p", pad-4+extra)}))
				if len(token) == size {
					return token
				}
			}
		}
		t.Fatalf("no token of %d bytes", size)
		return ""
	}
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(sized(8192)))))
	g.refused(t, g.request("GET", "/any/x", bearer(g.watched(sized(8193)))), 401)
	g.refused(t, g.request("GET", "/any/x", bearer(strings.Repeat("a", 15000))), 401)
	long := g.request("GET", "/any/x", bearer(strings.Repeat("a", 25000)))
	g.headTooLarge(t, long)
	g.upstream.none(t)
	g.turnedAwayAlike(t, long, []int{431})
}

func TestG33HostileTokensAreCheap(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	g.refuseAll(t, f, map[string]string{
		"dots":              strings.Repeat(".", 14000),
		"8000 dots":         strings.Repeat(".", 8000),
		"G18 kid of 10 KiB": f.with(map[string]any{"kid": strings.Repeat("k", 10<<10)}),
		"deep header":       b64([]byte(strings.Repeat("{", 8<<10))) + ".AAAA.AAAA",
		"G35 depth 10 000":  f.token(f.header(nil), strings.Repeat("[", 5000)+strings.Repeat("]", 5000)),
		"deep in claim":     f.token(f.header(nil), strings.Replace(f.claims(nil), "{", `{"x":`+strings.Repeat("[", 2000)+strings.Repeat("]", 2000)+",", 1)),
	})
	dots := "Bearer " + strings.Repeat(".", 1_000_000)
	g.turnedAway(t, g.request("GET", "/any/x", "Authorization: "+dots), http.StatusRequestHeaderFieldsTooLarge, 0)
	if status, _, _ := g.bigH2(t, g.fields("GET", "/any/x", "authorization", dots)); status != 0 && status != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a million dots over HTTP/2: %d", status)
	}
	g.upstream.none(t)
}

// TestG34KeyOfAnotherEnvironment: our kid, another environment's key → 401.
func TestG34KeyOfAnotherEnvironment(t *testing.T) {
	g := startBoth(t, site)
	f := g.forger()
	stranger := strangerTo(t, f)
	underOurs := *stranger
	underOurs.kid = f.kid
	g.refuseAll(t, f, map[string]string{"under our kid": underOurs.good(), "under its kid": stranger.good()})
}

// strangerTo is a forger with a key of its own, for the same issuer.
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

// claims reads a good token.
func (g *gateway) claims(t *testing.T, tok string) *token.AccessToken {
	t.Helper()
	claims, err := g.app().node.Verifier.Verify(tok, []string{g.url})
	check(t, err)
	return claims
}

// revoke revokes what a token carries under one of its names.
func (g *gateway) revoke(t *testing.T, tok *token.AccessToken, kind store.RevocationKind) {
	t.Helper()
	id := map[store.RevocationKind]string{
		store.RevokeToken: tok.ID, store.RevokeFamily: tok.FamilyID, store.RevokeUser: tok.Subject,
		store.RevokeClient: tok.ClientID, store.RevokeOrganisation: tok.Organisation, store.RevokeKey: tok.KeyID,
	}[kind]
	check(t, g.app().issuer.Families.Revoke(context.Background(), g.app().issuer.Families.RevocationOf(kind, id)))
}
