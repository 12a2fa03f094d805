package tokenissuer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	testIssuer   = "https://id.example"
	testAudience = "https://api.example"
)

// testStart is when every test begins.
var testStart = time.Unix(1_800_000_000, 0)

var allAlgorithms = []Algorithm{ES256, RS256, EdDSA}

// parseOwnJWK reads a key as if it were for our own tokens: for ES256, RS256 or EdDSA.
func parseOwnJWK(data []byte) (*VerificationKey, error) {
	keys, err := parseJWK(data, OwnAlgorithms)
	if err != nil {
		return nil, err
	}
	return keys[0], nil
}

func parseOwnJWKS(data []byte) (keys []*VerificationKey, err error) {
	set, err := ParseJWKS(data, OwnAlgorithms)
	for _, published := range set {
		keys = append(keys, published.Keys...)
	}
	return keys, err
}

// clock is a clock that only a test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: testStart} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *clock) Add(d time.Duration) { c.Set(c.Now().Add(d)) }

// sharedKeys are made once: RSA keys are slow to make.
var sharedKeys = sync.OnceValue(func() map[Algorithm]*SigningKey {
	keys := make(map[Algorithm]*SigningKey)
	for _, a := range allAlgorithms {
		key, err := NewSigningKey(a, testStart)
		if err != nil {
			panic(err)
		}
		keys[a] = key
	}
	return keys
})

// foreignKeys are those of another environment.
var foreignKeys = sync.OnceValue(func() map[Algorithm]*SigningKey {
	keys := make(map[Algorithm]*SigningKey)
	for _, a := range allAlgorithms {
		key, err := NewSigningKey(a, testStart)
		if err != nil {
			panic(err)
		}
		keys[a] = key
	}
	return keys
})

// gate is a Verifier with all that it reads, in a test's hands.
type gate struct {
	*clock
	keys        *KeySet
	revocations *RevocationSet
	verifier    *Verifier
	audiences   []string
	signing     map[Algorithm]*SigningKey
}

func newGate(tb testing.TB) *gate {
	tb.Helper()
	g := &gate{
		clock: newClock(), keys: new(KeySet), revocations: NewRevocationSet(),
		audiences: []string{testAudience}, signing: sharedKeys(),
	}
	if err := g.keys.Replace([]*SigningKey{g.signing[RS256], g.signing[EdDSA], g.signing[ES256]}, ES256); err != nil {
		tb.Fatal(err)
	}
	g.revocations.MarkFresh(testStart)
	g.verifier = g.another()
	return g
}

// another returns a Verifier of the same keys and revocations that has seen no token yet.
func (g *gate) another() *Verifier {
	return NewVerifier(testIssuer, g.keys, g.revocations, 5*time.Minute, g.Now)
}

// wait lets time pass; the revocations stay fresh.
func (g *gate) wait(d time.Duration) {
	g.Add(d)
	g.revocations.MarkFresh(g.Now())
}

// judge asks Verify, on a Verifier that does not know the token and again on one that may, and holds Explain against
// the answer.
func (g *gate) judge(tb testing.TB, token string) (*AccessToken, error) {
	tb.Helper()
	fresh, err := g.another().Verify(token, g.audiences)
	if x := g.verifier.Explain(token, g.audiences); x.Accepted != (err == nil) {
		tb.Errorf("Verify says %v, and Explain says %+v", err, x)
	} else if x.Accepted && x.Claims == nil {
		tb.Error("Explain accepts a token and has no claims")
	}
	if _, again := g.verifier.Verify(token, g.audiences); (again == nil) != (err == nil) {
		tb.Errorf("a fresh verifier says %v, one that may know the token says %v", err, again)
	}
	return fresh, err
}

func (g *gate) accepts(tb testing.TB, token string) *AccessToken {
	tb.Helper()
	t, err := g.judge(tb, token)
	if err != nil {
		tb.Fatalf("refused: %v", err)
	}
	return t
}

// refuses wants an invalid_token; of the given reason, unless that is empty.
// refuses fails unless a token is refused for one of the reasons. Several are for tokens of which it is not foreseen what makes them bad.
func (g *gate) refuses(tb testing.TB, token string, reasons ...string) {
	tb.Helper()
	t, err := g.judge(tb, token)
	wantRefusal(tb, t, err, reasons...)
}

func wantRefusal(tb testing.TB, t *AccessToken, err error, reasons ...string) {
	tb.Helper()
	if err == nil || t != nil {
		tb.Fatalf("accepted: %+v", t)
	}
	var e *Error
	if !errors.As(err, &e) || e.Code != InvalidToken {
		tb.Fatalf("got %v, want an invalid_token", err)
	}
	if !slices.Contains(reasons, e.Reason) {
		tb.Errorf("the reason is %s, want %s", e.Reason, reasons)
	}
}

// header is the JOSE header that we write, with members put in place of its own, added, or (value "") left out. Values
// are raw JSON.
func header(key *SigningKey, edits ...string) string {
	return object([]string{
		"alg", strconv.Quote(string(key.Algorithm)), "typ", `"at+jwt"`, "kid", strconv.Quote(key.ID),
	}, edits)
}

// claims is a good user token's claims set, edited like header.
func (g *gate) claims(edits ...string) string {
	now := g.Now().Unix()
	return object([]string{
		"iss", `"` + testIssuer + `"`, "sub", `"user-1"`, "aud", `"` + testAudience + `"`, "client_id", `"client-1"`,
		"scope", `"public trusted"`, "iat", strconv.FormatInt(now, 10), "exp", strconv.FormatInt(now+3600, 10),
		"jti", `"token-1"`, "sid", `"family-1"`, "org", `"org-1"`, "role", `"admin"`,
	}, edits)
}

func object(members, edits []string) string {
	members = slices.Clone(members)
	for i := 0; i < len(edits); i += 2 {
		at := slices.Index(members, edits[i])
		for at >= 0 && at%2 == 1 {
			next := slices.Index(members[at+1:], edits[i])
			if next >= 0 {
				next += at + 1
			}
			at = next
		}
		switch {
		case at < 0:
			members = append(members, edits[i], edits[i+1])
		case edits[i+1] == "":
			members = slices.Delete(members, at, at+2)
		default:
			members[at+1] = edits[i+1]
		}
	}
	var b strings.Builder
	for i := 0; i < len(members); i += 2 {
		if members[i+1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(members[i]) + ":" + members[i+1])
	}
	return "{" + b.String() + "}"
}

func encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// forge signs any header and payload with a key of ours.
func forge(key *SigningKey, header, payload string) string {
	return forgeRaw(key, encode(header)+"."+encode(payload))
}

// forgeRaw signs any signing input.
func forgeRaw(key *SigningKey, signingInput string) string {
	signature, err := methodOf(key.Algorithm).Sign(signingInput, key.private)
	if err != nil {
		panic(err)
	}
	return signingInput + "." + base64.RawURLEncoding.EncodeToString(signature)
}

// good is a token of ours with edited claims.
func (g *gate) good(edits ...string) string {
	key := g.signing[ES256]
	return forge(key, header(key), g.claims(edits...))
}

// blind returns the key with a public half that no signature of it verifies under.
func blind(key *SigningKey) *SigningKey {
	other := *key
	other.public = foreignKeys()[key.Algorithm].public
	return &other
}

// testMaster is the master key of every test, so that what a fuzzer finds another process can repeat.
func testMaster(tb testing.TB) *MasterKey {
	tb.Helper()
	master, err := newMasterKey(bytes.Repeat([]byte{7}, masterKeyBytes))
	if err != nil {
		tb.Fatal(err)
	}
	return master
}

const testSecret = "kP3wq8ZrT1vN6yXbC4mGdJ7sLfHa2uEoRi5tYn0QzWc"

func digestsOf(secrets ...string) []ClientSecret {
	var list []ClientSecret
	for _, s := range secrets {
		list = append(list, ClientSecret{Digest: NewSecret(s).Digest(), CreatedAt: testStart})
	}
	return list
}

// authority is an Issuer with the clients of the catalogue's fixture.
type authority struct {
	*gate
	*Issuer
	directory *fakeDirectory
	attempts  *fakeAttempts
	store     *fakeStore
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	a := &authority{
		gate: newGate(tb), attempts: newFakeAttempts(), store: newFakeStore(),
		directory: newFakeDirectory(
			&Client{ID: "conf", Type: ConfidentialClient, Secrets: digestsOf(testSecret), Scopes: Scopes{ScopePublic, ScopeTrusted, ScopeRefreshToken, "reports"},
				Grants: []GrantType{ClientCredentials, AuthorizationCode, RefreshTokenGrant}},
			&Client{ID: "other", Type: ConfidentialClient, Secrets: digestsOf("other-" + testSecret), Scopes: Scopes{ScopePublic}, Grants: []GrantType{ClientCredentials}},
			&Client{ID: "pub", Type: PublicClient, Scopes: Scopes{ScopePublic}, Grants: []GrantType{AuthorizationCode, ClientCredentials}},
			&Client{ID: "nat", Type: NativeClient, Scopes: Scopes{ScopePublic}, Grants: []GrantType{AuthorizationCode}},
			&Client{ID: "off", Type: ConfidentialClient, Secrets: digestsOf(testSecret), Scopes: Scopes{ScopePublic}, Grants: []GrantType{ClientCredentials}, Disabled: true},
		),
	}
	a.Issuer = &Issuer{
		URL: testIssuer, Audience: []string{testAudience}, Lifetimes: DefaultLifetimes,
		Scopes:    NewScopeCatalogue(Scope{Name: "reports", Words: "Read reports", ServerTokens: true}),
		Directory: a.directory, Authenticated: NewClientCache(), Store: a.store, Keys: a.keys, Master: testMaster(tb), JTIMAC: NewJTIMAC(testMaster(tb)), Passwords: NewPasswords(), Revocations: a.revocations,
		Verifier: a.verifier, Attempts: a.attempts, ClientLimit: Limit{Failures: 20, Window: time.Minute}, Now: a.gate.Now,
	}
	return a
}

func (a *authority) client(id string) *Client { return a.directory.clients[id] }

func withSecret(id, secret string) ClientAuthentication {
	return ClientAuthentication{Readings: []ClientCredential{{ID: id, Secret: NewSecret(secret)}}, Address: "192.0.2.1"}
}

func wantCode(tb testing.TB, err error, code ErrorCode) {
	tb.Helper()
	var e *Error
	if !errors.As(err, &e) || e.Code != code {
		tb.Fatalf("got %v, want %s", err, code)
	}
}
