package tokenissuer_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestA6ToA41RedirectURIsThatAreNotTheClients: every spelling that is not the registered one, byte for byte, is refused,
// and there is no target to which anything could be sent.
func TestA6ToA41RedirectURIsThatAreNotTheClients(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "local", Type: store.NativeClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{
		"http://localhost:8080/cb", "http://localhost/cb", "https://127.0.0.1/tls", "http://127.0.0.1:9000/fixed",
	}})
	f.addClient(&store.Client{ID: "web", Type: store.PublicClient, RedirectURIs: []string{"http://127.0.0.1/cb", "http://[::1]/cb", "http://localhost:8080/cb"}})
	f.addClient(&store.Client{ID: "second", Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{"https://second.example/cb"}})
	for _, v := range []struct {
		row, client string
		uris        []string
	}{
		{"A6", "conf", []string{callback + "/", "https://client.example/cb/?x=1"}},
		{"A7", "conf", []string{"https://client.example/cb/extra?x=1", "https://client.example/cbX?x=1", "https://client.example/cb"}},
		{"A8", "conf", []string{"https://client.example/CB?x=1", "https://client.example/%63b?x=1"}},
		{"A9", "conf", []string{"https://CLIENT.example/cb?x=1", "HTTPS://client.example/cb?x=1"}},
		{"A10", "conf", []string{"http://client.example/cb?x=1"}},
		{"A11", "conf", []string{"https://client.example:443/cb?x=1", "https://client.example:8443/cb?x=1", "https://client.example:/cb?x=1"}},
		{"A12", "conf", []string{"https://client.example@evil.tld/cb?x=1"}},
		{"A13", "conf", []string{"https://evil@client.example/cb?x=1", "https://:@client.example/cb?x=1"}},
		{"A14", "conf", []string{`https://client.example\@evil.tld/cb`, `https:\\client.example\cb?x=1`}},
		{"A15", "conf", []string{callback + "#frag", callback + "#", callback + "%23"}},
		{"A16", "conf", []string{"https://client.example/cb/../evil?x=1", "https://client.example/x/../cb?x=1", "https://client.example/./cb?x=1"}},
		{"A17", "conf", []string{"https://client.example/cb/%2e%2e/?x=1", "https://client.example/cb%2f?x=1", "https://client.example/cb%252f?x=1"}},
		{"A18", "conf", []string{"https://client.example/cb;p=1?x=1"}},
		{"A19", "conf", []string{callback + "&y=2", "https://client.example/cb?x=2", "https://client.example/cb?", "https://client.example/cb?&x=1", callback + "&"}},
		{"A20", "conf", []string{callback + "&code=AAA&state=BBB"}},
		{"A21", "conf", []string{callback + "\t", callback + "\n", callback + "\r", callback + "\x00", callback + "%0d%0aSet-Cookie:x", "https://client.example/\r\ncb?x=1"}},
		{"A22", "conf", []string{" " + callback, callback + " "}},
		{"A23", "conf", []string{"https://client.example./cb?x=1"}},
		{"A24", "conf", []string{"https://cl\u0456ent.example/cb?x=1", "https://xn--clent-n2a.example/cb?x=1", "https://client\u3002example/cb?x=1", "https://ｃlient.example/cb?x=1"}},
		{"A25", "conf", []string{"https://client.example.evil.tld/cb?x=1", "https://evilclient.example/cb?x=1", "https://sub.client.example/cb?x=1"}},
		{"A26", "conf", []string{"//client.example/cb?x=1", "/cb?x=1", "cb", "https:client.example/cb?x=1", "https:///client.example/cb?x=1"}},
		{"A27", "conf", []string{"javascript:alert(1)", "data:text/html,x", "vbscript:x", "file:///cb", "blob:https://client.example/x"}},
		{"A28", "web", []string{"http://127.0.0.1:53123/cb"}},
		{"A29", "web", []string{"http://[::1]:53123/cb"}},
		{"A30", "nat", []string{"http://127.0.0.1:99999/cb", "http://127.0.0.1:0/cb", "http://127.0.0.1:abc/cb", "http://127.0.0.1:-1/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:+80/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:80:80/cb", "http://[::1]:/cb", "http://127.0.0.1:８０/cb"}},
		{"A31", "local", []string{"https://localhost:8080/cb", "http://LOCALHOST/cb", "http://LOCALHOST:1/cb", "http://localhost.:1/cb", "http://localhost.evil.tld/cb", "http://localhost:1@evil.tld/cb", "http://localhost:0/cb", "http://localhost:1/cb/", "http://app.localhost/cb"}},
		{"A31", "web", []string{"http://localhost:3000/cb", "http://localhost/cb"}},
		{"A31", "nat", []string{"http://localhost/cb", "http://localhost:1/cb"}},
		{"A32", "nat", []string{"http://127.1/cb", "http://0x7f.1/cb", "http://2130706433/cb", "http://127.000.000.001/cb", "http://[::ffff:127.0.0.1]/cb", "http://[0:0:0:0:0:0:0:1]/cb", "http://127.0.0.2/cb", "http://127.0.0.1.evil.tld/cb", "http://[::1%25lo]/cb"}},
		{"A33", "nat", []string{"http://u@127.0.0.1:1/cb", "http://127.0.0.1:80@evil.tld/cb", "http://127.0.0.1@evil.tld/cb", "http://127.0.0.1:1@127.0.0.1/cb"}},
		{"A34", "nat", []string{"http://127.0.0.1:1/Cb", "http://127.0.0.1:1/cb?z=1", "http://127.0.0.1:1/x/../cb", "http://127.0.0.1:1/cb#f", "http://127.0.0.1:1", "http://127.0.0.1:1/", `http://127.0.0.1:1\cb`}},
		{"A35", "nat", []string{"https://127.0.0.1/cb", "https://127.0.0.1:1/cb"}},
		{"A35", "local", []string{"https://127.0.0.1:1/tls"}},
		{"A36", "nat", []string{"COM.example.app:/cb", "com.example.app://cb", "com.example.app:cb", "com.example.app:/cb/"}},
		{"A37", "nat", []string{"urn:ietf:wg:oauth:2.0:oob", "urn:ietf:wg:oauth:2.0:oob:auto"}},
		{"A38", "conf", []string{callback + strings.Repeat("a", 8<<10), callback + "\xff", "https%253A%252F%252Fclient.example%252Fcb", url.QueryEscape(callback)}},
		{"A39", "conf", []string{"//evil.tld", "///evil.tld", `/\evil.tld`, "https:evil.tld", "https://evil.tld/" + callback, callback + "@evil.tld", "https://evil.tld?" + callback, "https://evil.tld#" + callback}},
		{"A40", "conf", []string{"https://second.example/cb", "http://127.0.0.1/cb"}},
	} {
		t.Run(v.row+" "+v.client, func(t *testing.T) {
			for _, uri := range v.uris {
				_, target, err := f.ResolveRedirect(t.Context(), v.client, uri)
				if err == nil {
					t.Errorf("%q is accepted", uri)
				} else if oauth.AsError(err).Code != oauth.InvalidRequest || target != (RedirectTarget{}) {
					t.Errorf("%q: %v, %+v", uri, err, target)
				}
			}
		})
	}
}

func TestA28A29RedirectURIsThatAreTheClients(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "fixed", Type: store.NativeClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{
		"http://localhost:8080/cb", "http://127.0.0.1:9000/fixed", "http://127.0.0.1", "http://[::1]?a=b",
	}})
	for _, v := range []struct{ client, uri string }{
		{"conf", callback}, {"pub", callback}, {"conf", ""},
		{"nat", "http://127.0.0.1/cb"}, {"nat", "http://127.0.0.1:53123/cb"}, {"nat", "http://127.0.0.1:1/cb"}, {"nat", "http://127.0.0.1:65535/cb"},
		{"nat", "http://[::1]/cb"}, {"nat", "http://[::1]:53123/cb"}, {"nat", "com.example.app:/cb"},
		{"fixed", "http://localhost:8080/cb"}, {"fixed", "http://localhost:1/cb"}, {"fixed", "http://localhost/cb"}, {"fixed", "http://127.0.0.1:9001/fixed"}, {"fixed", "http://127.0.0.1/fixed"},
		{"fixed", "http://127.0.0.1:53123"}, {"fixed", "http://[::1]:80?a=b"},
	} {
		client, target, err := f.ResolveRedirect(t.Context(), v.client, v.uri)
		if err != nil || client.ID != v.client {
			t.Errorf("%s %q: %v", v.client, v.uri, err)
			continue
		}
		want := v.uri
		if want == "" {
			want = callback
		}
		if got := target.Code(oauth.NewSecret("c")); !strings.HasPrefix(got, want) {
			t.Errorf("%q leads to %q", v.uri, got)
		}
	}
}

func TestA1ToA5ClientsThatAreNone(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "several", Type: store.PublicClient, RedirectURIs: []string{callback, "https://client.example/second"}})
	f.addClient(&store.Client{ID: "none", Type: store.PublicClient, RedirectURIs: []string{}})
	f.addClient(&store.Client{ID: "off"})
	f.must(f.registry.DisableClient(t.Context(), "off"))
	var descriptions []string
	for _, v := range []struct{ row, client, uri string }{
		{"A3", "off", callback}, {"A2", "unknown", callback}, {"A1", "", callback}, {"A2", "CONF", callback}, {"A2", "conf ", callback}, {"A2", "u-ada", callback},
		{"A2", store.BuiltInClientID, callback}, {"A2", "https://client.example/metadata", callback}, {"A4", "several", ""}, {"A41", "none", ""}, {"A41", "none", callback},
	} {
		_, target, err := f.ResolveRedirect(t.Context(), v.client, v.uri)
		if err == nil || oauth.AsError(err).Code != oauth.InvalidRequest || target != (RedirectTarget{}) {
			t.Errorf("%s %q: %v", v.row, v.client, err)
			continue
		}
		descriptions = append(descriptions, oauth.AsError(err).Error()+oauth.AsError(err).Description)
	}
	if descriptions[0] != descriptions[1] {
		t.Errorf("a disabled client is told from an unknown one: %q", descriptions[:2])
	}
	f.store.fail("Client", false)
	_, _, err := f.ResolveRedirect(t.Context(), "conf", callback)
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestA52ToA56TheAnswerKeepsWhatTheClientSent: state comes back as it was, once decoded; the URI's own query stays; code,
// state and iss are there exactly once.
func TestA52ToA56TheAnswerKeepsWhatTheClientSent(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "queries", Grants: []oauth.GrantType{oauth.AuthorizationCode}, RedirectURIs: []string{
		callback, "https://client.example/bare", "https://client.example/empty?", "https://client.example/odd?a=%20+&b&c=%2Fx",
	}})
	var printable strings.Builder
	for c := ' '; c <= '~'; c++ {
		printable.WriteRune(c)
	}
	for _, uri := range f.client("queries").RedirectURIs {
		for name, state := range map[string]string{
			"A52 printable": printable.String(), "A52 emoji": "🚪 naïve \u2028", "A52 long": strings.Repeat("&=#%+ ", 700), "A53 line break": "a\r\nSet-Cookie: x", "A53 NUL": "a\x00b", "A54 empty": "",
		} {
			_, target, err := f.ResolveRedirect(t.Context(), "queries", uri)
			f.must(err)
			target = target.WithState(state)
			for kind, location := range map[string]string{"code": target.Code(oauth.NewSecret("the-code")), "error": target.Error("access_denied", "It was denied.")} {
				if strings.ContainsAny(location, "\r\n\x00 \"<>") {
					t.Fatalf("%s: raw in %q", name, location)
				}
				u, err := url.Parse(location)
				f.must(err)
				_, query, _ := strings.Cut(uri, "?")
				before, err := url.ParseQuery(query)
				f.must(err)
				got := u.Query()
				if !strings.HasPrefix(location, uri) || u.Fragment != "" || len(got["iss"]) != 1 || got.Get("iss") != tokentest.Issuer || len(got[kind]) != 1 {
					t.Errorf("%s: %q", name, location)
				}
				if got.Has("state") != (state != "") || got.Get("state") != state || len(got["state"]) > 1 {
					t.Errorf("%s: state %q came back as %q", name, state, got["state"])
				}
				for own := range before {
					if !slices.Equal(got[own], before[own]) {
						t.Errorf("%s: %s of the URI's own query is %q", name, own, got[own])
					}
				}
			}
		}
	}
	if got := f.target("conf").Code(oauth.NewSecret("C")); got != callback+"&code=C&iss="+url.QueryEscape(tokentest.Issuer) {
		t.Errorf("%q", got)
	}
	if got := f.target("conf").WithState("s").Error("access_denied", "No, no."); got != callback+"&error=access_denied&error_description=No%2C%20no.&state=s&iss="+url.QueryEscape(tokentest.Issuer) {
		t.Errorf("%q", got)
	}
}

func TestWhatAPersonIsToldOfTheTarget(t *testing.T) {
	f := newFlow(t)
	for uri, want := range map[string][2]string{
		"http://127.0.0.1:5000/cb": {"127.0.0.1:5000", "http://127.0.0.1:5000"}, "http://[::1]:5000/cb": {"[::1]:5000", "http://[::1]:5000"}, "com.example.app:/cb": {"com.example.app", "com.example.app:"},
	} {
		_, target, err := f.ResolveRedirect(t.Context(), "nat", uri)
		f.must(err)
		if target.Host() != want[0] || target.Origin() != want[1] {
			t.Errorf("%s: %q, %q", uri, target.Host(), target.Origin())
		}
	}
	if target := f.target("conf"); target.Host() != "client.example" || target.Origin() != "https://client.example" {
		t.Errorf("%q, %q", target.Host(), target.Origin())
	}
}

func (f *flow) target(clientID string) RedirectTarget {
	f.tb.Helper()
	_, target, err := f.ResolveRedirect(f.tb.Context(), clientID, "")
	f.must(err)
	return target
}
