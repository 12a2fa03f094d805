package grants

import (
	"context"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// FuzzRedirectURIMatch: an accepted URI is registered byte for byte, or differs only in the port on a loopback literal or localhost of a
// native client.
func FuzzRedirectURIMatch(f *testing.F) {
	registered := []string{"https://client.example/cb?x=1", "http://127.0.0.1/cb", "http://[::1]/cb", "com.example.app:/cb", "http://localhost:8080/cb", "http://127.0.0.1:9000/fixed", "http://127.0.0.1"}
	for _, uri := range append(slices.Clone(registered),
		"http://127.0.0.1:53123/cb", "http://[::1]:53123/cb", "http://127.0.0.1:/cb", "http://127.0.0.1:080/cb", "http://127.0.0.1:65536/cb", "http://127.0.0.1:1@evil.tld/cb", "http://127.0.0.1.evil.tld/cb",
		"http://u@127.0.0.1:1/cb", "https://client.example:443/cb?x=1", "http://localhost:1/cb", "http://localhost/cb", "http://localhost:/cb", "http://LOCALHOST:1/cb", "http://localhost.:1/cb", "http://localhost.evil.tld/cb", "http://localhost@evil.tld/cb", "http://127.0.0.1:9001/fixed", "http://127.0.0.1:1", "http://127.0.0.1:1?a", "http://127.0.0.1:1#", `http://127.0.0.1\@evil.tld/cb`, "//evil.tld", "",
	) {
		f.Add(uri, true)
		f.Add(uri, false)
	}
	f.Fuzz(func(t *testing.T, uri string, native bool) {
		c := &store.Client{Type: store.PublicClient, RedirectURIs: registered}
		if native {
			c.Type = store.NativeClient
		}
		if !c.HasRedirectURI(uri) || slices.Contains(registered, uri) {
			return
		}
		if !native {
			t.Fatalf("%q is accepted for a client that is not native", uri)
		}
		if !slices.ContainsFunc(registered, func(r string) bool { return withoutLoopbackPort(t, r) == withoutLoopbackPort(t, uri) }) {
			t.Fatalf("%q is accepted", uri)
		}
	})
}

// withoutLoopbackPort removes the port from a URI with net/url. It fails for a URI that is not on a loopback literal. A URI registered
// elsewhere is unchanged and equals nothing.
func withoutLoopbackPort(t *testing.T, uri string) string {
	t.Helper()
	u, err := url.Parse(uri)
	if err != nil {
		t.Fatalf("%q is accepted, and is no URI: %v", uri, err)
	}
	if u.Scheme != "http" || u.Hostname() != "127.0.0.1" && u.Hostname() != "::1" && u.Hostname() != "localhost" || u.User != nil {
		return "elsewhere " + uri
	}
	host, port := u.Host, u.Port()
	if port == "" {
		return uri
	}
	return strings.Replace(uri, host, strings.TrimSuffix(host, ":"+port), 1)
}

// sealedRequest is a request sealed at tokentest.Start under testMaster for the browser "browser". Every seal is different, and the
// processes of a fuzzer must agree on this one.
const sealedRequest = "ZZrPcqEYIdHrhMQaxgfvzydFQo4qlDP5q0XmkBawTyGl31Rr3hX7SIgTF2o9MyDueS_Ze9AEujt78AwHdQNg24q88Niidy_APy18" +
	"HmV5BmRlGVLW8zRPphYZkHQccFG7oa-AijEVWwHbnXwttAz1OctGSUeHP77GrROujAC2QsrzGLceu_ACyOcSko5qvfp4ixRbxjgT" +
	"JBr2JtI2IDlpWHWxvQ0xQ_RCgKsLP5PvAa9eB_wcYo67jZI1PE7QfBMFrRwr7LMRGP0bfzoZJjR7M829zZBSHP3VsGokBMovq5fk" +
	"5-HtgJifhR9u4_o"

// FuzzSealedRequest: only a value sealed here for this browser opens, and it opens to what was sealed.
func FuzzSealedRequest(f *testing.F) {
	a := newAuthority(f)
	client := *a.client("conf")
	client.RedirectURIs = []string{"https://client.example/cb"}
	a.directory.put(&client)
	request := issuer.AuthorizationRequest{ID: "r", ClientID: "conf", RedirectURI: client.RedirectURIs[0], State: "s", Scopes: oauth.Scopes{oauth.ScopePublic}, At: tokentest.Start}
	back, err := a.SealProviderSignOut("/oauth/account", "corp", oauth.NewSecret("browser"))
	if err != nil {
		f.Fatal(err)
	}
	for _, text := range []string{sealedRequest, back.Reveal(), sealedRequest + "=", sealedRequest[:20], "", "AAAA", strings.Repeat("A", 200), "{}", sealedRequest + "\n"} {
		for _, browser := range []string{"browser", "another", ""} {
			f.Add(text, browser, "state")
		}
	}
	f.Fuzz(func(t *testing.T, text, browser, state string) {
		ctx := context.Background()
		got, _, _, err := a.OpenRequest(ctx, oauth.NewSecret(text), oauth.NewSecret(browser))
		if (err == nil) != (text == sealedRequest && browser == "browser") {
			t.Fatalf("%q for %q: %+v, %v", text, browser, got, err)
		}
		if err != nil && oauth.AsError(err).Code != oauth.InvalidRequest {
			t.Fatalf("%v", err)
		}
		changed := request
		changed.State = state
		sealed, err := a.SealRequest(&changed, oauth.NewSecret(browser))
		if err != nil { // a state that is not UTF-8 is refused earlier
			return
		}
		opened, _, _, err := a.OpenRequest(ctx, sealed, oauth.NewSecret(browser))
		if browser == "" {
			if err == nil {
				t.Fatal("it opens for no browser")
			}
			return
		}
		if err != nil || opened.State != state || opened.ID != "r" || !slices.Equal(opened.Scopes, request.Scopes) {
			t.Fatalf("%+v, %v", opened, err)
		}
		if _, _, _, err := a.OpenRequest(ctx, sealed, oauth.NewSecret(browser+"x")); err == nil {
			t.Fatal("it opens for another browser")
		}
		if reopened, _, _, err := a.ReopenRequest(ctx, sealed); err != nil || reopened.ID != "" || reopened.State != state {
			t.Fatalf("reopened: %+v, %v", reopened, err)
		}
	})
}

// FuzzRefreshToken: only a text that we could have issued is accepted, and it names what was issued.
func FuzzRefreshToken(f *testing.F) {
	m := testMaster(f)
	id := strings.Repeat("f", oauth.IDLength)
	for _, generation := range []int64{1, 2, 61, 62, 1 << 33} {
		good := m.RefreshToken(id, generation).Reveal()
		for _, text := range []string{good, good[1:], good + "0", strings.ToLower(good), strings.Repeat("0", len(good)), m.Code(id).Reveal()} {
			f.Add(text, generation)
		}
	}
	f.Add("", int64(0))
	f.Add(strings.Repeat("\xff", len(m.RefreshToken(id, 1).Reveal())), int64(-1))
	f.Fuzz(func(t *testing.T, text string, generation int64) {
		named, got, genuine := m.ReadRefreshToken(oauth.NewSecret(text))
		if genuine && m.RefreshToken(named, got).Reveal() != text {
			t.Fatalf("%q is taken for generation %d of %q", text, got, named)
		}
		if len(named) > oauth.IDLength || got < 0 || !genuine && got != 0 {
			t.Fatalf("%q names %q, %d", text, named, got)
		}
		if generation < 0 || generation >= 62*62*62*62*62*62 {
			return
		}
		again, back, genuine := m.ReadRefreshToken(m.RefreshToken(id, generation))
		if again != id || back != generation || !genuine {
			t.Fatalf("generation %d reads back as %d of %q, %v", generation, back, again, genuine)
		}
	})
}

// FuzzCode: the same holds for codes and session cookies, and neither is accepted as the other.
func FuzzCode(f *testing.F) {
	m := testMaster(f)
	id := strings.Repeat("f", oauth.IDLength)
	for _, text := range []string{m.Code(id).Reveal(), m.Session(id).Reveal(), m.RefreshToken(id, 1).Reveal(), m.Code(id).Reveal() + "0", "", strings.Repeat("0", len(m.Code(id).Reveal())), strings.Repeat("\x00", len(m.Code(id).Reveal()))} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		code, isCode := m.ReadCode(oauth.NewSecret(text))
		session, isSession := m.ReadSession(oauth.NewSecret(text))
		if isCode && (m.Code(code).Reveal() != text || isSession) || isSession && m.Session(session).Reveal() != text {
			t.Fatalf("%q is taken", text)
		}
		if len(code) > oauth.IDLength || len(session) > oauth.IDLength {
			t.Fatalf("%q names %q and %q", text, code, session)
		}
	})
}
