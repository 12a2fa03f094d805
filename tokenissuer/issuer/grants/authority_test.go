package grants

import (
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// gate is a Verifier whose inputs a test controls.
type gate struct {
	*tokentest.Clock
	keySetState *keys.Set
	revocations *token.RevocationSet
	verifier    *token.Verifier
	audiences   []string
	signing     map[oauth.Algorithm]*keys.SigningKey
}

func newGate(tb testing.TB) *gate {
	tb.Helper()
	g := &gate{
		Clock: tokentest.NewClock(), keySetState: new(keys.Set), revocations: token.NewRevocationSet(),
		audiences: []string{tokentest.Audience}, signing: testkeys.Shared(),
	}
	if err := g.keySetState.Replace([]*keys.SigningKey{g.signing[oauth.RS256], g.signing[oauth.EdDSA], g.signing[oauth.ES256]}, oauth.ES256); err != nil {
		tb.Fatal(err)
	}
	g.revocations.MarkFresh(tokentest.Start)
	g.verifier = g.another()
	return g
}

// another returns a Verifier with the same keys and revocations and an empty cache.
func (g *gate) another() *token.Verifier {
	return token.NewVerifier(tokentest.Issuer, g.keySetState, g.revocations, 5*time.Minute, g.Now)
}

// wait advances the clock. The revocations stay fresh.
func (g *gate) wait(d time.Duration) {
	g.Add(d)
	g.revocations.MarkFresh(g.Now())
}

func (g *gate) accepts(tb testing.TB, tok string) *token.AccessToken {
	tb.Helper()
	t, err := g.verifier.Verify(tok, g.audiences)
	if err != nil {
		tb.Fatalf("refused: %v", err)
	}
	return t
}

// refuses fails the test unless a token is refused for one of the reasons.
func (g *gate) refuses(tb testing.TB, token string, reasons ...string) {
	tb.Helper()
	t, err := g.verifier.Verify(token, g.audiences)
	tokentest.WantRefusal(tb, t, err, reasons...)
}

// claims returns the claims of a valid user token.
func (g *gate) claims() string {
	now := g.Now().Unix()
	return fmt.Sprintf(`{"iss":%q,"sub":"user-1","aud":%q,"client_id":"client-1","scope":"public trusted","iat":%d,"exp":%d,"jti":"token-1",`+
		`"sid":"family-1","org":"org-1","role":"admin"}`, tokentest.Issuer, tokentest.Audience, now, now+3600)
}

// testMaster returns the master key of every test. It is fixed, so that fuzzing results are reproducible in other processes.
func testMaster(tb testing.TB) *keys.MasterKey { return testkeys.Master(tb, 7, tokentest.Start) }

func digestsOf(secrets ...string) []store.ClientSecret {
	var list []store.ClientSecret
	for _, s := range secrets {
		list = append(list, store.ClientSecret{Digest: oauth.NewSecret(s).Digest(), CreatedAt: tokentest.Start})
	}
	return list
}

// authority is a server with the clients of the shared fixture.
type authority struct {
	*gate
	*Server
	*token.UpstreamTokens
	directory *fakeDirectory
	attempts  *fakeAttempts
	store     *fakeStore
}

func newAuthority(tb testing.TB) *authority {
	tb.Helper()
	return newAuthorityOf(tb, nil)
}

// newAuthorityOf is like newAuthority with changed settings.
func newAuthorityOf(tb testing.TB, change func(*issuer.Settings)) *authority {
	tb.Helper()
	a := &authority{
		gate: newGate(tb), attempts: newFakeAttempts(), store: newFakeStore(),
		directory: newFakeDirectory(
			&store.Client{ID: "conf", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Scopes: oauth.Scopes{oauth.ScopePublic, oauth.ScopeTrusted, oauth.ScopeRefreshToken, "reports"},
				Grants: []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode, oauth.RefreshTokenGrant}},
			&store.Client{ID: "other", Type: store.ConfidentialClient, Secrets: digestsOf("other-" + tokentest.ClientSecret), Scopes: oauth.Scopes{oauth.ScopePublic}, Grants: []oauth.GrantType{oauth.ClientCredentials}},
			&store.Client{ID: "pub", Type: store.PublicClient, Scopes: oauth.Scopes{oauth.ScopePublic}, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.ClientCredentials}},
			&store.Client{ID: "nat", Type: store.NativeClient, Scopes: oauth.Scopes{oauth.ScopePublic}, Grants: []oauth.GrantType{oauth.AuthorizationCode}},
			&store.Client{ID: "off", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Scopes: oauth.Scopes{oauth.ScopePublic}, Grants: []oauth.GrantType{oauth.ClientCredentials}, Disabled: true},
		),
	}
	settings := issuer.Settings{
		Policy: clients.Policy{
			URL: tokentest.Issuer, Audience: []string{tokentest.Audience},
			Scopes: oauth.NewScopeCatalogue(oauth.Scope{Name: "reports", Words: "Read reports", ServerTokens: true}),
		},
		Lifetimes: store.DefaultLifetimes,
	}
	if change != nil {
		change(&settings)
	}
	parts := issuer.New(settings, issuer.Node{
		Keys: a.keySetState, Verifier: a.verifier, Revocations: a.revocations, Now: a.gate.Now, Hasher: passwords.NewHasher(),
		Limits: attempts.Limits{ClientLimit: attempts.Limit{Failures: 20, Window: time.Minute}, Attempts: a.attempts},
	})
	master := testMaster(tb)
	a.Server = NewServer(parts, families.Opened{Store: a.store, Directory: a.directory, Master: master, JTIMAC: token.NewJTIMAC(master)})
	a.Families.Remembered = nil
	a.delegate(a.Assertions)
	return a
}

// delegate makes the authority send assertions about callers to upstreams.
func (a *authority) delegate(assertions *keys.AssertionKeys) {
	a.Assertions = assertions
	a.UpstreamTokens = token.NewUpstreamTokens(token.UpstreamIssuer{
		URL: a.Minter.URL, Assertions: assertions, Now: a.gate.Now, Birth: a.IssueTime,
		Credentials: func() token.UpstreamCredentials {
			return token.UpstreamCredentials{Keys: a.Minter.Keys, Master: a.Master, JTIMAC: a.JTIMAC}
		},
	})
}

func (a *authority) client(id string) *store.Client { return a.directory.clients[id] }

func withSecret(id, secret string) clients.Authentication {
	return clients.Authentication{Readings: []clients.Credential{{ID: id, Secret: oauth.NewSecret(secret)}}, Address: "192.0.2.1"}
}
