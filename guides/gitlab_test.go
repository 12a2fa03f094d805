package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// gitlab is a site with the strategy of GitLab, and with the settings of gitlab.rb. It shows what the strategy knows of the person.
const gitlab = `require "json"
require "rack"
require "rack/session/cookie" rescue nil
require "omniauth"
require "omniauth_openid_connect"

gitlab_rails = {}
eval(File.read("gitlab.rb"))
settings = gitlab_rails["omniauth_providers"][0]
args = settings[:args].dup
strategy = Object.const_get(args.delete(:strategy_class) || "OmniAuth::Strategies::OpenIDConnect")

OmniAuth.config.path_prefix = "/users/auth"
OmniAuth.config.full_host = ENV.fetch("SITE")
OmniAuth.config.allowed_request_methods = [:get] # the form of GitLab's page has a token of its own
OmniAuth.config.silence_get_warning = true
OmniAuth.config.failure_raise_out_environments = []
OmniAuth.config.on_failure = ->(env) { [500, {"Content-Type" => "text/plain"}, [env["omniauth.error"].inspect]] }

use Rack::Session::Cookie, key: "gitlab", secret: "0123456789abcdef" * 8
use strategy, args
run lambda { |env|
  auth = env["omniauth.auth"]
  [200, {"Content-Type" => "application/json"}, [auth ? {uid: auth.uid, name: auth.info.name, email: auth.info.email}.to_json : "nobody"]]
}
`

// TestGitLab signs in by the strategy of GitLab, as Debian packages it, with the guide's part of gitlab.rb.
func TestGitLab(t *testing.T) {
	g := startGatehouse(t)
	addr, site := freeSite(t)
	dir := t.TempDir()
	p := g.open("gitlab", "https://gitlab.example.com", site)
	check(t, os.WriteFile(filepath.Join(dir, "gitlab.rb"), []byte(p.block("ruby")), 0o600))
	check(t, os.WriteFile(filepath.Join(dir, "config.ru"), []byte(gitlab), 0o600))
	command := exec.Command("puma", "--bind", "tcp://"+addr, "--threads", "1:4", "--environment", "production", "config.ru")
	command.Dir = dir
	command.Env = append(os.Environ(), "SITE="+site, "SSL_CERT_FILE="+g.authority)
	start(t, command, addr)
	_, page := newBrowser(t).visit(site+"/users/auth/openid_connect", to(site+"/users/auth/openid_connect/callback"))
	for _, known := range []string{`"uid":"` + g.subject + `"`, `"name":"Ada Lovelace"`, `"email":"` + email + `"`} {
		if !strings.Contains(page, known) {
			t.Errorf("GitLab does not know %s: %s", known, page)
		}
	}
}
