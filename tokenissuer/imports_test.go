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

// room says what a package of the house may import.
type room struct {
	// own are the packages of the house, others the modules and packages beyond it and the standard library, that files
	// of the package may name.
	own, others []string
	// without may not be in the binary of whoever imports the package: not even by way of somebody else.
	without []string
	// tests says that only tests use the package.
	tests bool
}

// wire is HTTP in every package that speaks it, and what comes with it.
var wire = []string{
	"net/http", "net/http/cgi", "net/http/cookiejar", "net/http/fcgi", "net/http/httptest", "net/http/httptrace",
	"net/http/httputil", "net/http/pprof", "html/template", "github.com/caddyserver/caddy/v2", "go.uber.org/zap",
}

var database = []string{"database/sql", "database/sql/driver", "modernc.org/sqlite", "github.com/pressly/goose/v3", "github.com/jackc/pgx/v5"}

// core is what no room of the core has.
var core = slices.Concat(wire, database)

// rooms are the packages that have a rule; a package that is not listed fails the test, so that a new one gets one. A package
// may name only those below it: grants, issuer, signin, clients, families, accesstoken, keys, store, passwords, oauth; trust and delegation
// stand beside issuer, and the stores stand above store.
var rooms = map[string]room{
	"tokenissuer/members":    {others: []string{"github.com/go-json-experiment/json"}, without: core},
	"tokenissuer/oauth":      {without: core},
	"tokenissuer/strictjson": {others: []string{"github.com/go-json-experiment/json"}, without: core},
	"tokenissuer/passwords": {
		own:     []string{"internal/fairqueue", "tokenissuer/oauth"},
		others:  []string{"golang.org/x/crypto/argon2", "golang.org/x/crypto/bcrypt"},
		without: core,
	},
	"tokenissuer/store": {
		own:     []string{"tokenissuer/members", "tokenissuer/oauth", "tokenissuer/passwords"},
		others:  []string{"github.com/go-json-experiment/json", "golang.org/x/text/unicode/norm"},
		without: core,
	},
	"tokenissuer/keys": {
		own:     []string{"tokenissuer/oauth", "tokenissuer/store", "tokenissuer/strictjson"},
		others:  []string{"github.com/go-json-experiment/json", "github.com/golang-jwt/jwt/v5"},
		without: core,
	},
	"tokenissuer/token": {
		own:     []string{"internal/cache", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/store", "tokenissuer/strictjson"},
		others:  []string{"github.com/go-json-experiment/json", "golang.org/x/sync"},
		without: core,
	},
	"tokenissuer/backchannel": {
		own:     []string{"tokenissuer/fetch", "tokenissuer/token", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/store"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/attempts": {own: []string{"tokenissuer/oauth", "tokenissuer/store"}, without: core},
	"tokenissuer/assertion": {
		own:     []string{"internal/cache", "tokenissuer/token", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/strictjson", "tokenissuer/store"},
		others:  []string{"github.com/go-json-experiment/json"},
		without: core,
	},
	"tokenissuer/memory": {
		own: []string{"internal/cache", "tokenissuer/oauth", "tokenissuer/store"}, without: core,
	},
	"tokenissuer": {without: core},
	"tokenissuer/families": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/attempts",
			"tokenissuer/keys",
			"tokenissuer/memory",
			"tokenissuer/oauth",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/clients": {
		own: []string{
			"tokenissuer/assertion",
			"tokenissuer/attempts",
			"tokenissuer/families",
			"tokenissuer/memory",
			"tokenissuer/oauth",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/signin": {
		own: []string{
			"tokenissuer/attempts",
			"tokenissuer/clients",
			"tokenissuer/families",
			"tokenissuer/keys",
			"tokenissuer/oauth",
			"tokenissuer/passwords",
			"tokenissuer/routes",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/issuer": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/assertion",
			"tokenissuer/attempts",
			"tokenissuer/clients",
			"tokenissuer/families",
			"tokenissuer/token",
			"tokenissuer/keys",
			"tokenissuer/memory",
			"tokenissuer/oauth",
			"tokenissuer/passwords",
			"tokenissuer/redirect",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		others:  []string{"github.com/go-json-experiment/json"},
		without: core,
	},
	"tokenissuer/issuer/grants": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/assertion",
			"tokenissuer/clients",
			"tokenissuer/families",
			"tokenissuer/issuer",
			"tokenissuer/keys",
			"tokenissuer/oauth",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/routes":   {own: []string{"tokenissuer/oauth"}, without: core},
	"tokenissuer/redirect": {own: []string{"tokenissuer/oauth", "tokenissuer/routes", "tokenissuer/store"}, without: core},
	"tokenissuer/account": {
		own: []string{
			"tokenissuer/oauth",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/hosts": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/families",
			"tokenissuer/keys",
			"tokenissuer/oauth",
			"tokenissuer/token",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/personaltoken": {
		own: []string{
			"internal/cache",
			"tokenissuer/token",
			"tokenissuer/clients",
			"tokenissuer/families",
			"tokenissuer/oauth",
			"tokenissuer/token",
			"tokenissuer/routes",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/registry": {
		own: []string{
			"tokenissuer/assertion",
			"tokenissuer/clients",
			"tokenissuer/families",
			"tokenissuer/memory",
			"tokenissuer/oauth",
			"tokenissuer/passwords",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/registration": {
		own: []string{
			"tokenissuer/assertion",
			"tokenissuer/attempts",
			"tokenissuer/clients",
			"tokenissuer/oauth",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/clientmetadata": {
		own:     []string{"internal/cache", "internal/fairqueue", "tokenissuer/fetch", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/strictjson", "tokenissuer/registration", "tokenissuer/store"},
		others:  []string{"github.com/go-json-experiment/json"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/federation": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/assertion",
			"tokenissuer/families",
			"tokenissuer/oauth",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		without: core,
	},
	"tokenissuer/upstream": {
		own:     []string{"tokenissuer/federation", "tokenissuer/fetch", "tokenissuer/oauth", "tokenissuer/strictjson", "tokenissuer/store"},
		others:  []string{"github.com/coreos/go-oidc/v3", "github.com/go-json-experiment/json", "golang.org/x/oauth2"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/ldap": {
		own: []string{
			"internal/fairqueue",
			"tokenissuer/federation",
			"tokenissuer/oauth",
			"tokenissuer/signin",
			"tokenissuer/store",
		},
		others: []string{"github.com/go-asn1-ber/asn1-ber", "github.com/go-ldap/ldap/v3"},
		// go-ldap has net/http in it, for a kind of bind that nobody makes.
		without: []string{"database/sql", "github.com/caddyserver/caddy/v2", "go.uber.org/zap"},
	},
	"tokenissuer/sqlstore": {
		own: []string{
			"internal/failpoint", "tokenissuer/oauth", "tokenissuer/passwords", "tokenissuer/sqlstore/postgres", "tokenissuer/sqlstore/sqlite",
			"tokenissuer/sqlstore/writequeue", "tokenissuer/store",
		},
		others:  []string{"github.com/go-json-experiment/json", "github.com/jackc/pgx/v5", "github.com/pressly/goose/v3"},
		without: wire,
	},
	"tokenissuer/sqlstore/postgres":   {own: []string{"tokenissuer/oauth"}, others: []string{"github.com/jackc/pgx/v5"}, without: wire},
	"tokenissuer/sqlstore/sqlite":     {others: []string{"modernc.org/sqlite"}, without: wire},
	"tokenissuer/sqlstore/writequeue": {without: slices.Concat(wire, database)},
	"tokenissuer/storetest": {
		own: []string{"tokenissuer/oauth", "tokenissuer/passwords", "tokenissuer/store"}, without: slices.Concat(wire, database), tests: true,
	},
	"tokenissuer/endpoint": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/account",
			"tokenissuer/clients",
			"tokenissuer/endpoint/answers",
			"tokenissuer/endpoint/pages",
			"tokenissuer/endpoint/requests",
			"tokenissuer/federation",
			"tokenissuer/hosts",
			"tokenissuer/token",
			"tokenissuer/issuer",
			"tokenissuer/issuer/grants",
			"tokenissuer/oauth",
			"tokenissuer/personaltoken",
			"tokenissuer/redirect",
			"tokenissuer/registration",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/store",
			"tokenissuer/strictjson",
			"tokenissuer/upstream",
		},
		others:  []string{"github.com/go-json-experiment/json", "go.uber.org/zap"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2"}),
	},
	"tokenissuer/endpoint/answers": {
		own:     []string{"tokenissuer/endpoint/requests", "tokenissuer/oauth"},
		others:  []string{"github.com/go-json-experiment/json"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/endpoint/requests": {
		own: []string{
			"tokenissuer/assertion",
			"tokenissuer/clients",
			"tokenissuer/oauth",
			"tokenissuer/personaltoken",
			"tokenissuer/strictjson",
		},
		others:  []string{"github.com/go-json-experiment/json"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/endpoint/pages": {
		others:  []string{"golang.org/x/text"},
		without: slices.DeleteFunc(slices.Concat(wire, database), func(p string) bool { return p == "html/template" }),
	},
	"tokenissuer/fetch": {
		own:     []string{"internal/cache", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/strictjson"},
		others:  []string{"github.com/go-json-experiment/json"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"tokenissuer/trust": {
		own:     []string{"internal/cache", "internal/fairqueue", "tokenissuer/token", "tokenissuer/fetch", "tokenissuer/oauth"},
		others:  []string{"golang.org/x/sync"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"}),
	},
	"caddymodule/logfilter": {
		others: []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"},
	},
	"caddymodule/admin": {
		own: []string{
			"caddymodule/coverage",
			"caddymodule/node",
			"tokenissuer/token",
			"tokenissuer/account",
			"tokenissuer/federation",
			"tokenissuer/fetch",
			"tokenissuer/token",
			"tokenissuer/issuer",
			"tokenissuer/keys",
			"tokenissuer/members",
			"tokenissuer/oauth",
			"tokenissuer/passwords",
			"tokenissuer/personaltoken",
			"tokenissuer/registry",
			"tokenissuer/sqlstore",
			"tokenissuer/store",
			"tokenissuer/strictjson",
			"tokenissuer/trust",
		},
		others: []string{
			"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json", "github.com/prometheus/client_golang",
			"go.uber.org/zap",
		},
	},
	"caddymodule/command": {
		own: []string{
			"caddymodule/admin", "caddymodule/coverage",
			"tokenissuer/token", "tokenissuer/federation", "tokenissuer/fetch", "tokenissuer/members", "tokenissuer/oauth", "tokenissuer/passwords", "tokenissuer/store",
		},
		others: []string{
			"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json", "github.com/spf13/cobra", "go.uber.org/zap", "golang.org/x/term",
		},
	},
	"caddymodule/gate/mcp": {
		own:    []string{"caddymodule/gate/rule", "tokenissuer/endpoint", "tokenissuer/endpoint/answers", "tokenissuer/endpoint/requests", "tokenissuer/oauth"},
		others: []string{"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json"},
	},
	"caddymodule/hostpaths": {
		own: []string{"tokenissuer/endpoint", "tokenissuer/routes"}, others: []string{"github.com/caddyserver/caddy/v2"},
	},
	"caddymodule/coverage": {
		own:    []string{"caddymodule/gate", "caddymodule/hostpaths", "caddymodule/gate/browser", "caddymodule/gate/rule", "tokenissuer/endpoint", "tokenissuer/oauth", "tokenissuer/routes"},
		others: []string{"github.com/caddyserver/caddy/v2"},
	},
	"caddymodule/gate/browser": {
		own: []string{
			"tokenissuer/token",
			"tokenissuer/clients",
			"tokenissuer/endpoint",
			"tokenissuer/endpoint/answers",
			"tokenissuer/endpoint/pages",
			"tokenissuer/endpoint/requests",
			"tokenissuer/federation",
			"tokenissuer/hosts",
			"tokenissuer/oauth",
			"tokenissuer/token",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/store",
			"tokenissuer/upstream",
		},
		others: []string{"github.com/caddyserver/caddy/v2", "go.uber.org/zap"},
	},
	"caddymodule/pool": {others: []string{"github.com/caddyserver/caddy/v2"}},
	"caddymodule/setting": {
		others: []string{"github.com/caddyserver/caddy/v2"},
	},
	"caddymodule/gate/requestpath": {
		others:  []string{"golang.org/x/text/unicode/norm"},
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2"}),
	},
	"caddymodule/gate/identity": {
		without: slices.Concat(database, []string{"github.com/caddyserver/caddy/v2"}),
	},
	"caddymodule/caller": {
		own:    []string{"caddymodule/setting", "tokenissuer/token", "tokenissuer/oauth"},
		others: []string{"cel.dev/cel-go", "github.com/caddyserver/caddy/v2"},
	},
	"caddymodule/gate/rule": {
		own: []string{
			"caddymodule/caller", "caddymodule/gate/requestpath", "caddymodule/setting",
			"tokenissuer/token", "tokenissuer/federation", "tokenissuer/oauth", "tokenissuer/store",
		},
		others: []string{"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json"},
	},
	"caddymodule/gate": {
		own: []string{
			"caddymodule/caller",
			"caddymodule/hostpaths",
			"caddymodule/hostsession",
			"caddymodule/identity",
			"caddymodule/mcp",
			"caddymodule/requestpath",
			"caddymodule/rule",
			"caddymodule/setting",
			"internal/fairqueue",
			"tokenissuer/token",
			"tokenissuer/clients",
			"tokenissuer/token",
			"tokenissuer/endpoint",
			"tokenissuer/endpoint/answers",
			"tokenissuer/endpoint/requests",
			"tokenissuer/issuer",
			"tokenissuer/oauth",
			"tokenissuer/personaltoken",
			"tokenissuer/routes",
			"tokenissuer/sqlstore",
			"tokenissuer/store",
			"tokenissuer/trust",
		},
		others: []string{
			"cel.dev/cel-go", "github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json", "github.com/prometheus/client_golang",
			"go.uber.org/zap", "golang.org/x/net",
		},
	},
	"caddymodule/node": {
		own: []string{
			"caddymodule/pool",
			"tokenissuer/token", "tokenissuer/attempts", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/passwords",
			"tokenissuer/sqlstore", "tokenissuer/sqlstore/postgres", "tokenissuer/store",
		},
		others: []string{
			"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json", "github.com/prometheus/client_golang", "go.uber.org/zap",
		},
	},
	"caddymodule/configuration": {
		own: []string{
			"caddymodule/gate",
			"caddymodule/node",
			"caddymodule/setting",
			"tokenissuer/token",
			"tokenissuer/assertion",
			"tokenissuer/attempts",
			"tokenissuer/clientmetadata",
			"tokenissuer/clients",
			"tokenissuer/endpoint/pages",
			"tokenissuer/federation",
			"tokenissuer/issuer",
			"tokenissuer/keys",
			"tokenissuer/ldap",
			"tokenissuer/members",
			"tokenissuer/oauth",
			"tokenissuer/passwords",
			"tokenissuer/personaltoken",
			"tokenissuer/registration",
			"tokenissuer/signin",
			"tokenissuer/sqlstore",
			"tokenissuer/sqlstore/postgres",
			"tokenissuer/store",
			"tokenissuer/trust",
			"tokenissuer/upstream",
		},
		others: []string{"github.com/caddyserver/caddy/v2", "github.com/go-json-experiment/json", "go.uber.org/zap"},
	},
	"caddymodule": {
		own: []string{
			"caddymodule/admin",
			"caddymodule/caller",
			"caddymodule/command",
			"caddymodule/configuration",
			"caddymodule/coverage",
			"caddymodule/gate",
			"caddymodule/hostpaths",
			"caddymodule/hostsession",
			"caddymodule/logfilter",
			"caddymodule/node",
			"caddymodule/pool",
			"caddymodule/setting",
			"internal/failpoint",
			"tokenissuer/assertion",
			"tokenissuer/backchannel",
			"tokenissuer/clientmetadata",
			"tokenissuer/clients",
			"tokenissuer/token",
			"tokenissuer/endpoint",
			"tokenissuer/endpoint/requests",
			"tokenissuer/families",
			"tokenissuer/federation",
			"tokenissuer/fetch",
			"tokenissuer/hosts",
			"tokenissuer/issuer",
			"tokenissuer/issuer/grants",
			"tokenissuer/keys",
			"tokenissuer/ldap",
			"tokenissuer/memory",
			"tokenissuer/oauth",
			"tokenissuer/personaltoken",
			"tokenissuer/registration",
			"tokenissuer/registry",
			"tokenissuer/routes",
			"tokenissuer/signin",
			"tokenissuer/sqlstore",
			"tokenissuer/sqlstore/postgres",
			"tokenissuer/store",
			"tokenissuer/trust",
			"tokenissuer/upstream",
		},
		others: []string{
			"github.com/caddyserver/caddy/v2", "github.com/caddyserver/certmagic", "github.com/prometheus/client_golang", "go.uber.org/zap",
		},
	},
	// In a build without its tag it is empty.
	"internal/failpoint": {without: slices.Concat(wire, database)},
	"internal/fairqueue": {without: slices.Concat(wire, database)},
	"internal/cache":     {others: []string{"github.com/patrickmn/go-cache"}, without: slices.Concat(wire, database)},
	"internal/issuertest": {
		own: []string{"internal/tokentest"}, others: []string{"github.com/golang-jwt/jwt/v5"}, without: database, tests: true,
	},
	"rig": {
		own:    []string{"caddymodule", "internal/machine", "internal/faultproxy", "internal/loopback", "internal/pgtest"},
		others: []string{"github.com/caddyserver/caddy/v2", "golang.org/x/crypto/bcrypt", "golang.org/x/net/html"},
		tests:  true,
	},
	"internal/machine":    {without: slices.Concat(wire, database), tests: true},
	"internal/promises":   {without: slices.Concat(wire, database)},
	"internal/loopback":   {without: slices.Concat(wire, database), tests: true},
	"internal/faultproxy": {own: []string{"internal/loopback"}, without: database, tests: true},
	"internal/ldaptest": {
		own: []string{"internal/loopback"}, others: []string{"github.com/go-ldap/ldap/v3"}, without: []string{"database/sql"}, tests: true,
	},
	"internal/pgtest": {own: []string{"internal/loopback"}, others: []string{"github.com/jackc/pgx/v5"}, tests: true},
	"internal/testkeys": {
		own:   []string{"internal/teststore", "internal/tokentest", "tokenissuer/keys", "tokenissuer/oauth", "tokenissuer/store"},
		tests: true, without: wire,
	},
	"internal/teststore": {own: []string{"tokenissuer/sqlstore"}, without: wire, tests: true},
	"internal/tokentest": {own: []string{"tokenissuer/oauth"}, others: []string{"github.com/c2sp/wycheproof"}, without: slices.Concat(wire, database), tests: true},
}

// listed is what `go list` says of a package. Imports are those of its files that are no tests.
type listed struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	Deps       []string
}

// TestWhoMayImportWhom holds every package to its rule. Nobody imports math/rand; libraries may, for what is no secret.
// Only the standard library and what the rule lists may be named in a file, and what is kept out of a package is kept
// out of all that it imports too: a JSON library that brought net/http along would be a violation.
func TestWhoMayImportWhom(t *testing.T) {
	packages := goList(t)
	for path, p := range packages {
		name, ours := strings.CutPrefix(path, house)
		if !ours {
			continue
		}
		rule, ok := rooms[name]
		if !ok {
			t.Errorf("package %s has no rule", name)
		}
		for _, imported := range p.Imports {
			if !rule.allows(imported, packages[imported].Standard) {
				t.Errorf("%s imports %s", name, imported)
			}
			if own, ours := strings.CutPrefix(imported, house); ours && rooms[own].tests && !rule.tests {
				t.Errorf("%s imports %s, which only tests may use", name, own)
			}
		}
		for _, dependency := range p.Deps {
			if rule.lacks(dependency) {
				t.Errorf("%s depends on %s", name, dependency)
			}
		}
	}
	for name := range rooms {
		if _, ok := packages[house+name]; !ok {
			t.Errorf("there is no package %s", name)
		}
	}
}

// allows reports whether a file of the package may name another package.
func (r room) allows(imported string, standard bool) bool {
	if name, ours := strings.CutPrefix(imported, house); ours {
		return slices.Contains(r.own, name)
	}
	if standard {
		return imported != "math/rand" && imported != "math/rand/v2"
	}
	return slices.ContainsFunc(r.others, func(module string) bool {
		return imported == module || strings.HasPrefix(imported, module+"/")
	})
}

// lacks reports whether a package, or the module that it belongs to, is kept out of the room.
func (r room) lacks(dependency string) bool {
	return slices.ContainsFunc(r.without, func(kept string) bool {
		return dependency == kept || strings.Contains(kept, ".") && strings.HasPrefix(dependency, kept+"/")
	})
}

// goList asks the go command for the packages of this module and all that they depend on.
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

// TestTheCoreHasNoLogger: the edge logs, once. A library of the core may know log/slog for options that we leave alone.
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
