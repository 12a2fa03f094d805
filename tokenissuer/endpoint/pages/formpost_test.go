package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestT186TheScriptOfAFormPostIsTheOneOfItsPolicy: a browser that runs scripts runs this one and no other.
func TestT186TheScriptOfAFormPostIsTheOneOfItsPolicy(t *testing.T) {
	p := open(t, Settings{})
	scripts := parse(t, render(t, p, "en", samples(harmless)["formpost"])).all("script")
	if len(scripts) != 1 || len(scripts[0].Attr) > 0 {
		t.Fatalf("%d scripts", len(scripts))
	}
	digest := sha256.Sum256([]byte(scripts[0].FirstChild.Data))
	want := p.policy + " https://app.example https:; script-src 'sha256-" + base64.StdEncoding.EncodeToString(digest[:]) + "'"
	if got := p.PolicyOf(samples(harmless)["formpost"], "https://app.example"); got != want {
		t.Errorf("policy %q, want %q", got, want)
	}
	if strings.Contains(p.ContentSecurityPolicy("https://app.example"), "script-src") {
		t.Error("other pages may run it too")
	}
}

// FuzzFormPost: for any answer, the page has the same elements, and the form goes to the registered address byte for byte and carries the
// fields as given.
func FuzzFormPost(f *testing.F) {
	for _, value := range append(markup, naughty...) {
		f.Add("https://app.example/cb", value)
		f.Add("https://app.example/cb?x="+value, "state")
	}
	p := open(f, Settings{})
	want := shape(parse(f, render(f, p, "en", FormPost{URI: "https://app.example/cb", Fields: []Field{{"state", "x"}}})))
	asRead := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "\ufffd")
	f.Fuzz(func(t *testing.T, uri, state string) {
		if !utf8.ValidString(uri) || !utf8.ValidString(state) {
			return // neither is ever registered or accepted
		}
		d := parse(t, render(t, p, "en", FormPost{URI: uri, Fields: []Field{{"state", state}}}))
		if got := shape(d); strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Fatalf("%q and %q made\n%s", uri, state, strings.Join(got, "\n"))
		}
		if got, _ := attr(d.all("form")[0], "action"); got != asRead.Replace(uri) {
			t.Errorf("action %q, want %q", got, uri)
		}
		if got, _ := attr(d.find(t, "name", "state"), "value"); got != asRead.Replace(state) {
			t.Errorf("state %q, want %q", got, state)
		}
	})
}
