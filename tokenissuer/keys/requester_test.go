package keys

import "testing"

// TestT131WhatMakesAnotherRequester: a refresh repeated by an updated browser or program → the same; by another one, or from another address →
// named as such.
func TestT131WhatMakesAnotherRequester(t *testing.T) {
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"
	k := new(MasterKey)
	k.derived[requesters] = []byte("a key of the tests")
	digest := func(address, agent string) string {
		return k.RequesterDigest("family", address, UserAgentFamily(agent))
	}
	for _, c := range []struct{ address, agent, otherAddress, otherAgent, want string }{
		{"a", chrome, "a", chrome, ""},
		{"a", chrome, "a", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/121.0.3 Safari/537.36", ""},
		{"a", chrome, "b", chrome, "another address"},
		{"a", chrome, "a", "Mozilla/5.0 (X11; rv:120.0) Gecko/20100101 Firefox/120.0", "another user agent"},
		{"a", chrome, "a", "curl/8.1", "another user agent"},
		{"a", "okhttp/4.1", "b", "curl/8.1", "another address and user agent"},
		{"a", "okhttp/4.1", "a", "okhttp/5.0", ""},
		{"a", " ", "a", " ", ""},
		{"a", "App/1.2 (iPhone; 17.1 (a)) CFNetwork/1 Darwin/23.1", "a", "App/2 (iPad) CFNetwork/1494 Darwin/24", ""},
		{"a", "tool v1.2-beta", "a", "tool v1.3", ""},
	} {
		if got := Elsewhere(digest(c.address, c.agent), digest(c.otherAddress, c.otherAgent)); got != c.want {
			t.Errorf("%q and %q: %q, want %q", c.agent, c.otherAgent, got, c.want)
		}
	}
	if digest("a", "x") == k.RequesterDigest("another family", "a", UserAgentFamily("x")) {
		t.Error("two families have one digest")
	}
}
