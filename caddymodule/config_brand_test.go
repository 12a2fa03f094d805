package caddymodule

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// refusedBrand holds the invalid forms of `brand`.
var refusedBrand = refusedBlock{
	adapted: []refusal{
		{`brand`, `wrong argument count or unexpected line ending after 'brand', at Caddyfile:3`},
		{`brand a b`, `wrong argument count or unexpected line ending after 'b', at Caddyfile:3`},
		{`brand ""`, `the brand is empty; is a variable unset?, at Caddyfile:3`},
		{"brand A\nbrand B", `brand is set twice, at Caddyfile:4`},
		{"brand A {\nnonsense\n}", `unknown brand option "nonsense", at Caddyfile:4`},
		{"brand A {\nlogo\n}", `wrong argument count or unexpected line ending after 'logo', at Caddyfile:4`},
		{"brand A {\nlogo a.png b.png\n}", `wrong argument count or unexpected line ending after 'a.png', at Caddyfile:4`},
		{"brand A {\nlogo a.png\nlogo b.png\n}", `logo is set twice, at Caddyfile:5`},
		{"brand A {\nlogo a.gif\n}", `logo a.gif: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
		{"brand A {\nlogo https://x.example/logo\n}", `logo https://x.example/logo: use a file that ends in .svg, .png, .jpg or .webp, at Caddyfile:4`},
		{"brand A {\nlogo {http.request.uri.path}\n}", `{http.request.uri.path} comes from the request: use {env.NAME} or {file./path}, at Caddyfile:4`},
	},
	loaded: []namedRefusal{
		{"logo missing", "brand {\nlogo DIR/missing.png\n}", "logo: stat "},
		{"logo is a directory", "brand {\nlogo {env.GATEHOUSE_TEST_FOLDER}\n}", "this is no regular file"},
		{"logo is no image", "brand {\nlogo DIR/text.png\n}", "logo: the file is no image/png"},
		{"logo is another document", "brand {\nlogo DIR/page.svg\n}", "logo: the file is no image/svg+xml"},
		{"logo too large", "brand {\nlogo DIR/large.svg\n}", "it has more than 65536 bytes"},
		{"logo of another kind", "brand {\nlogo {env.GATEHOUSE_TEST_HTTP}\n}", "use a file that ends in .svg, .png, .jpg or .webp"},
		{"logo unset", "brand {\nlogo {env.GATEHOUSE_TEST_UNSET}\n}", "logo: "},
	},
	json: []refusal{
		{`"brand":{"logo":"/nowhere/logo.gif"}`, "logo /nowhere/logo.gif: use a file that ends in"},
		{`"brand":{"logo":"/nowhere/logo.png"}`, "logo: stat /nowhere/logo.png: no such file"},
		{`"brand":{"logo":"{http.request.uri.path}"}`, "comes from the request"},
	},
}

// TestReadBrand reads each kind of logo by its suffix.
func TestReadBrand(t *testing.T) {
	dir := t.TempDir()
	for suffix, media := range map[string]string{
		"svg": "image/svg+xml", "SVG": "image/svg+xml", "png": "image/png", "jpg": "image/jpeg", "jpeg": "image/jpeg", "webp": "image/webp",
	} {
		path := filepath.Join(dir, "logo."+suffix)
		content := make([]byte, 64<<10)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		s := readMembers(t, `,"brand":{"name":"Acme","logo":"`+path+`"}`)
		if want := (pages.Brand{Name: "Acme", Logo: &pages.Logo{MediaType: media, Data: content}}); !reflect.DeepEqual(s.Brand, want) {
			t.Errorf("%s: %q, %s", suffix, s.Brand.Name, s.Brand.Logo.MediaType)
		}
	}
}
