package tokenissuer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

const house = "github.com/gatehouse-auth/gatehouse/"

// room is a package with its permitted imports from outside this module and the standard library.
type room struct {
	name   string
	others []string
	// without must not be linked into a binary because of the package, not even indirectly.
	without []string
	// tests reports that only tests use the package.
	tests bool
}

// http is HTTP in every package that implements it.
var http = []string{
	"net/http", "net/http/cgi", "net/http/cookiejar", "net/http/fcgi", "net/http/httptest", "net/http/httptrace", "net/http/httputil", "net/http/pprof",
	"html/template",
}

var (
	host     = []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}
	database = []string{"database/sql", "modernc.org/sqlite", "github.com/pressly/goose/v3", "github.com/jackc/pgx/v5"}
	// core has no HTTP, SQL, Caddy or logger; client may send HTTP requests. A library of a client may use google/uuid, which implements
	// interfaces of database/sql/driver.
	core   = slices.Concat(http, host, database, []string{"database/sql/driver"})
	client = slices.Concat(host, database)
)

const (
	caddy      = "github.com/caddyserver/caddy/v2"
	jsonv2     = "github.com/go-json-experiment/json"
	prometheus = "github.com/prometheus/client_golang"
	zap        = "go.uber.org/zap"
)

// rooms lists the packages in dependency order. A package imports only packages before it, so there are no cycles. A package that is
// missing here fails the test.
var rooms = []room{
	{name: "internal/cache", others: []string{"github.com/patrickmn/go-cache"}, without: core},
	{name: "internal/failpoint"},
	{name: "internal/fairqueue"},
	{name: "tokenissuer", without: core},
	{name: "tokenissuer/oauth", without: core},
	{name: "tokenissuer/tracing", others: []string{"go.opentelemetry.io/otel"}, without: core},
	{name: "tokenissuer/strictjson", others: []string{jsonv2}, without: core},
	{name: "tokenissuer/words", others: []string{jsonv2, "golang.org/x/text/language"}, without: core},
	{name: "tokenissuer/passwords", others: []string{"golang.org/x/crypto/argon2", "golang.org/x/crypto/bcrypt", "golang.org/x/crypto/scrypt", "golang.org/x/text/unicode/norm"}, without: core},
	{name: "tokenissuer/store", others: []string{jsonv2, "golang.org/x/text/unicode/norm"}, without: core},
	{name: "tokenissuer/sqlstore/sqlite", others: []string{"modernc.org/sqlite"}, without: slices.Concat(http, host)},
	{name: "tokenissuer/sqlstore/postgres", others: []string{"github.com/jackc/pgx/v5"}, without: slices.Concat(http, host)},
	{name: "tokenissuer/sqlstore/writequeue", without: core},
	{name: "tokenissuer/sqlstore", others: []string{jsonv2, "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3"}, without: slices.Concat(http, host)},
	{name: "tokenissuer/attempts", without: core},
	{name: "tokenissuer/keys", others: []string{jsonv2, "github.com/golang-jwt/jwt/v5"}, without: core},
	{name: "tokenissuer/mail", without: core},
	{name: "tokenissuer/mail/smtp", others: []string{"github.com/wneessen/go-mail"}, without: client},
	{name: "tokenissuer/token", others: []string{jsonv2, "golang.org/x/sync"}, without: core},
	{name: "tokenissuer/fetch", others: []string{jsonv2}, without: client},
	{name: "tokenissuer/trust", others: []string{"golang.org/x/sync"}, without: client},
	{name: "tokenissuer/backchannel", without: client},
	{name: "tokenissuer/families", without: core},
	{name: "tokenissuer/clients", others: []string{jsonv2, "golang.org/x/sync"}, without: core},
	{name: "tokenissuer/clientmetadata", others: []string{jsonv2}, without: client},
	{name: "tokenissuer/signin", others: []string{"github.com/boombuler/barcode/qr", "github.com/pquerna/otp"}, without: core},
	{name: "tokenissuer/webauthn", others: []string{"github.com/go-webauthn/webauthn/protocol"}, without: client},
	{name: "tokenissuer/ldap", others: []string{"github.com/go-asn1-ber/asn1-ber", "github.com/go-ldap/ldap/v3"}, without: client},
	{name: "tokenissuer/upstream", others: []string{jsonv2, "github.com/coreos/go-oidc/v3", "golang.org/x/oauth2"}, without: client},
	{name: "tokenissuer/issuer", others: []string{jsonv2}, without: core},
	{name: "tokenissuer/issuer/grants", without: core},
	{name: "tokenissuer/people", without: core},
	{name: "tokenissuer/endpoint/pages", without: slices.DeleteFunc(slices.Concat(core), func(p string) bool { return p == "html/template" })},
	{name: "tokenissuer/endpoint/requests", others: []string{jsonv2}, without: client},
	{name: "tokenissuer/endpoint/answers", others: []string{jsonv2}, without: client},
	{name: "tokenissuer/endpoint", others: []string{jsonv2, zap}, without: append([]string{caddy}, database...)},
	{name: "caddymodule/logfilter", others: []string{caddy, zap}},
	{name: "caddymodule/pool", others: []string{caddy}},
	{name: "caddymodule/setting", others: []string{caddy}},
	{name: "caddymodule/caller", others: []string{caddy, "cel.dev/cel-go"}},
	{name: "caddymodule/auditlog", others: []string{jsonv2, prometheus, zap}, without: append([]string{caddy}, database...)},
	{name: "caddymodule/node", others: []string{caddy, jsonv2, prometheus, zap}},
	{name: "caddymodule/hostpaths", others: []string{caddy}},
	{name: "caddymodule/gate/identity", without: append([]string{caddy}, database...)},
	{name: "caddymodule/gate/requestpath", others: []string{"golang.org/x/text/unicode/norm"}, without: append([]string{caddy}, database...)},
	{name: "caddymodule/gate/rule", others: []string{caddy, jsonv2}},
	{name: "caddymodule/gate/mcp", others: []string{caddy, jsonv2}},
	{name: "caddymodule/gate/browser", others: []string{caddy, zap}},
	{name: "caddymodule/gate", others: []string{caddy, "cel.dev/cel-go", jsonv2, prometheus, zap, "golang.org/x/net"}},
	{name: "caddymodule/configuration", others: []string{caddy, jsonv2, "golang.org/x/net/publicsuffix", zap}},
	{name: "caddymodule/coverage", others: []string{caddy}},
	{name: "caddymodule/admin", others: []string{caddy, jsonv2, prometheus, zap}},
	{name: "caddymodule/console", others: []string{caddy, jsonv2}},
	{name: "caddymodule/moving", others: []string{jsonv2, "github.com/go-sql-driver/mysql", "github.com/jackc/pgx/v5"}},
	{name: "caddymodule/command", others: []string{caddy, jsonv2, "github.com/spf13/cobra", zap, "golang.org/x/term"}},
	{name: "caddymodule", others: []string{caddy, "github.com/caddyserver/certmagic", prometheus, zap}},

	// Only tests use these.
	{name: "tokenissuer/storetest", tests: true},
	{name: "internal/loopback", tests: true},
	{name: "internal/machine", tests: true},
	{name: "internal/manyrows", tests: true},
	{name: "internal/promises", tests: true},
	{name: "internal/openapi", tests: true},
	{name: "internal/site", tests: true, others: []string{"github.com/yuin/goldmark"}},
	{name: "internal/faultproxy", tests: true},
	{name: "internal/ldaptest", tests: true, others: []string{"github.com/go-ldap/ldap/v3"}},
	{name: "internal/mailtest", tests: true, others: []string{"github.com/emersion/go-smtp", "github.com/emersion/go-sasl"}},
	{name: "internal/pgtest", tests: true, others: []string{"github.com/jackc/pgx/v5"}},
	{name: "internal/mariadbtest", tests: true, others: []string{"github.com/go-sql-driver/mysql"}},
	{name: "internal/tokentest", tests: true},
	{name: "internal/vectors", tests: true, others: []string{"github.com/c2sp/wycheproof"}},
	{name: "internal/issuertest", tests: true, others: []string{"github.com/golang-jwt/jwt/v5"}},
	{name: "internal/teststore", tests: true},
	{name: "internal/passkeytest", tests: true},
	{name: "internal/testkeys", tests: true},
	{name: "rig", tests: true, others: []string{caddy, "golang.org/x/crypto", "golang.org/x/net"}},
}

// listed is the output of `go list` for a package. Imports are those of its non-test files.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Deps       []string
}

// TestWhoMayImportWhom checks every package against its entry in rooms. No package imports math/rand; libraries may, for values that are
// not secret. A file imports only the standard library, packages before its own, and permitted others. What a package is without must not
// be in its dependencies either: a JSON library that imports net/http would be a violation.
func TestWhoMayImportWhom(t *testing.T) {
	packages := goList(t)
	for path, p := range packages {
		name, ours := strings.CutPrefix(path, house)
		if !ours {
			continue
		}
		floor := floorOf(name)
		if floor < 0 {
			t.Errorf("package %s has no place in rooms", name)
			continue
		}
		for _, imported := range p.Imports {
			own, ours := strings.CutPrefix(imported, house)
			switch below := floorOf(own); {
			case !ours:
				if !rooms[floor].allows(imported, packages[imported].Standard) {
					t.Errorf("%s imports %s", name, imported)
				}
			case below >= floor:
				t.Errorf("%s imports %s, which is above it", name, own)
			case below >= 0 && rooms[below].tests && !rooms[floor].tests:
				t.Errorf("%s imports %s, which only tests may use", name, own)
			}
		}
		for _, dependency := range p.Deps {
			if rooms[floor].lacks(dependency) {
				t.Errorf("%s depends on %s", name, dependency)
			}
		}
	}
	for _, r := range rooms {
		if _, ok := packages[house+r.name]; !ok {
			t.Errorf("there is no package %s", r.name)
		}
	}
}

// allows reports whether a file of the package may import a package from outside this module.
func (r room) allows(imported string, standard bool) bool {
	if standard {
		return imported != "math/rand" && imported != "math/rand/v2"
	}
	return slices.ContainsFunc(r.others, func(module string) bool {
		return imported == module || strings.HasPrefix(imported, module+"/")
	})
}

// floorOf returns the index of a package in rooms, or -1.
func floorOf(name string) int {
	return slices.IndexFunc(rooms, func(r room) bool { return r.name == name })
}

// lacks reports whether the room excludes a package or the module that it belongs to.
func (r room) lacks(dependency string) bool {
	return slices.ContainsFunc(r.without, func(kept string) bool {
		return dependency == kept || strings.Contains(kept, ".") && strings.HasPrefix(dependency, kept+"/")
	})
}

// goList returns the packages of this module and all their dependencies, from the go command.
func goList(t *testing.T) map[string]listed {
	t.Helper()
	packages, err := listOnce()
	if err != nil {
		t.Fatal(err)
	}
	return packages
}

var listOnce = sync.OnceValues(func() (map[string]listed, error) {
	command := exec.Command("go", "list", "-deps", "-json=ImportPath,Dir,Standard,Imports,Deps", "./...")
	command.Dir = ".."
	output, err := command.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return nil, fmt.Errorf("go list: %w: %s", err, failed.Stderr)
		}
		return nil, err
	}
	packages := make(map[string]listed)
	for decoder := json.NewDecoder(bytes.NewReader(output)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages, nil
		} else if err != nil {
			return nil, err
		}
		packages[p.ImportPath] = p
	}
})

// TestTheCoreHasNoLogger: only the outermost packages log, and each event once. A library of the core may use log/slog for options that are
// not set.
func TestTheCoreHasNoLogger(t *testing.T) {
	for path, p := range goList(t) {
		name, ours := strings.CutPrefix(path, house)
		if !ours || !strings.HasPrefix(name, "tokenissuer") || name == "tokenissuer/endpoint" {
			continue
		}
		for _, logger := range []string{"log", "log/slog", "log/syslog"} {
			if slices.Contains(p.Imports, logger) {
				t.Errorf("%s imports %s", name, logger)
			}
		}
	}
}
