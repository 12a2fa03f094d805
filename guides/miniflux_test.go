package guides

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
)

// TestMiniflux builds Miniflux, runs it with PostgreSQL and the guide's environment, and signs in to it.
func TestMiniflux(t *testing.T) {
	program := filepath.Join(t.TempDir(), "miniflux")
	if out, err := exec.Command("go", "build", "-o", program, "miniflux.app/v2").CombinedOutput(); err != nil {
		t.Fatalf("building Miniflux: %v\n%s", err, out)
	}
	database := pgtest.Shared(t)
	name, err := database.NewDatabase()
	check(t, err)
	g := startGatehouse(t)
	addr, site := freeSite(t)
	p := g.open("miniflux", "https://reader.example.com", site)
	p.ran("Miniflux", inGo(t, ".", "miniflux.app/v2"))
	command := exec.Command(program)
	command.Env = append(os.Environ(), strings.Fields(p.block("ini"))...)
	command.Env = append(command.Env, "DATABASE_URL="+name, "RUN_MIGRATIONS=1", "LISTEN_ADDR="+addr, "SSL_CERT_FILE="+g.authority)
	start(t, command, addr)
	b := newBrowser(t)
	if _, page := b.visit(site+"/", to(site+"/")); !strings.Contains(page, `href="/oauth2/oidc/redirect"`) || !strings.Contains(page, "Gatehouse") {
		t.Fatalf("the sign-in page offers no Gatehouse:\n%s", page)
	}
	if at, page := b.visit(site+"/oauth2/oidc/redirect", to(site+"/unread")); !strings.Contains(page, "Logged in as ada") {
		t.Errorf("at %s ada is not signed in:\n%s", at, page)
	}
}
