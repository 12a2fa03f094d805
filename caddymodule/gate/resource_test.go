package gate

import (
	"slices"
	"testing"
)

func TestWhatATokenForARouteMayBeFor(t *testing.T) {
	var p Protect
	if got := p.Accepted(); got != nil {
		t.Errorf("before the routes are known: %q", got)
	}
	p.Accept([]NamedResource{
		{Host: "a.example", Resources: []string{"https://a.example/one", "https://a.example/two"}}, {Host: "b.example", Resources: []string{"https://a.example/one", "https://b.example"}},
	}, nil)
	if got := p.Accepted(); !slices.Equal(got, []string{"https://a.example/one", "https://a.example/two", "https://b.example"}) {
		t.Errorf("%q", got)
	}
}
