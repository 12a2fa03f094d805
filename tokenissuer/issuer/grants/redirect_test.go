package grants_test

import (
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
)

func TestWhatAPersonIsToldOfTheTarget(t *testing.T) {
	f := newFlow(t)
	for uri, want := range map[string][2]string{
		"http://127.0.0.1:5000/cb": {"127.0.0.1:5000", "http://127.0.0.1:5000"}, "http://[::1]:5000/cb": {"[::1]:5000", "http://[::1]:5000"}, "com.example.app:/cb": {"com.example.app", "com.example.app:"},
	} {
		_, target, err := f.ResolveRedirect(t.Context(), "nat", uri, "")
		f.must(err)
		if target.Host() != want[0] || target.Origin() != want[1] {
			t.Errorf("%s: %q, %q", uri, target.Host(), target.Origin())
		}
	}
	if target := f.target("conf"); target.Host() != "client.example" || target.Origin() != "https://client.example" {
		t.Errorf("%q, %q", target.Host(), target.Origin())
	}
}

// TestQ221SchemesHaveNoHost: `cursor://claude.ai/cb` → the page names the scheme and never the host.
func TestQ221SchemesHaveNoHost(t *testing.T) {
	f := newFlow(t)
	_, target, err := f.ResolveRedirect(t.Context(), "nat", "cursor://claude.ai/cb", "")
	f.must(err)
	if target.Host() != "cursor" || target.Origin() != "cursor:" || !target.IsOnDevice() {
		t.Errorf("people are told %q", target.Host())
	}
}

func (f *flow) target(clientID string) issuer.RedirectTarget {
	f.tb.Helper()
	_, target, err := f.ResolveRedirect(f.tb.Context(), clientID, "", "")
	f.must(err)
	return target
}
