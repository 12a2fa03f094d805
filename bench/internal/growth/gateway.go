package growth

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/proc"
	"github.com/gatehouse-auth/gatehouse/bench/internal/seed"
)

const caddyfile = `{
	admin ADMIN
	persist_config off
	auto_https off
	grace_period 1s
	oauth {
		issuer http://ISSUER
		store STORE
	}
}
http://ISSUER {
	bind 127.0.0.1
	oauth_server
}
http://GATE {
	bind 127.0.0.1
	protect
	respond "{}"
}
`

// gateway is a Caddy on the store. It can be started several times.
type gateway struct {
	*proc.Process
	program             proc.Program
	database            seed.Database
	issuer, gate, admin string
}

// configure chooses addresses and writes the Caddyfile.
func (g *gateway) configure() error {
	store := `sqlite "` + g.database.Path + `"`
	if g.database.DSN != "" {
		store = `postgres "` + g.database.DSN + `"`
	}
	words := []string{"STORE", store}
	for _, site := range []struct {
		word string
		addr *string
	}{{"ISSUER", &g.issuer}, {"GATE", &g.gate}, {"ADMIN", &g.admin}} {
		var err error
		if *site.addr, err = proc.FreeAddress(); err != nil {
			return err
		}
		words = append(words, site.word, *site.addr)
	}
	return os.WriteFile(g.file("Caddyfile"), []byte(strings.NewReplacer(words...).Replace(caddyfile)), 0o600)
}

func (g *gateway) file(name string) string { return filepath.Join(g.program.Dir, name) }

// start starts Caddy and returns how long it took until it was ready.
func (g *gateway) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	var err error
	if g.Process, err = g.program.Start(ctx, g.issuer, "run", "--adapter", "caddyfile", "--config", g.file("Caddyfile")); err != nil {
		return 0, err
	}
	ready := get(g.issuer, "/oauth/jwks", func(int) string { return "Accept: application/json" })
	if err = g.Await(ctx, func() error { _, err := ready.Send(ctx, 1, 1); return err }); err != nil {
		g.Stop()
		return 0, fmt.Errorf("the issuer is not ready: %w%s", err, g.program.LastLines())
	}
	return time.Since(began), nil
}
