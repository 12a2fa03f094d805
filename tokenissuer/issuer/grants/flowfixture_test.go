package grants_test

import (
	"context"
	"encoding/base64"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/argon2"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	callback     = "https://client.example/cb?x=1"
	userPassword = "correct horse battery staple"

	// verifier and challenge are those of RFC 7636 appendix B.
	verifier  = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
)

// flowKey is created once.
var flowKey = sync.OnceValue(func() *keys.SigningKey {
	key, err := keys.NewSigningKey(oauth.EdDSA, tokentest.Start)
	if err != nil {
		panic(err)
	}
	return key
})

// cheapHash is a cheap hash, so that only tests of sign-ins pay for an expensive one.
var cheapHash = sync.OnceValue(func() oauth.Secret {
	salt := []byte("0123456789abcdef")
	encode := base64.RawStdEncoding.EncodeToString
	return oauth.NewSecret("$argon2id$v=19$m=64,t=1,p=1$" + encode(salt) + "$" + encode(argon2.IDKey([]byte(userPassword), salt, 1, 64, 1, 32)))
})

// flow is a server on a store in memory, with the clients of the shared fixture, two organisations and their users.
type flow struct {
	*Server
	tb       testing.TB
	store    *faultyStore
	registry *people.Registry
	// redirectURI is the redirect_uri of authorization requests.
	redirectURI string
	// change changes the settings of each node. It may be nil.
	change func(*issuer.Settings)

	time *tokentest.Clock
}

func newFlow(tb testing.TB) *flow {
	tb.Helper()
	return newFlowOf(tb, nil)
}

// newFlowOf is like newFlow with changed settings.
func newFlowOf(tb testing.TB, change func(*issuer.Settings)) *flow {
	tb.Helper()
	f := &flow{tb: tb, time: tokentest.NewClock(), redirectURI: callback, store: newFaultyStore(teststore.New(tb).Store), change: change}
	f.Server = f.node()
	f.registry = registryOf(f.Server, f.store.Store)
	f.populate()
	return f
}

// registryOf returns the registry of a server.
func registryOf(s *Server, stored store.Store) *people.Registry {
	return &people.Registry{
		Clients: &clients.Registry{Families: s.Families, Known: s.Clients, Declared: s.Declared, Stored: stored.Clients},
		People: &people.Users{
			Families: s.Families, Roles: s.Minter.Roles, Hasher: s.SignIns.Hasher, Usernames: s.Issued.Usernames, Declared: s.Declared, Stored: people.StoreOf(stored),
		},
	}
}

// operator returns the OperatorTokens of a server.
func operator(s *Server, g *people.Registry) issuer.OperatorTokens {
	return issuer.OperatorTokens{UserTokens: s.UserTokens, Registry: g}
}

func (f *flow) minted() issuer.OperatorTokens { return operator(f.Server, f.registry) }

// node returns a newly started server on the same store.
func (f *flow) node() *Server {
	f.tb.Helper()
	ks := new(keys.Set)
	f.must(ks.Replace([]*keys.SigningKey{flowKey()}, oauth.EdDSA))
	master, err := keys.LoadMasterKey(f.tb.Context(), f.store.Keys, nil, f.clock())
	f.must(err)
	known, _, err := f.store.Revocations.Revocations(f.tb.Context(), store.FeedPosition{})
	f.must(err)
	revocations := token.NewRevocationSet()
	revocations.Add(known...)
	revocations.MarkFresh(f.clock())
	settings := issuer.Settings{
		Policy: clients.Policy{
			URL: tokentest.Issuer, Audience: []string{tokentest.Issuer},
			Scopes: oauth.NewScopeCatalogue(oauth.Scope{Name: "reports", Words: "Read reports", ServerTokens: true}),
		},
		Lifetimes: store.DefaultLifetimes, PasswordGrant: new(issuer.PasswordRules),
	}
	if f.change != nil {
		f.change(&settings)
	}
	parts := issuer.New(settings, issuer.Node{
		Keys: ks, Verifier: token.NewVerifier(tokentest.Issuer, ks, revocations, 5*time.Minute, f.clock),
		Revocations: revocations, Now: f.clock, Hasher: passwords.NewHasher(),
		Limits: attempts.Limits{
			AccountLimit: attempts.Limit{Failures: 10, Window: time.Minute}, AddressLimit: attempts.Limit{Failures: 30, Window: time.Minute},
			Attempts: attempts.NewCounter(1000),
		},
	})
	return NewServer(parts, families.Opened{Store: families.StoreOf(f.store.Store), Devices: f.store.Devices, Directory: f.store.Directory(), Master: master, JTIMAC: token.NewJTIMAC(master)})
}

func (f *flow) populate() {
	for _, id := range []string{"acme", "rival"} {
		_, err := f.registry.People.AddOrganisation(f.tb.Context(), store.Organisation{ID: id})
		f.must(err)
	}
	for id, is := range map[string]struct {
		organisation string
		role         store.Role
	}{
		"ada": {"acme", store.RoleAdmin}, "eve": {"acme", store.RoleAdmin}, "grace": {"acme", store.RoleGroupManager},
		"bob": {"acme", store.RoleBusinessManager}, "mia": {"acme", store.RoleMember}, "rex": {"rival", store.RoleGroupManager},
	} {
		_, err := f.registry.People.AddUser(f.tb.Context(), store.User{
			ID: "u-" + id, Email: id + "@acme.example", Organisation: is.organisation, Role: is.role, PasswordHash: cheapHash(),
		}, oauth.Secret{})
		f.must(err)
	}
	all := oauth.Scopes{oauth.ScopePublic, oauth.ScopeTrusted, oauth.ScopeRefreshToken, oauth.ScopeOfflineAccess}
	code := []oauth.GrantType{oauth.AuthorizationCode, oauth.ClientCredentials}
	for _, c := range []*store.Client{
		{ID: "conf", Grants: append(code, oauth.RefreshTokenGrant, oauth.PasswordGrant), Scopes: all},
		{ID: "other", Grants: append(code, oauth.RefreshTokenGrant), Scopes: all},
		{ID: "legacy", Grants: code, Scopes: oauth.Scopes{oauth.ScopePublic, oauth.ScopeTrusted}},
		{ID: "first", Grants: code, Scopes: all, FirstParty: true},
		{ID: "pub", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, Scopes: all},
		{ID: "tv", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.DeviceCode, oauth.RefreshTokenGrant}, Scopes: all},
		{ID: "set-top", FirstParty: true, Grants: []oauth.GrantType{oauth.DeviceCode}, Scopes: all},
		{ID: "nat", Type: store.NativeClient, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, Scopes: all,
			RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", "cursor://claude.ai/cb"}},
	} {
		f.addClient(c)
	}
}

// addClient stores a client, which is confidential by default.
func (f *flow) addClient(c *store.Client) {
	f.tb.Helper()
	c.SetDefaults()
	if !c.IsPublic() {
		c.Secrets = []store.ClientSecret{{Digest: oauth.NewSecret("secret of " + c.ID).Digest(), CreatedAt: tokentest.Start}}
	}
	if c.RedirectURIs == nil {
		c.RedirectURIs = []string{callback}
	}
	f.must(c.Validate())
	f.must(f.store.Clients.AddClient(f.tb.Context(), c))
}

func (f *flow) must(err error) {
	f.tb.Helper()
	if err != nil {
		f.tb.Fatal(err)
	}
}

// ended returns whether something ended.
func (f *flow) ended(something bool, err error) bool {
	f.tb.Helper()
	f.must(err)
	return something
}

func (f *flow) clock() time.Time { return f.time.Now() }

// wait advances the clock. The revocations stay fresh.
func (f *flow) wait(d time.Duration) {
	f.time.Add(d)
	f.Revocations.MarkFresh(f.clock())
}

func (f *flow) client(id string) *store.Client {
	f.tb.Helper()
	c, err := f.Directory.Client(f.tb.Context(), id)
	f.must(err)
	return c
}

func (f *flow) user(name string) *store.User {
	f.tb.Helper()
	u, err := f.Directory.User(f.tb.Context(), "u-"+name)
	f.must(err)
	return u
}

// session opens a session for a user, as after a password sign-in.
func (f *flow) session(name string) *signin.Session {
	f.tb.Helper()
	s, _, err := f.OpenSession(f.tb.Context(), signin.SignedIn{User: f.user(name), AuthTime: f.clock()}, "a browser", "")
	f.must(err)
	return s
}

// parameters returns those of a valid request, with a challenge.
func parameters(scope string) issuer.AuthorizationParameters {
	return issuer.AuthorizationParameters{
		ResponseType: "code", Scope: scope, State: "a state", CodeChallenge: challenge, CodeChallengeMethod: "S256",
	}
}

// read checks a request.
func (f *flow) read(clientID string, p issuer.AuthorizationParameters) (issuer.AuthorizationRequest, error) {
	f.tb.Helper()
	client, target, err := f.ResolveRedirect(f.tb.Context(), clientID, f.redirectURI, "")
	f.must(err)
	return f.ReadAuthorization(client, target, p)
}

// pending returns a request that was sealed for a page and opened again.
func (f *flow) pending(clientID string, p issuer.AuthorizationParameters) issuer.AuthorizationRequest {
	f.tb.Helper()
	r, err := f.read(clientID, p)
	f.must(err)
	_, err = f.SealRequest(&r, signin.NewBrowser())
	f.must(err)
	return r
}

// code returns a code for ada, approved as the parameters say.
func (f *flow) code(clientID string, p issuer.AuthorizationParameters) oauth.Secret {
	f.tb.Helper()
	return f.codeOf("ada", clientID, p)
}

func (f *flow) codeOf(name, clientID string, p issuer.AuthorizationParameters) oauth.Secret {
	f.tb.Helper()
	r, err := f.read(clientID, p)
	f.must(err)
	code, err := f.Approve(f.tb.Context(), &r, f.client(clientID), f.session(name), r.Scopes)
	f.must(err)
	return code
}

// credentials returns those of a client: its secret or only its id.
func (f *flow) credentials(clientID string) clients.Authentication {
	if c, err := f.store.whole.Clients.Client(context.Background(), clientID); err == nil && c.IsPublic() {
		return clients.Authentication{PublicID: clientID, Address: "192.0.2.1"}
	}
	return clients.Authentication{Address: "192.0.2.1", Readings: []clients.Credential{{ID: clientID, Secret: oauth.NewSecret("secret of " + clientID)}}}
}

func (f *flow) exchange(r Request) (issuer.Tokens, error) {
	tokens, _, err := f.Exchange(f.tb.Context(), r)
	return tokens, err
}

// redemption returns a valid request for the code of parameters.
func (f *flow) redemption(clientID string, code oauth.Secret) Request {
	return Request{
		GrantType: oauth.AuthorizationCode, Client: f.credentials(clientID), Code: CodeParameters{Code: code, RedirectURI: callback, Verifier: oauth.NewSecret(verifier)},
	}
}

func (f *flow) redeem(clientID string, code oauth.Secret) (issuer.Tokens, error) {
	return f.exchange(f.redemption(clientID, code))
}

func (f *flow) refresh(clientID string, token oauth.Secret) (issuer.Tokens, error) {
	return f.narrow(clientID, token, "")
}

func (f *flow) narrow(clientID string, token oauth.Secret, scope string) (issuer.Tokens, error) {
	return f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Client: f.credentials(clientID), Refresh: RefreshParameters{Token: token}, Scope: scope})
}

// tokens returns the tokens that ada granted to a client.
func (f *flow) tokens(clientID, scope string) issuer.Tokens {
	f.tb.Helper()
	tokens, err := f.redeem(clientID, f.code(clientID, parameters(scope)))
	f.must(err)
	return tokens
}

// alive fails unless the access token is accepted; dead is the reverse.
func (f *flow) alive(t issuer.Tokens) {
	f.tb.Helper()
	if _, err := f.Minter.Verifier.Verify(t.AccessToken.Reveal(), f.Audience); err != nil {
		f.tb.Errorf("the access token is refused: %v", err)
	}
}

func (f *flow) dead(t issuer.Tokens) {
	f.tb.Helper()
	if _, err := f.Minter.Verifier.Verify(t.AccessToken.Reveal(), f.Audience); err == nil {
		f.tb.Error("the access token is accepted")
	}
}

// wantReason is like tokentest.WantCode, and checks the reason too.
func wantReason(tb testing.TB, err error, code oauth.ErrorCode, reason string) {
	tb.Helper()
	tokentest.WantCode(tb, err, code)
	if got := oauth.AsError(err).Reason; got != reason {
		tb.Fatalf("the reason is %s, want %s", got, reason)
	}
}

func sameScopes(tb testing.TB, got oauth.Scopes, want ...string) {
	tb.Helper()
	if !slices.Equal(got, want) {
		tb.Errorf("scopes %v, want %v", got, want)
	}
}

// wins returns the number of calls without an error. The others must have failed with the code.
func wins(tb testing.TB, errs []error, code oauth.ErrorCode) (n int) {
	tb.Helper()
	for _, err := range errs {
		if err == nil {
			n++
			continue
		}
		tokentest.WantCode(tb, err, code)
	}
	return n
}

// admin returns an admin and an access token with the scope for conf.
func (f *flow) admin(name, scope string) (*store.User, *token.AccessToken) {
	f.tb.Helper()
	tokens, err := f.redeem("conf", f.codeOf(name, "conf", parameters(scope)))
	f.must(err)
	tok, err := f.Minter.Verifier.Verify(tokens.AccessToken.Reveal(), f.Audience)
	f.must(err)
	admin, err := f.OrganisationAdmin(f.tb.Context(), tok)
	f.must(err)
	return admin, tok
}
