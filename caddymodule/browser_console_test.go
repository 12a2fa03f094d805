package caddymodule

import (
	"cmp"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestO80O81BrowserConsole: Chromium on every page of the console with content, in English and German, light and dark, wide and narrow, by keyboard
// and without script → accessible, nothing sideways, and what operators come for takes few clicks: a whole day 27. Pictures of the pages are saved in the
// directory that GATEHOUSE_SCREENSHOTS names, if set.
func TestO80O81BrowserConsole(t *testing.T) {
	s := startConsole(t, "forward + X-Name name", "require group writers",
		"store memory", "store memory\n\t\tsign_in {\n\t\t\tpassword\n\t\t\tprovider corp "+startProvider(t).url+" {\n\t\t\t\tclient gw a-secret-of-the-gateway\n\t\t\t\tallow_private_network\n\t\t\t}\n\t\t}")
	v := s.operator(t, "olga@acme.example")
	s.signedIn(t, "ben@other.example")
	if a, _ := s.visitor(t).walk(s.at("wiki", "/pages/1"), "ada@acme.example"); a.status != http.StatusForbidden {
		t.Fatalf("without the group: %d", a.status)
	}
	s.ok("service-account", "add", "--id", "backup", "--role", "member", "--group", "robots")
	s.ok("user", "add", "--id", "u-long", "--email", "a-very-long-address-of-somebody-in-the-department-of-navigation@customer-relationship-management.example",
		"--name", "Donaudampfschifffahrtsgesellschaftskapitänsmützenverwaltungsangestellte <script>", "--org", "acme", "--role", "member", "--group", "Captains' hats")
	s.ok("user", "add", "--id", "u-rtl", "--email", "rtl@acme.example", "--name", "שלום עולם", "--role", "member")
	s.ok("user", "disable", "u-rtl")
	s.ok("client", "add", "--id", "house", "--name", "House")
	s.must(http.StatusCreated, http.MethodPost, "/oauth/organisations", `{"id":"stored","name":"Stored Ltd"}`)

	refused, _ := url.Parse(linkIn(t, s.eventuallyOn(v, "/gate/refusals", "group writers"), "/oauth/admin/gate/why"))

	// Each page is about the first of these that it can show.
	abouts := []url.Values{
		{"id": {"u-olga"}, "user": {"u-ben"}, "factor": {"f"}, "session": {"s"}, "token": {"t"}}, {"id": {"u-long"}, "user": {"u-ben"}}, {"id": {"house"}}, {"id": {"stored"}, "client": {"gatehouse"}}, {"kind": {"web"}}, {"name": {"corp"}},
		refused.Query(), {},
	}
	pages, actions := consolePages(t)
	var shown []string
	for _, p := range pages {
		found := false
		for _, about := range abouts {
			for _, target := range p.targets(actions, about) {
				path := strings.TrimSuffix(strings.TrimPrefix(target, "/oauth/admin"), "?")
				if a := v.navigate(s.at("admin", target)); a.status == http.StatusOK && strings.HasPrefix(a.header.Get("Content-Type"), "text/html") && !slices.Contains(shown, path) {
					shown, found = append(shown, path), true
				}
			}
			if found {
				break
			}
		}
		if !found && p.path != "/again" && p.path != "/audit/export" /* no pages */ {
			t.Errorf("%s shows nothing: add what it is about", p.path)
		}
	}
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	site, _ := url.Parse(s.at("admin", "/"))
	var cookies []map[string]string
	for _, c := range v.jar.Cookies(site) {
		cookies = append(cookies, map[string]string{"name": c.Name, "value": c.Value})
	}
	_, port, _ := net.SplitHostPort(freeAddr(t))
	runScript(t, "browser-console.mjs", map[string]any{
		"issuer": s.origin("auth"), "callback": "http://localhost:" + port + "/callback", "applications": map[string]string{"admin": s.origin("admin")},
		"chromium": chromium(t), "pages": shown, "cookies": cookies, "screenshots": pictures, "pictures": os.Getenv("GATEHOUSE_SCREENSHOTS") != "",
	})
}
