package caddymodule

import (
	"maps"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// plansSite is an OpenID provider with three applications.
const plansSite = `{
	admin ADMIN
	auto_https off
	log {
		output file LOG
		level DEBUG
	}
	oauth {
		issuer https://ADDR
		store memory
		openid
		limits {
			login off
			grants off
		}
		organisation acme "Acme Ltd"
		client rp SECRET {
			APPLICATION
		}
		client other SECRET {
			APPLICATION
		}
		client told SECRET {
			APPLICATION
			backchannel_logout_uri BACKCHANNEL
			backchannel_logout_session_required
		}
	}
}

https://ADDR {
	tls CERTIFICATE KEY
	oauth_server
}
`

const plansApplication = `grants authorization_code refresh_token
			scopes openid profile email address phone offline_access
			redirect_uris CALLBACK
			post_logout_redirect_uris SIGNEDOUT
			pkce optional`

// plansUser has every claim. Users of the configuration have no updated_at.
const plansUser = `{
	"id": "u-ada", "email": "ada@acme.example", "email_verified": true, "name": "Ada Admin", "given_name": "Ada", "family_name": "Admin",
	"preferred_username": "ada", "picture": "https://acme.example/ada.png", "locale": "en-GB", "zoneinfo": "Europe/London",
	"phone_number": "+44 20 7946 0018", "phone_number_verified": true, "address": {"formatted": "1 Byron Way, London", "country": "GB"},
	"organisation": "acme", "password_hash": "HASH"
}`

// TestBrowserOpenIDPlans runs the modules of five plans of the OpenID Foundation's conformance suite, each under its
// own name, as our own checks with openid-client, oauth4webapi and Chromium. It does not run the suite itself.
func TestBrowserOpenIDPlans(t *testing.T) {
	certificate, key := certificateFiles(t)
	t.Setenv("NODE_EXTRA_CA_CERTS", certificate)
	_, port, err := net.SplitHostPort(freeAddr(t))
	check(t, err)
	backchannel := "http://" + freeAddr(t) + "/signed-out"
	application := "https://localhost:" + port
	g, given := startBrowser(t, strings.NewReplacer("APPLICATION", strings.NewReplacer("CALLBACK", application+"/callback",
		"SIGNEDOUT", application+"/signed-out").Replace(plansApplication),
		"BACKCHANNEL", backchannel, "CERTIFICATE", certificate, "KEY", key).Replace(plansSite))
	g.must(http.StatusCreated, "POST", "/oauth/users", strings.Replace(plansUser, "HASH", peopleHash(), 1))
	given["issuer"], given["callback"], given["backchannel"] = "https://"+g.addr, application+"/callback", backchannel
	given["certificate"], given["key"] = testCertificate()["certificate"], testCertificate()["key"]
	given["clients"] = map[string]map[string]string{
		"rp": {"id": "rp", "secret": confSecret}, "other": {"id": "other", "secret": confSecret}, "told": {"id": "told", "secret": confSecret},
	}
	checks := runScript(t, "openid-plans.mjs", given)

	page, err := os.ReadFile("../docs/openid-modules.md")
	check(t, err)
	listed := make(map[string]bool)
	for _, name := range regexp.MustCompile("`(oidcc-[a-z0-9-]+)`").FindAllStringSubmatch(string(page), -1) {
		listed[name[1]] = true
	}
	ran := make(map[string]bool)
	for _, c := range checks {
		_, module, _ := strings.Cut(c.name, " ")
		ran[module] = true
	}
	if !maps.Equal(ran, listed) {
		t.Errorf("docs/openid-modules.md lists %d modules, and %d ran:\n%q\n%q", len(listed), len(ran), slices.Sorted(maps.Keys(listed)), slices.Sorted(maps.Keys(ran)))
	}
}
