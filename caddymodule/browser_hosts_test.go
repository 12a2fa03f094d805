package caddymodule

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"testing"
)

// TestS47ToS54S113BrowserAcrossHosts: Chromium at three hosts, with tabs, deep links, back button, forms and WebSockets after the session's
// end, stray cookies, a disabled user, another account → signed in once, streams cut, forms not lost, pages accessible. Pictures of the
// pages are saved in the directory that GATEHOUSE_SCREENSHOTS names, if set.
func TestS47ToS54S113BrowserAcrossHosts(t *testing.T) {
	upstream, callback := freeAddr(t), freeAddr(t)
	g := startHosts(t, "oauth_server\n\thandle {\n\t\trespond 404\n\t}", "oauth_server", "reverse_proxy UPSTREAM", "reverse_proxy "+upstream, "ROUTES", `
	handle /engineering/* {
		protect {
			challenge browser
			require group engineering
		}
		reverse_proxy `+upstream+`
	}
	handle /ops/* {
		protect {
			challenge browser
			require user u-ben
		}
		reverse_proxy `+upstream+`
	}
`)
	pictures, err := filepath.Abs(cmp.Or(os.Getenv("GATEHOUSE_SCREENSHOTS"), t.TempDir()))
	check(t, err)
	person := func(name string) map[string]string {
		return map[string]string{"id": "u-" + name, "email": name + "@acme.example", "password": peoplePassword}
	}
	_, port, _ := net.SplitHostPort(callback)
	runScript(t, "browser-hosts.mjs", map[string]any{
		"issuer": g.origin("auth"), "callback": "http://localhost:" + port + "/callback", "upstream": "http://" + upstream, "admin": "http://" + g.admin,
		"applications": map[string]string{"app": g.origin("app"), "wiki": g.origin("wiki")}, "chromium": chromium(t),
		"ada": person("ada"), "ben": person("ben"), "eve": person("eve"), "screenshots": pictures, "pictures": os.Getenv("GATEHOUSE_SCREENSHOTS") != "",
	})
}
