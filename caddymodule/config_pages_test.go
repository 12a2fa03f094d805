package caddymodule

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// refusedPages holds the invalid forms of `pages`.
var refusedPages = refusedBlock{
	adapted: []refusal{
		{`pages "Acme"`, `wrong argument count or unexpected line ending after 'Acme', at Caddyfile:3`},
		{"pages {\nname\n}", `wrong argument count or unexpected line ending after 'name', at Caddyfile:4`},
		{"pages {\nname \"\"\n}", `the value is empty; is a variable unset?, at Caddyfile:4`},
		{"pages {\nname a b\n}", `wrong argument count or unexpected line ending after 'a', at Caddyfile:4`},
		{"pages {\nname A\n}\npages {\nname B\n}", `pages is set twice, at Caddyfile:6`},
		{"pages {\nnonsense\n}", `unknown pages option "nonsense", at Caddyfile:4`},
		{"pages {\nlogo\n}", `wrong argument count or unexpected line ending after 'logo', at Caddyfile:4`},
		{"pages {\nlogo a.png b.png\n}", `wrong argument count or unexpected line ending after 'a.png', at Caddyfile:4`},
		{"pages {\nlogo a.png\nlogo b.png\n}", `logo is set twice, at Caddyfile:5`},
		{"pages {\nlogo a.gif\n}", `logo a.gif: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
		{"pages {\nlogo https://x.example/logo\n}", `logo https://x.example/logo: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
		{"pages {\nlogo {http.request.uri.path}\n}", `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
		{"pages {\naccent #2b50c8 #9db3ff\n}", "accent needs two colours, for the light and for the dark scheme, without a #: write it as `accent 2b50c8 9db3ff`, at Caddyfile:4"},
		{"pages {\nbackground ffffff\n}", "background needs two colours, for the light and for the dark scheme, without a #: write it as `background 2b50c8 9db3ff`, at Caddyfile:4"},
		{"pages {\naccent 2b50c8 9db3ff\naccent 2b50c8 9db3ff\n}", `accent is set twice, at Caddyfile:5`},
		{"pages {\nlink https://a.example\n}", `wrong argument count or unexpected line ending after 'https://a.example', at Caddyfile:4`},
		{"pages {\nlink terms https://a.example\n}", `unknown link "terms": use help, imprint or privacy, at Caddyfile:4`},
		{"pages {\nlink help https://a.example\nlink help https://b.example\n}", `link help is set twice, at Caddyfile:5`},
		{"pages {\nlink help https://{http.request.host}/\n}", `https://{http.request.host}/ comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
		{"pages {\nnote portal words\n}", `wrong argument count or unexpected line ending after 'words', at Caddyfile:4`},
		{"pages {\nnote application portal words\n}", "a note is about a client or a host: write it as `note client <id> <text>` or `note host <host> <text>`, at Caddyfile:4"},
		{"pages {\nlanguages\n}", `wrong argument count or unexpected line ending after 'languages', at Caddyfile:4`},
		{"pages {\nlanguages /a\nlanguages /b\n}", `languages is set twice, at Caddyfile:5`},
	},
	loaded: []namedRefusal{
		{"logo missing", "pages {\nlogo DIR/missing.png\n}", "logo: stat "},
		{"logo is a directory", "pages {\nlogo {env.GATEHOUSE_TEST_FOLDER}\n}", "this is no regular file"},
		{"logo is no image", "pages {\nlogo DIR/text.png\n}", "logo: the file is no image/png, at Caddyfile:6"},
		{"logo is another document", "pages {\nlogo DIR/page.svg\n}", "logo: the file is no image/svg+xml, at Caddyfile:6"},
		{"logo too large", "pages {\nlogo DIR/large.svg\n}", "it has more than 65536 bytes"},
		{"logo of another kind", "pages {\nlogo {env.GATEHOUSE_TEST_HTTP}\n}", "use a file that ends in .svg, .png, .jpg or .webp"},
		{"logo unset", "pages {\nlogo {env.GATEHOUSE_TEST_UNSET}\n}", "logo: "},
		{"accent without contrast", "pages {\naccent e0a800 ffd75e\n}", "oauth: accent: in the light scheme the contrast of the text of buttons #ffffff to the accent #e0a800 is 2.14:1, and at least 4.5:1 is needed: #866500 would do, at Caddyfile:6"},
		{"no colour", "pages {\nbackground white 000000\n}", `oauth: background: in the light scheme "white" is not a colour: use six hex digits, as 2b50c8, at Caddyfile:6`},
		{"link that is a program", "pages {\nlink help javascript:alert(1)\n}", "oauth: link help: use an address that begins with https:// or mailto:, at Caddyfile:6"},
		{"link unset", "pages {\nlink help {env.GATEHOUSE_TEST_UNSET}\n}", "oauth: link help: "},
		{"note in another language alone", "pages {\nnote client portal de Guten_Tag\n}", "oauth: note client portal: add a text without a language, for readers of all others, at Caddyfile:6"},
		{"note in a language without a catalogue", "pages {\nnote host a.example Hello\nnote host a.example ../de Hallo\n}", `oauth: note host a.example: "../de" is not a language tag: use one like it, pt-BR or zh-Hant, at Caddyfile:6`},
		{"note of the built-in client", "pages {\nnote client gatehouse Hello\n}", "sign-ins at hosts have a note for each host"},
		{"no directory of languages", "pages {\nlanguages DIR/missing\n}", "oauth: languages: open "},
		{"no catalogue", "pages {\nlanguages DIR/directory.png\n}", "directory.png: there is no file in it: add one for each language, named like it.json, at Caddyfile:6"},
		{"no directory", "pages {\nlanguages DIR/text.png\n}", "languages: "},
	},
	json: []refusal{
		{`"pages":{"logo":"/nowhere/logo.gif"}`, "logo /nowhere/logo.gif: use a file that ends in"},
		{`"pages":{"logo":"/nowhere/logo.png"}`, "logo: stat /nowhere/logo.png: no such file"},
		{`"pages":{"logo":"{http.request.uri.path}"}`, "comes from the request"},
		{`"pages":{"links":{"terms":"https://a.example"}}`, `unknown link "terms"`},
		{`"pages":{"links":{"help":"{http.request.host}"}}`, "comes from the request"},
		{`"pages":{"languages":"{http.request.host}"}`, "comes from the request"},
		{`"pages":{"notes":[{"text":"x"}]}`, "a note is about a client or a host"},
	},
}

// TestReadLogo: a logo is read by the suffix of its file, in any case.
func TestReadLogo(t *testing.T) {
	dir := t.TempDir()
	for suffix, logo := range map[string]struct{ media, content string }{
		"svg": {"image/svg+xml", "<svg/>"}, "SVG": {"image/svg+xml", "<svg/>"}, "png": {"image/png", "\x89PNG\r\n\x1a\n"},
		"jpg": {"image/jpeg", "\xff\xd8\xff"}, "jpeg": {"image/jpeg", "\xff\xd8\xff"}, "webp": {"image/webp", "RIFF....WEBP"},
	} {
		path := filepath.Join(dir, "logo."+suffix)
		if err := os.WriteFile(path, []byte(logo.content), 0o600); err != nil {
			t.Fatal(err)
		}
		s := readMembers(t, `,"pages":{"name":"Acme","logo":"`+path+`"}`)
		page, err := s.Pages.Render("en", pages.SignIn{})
		check(t, err)
		want := "data:" + logo.media + ";base64," + base64.StdEncoding.EncodeToString([]byte(logo.content))
		if !strings.Contains(string(page), strings.ReplaceAll(want, "+", "&#43;")) || !strings.Contains(string(page), "<bdi>Acme</bdi>") {
			t.Errorf("%s: the page does not have %s", suffix, want)
		}
	}
}
