package caddymodule

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// scrape returns the metrics as Prometheus reads them.
func (g *gatehouse) scrape() string {
	g.t.Helper()
	status, _, body := g.operate(http.MethodGet, "/metrics", "")
	if status != http.StatusOK {
		g.t.Fatalf("metrics: %d %s", status, body)
	}
	return body
}

// measured returns the values of our metrics, by name and labels.
func (g *gatehouse) measured() map[string]float64 {
	g.t.Helper()
	values := make(map[string]float64)
	for line := range strings.Lines(g.scrape()) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), " ")
		if !ok || !strings.HasPrefix(name, "gatehouse_") {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			g.t.Fatalf("%v in %s", err, line)
		}
		values[name] = n
	}
	return values
}

// counted runs do and compares the increase of metrics with want. No other counter may have increased.
func (g *gatehouse) counted(t *testing.T, what string, do func(), want map[string]float64) {
	t.Helper()
	before := g.measured()
	do()
	risen := make(map[string]float64)
	for name, value := range g.measured() {
		if base, _, _ := strings.Cut(name, "{"); strings.HasSuffix(base, "_total") && value != before[name] {
			risen[name] = value - before[name]
		}
	}
	if !maps.Equal(risen, want) {
		t.Errorf("%s: risen are %v, want %v", what, risen, want)
	}
}

// TestMetricsCountDecisions: each decision counts once, under the endpoint and the error code or the grant.
func TestMetricsCountDecisions(t *testing.T) {
	g := startPeople(t, "\toauth_server\n", "\toauth_server {\n\t\ttoken_alias /legacy/token\n\t\tready\n\t}\n")
	r := requestOf("conf")
	token := g.token()
	g.counted(t, "client credentials", func() { g.token() }, map[string]float64{`gatehouse_tokens_issued_total{grant="client_credentials"}`: 1})
	g.counted(t, "password grant at the alias", func() {
		if status, _, body := g.post("/legacy/token", nobodysClient.asPassword("ada@acme.example", peoplePassword)); status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
	}, map[string]float64{`gatehouse_tokens_issued_total{grant="password"}`: 1})
	g.counted(t, "a walk in the browser and a refresh", func() {
		g.obtain(r.refresh(g.userTokens(r, "ada@acme.example").RefreshToken))
	}, map[string]float64{
		`gatehouse_tokens_issued_total{grant="session"}`: 1, `gatehouse_tokens_issued_total{grant="authorization_code"}`: 1,
		`gatehouse_tokens_issued_total{grant="refresh_token"}`: 1,
	})
	g.counted(t, "an operator's token", func() { g.ok("token", "mint", "--client", "conf") }, map[string]float64{`gatehouse_tokens_issued_total{grant="operator"}`: 1})
	admin := g.userTokens(r, "ada@acme.example").AccessToken
	member := func(token string) {
		g.do(http.MethodPost, "/api/v1/organisations/me/users/u-grace/access_tokens", `{"data":{"id":"u-grace","type":"users"}}`,
			"Authorization", "Bearer "+token, "Content-Type", "application/vnd.api+json")
	}
	g.counted(t, "a token for a member", func() { member(admin) }, map[string]float64{`gatehouse_tokens_issued_total{grant="admin_created"}`: 1})

	refused := func(endpoint, code string) map[string]float64 {
		return map[string]float64{`gatehouse_refusals_total{endpoint="` + endpoint + `",error="` + code + `"}`: 1}
	}
	form := "application/x-www-form-urlencoded"
	for _, c := range []struct {
		name, method, path, body, endpoint, code string
	}{
		{"wrong secret", "POST", "/oauth/token", "grant_type=client_credentials&client_id=conf&client_secret=x", "token", "invalid_client"},
		{"unknown grant", "POST", "/oauth/token", "grant_type=nonsense", "token", "unsupported_grant_type"},
		{"unknown grant at the alias", "POST", "/legacy/token", "grant_type=nonsense", "token", "unsupported_grant_type"},
		{"wrong method", "GET", "/oauth/revoke", "", "revoke", "invalid_request"},
		{"nobody introspects", "POST", "/oauth/introspect", "token=x", "introspect", "invalid_client"},
		{"no token", "GET", "/oauth/token/info", "", "token_info", "unauthorized"},
		{"unknown client", "GET", "/oauth/authorize?client_id=nobody", "", "authorize", "invalid_request"},
		{"sent back to the client", "GET", "/oauth/authorize?" + r.with("response_type", "token").Encode(), "", "authorize", "unsupported_response_type"},
		{"no such path", "GET", "/oauth/nothing", "", "unknown", "not_found"},
		{"readiness by POST", "POST", "/oauth/ready", "", "ready", "invalid_request"},
		{"keys by POST", "POST", "/oauth/jwks", "", "jwks", "invalid_request"},
		{"metadata by POST", "POST", "/.well-known/oauth-authorization-server", "", "metadata", "invalid_request"},
	} {
		g.counted(t, c.name, func() { g.do(c.method, c.path, c.body, "Content-Type", form) }, refused(c.endpoint, c.code))
	}
	g.counted(t, "a member's token for nobody", func() { member(token) }, refused("member_token", "user_context_required"))
	b := g.browser()
	g.counted(t, "a wrong password on the page", func() { b.signIn(b.open("/oauth/login"), "ada@acme.example", "wrong password") }, refused("login", "invalid_grant"))

	decided := func(result string) map[string]float64 {
		return map[string]float64{`gatehouse_gate_decisions_total{result="` + result + `"}`: 1}
	}
	g.counted(t, "the gate, passed", func() { g.get("/api/x", admin) }, decided("passed"))
	g.counted(t, "the gate, anonymous", func() { g.get("/pub/x", "") }, decided("anonymous"))
	g.counted(t, "the gate, no token", func() { g.get("/api/x", "") }, decided("unauthenticated"))
	g.counted(t, "the gate, scope missing", func() { g.get("/api/x", token) }, decided("forbidden"))
	g.counted(t, "the gate, ambiguous path", func() { g.get("/api/x;y", token) }, decided("invalid_request"))
	g.silenceFeed()
	g.app().node.Revocations.MarkFresh(time.Unix(1, 0))
	before := g.measured()[`gatehouse_gate_decisions_total{result="unavailable"}`]
	g.get("/api/x", admin)
	// The closed store fails the node's own reads too, so not every counter can be compared.
	if now := g.measured()[`gatehouse_gate_decisions_total{result="unavailable"}`]; now != before+1 {
		t.Errorf("the gate, revocations unknown: %v decisions, want one more than %v", now, before)
	}
}

// TestT84ReuseIsAMetric: a refresh token or code that is used again → counted.
func TestT84ReuseIsAMetric(t *testing.T) {
	g := startPeople(t)
	r := requestOf("conf")
	first := g.userTokens(r, "ada@acme.example")
	second := g.obtain(r.refresh(first.RefreshToken))
	g.obtain(r.refresh(second.RefreshToken))
	refused := `gatehouse_refusals_total{endpoint="token",error="invalid_grant"}`
	g.counted(t, "a refresh token that was used before", func() {
		g.refused(r.refresh(first.RefreshToken), http.StatusBadRequest, "invalid_grant")
	}, map[string]float64{"gatehouse_refresh_reuse_total": 1, refused: 1})
	g.counted(t, "once more: the family has ended", func() {
		g.refused(r.refresh(first.RefreshToken), http.StatusBadRequest, "invalid_grant")
	}, map[string]float64{refused: 1})
	code := g.code(r, "ada@acme.example")
	g.obtain(r.exchange(code))
	g.counted(t, "a code that was redeemed before", func() {
		g.refused(r.exchange(code), http.StatusBadRequest, "invalid_grant")
	}, map[string]float64{"gatehouse_code_replays_total": 1, refused: 1})
}

// TestF18MetricsGoOnAfterAReload: Caddy makes a registry for each configuration. Counters that are not registered
// again disappear, and counters that are created again start at zero.
func TestF18MetricsGoOnAfterAReload(t *testing.T) {
	g := startGatehouse(t, durableSite)
	g.token()
	before := g.measured()
	for i := range 3 {
		g.reload(durableSite + strings.Repeat("\n", i+1) + "# " + strconv.Itoa(i) + "\n")
		g.reload(strings.Replace(durableSite, "client other ", "client other"+strconv.Itoa(i)+" ", 1))
	}
	for name, value := range g.measured() {
		if strings.Contains(name, "_total") && value < before[name] {
			t.Errorf("%s has fallen from %v to %v", name, before[name], value)
		}
	}
	issued := map[string]float64{`gatehouse_tokens_issued_total{grant="client_credentials"}`: 1}
	g.counted(t, "a token after reloads", func() { g.token() }, issued)
	if err := g.tryReload(strings.Replace(durableSite, "issuer http://ADDR", "issuer http://not-loopback.example", 1)); err == nil {
		t.Fatal("a configuration that is wrong was loaded")
	}
	g.counted(t, "a token after a configuration that was refused", func() { g.token() }, issued)
}

// TestMetricsTellTheState: the gauges match the state.
func TestMetricsTellTheState(t *testing.T) {
	g := startGatehouse(t, durableSite)
	token := g.token()
	g.awaitHousekeeping()
	values := g.measured()
	for name, want := range map[string]float64{
		"gatehouse_ready": 1, "gatehouse_store_up": 1, "gatehouse_revocations": 0, "gatehouse_open_streams": 0, "gatehouse_housekeeper": 1,
		`gatehouse_keys{state="signing"}`: 1, `gatehouse_keys{state="published"}`: 0, `gatehouse_keys{state="superseded"}`: 0,
		`gatehouse_keys{state="refused"}`: 0, `gatehouse_signing_keys{algorithm="ES256"}`: 1,
		"gatehouse_clock_skew_seconds": 0, "gatehouse_verified_tokens": 1,
		`gatehouse_stored_rows{table="clients"}`: 0, `gatehouse_stored_rows{table="families"}`: 0, `gatehouse_stored_rows{table="requests"}`: 0,
		`gatehouse_stored_rows{table="revocations"}`: 0, `gatehouse_stored_rows{table="users"}`: 0, `gatehouse_stored_rows{table="mails"}`: 0,
	} {
		if got, ok := values[name]; !ok || got != want {
			t.Errorf("%s is %v (there: %v), want %v", name, got, ok, want)
		}
	}
	if age, ok := values["gatehouse_revocation_staleness_seconds"]; !ok || age < 0 || age > 60 {
		t.Errorf("staleness is %v", age)
	}
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"jti":"`+claims(t, token)["jti"].(string)+`"}`)
	if n := g.measured()["gatehouse_revocations"]; n != 1 {
		t.Errorf("after a revocation there are %v", n)
	}
	check(t, g.app().node.Store().Close())
	before := values["gatehouse_store_errors_total"]
	g.eventually("the store's end shows", func() bool {
		values := g.measured()
		return values["gatehouse_store_up"] == 0 && values["gatehouse_ready"] == 0 && values["gatehouse_store_errors_total"] > before
	})
}

// TestK7NoLabelComesFromAClient: names that a client makes up → no series and no label of theirs.
func TestK7NoLabelComesFromAClient(t *testing.T) {
	g := startPeople(t)
	const mark = "m4rk"
	flood := func(from int) (series int) {
		for i := from; i < from+15; i++ {
			own := mark + strconv.Itoa(i)
			for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect", "/oauth/" + own, "/api/" + own, "/pub/" + own, "/oauth/authorize?prompt=" + own} {
				if strings.HasPrefix(path, "/oauth/") { // behind reverse_proxy, Caddy's access log and its transport race for a body
					g.post(path, url.Values{"grant_type": {own}, "client_id": {own}, "client_secret": {own}, "token": {own}, "scope": {own}, "email": {own}, "password": {own}})
				}
				g.do(own, path, "", "Authorization", "Bearer "+own)
			}
		}
		for name := range g.measured() {
			if strings.Contains(name, "_total") {
				series++
			}
		}
		return series
	}
	once, twice := flood(0), flood(15)
	if text := ours(g.scrape()); strings.Contains(text, mark) {
		t.Errorf("a client's word is in the metrics:\n%s", text)
	}
	if once != twice {
		t.Errorf("other words made %d series out of %d", twice, once)
	}
}

// ours returns the lines of our metrics.
func ours(text string) string {
	lines := slices.Collect(strings.Lines(text))
	return strings.Join(slices.DeleteFunc(lines, func(line string) bool { return !strings.Contains(line, "gatehouse_") }), "")
}
