package guides

import (
	"io"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/oauth2"
	"sigs.k8s.io/yaml"
)

// TestArgoCD builds the part of Argo CD's server that signs people in and runs it with the guide's ConfigMaps. In a browser and on the command
// line, a member of the guide's group is an administrator, and whoever is in another group is not. With groups of the userinfo endpoint the
// command line is refused, as the guide says.
func TestArgoCD(t *testing.T) {
	program := filepath.Join(t.TempDir(), "argocd")
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", program, ".")
	build.Dir = "argocd"
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building Argo CD's part: %v\n%s", err, out)
	}
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("argocd", "https://argocd.example.com", site)
	p.ran("Argo CD", inGo(t, "argocd", "github.com/argoproj/argo-cd/v3"))
	p.register(p.nth("console", 1))
	serve := func(addr, config string) {
		g.run(addr, []string{program}, "ARGOCD_CM="+config, "ARGOCD_RBAC_CM="+p.nth("yaml", 1),
			"SECRET_KEY=oidc.gatehouse.clientSecret", "SECRET_VALUE="+p.secret)
	}
	serve(addr, p.block("yaml"))
	onCommandLine := func(t *testing.T, site string) string {
		request, err := http.NewRequest(http.MethodGet, site+"/", nil)
		check(t, err)
		request.Header.Set("Authorization", "Bearer "+g.idToken(t, "argocd-cli", "http://localhost:8085/auth/callback", requestedClaims(t, p.block("yaml"))))
		answer, err := http.DefaultClient.Do(request)
		check(t, err)
		defer func() { _ = answer.Body.Close() }()
		page, err := io.ReadAll(answer.Body)
		check(t, err)
		return string(page)
	}
	inBrowser := func(t *testing.T, site string) string {
		_, page := newBrowser(t).visit(site+"/auth/login?return_url="+site+"/", to(site+"/"))
		return page
	}
	ways := map[string]func(*testing.T, string) string{"command line": onCommandLine, "browser": inBrowser}
	for name, signIn := range ways {
		t.Run(name, func(t *testing.T) {
			knows(t, signIn(t, site), `"sub":"`+g.subject+`"`, `"email":"`+email+`"`, `"groups":["engineering"]`, `"administrator":false`)
		})
	}
	g.oauth("", "user", "group", "add", "argocd-admins", "--user", g.subject)
	for name, signIn := range ways {
		t.Run(name+", as an administrator", func(t *testing.T) { knows(t, signIn(t, site), `"sub":"`+g.subject+`"`, `"administrator":true`) })
	}
	t.Run("groups of the userinfo endpoint", func(t *testing.T) {
		addr, other := freeSite(t)
		serve(addr, strings.TrimSpace(p.block("yaml"))+"\n  enableUserInfoGroups: true\n  userInfoPath: /oauth/userinfo\n")
		knows(t, onCommandLine(t, other), "no accessToken for "+g.subject)
	})
}

// requestedClaims are the claims that Argo CD asks an issuer for, in a browser and on the command line, with the data of argocd-cm.
func requestedClaims(t *testing.T, config string) oauth2.AuthCodeOption {
	t.Helper()
	var data struct {
		OIDC string `json:"oidc.config"`
	}
	check(t, yaml.Unmarshal([]byte(config), &data))
	var settings struct {
		Claims map[string]any `json:"requestedIDTokenClaims"`
	}
	check(t, yaml.Unmarshal([]byte(data.OIDC), &settings))
	return oauth2.SetAuthURLParam("claims", asJSON(t, map[string]any{"id_token": settings.Claims}))
}
