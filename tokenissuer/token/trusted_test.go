package token

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

const (
	otherIssuer = "https://login.partner.example"
	otherIDs    = "client-of-theirs"
)

// otherKeys are the keys of another issuer, set by the test.
type otherKeys struct {
	mu         sync.Mutex
	byID       map[string]*keys.VerificationKey
	unfit      error // Find returns it instead
	generation uint64
}

func (k *otherKeys) Find(kid string, _ oauth.Algorithm) (*keys.VerificationKey, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.unfit != nil {
		return nil, k.unfit
	}
	if key, ok := k.byID[kid]; ok {
		return key, nil
	}
	return nil, oauth.NewError(oauth.InvalidToken, "key_unknown")
}

func (k *otherKeys) Generation() uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.generation
}

// set stores a key, or nil for none, under a kid. The generation stays the same: the verifier must not depend on it.
func (k *otherKeys) set(kid string, key *keys.VerificationKey) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.byID == nil {
		k.byID = make(map[string]*keys.VerificationKey)
	}
	if delete(k.byID, kid); key != nil {
		k.byID[kid] = key
	}
}

func (k *otherKeys) fail(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unfit = err
}

// partner is another issuer, and the Verifier of its tokens.
type partner struct {
	*tokentest.Clock
	types []string
	// rolesClaim and clientAudience are settings for further verifiers.
	rolesClaim     string
	clientAudience bool
	source         *otherKeys
	key            *keys.SigningKey
	verifier       *Verifier
}

func newPartner(types ...string) *partner {
	p := &partner{Clock: tokentest.NewClock(), types: types, source: new(otherKeys), key: testkeys.Foreign()[oauth.RS256]}
	p.source.set(p.key.ID, &p.key.VerificationKey)
	p.verifier = p.another()
	return p
}

func (p *partner) another() *Verifier {
	return NewTrustedVerifier(TrustedTokens{Issuer: otherIssuer, Types: p.types, RolesClaim: p.rolesClaim, ClientAudience: p.clientAudience}, p.source, p.Now)
}

// claims returns claims that every token of the partner has, whatever its kind. Its audience is the expected one.
func (p *partner) claims(edits ...string) string {
	now := p.Now().Unix()
	return tokentest.Object([]string{
		"iss", `"` + otherIssuer + `"`, "sub", `"alice"`, "aud", `"` + tokentest.Audience + `"`, "jti", `"1"`,
		"iat", strconv.FormatInt(now, 10), "exp", strconv.FormatInt(now+3600, 10),
	}, edits)
}

// marked returns the claims of a token that satisfies RFC 9068.
func (p *partner) marked(edits ...string) string {
	return p.claims(slices.Concat([]string{"client_id", `"app"`, "scope", `"read write"`}, edits)...)
}

// token returns a token with a typ, which may be empty, and these claims.
func (p *partner) token(typ, claims string) string {
	if typ != "" {
		typ = strconv.Quote(typ)
	}
	return testkeys.Sign(p.key, testkeys.Header(p.key, "typ", typ), claims)
}

func (p *partner) judge(tb testing.TB, token string) (*AccessToken, error) {
	tb.Helper()
	audiences := []string{tokentest.Audience}
	got, err := p.another().Verify(token, audiences)
	if _, again := p.verifier.Verify(token, audiences); (again == nil) != (err == nil) {
		tb.Errorf("a fresh verifier says %v, one that may know the token says %v", err, again)
	}
	return got, err
}

func (p *partner) accepts(tb testing.TB, token string) *AccessToken {
	tb.Helper()
	got, err := p.judge(tb, token)
	if err != nil {
		tb.Fatalf("refused: %v", err)
	}
	return got
}

func (p *partner) refuses(tb testing.TB, token string, reasons ...string) {
	tb.Helper()
	got, err := p.judge(tb, token)
	tokentest.WantRefusal(tb, got, err, reasons...)
}

// anyType returns a partner whose verifier accepts every typ that can be configured.
func anyType() *partner { return newPartner(TypeAccessToken, TypeJWT, TypeNone) }

func TestG20HeaderMembersOfOtherIssuers(t *testing.T) {
	p := anyType()
	for _, typ := range []string{"at+jwt", "JWT", ""} {
		for _, member := range [][]string{
			{"jku", `"https://evil.example/jwks"`}, {"jwk", `{"kty":"oct","k":"AAAA"}`}, {"x5u", `"https://evil.example/"`}, {"x5c", `["MIIB"]`},
			{"zip", `"DEF"`}, {"cty", `"JWT"`}, {"enc", `"A256GCM"`}, {"nonce", `"n"`}, {"aud", `"https://other.example"`}, {"jku", "null"}, {"X5T", `"AAAA"`}, {"Kid", `"x"`}, {"ALG", `"none"`},
			{"x5t", `"AAAA"`, "jku", `"https://evil.example/jwks"`},
		} {
			edits := slices.Concat(member, []string{"typ", strconv.Quote(typ)})
			p.refuses(t, testkeys.Sign(p.key, testkeys.Header(p.key, edits...), p.marked()), "header_unexpected")
		}
		for _, member := range [][]string{
			{"ver", `"1"`}, {"gty", `"password"`}, {"pi.atm", `"1"`}, {"client_id", `"x"`}, {"use", `"sig"`}, {"x", `{"jku":"https://evil.example/jwks"}`},
		} { // RFC 7515 §4: unknown members are ignored
			p.accepts(t, testkeys.Sign(p.key, testkeys.Header(p.key, slices.Concat(member, []string{"typ", strconv.Quote(typ)})...), p.marked()))
		}
		for _, member := range [][]string{{"crit", `["exp"]`}, {"crit", "[]"}, {"crit", "null"}, {"b64", "true"}, {"b64", "false", "crit", `["b64"]`}} {
			p.refuses(t, testkeys.Sign(p.key, testkeys.Header(p.key, slices.Concat(member, []string{"typ", strconv.Quote(typ)})...), p.marked()), "header_extension")
		}
		for _, name := range []string{"x5t", "x5t#S256"} {
			token := testkeys.Sign(p.key, testkeys.Header(p.key, name, `"AAAA"`, "typ", strconv.Quote(typ)), p.marked())
			if typ == "at+jwt" {
				p.refuses(t, token, "header_unexpected")
			} else {
				p.accepts(t, token)
			}
		}
	}
	for _, alg := range []string{`"none"`, `"HS256"`, `"PS256"`, `"ES256"`, `""`} {
		p.refuses(t, testkeys.Sign(p.key, testkeys.Header(p.key, "alg", alg), p.marked()), "algorithm_mismatch")
	}
}

// TestTokensOfRFC9068HaveAllItsClaims: a token with typ at+jwt needs all claims of RFC 9068.
func TestTokensOfRFC9068HaveAllItsClaims(t *testing.T) {
	p := newPartner()
	p.accepts(t, p.token("at+jwt", p.marked()))
	p.accepts(t, p.token("at+jwt", p.marked("scope", "")))
	for _, name := range []string{"iss", "sub", "aud", "client_id", "iat", "exp", "jti"} {
		for _, value := range []string{"", `""`, "null", "1.5", "[]", `"a\u0000"`} {
			why := "claims_malformed"
			if name == "aud" && value == `"a\u0000"` {
				why = "audience_wrong"
			}
			p.refuses(t, p.token("at+jwt", p.marked(name, value)), why)
		}
	}
	if got := p.accepts(t, p.token("at+jwt", p.marked("client_id", "", "azp", `"app"`))); got.ClientID != "app" {
		t.Errorf("azp is read as %q", got.ClientID)
	}
	old := anyType()
	old.accepts(t, old.token("JWT", old.marked("jti", "", "client_id", "")))
	for _, claim := range []string{"sub", "client_id", "azp", "jti"} {
		edits := []string{claim, `"a\u0000b"`}
		if claim == "azp" {
			edits = append(edits, "client_id", "")
		}
		old.refuses(t, old.token("JWT", old.marked(edits...)), "claims_malformed")
	}
}

func TestG36TheTimesOfOtherIssuersHave30Seconds(t *testing.T) {
	at := func(d time.Duration) string { return strconv.FormatInt(tokentest.Start.Add(d).Unix(), 10) }
	p := newPartner()
	for _, v := range []struct {
		name  string
		edits []string
		want  string // a reason; empty: accepted
	}{
		{"exp 30 s ago", []string{"iat", at(-time.Hour), "exp", at(-30 * time.Second)}, ""},
		{"exp 31 s ago", []string{"iat", at(-time.Hour), "exp", at(-31 * time.Second)}, "token_expired"},
		{"nbf in 30 s", []string{"nbf", at(30 * time.Second)}, ""},
		{"nbf in 31 s", []string{"nbf", at(31 * time.Second)}, "token_from_future"},
		{"iat in 60 s", []string{"iat", at(time.Minute)}, ""},
		{"iat in 61 s", []string{"iat", at(61 * time.Second)}, "token_from_future"},
		{"a lifetime of ten years", []string{"exp", at(10 * 365 * 24 * time.Hour)}, ""},
		{"exp absent", []string{"exp", ""}, "claims_malformed"},
		{"iat absent", []string{"iat", ""}, "claims_malformed"},
		{"exp a text", []string{"exp", `"1800003600"`}, "claims_malformed"},
		{"exp a fraction", []string{"exp", "1800003600.5"}, "claims_malformed"},
		{"exp negative", []string{"exp", "-1"}, "claims_malformed"},
		{"exp 1e999", []string{"exp", "1e999"}, "claims_malformed"},
		{"exp 2^63", []string{"exp", "9223372036854775808"}, "claims_malformed"},
		{"exp far away", []string{"exp", "9223372036854775807"}, "claims_malformed"},
		{"nbf a text", []string{"nbf", `"1"`}, "claims_malformed"},
	} {
		t.Run(v.name, func(t *testing.T) {
			if token := p.token("at+jwt", p.marked(v.edits...)); v.want == "" {
				p.accepts(t, token)
			} else {
				p.refuses(t, token, v.want)
			}
		})
	}
}

func TestOtherIssuersMayNameSeveralRoles(t *testing.T) {
	p := newPartner()
	got := p.accepts(t, p.token("at+jwt", p.marked("role", `["reader","writer"]`, "org", `["a"]`, "roles", `["x","y"]`, "level", "3", "ok", "true", "deep", `{"a":1}`)))
	for claim, want := range map[string][]string{
		"role": {"reader", "writer"}, "org": {"a"}, "roles": {"x", "y"}, "level": {"3"}, "ok": {"true"}, "deep": nil, "scope": {"read", "write"}, "azp": nil,
	} {
		if !slices.Equal(got.Claim(claim), want) {
			t.Errorf("%s is %q, want %q", claim, got.Claim(claim), want)
		}
	}
	if got.Role != "" || got.Organisation != "a" {
		t.Errorf("role %q, organisation %q", got.Role, got.Organisation)
	}
	if one := p.accepts(t, p.token("at+jwt", p.marked("role", `"reader"`))); one.Role != "reader" {
		t.Errorf("role %q", one.Role)
	}
	g := newGate(t)
	g.refuses(t, g.good("role", `["admin"]`), "claims_malformed") // ours are texts
	g.refuses(t, g.good("org", `["a","b"]`), "claims_malformed")
}

// TestG35TheClaimsOfOtherIssuersAreReadStrictly: upstreams may ignore the case of names.
func TestG35TheClaimsOfOtherIssuersAreReadStrictly(t *testing.T) {
	p := anyType()
	for _, name := range registeredClaims {
		for _, variant := range []string{strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:], strings.Replace(name, "s", "\u017f", 1)} {
			if variant != name {
				p.refuses(t, p.token("JWT", p.marked(variant, `"x"`)), "claims_malformed")
			}
		}
	}
	members := strings.TrimSuffix(p.marked(), "}")
	for name, payload := range map[string]string{
		"array": "[" + p.marked() + "]", "text": "hello", "azp twice": members + `,"azp":"a","azp":"b"}`, "scp twice": members + `,"scp":"a","scp":["b"]}`,
		"typ twice": members + `,"typ":"Bearer","typ":"ID"}`, "azp an array": p.marked("client_id", "", "azp", `["app"]`), "scp a number": p.marked("scope", "", "scp", "1"),
		"scp with a quote": p.marked("scope", "", "scp", `"a\"b"`), "depth": members + `,"x":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + "}",
	} {
		t.Run(name, func(t *testing.T) { p.refuses(t, p.token("JWT", payload), "claims_malformed") })
	}
}

// TestG44ATokenOfAnotherIssuerDiesWithItsKey: the token is refused at once, whether the issuer withdraws the key,
// replaces it or is no longer reachable, and whatever generation the source reports.
func TestG44ATokenOfAnotherIssuerDiesWithItsKey(t *testing.T) {
	p := newPartner()
	token := p.token("at+jwt", p.marked())
	p.accepts(t, token)
	p.accepts(t, token)
	if p.verifier.Remembered() != 1 {
		t.Fatalf("%d tokens remembered", p.verifier.Remembered())
	}
	judge := func() error {
		_, err := p.verifier.Verify(token, []string{tokentest.Audience})
		return err
	}
	p.source.set(p.key.ID, nil)
	if e := oauth.AsError(judge()); e.Reason != "key_unknown" {
		t.Errorf("the key has gone: %v", e)
	}
	same := p.key.VerificationKey
	p.source.set(p.key.ID, &same)
	if err := judge(); err != nil {
		t.Errorf("the key was read anew: %v", err)
	}
	other := testkeys.Shared()[oauth.RS256].VerificationKey
	other.ID = p.key.ID
	p.source.set(p.key.ID, &other)
	if e := oauth.AsError(judge()); e.Code != oauth.InvalidToken || e.Reason != "key_replaced" {
		t.Errorf("another key has the name: %v", e)
	}
	p.source.set(p.key.ID, &p.key.VerificationKey)
	p.source.fail(oauth.Unavailable("keys_stale", nil))
	tokentest.WantCode(t, judge(), oauth.TemporarilyUnavailable)
	p.source.fail(nil)
	if err := judge(); err != nil {
		t.Errorf("all is well again: %v", err)
	}
	p.Add(time.Hour + TrustedLeeway)
	if err := judge(); err != nil {
		t.Errorf("30 s late: %v", err)
	}
	p.Add(time.Second)
	if e := oauth.AsError(judge()); e.Reason != "token_expired" {
		t.Errorf("31 s late: %v", e)
	}
	if p.verifier.Remembered() != 0 {
		t.Error("the dead token is still remembered")
	}
}

// TestTokensNobodyCanJudgeAreNotRefused: without keys the error differs from that of an invalid token.
func TestTokensNobodyCanJudgeAreNotRefused(t *testing.T) {
	p := newPartner()
	p.source.fail(oauth.Unavailable("keys_not_loaded", nil))
	got, err := p.another().Verify(p.token("at+jwt", p.marked()), []string{tokentest.Audience})
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	if got != nil {
		t.Error("a token comes with the error")
	}
	tokentest.WantCode(t, p.another().Ready(), oauth.TemporarilyUnavailable)
	p.source.fail(nil)
	if err := p.another().Ready(); err != nil {
		t.Error(err)
	}
	p.source.fail(oauth.Unavailable("keys_not_loaded", nil))
	for name, token := range map[string]string{"garbage": "x.y.z", "not at+jwt": p.token("JWT", p.marked())} {
		if _, err := p.another().Verify(token, []string{tokentest.Audience}); oauth.AsError(err).Code != oauth.InvalidToken {
			t.Errorf("%s: %v", name, err)
		}
	}
}
