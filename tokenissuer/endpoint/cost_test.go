package endpoint

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const (
	costIssuer = "https://id.example"
	costSecret = "kP3wq8ZrT1vN6yXbC4mGdJ7sLfHa2uEoRi5tYn0QzWc"
)

// counter is a Handler with declared clients and users on a store in memory. Its audit log is encoded and discarded. So the measured cost
// is that of the endpoints themselves.
type counter struct {
	*Handler
	tb     testing.TB
	issuer *issuer.Parts
	grants *grants.Grants
}

// newCounter returns a counter with the client conf, and more confidential ones with the same secret.
func newCounter(tb testing.TB, algorithm oauth.Algorithm, more ...*store.Client) *counter {
	tb.Helper()
	c := &counter{tb: tb}
	st := teststore.New(tb)
	ks := new(keys.Set)
	key, err := keys.NewSigningKey(algorithm, time.Now())
	c.must(err)
	c.must(ks.Replace([]*keys.SigningKey{key}, algorithm))
	master, err := keys.LoadMasterKey(tb.Context(), st.Keys, nil, time.Now())
	c.must(err)
	revocations := token.NewRevocationSet()
	revocations.MarkFresh(time.Now())
	digest := oauth.NewSecret(costSecret).Digest()
	ada := &store.User{ID: "u-ada", Version: "1", Email: "ada@acme.example", Name: "Ada Lovelace", Status: store.UserActive, External: true, Profile: &store.Profile{GivenName: "Ada"}}
	conf := &store.Client{
		ID: "conf", ClientOpenID: store.ClientOpenID{IDTokenAlgorithm: algorithm}, Secrets: []store.ClientSecret{{Digest: digest}},
		Grants: []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode, oauth.RefreshTokenGrant},
	}
	conf.SetDefaults()
	for _, client := range more {
		if client.SetDefaults(); !client.IsPublic() {
			client.Secrets = conf.Secrets
		}
	}
	declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{ada}, Clients: append(more, conf)})
	c.must(err)
	c.issuer = issuer.New(issuer.Settings{
		Policy: clients.Policy{
			URL: costIssuer, Audience: []string{costIssuer}, OpenID: true,
			Scopes: oauth.NewScopeCatalogue(oauth.Scope{Name: "orders.read", Words: "Read orders", ServerTokens: true}),
		},
		Lifetimes: store.DefaultLifetimes,
	}, issuer.Node{
		Keys: ks, Verifier: token.NewVerifier(costIssuer, ks, revocations, time.Hour, time.Now), Revocations: revocations, Now: time.Now,
		Limits: attempts.Limits{ClientLimit: attempts.Limit{Failures: 10_000, Window: time.Minute}, Attempts: attempts.NewCounter(1000)},
	})
	c.issuer.Issued.Usernames = nil
	c.issuer.Families.Opened = families.Opened{Store: families.StoreOf(st.Store), Devices: st.Devices, Directory: declared, Master: master, JTIMAC: token.NewJTIMAC(master)}
	c.grants = grants.New(c.issuer, grants.Accepted{})
	core := zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.AddSync(io.Discard), zap.InfoLevel)
	audit := NewAudit(zap.New(core), func(*http.Request) string { return "192.0.2.1" })
	shown, err := pages.New(pages.Settings{})
	c.must(err)
	c.Handler, err = NewHandler(c.issuer, c.grants, audit, noCounters{}, SignInMethods{}, shown)
	c.must(err)
	return c
}

func (c *counter) must(err error) {
	c.tb.Helper()
	if err != nil {
		c.tb.Fatal(err)
	}
}

type noCounters struct{}

func (noCounters) RepeatedElsewhere() {}

func (noCounters) Issued(oauth.GrantType)           {}
func (noCounters) Refused(_ string, _ *oauth.Error) {}

// thriftyWriter is a reusable ResponseWriter. It keeps the body of the last response.
type thriftyWriter struct {
	header http.Header
	status int
	body   []byte
}

func (w *thriftyWriter) Header() http.Header { return w.header }
func (w *thriftyWriter) WriteHeader(s int)   { w.status = s }
func (w *thriftyWriter) Write(body []byte) (int, error) {
	w.body = append(w.body, body...)
	return len(body), nil
}
func (w *thriftyWriter) SetReadDeadline(time.Time) error { return nil }

// call is a request that can be sent repeatedly, so that only the Handler allocates.
type call struct {
	handler *Handler
	request *http.Request
	form    string
	body    *strings.Reader
	writer  thriftyWriter
}

// newCall prepares a request of the client with HTTP Basic.
func (c *counter) newCall(path, form string) *call {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(form))
	r.Header["Authorization"] = []string{"Basic " + base64.StdEncoding.EncodeToString([]byte("conf:"+costSecret))}
	r.Header["Content-Type"] = []string{requests.URLEncoded}
	body := strings.NewReader(form)
	r.Body = io.NopCloser(body)
	return &call{handler: c.Handler, request: r, form: form, body: body, writer: thriftyWriter{header: make(http.Header)}}
}

// send serves the request and returns the body of the response, which is valid until the next call.
func (c *call) send(tb testing.TB) []byte {
	clear(c.writer.header)
	c.writer.body = c.writer.body[:0]
	c.body.Reset(c.form)
	c.handler.ServeHTTP(&c.writer, c.request)
	if c.writer.status != http.StatusOK {
		tb.Fatalf("%d %s", c.writer.status, c.writer.body)
	}
	return c.writer.body
}

// token returns a server token.
func (c *counter) token() string {
	tokens, _, err := c.grants.Exchange(c.tb.Context(), grants.Request{
		GrantType: oauth.ClientCredentials,
		Client: clients.Authentication{
			Readings: []clients.Credential{{ID: "conf", Secret: oauth.NewSecret(costSecret)}}, Address: "192.0.2.1",
		},
	})
	c.must(err)
	return tokens.AccessToken.Reveal()
}

func (c *counter) tokenCall() *call {
	return c.newCall("/oauth/token", "grant_type=client_credentials&scope=public")
}

func (c *counter) introspectionCall() *call {
	return c.newCall("/oauth/introspect", url.Values{"token": {c.token()}}.Encode())
}

func (c *counter) revocationCall() *call {
	return c.newCall("/oauth/revoke", url.Values{"token": {c.token()}}.Encode())
}

func (c *counter) infoCall() *call {
	info := c.newCall("/oauth/token/info", "")
	info.request.Method = http.MethodGet
	info.request.Header["Authorization"] = []string{"Bearer " + c.token()}
	return info
}

func (c *counter) userInfoCall() *call {
	client, err := c.issuer.Families.Directory.Client(c.tb.Context(), "conf")
	c.must(err)
	ada, err := c.issuer.Families.Directory.User(c.tb.Context(), "u-ada")
	c.must(err)
	tokens, err := c.issuer.UserTokens.IssueUnasked(c.tb.Context(), client, ada, oauth.Scopes{"openid", "profile", "email"}, 0)
	c.must(err)
	info := c.newCall("/oauth/userinfo", "")
	info.request.Method = http.MethodGet
	info.request.Header["Authorization"] = []string{"Bearer " + tokens.AccessToken.Reveal()}
	return info
}

// TestWhatACallAllocates bounds the allocations of the endpoints, with some room, because pools drop items under the race detector. An
// EdDSA signature allocates almost nothing.
func TestWhatACallAllocates(t *testing.T) {
	const runs = 200
	for _, c := range []struct {
		name  string
		call  func(*counter) *call
		bound float64
	}{
		{"client credentials", (*counter).tokenCall, 34},
		{"introspection of a warm token", (*counter).introspectionCall, 16},
		{"token info", (*counter).infoCall, 12},
		{"userinfo", (*counter).userInfoCall, 16},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := c.call(newCounter(t, oauth.EdDSA))
			call.send(t)
			if n := testing.AllocsPerRun(runs, func() { call.send(t) }); n > c.bound {
				t.Errorf("%v allocations, want at most %v", n, c.bound)
			} else {
				t.Logf("%v allocations", n)
			}
		})
	}
	t.Run("revocation", func(t *testing.T) {
		c := newCounter(t, oauth.EdDSA)
		var forms []string
		for range runs + 2 { // AllocsPerRun begins with a run that it does not count
			forms = append(forms, "token="+c.token())
		}
		call := c.newCall("/oauth/revoke", forms[0])
		i := 0
		if n := testing.AllocsPerRun(runs, func() {
			call.form = forms[i]
			call.send(t)
			i++
		}); n > 130 { // nine tenths are those of the database
			t.Errorf("%v allocations, the store's own included", n)
		} else {
			t.Logf("%v allocations, the store's own included", n)
		}
		if n := c.issuer.Families.Revocations.Len(); n != i {
			t.Errorf("%d tokens are revoked after %d calls", n, i)
		}
	})
}

func benchmarkCall(b *testing.B, of func(*counter) *call, algorithm oauth.Algorithm) {
	call := of(newCounter(b, algorithm))
	b.ReportAllocs()
	for b.Loop() {
		call.send(b)
	}
}

func BenchmarkClientCredentials(b *testing.B) {
	for _, algorithm := range []oauth.Algorithm{oauth.ES256, oauth.EdDSA, oauth.RS256} {
		b.Run(string(algorithm), func(b *testing.B) { benchmarkCall(b, (*counter).tokenCall, algorithm) })
	}
}

func BenchmarkIntrospection(b *testing.B) {
	benchmarkCall(b, (*counter).introspectionCall, oauth.EdDSA)
}

// BenchmarkRevocation revokes one token repeatedly. The code above the store costs the same each time.
func BenchmarkRevocation(b *testing.B) {
	benchmarkCall(b, (*counter).revocationCall, oauth.EdDSA)
}

func BenchmarkTokenInfo(b *testing.B) { benchmarkCall(b, (*counter).infoCall, oauth.EdDSA) }
