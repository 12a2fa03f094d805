package issuer

import (
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// FuzzStateRoundTrip: one decoding of the answer returns the original state, for any URI. Nothing else in the answer depends on it.
func FuzzStateRoundTrip(f *testing.F) {
	for _, state := range []string{"", "a", "a b+c%20&code=evil#f", "\r\nSet-Cookie: x", "\x00", "🚪", "\xff\xfe", strings.Repeat("=", 100), "iss=https://evil.tld", "<script>"} {
		f.Add(state, "the-code", "https://client.example/cb?x=1")
		f.Add(state, "c", "https://client.example/cb")
		f.Add(state, "c", "com.example.app:/cb?")
	}
	f.Fuzz(func(t *testing.T, state, code, uri string) {
		if oauth.CheckRedirectURI(uri) != nil || code == "" {
			return
		}
		_, before, _ := strings.Cut(uri, "?")
		location := RedirectTarget{uri: uri, issuer: tokentest.Issuer}.WithState(state).Code(oauth.NewSecret(code)).Location
		added, kept := strings.CutPrefix(location, uri)
		if !kept || strings.ContainsFunc(added, func(r rune) bool { return r <= ' ' || r >= 0x7f || strings.ContainsRune(`"<>\^{|}#`, r) }) {
			t.Fatalf("%q", location)
		}
		query, err := url.ParseQuery(strings.TrimLeft(added, "?&"))
		if err != nil {
			t.Fatalf("%q: %v", location, err)
		}
		wanted := 2
		if state != "" {
			wanted = 3
		}
		if len(query) != wanted || query.Get("state") != state || query.Get("code") != code || query.Get("iss") != tokentest.Issuer || len(query["code"]) != 1 || len(query["iss"]) != 1 {
			t.Fatalf("%q holds %v", location, query)
		}
		// The URI's own query is unchanged.
		if _, after, _ := strings.Cut(location, "?"); !strings.HasPrefix(after, before) {
			t.Fatalf("%q was %q", after, before)
		}
	})
}
