package pages

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

func TestLogoIsEmbedded(t *testing.T) {
	for _, test := range []struct {
		name, media string
		data        []byte
	}{
		{"png", "image/png", []byte("\x89PNG\r\n\x1a\nrest")},
		{"jpeg", "image/jpeg", []byte("\xff\xd8\xff\xe0rest")},
		{"webp", "image/webp", []byte("RIFF\x04\x00\x00\x00WEBPVP8 ")},
		{"svg", "image/svg+xml", append([]byte(`<?xml version="1.0"?><!-- ours -->`), svg...)},
		{"as large as it may be", "image/png", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxLogo-8)...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := open(t, Settings{Logo: &Logo{MediaType: test.media, Data: test.data}})
			image := parse(t, render(t, p, "en", SignIn{})).all("img")
			if len(image) != 1 {
				t.Fatalf("%d images", len(image))
			}
			source, _ := attr(image[0], "src")
			data, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(source, "data:"+test.media+";base64,"))
			if err != nil || !bytes.Equal(data, test.data) {
				t.Errorf("source %.80q: %v", source, err)
			}
			if alt, has := attr(image[0], "alt"); !has || alt != "" {
				t.Error("the name, which stands beside it, is said twice")
			}
		})
	}
}

// TestU13LogoThatIsNoPictureIsRefused: a script or a page as logo, under any media type, or more than 64 KiB → refused.
func TestU13LogoThatIsNoPictureIsRefused(t *testing.T) {
	for _, test := range []struct {
		name, media string
		data        []byte
		want        string
	}{
		{"other type", "image/gif", []byte("GIF89a"), `logo: media type "image/gif": use image/png`},
		{"script", "image/svg+xml", []byte("alert(document.cookie)"), "logo: the file is no image/svg+xml"},
		{"script by its type", "text/javascript", []byte("alert(1)"), `logo: media type "text/javascript"`},
		{"page as a picture", "image/png", []byte("<script>alert(1)</script>"), "logo: the file is no image/png"},
		{"page", "text/html", []byte("<p>"), `logo: media type "text/html"`},
		{"parameter", "image/png;x", []byte("\x89PNG\r\n\x1a\n"), "logo: media type"},
		{"no type", "", svg, "logo: media type"},
		{"too large", "image/png", append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, maxLogo)...), "logo: 65544 bytes are too many"},
		{"empty", "image/png", nil, "logo: the file is no image/png"},
		{"something else", "image/jpeg", []byte("\x89PNG\r\n\x1a\n"), "logo: the file is no image/jpeg"},
		{"short webp", "image/webp", []byte("RIFF"), "logo: the file is no image/webp"},
		{"markup that is no svg", "image/svg+xml", []byte("<html><svg/></html>"), "logo: the file is no image/svg+xml"},
		{"broken svg", "image/svg+xml", []byte("<svg>"), "logo: the file is no image/svg+xml"},
		{"no markup", "image/svg+xml", []byte("svg"), "logo: the file is no image/svg+xml"},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := New(Settings{Logo: &Logo{MediaType: test.media, Data: test.data}})
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("%v, want %s", err, test.want)
			}
		})
	}
}

// TestU14AnSVGWithAScriptIsOnlyAPicture: an SVG with a script, event handlers or foreign HTML → an img with a data URL, under a policy
// without scripts, and nothing of it is markup of the page.
func TestU14AnSVGWithAScriptIsOnlyAPicture(t *testing.T) {
	plain := shape(parse(t, render(t, open(t, Settings{Logo: &Logo{MediaType: "image/svg+xml", Data: svg}}), "en", SignIn{})))
	for _, inside := range []string{
		"<script>alert(1)</script>", `<script href="https://evil.example/x.js"/>`, `<a href="javascript:alert(1)"><path/></a>`, `<animate onbegin="alert(1)"/>`,
		`<foreignObject><body xmlns="http://www.w3.org/1999/xhtml"><form action="https://evil.example"><input name="password"/></form></body></foreignObject>`,
		`<image href="https://evil.example/seen.png"/>`, `<style>@import url(https://evil.example/x.css);</style>`, "<!-- --><script>alert(1)</script>",
	} {
		p := open(t, Settings{Logo: &Logo{MediaType: "image/svg+xml", Data: []byte(`<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)">` + inside + "</svg>")}})
		page := render(t, p, "en", SignIn{})
		d := parse(t, page)
		source, _ := attr(d.all("img")[0], "src")
		if got := shape(d); len(got) != len(plain) || !strings.HasPrefix(source, "data:image/svg+xml;base64,") || strings.Contains(page, "evil.example") || strings.Contains(page, "alert") {
			t.Errorf("%s: %s", inside, strings.Join(got, "\n"))
		}
		holdsNoCode(t, inside, d)
		if policy := directives(p.ContentSecurityPolicy()); policy["default-src"] != "'none'" || policy["script-src"] != "" || policy["img-src"] != "data:" {
			t.Errorf("policy %q", policy)
		}
	}
}
