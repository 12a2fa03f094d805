package pages

import (
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"testing"
)

var svg = []byte(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 1 1"><path d="M0 0h1v1z"/></svg>`)

// directives returns the directives of a policy by name.
func directives(policy string) map[string]string {
	parts := make(map[string]string)
	for directive := range strings.SplitSeq(policy, "; ") {
		name, value, _ := strings.Cut(directive, " ")
		parts[name] = value
	}
	return parts
}

func TestA68NobodyMayFrameThePages(t *testing.T) {
	policy := open(t, Settings{}).ContentSecurityPolicy("https://app.example")
	if got := directives(policy)["frame-ancestors"]; got != "'none'" {
		t.Errorf("frame-ancestors %s", got)
	}
}

// TestA69PolicyKnowsTheStyleAndAllowsNothingElse: what a page has inside is what its policy lets through.
func TestA69PolicyKnowsTheStyleAndAllowsNothingElse(t *testing.T) {
	for name, b := range map[string]Settings{"plain": {}, "colours": {Accent: &Colours{"a33c00", "ffb694"}}, "logo": {Logo: &Logo{MediaType: "image/svg+xml", Data: svg}}} {
		t.Run(name, func(t *testing.T) {
			p := open(t, b)
			policy := directives(p.ContentSecurityPolicy())
			want := map[string]string{
				"default-src": "'none'", "base-uri": "'none'", "frame-ancestors": "'none'", "form-action": "'self'",
				"img-src": "data:", "style-src": policy["style-src"],
			}
			for directive, value := range want {
				if policy[directive] != value {
					t.Errorf("%s is %q, want %q", directive, policy[directive], value)
				}
			}
			if len(policy) != len(want) {
				t.Errorf("policy %q", policy)
			}
			for name, page := range samples(harmless) {
				d := parse(t, render(t, p, "de", page))
				style := d.all("style")[0].FirstChild.Data
				digest := sha256.Sum256([]byte(style))
				own := directives(p.PolicyOf(page))
				if own["style-src"] != "'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'" {
					t.Errorf("%s: the style is not the one of the policy", name)
				}
				for directive, value := range want {
					if own[directive] != value && directive != "style-src" {
						t.Errorf("%s: %s is %q, want %q", name, directive, own[directive], value)
					}
				}
				holdsNoCode(t, name, d)
			}
		})
	}
}

// holdsNoCode fails for what the policy would block: scripts, event handlers and styles in attributes.
func holdsNoCode(t *testing.T, name string, d document) {
	t.Helper()
	for _, n := range d.elements {
		if n.Data == "script" && !mayHaveScript(name) {
			t.Errorf("%s has a script", name)
		}
		for _, a := range n.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				t.Errorf("%s: <%s> has an attribute %s", name, n.Data, a.Key)
			}
		}
	}
}

// mayHaveScript reports whether a sample is of the pages with a script.
func mayHaveScript(name string) bool { return name == "formpost" || strings.Contains(name, "passkey") }

// TestW66ThePolicyAllowsTheScriptOfPasskeys: each page that offers a passkey, or tells the browser about passkeys → it has one script, which
// its policy and no other page's policy allows.
func TestW66ThePolicyAllowsTheScriptOfPasskeys(t *testing.T) {
	p := open(t, Settings{})
	with := 0
	for name, page := range samples(harmless) {
		policy := directives(p.PolicyOf(page))
		scripts := parse(t, render(t, p, "fr", page)).all("script")
		if !mayHaveScript(name) {
			if len(scripts) > 0 || policy["script-src"] != "" {
				t.Errorf("%s: %d scripts, policy %q", name, len(scripts), policy["script-src"])
			}
			continue
		}
		with++
		if len(scripts) != 1 || len(scripts[0].Attr) > 0 {
			t.Fatalf("%s: %d scripts", name, len(scripts))
		}
		digest := sha256.Sum256([]byte(scripts[0].FirstChild.Data))
		if policy["script-src"] != "'sha256-"+base64.StdEncoding.EncodeToString(digest[:])+"'" {
			t.Errorf("%s: the script is not the one of the policy", name)
		}
	}
	if with < 6 {
		t.Errorf("%d pages have a script", with)
	}
}

func TestA69FormTargets(t *testing.T) {
	p := open(t, Settings{})
	for _, test := range []struct{ name, target, want string }{
		{"origin", "https://app.example.com", " https://app.example.com https:"},
		{"port", "https://app.example.com:8443", " https://app.example.com:8443 https:"},
		{"upper case", "HTTPS://App.Example.com", " https://app.example.com https:"},
		{"loopback", "http://127.0.0.1:53127", " http://127.0.0.1:53127 http:"},
		{"localhost", "http://localhost:3000", " http://localhost:3000 http:"},
		{"ipv6 has no expression of its own", "http://[::1]:53127", " http:"},
		{"private scheme", "com.example.app:", " com.example.app:"},
		{"empty", "", ""},
		{"path", "https://app.example.com/callback", ""},
		{"query", "https://app.example.com?x", ""},
		{"user", "https://user@app.example.com", ""},
		{"directive", "https://app.example.com; script-src *", ""},
		{"second source", "https://app.example.com https://evil.example", ""},
		{"comma", "https://app.example.com,default-src", ""},
		{"comma in the host", "https://a,b.example", ""},
		{"line break", "https://app.example.com\r\nSet-Cookie: a=b", ""},
		{"line break at the end", "https://app.example.com\n", ""},
		{"nul", "https://app\x00.example.com", ""},
		{"keyword", "'unsafe-inline'", ""},
		{"wildcard", "*", ""},
		{"wildcard host", "https://*.example.com", ""},
		{"wildcard port", "https://app.example.com:*", ""},
		{"no port", "https://app.example.com:", ""},
		{"no host", "https://", ""},
		{"any web site", "https:", ""},
		{"any web site without TLS", "HTTP:", ""},
		{"javascript", "javascript:", ""},
		{"data", "data:", ""},
		{"blob", "blob:", ""},
		{"scheme with a path", "com.example.app:/callback", ""},
		{"scheme with a directive", "com.example.app:; script-src *", ""},
		{"two schemes", "com.example.app:\nevil:", ""},
		{"other scheme with a host", "ftp://app.example.com", ""},
		{"not ASCII", "https://bücher.example", ""},
		{"not UTF-8", "https://\xff.example", ""},
		{"Kelvin sign", "https://\u212Aelvin.example", " https://kelvin.example https:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			want := p.policy + test.want
			if got := p.ContentSecurityPolicy(test.target); got != want {
				t.Errorf("%q", strings.TrimPrefix(got, p.policy))
			}
		})
	}
	got := p.ContentSecurityPolicy("https://a.example", "no target", "b.example:")
	if got != p.policy+" https://a.example https: b.example:" {
		t.Errorf("several: %q", got)
	}
}

// TestPagesBringTheirIcon: a browser without an icon requests /favicon.ico, which a protected site refuses.
func TestPagesBringTheirIcon(t *testing.T) {
	for _, test := range []struct {
		name, icon string
		brand      Settings
	}{
		{"our mark", "data:image/svg+xml,", Settings{}},
		{"an operator's brand", "data:,", Settings{Name: "Acme"}},
		{"an operator's logo", "data:,", Settings{Logo: &Logo{MediaType: "image/svg+xml", Data: svg}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			icon, _ := attr(parse(t, render(t, open(t, test.brand), "en", SignIn{})).find(t, "rel", "icon"), "href")
			kind, drawing, _ := strings.Cut(icon, ",")
			if kind+"," != test.icon {
				t.Fatalf("icon %q, want %s…", icon, test.icon)
			}
			if drawing, err := url.PathUnescape(drawing); err != nil || drawing != "" && !isSVG([]byte(drawing)) {
				t.Errorf("drawing %q: %v", drawing, err)
			}
		})
	}
}

// TestA90NothingIsLoaded: a page is complete and makes no requests that reveal that it was opened.
func TestA90NothingIsLoaded(t *testing.T) {
	p := open(t, Settings{Name: "Acme", Logo: &Logo{MediaType: "image/svg+xml", Data: svg}})
	loads := []string{"script", "iframe", "frame", "object", "embed", "audio", "video", "source", "base", "svg", "picture"}
	for name, page := range samples(harmless) {
		d := parse(t, render(t, p, "en", page))
		for _, n := range d.elements {
			if slices.Contains(loads, n.Data) && (n.Data != "script" || !mayHaveScript(name)) && (n.Data != "svg" || name != "console") { // its chart
				t.Errorf("%s has a <%s>", name, n.Data)
			}
			if href, _ := attr(n, "href"); n.Data == "link" && !strings.HasPrefix(href, "data:") {
				t.Errorf("%s: a <link> loads %s", name, href)
			}
			for _, a := range n.Attr {
				if a.Key == "srcset" || a.Key == "background" || a.Key == "ping" || a.Key == "src" && !strings.HasPrefix(a.Val, "data:") {
					t.Errorf("%s: <%s> loads %s", name, n.Data, a.Val)
				}
			}
		}
		if style := d.all("style")[0].FirstChild.Data; strings.Contains(style, "url(") || strings.Contains(style, "@import") {
			t.Errorf("%s: the style loads something", name)
		}
		if policy, _ := attr(d.find(t, "name", "referrer"), "content"); policy != "no-referrer" {
			t.Errorf("%s: referrer %q", name, policy)
		}
	}
}
