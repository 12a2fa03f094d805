package growth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
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

// startTimeout ends a start that hangs.
const startTimeout = time.Minute

// gateway is a Caddy on the store, which can be started several times.
type gateway struct {
	*proc.Process
	options             Options
	dir                 string
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

func (g *gateway) file(name string) string { return filepath.Join(g.dir, name) }

// start starts Caddy and returns how long it took until it was ready.
func (g *gateway) start(ctx context.Context) (time.Duration, error) {
	log, err := os.Create(g.file("caddy.log"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()                                                                     // the child has its own handle
	cmd := exec.Command(g.options.Caddy, "run", "--adapter", "caddyfile", "--config", g.file("Caddyfile")) //nolint:gosec // what the flag names
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(g.options.Procs), "GOGC="+strconv.Itoa(g.options.GOGC), "HOME="+g.dir,
		"XDG_DATA_HOME="+g.file("data"), "XDG_CONFIG_HOME="+g.file("config"))
	began := time.Now()
	if g.Process, err = proc.Start(ctx, cmd, g.issuer, g.options.Servers); err == nil {
		if err = g.awaitReady(ctx); err != nil {
			g.Stop()
		}
	}
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return 0, fmt.Errorf("starting %s: %w\n%s", g.options.Caddy, err, text[max(0, len(text)-2000):])
	}
	return time.Since(began), nil
}

// awaitReady asks every few milliseconds.
func (g *gateway) awaitReady(ctx context.Context) error {
	client := http.Client{Timeout: time.Second}
	err := errors.New("it is not ready in time")
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); {
		response, asked := client.Get("http://" + g.issuer + "/oauth/jwks")
		if asked == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(response.Status)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-g.Exited():
			return errors.New("the process ended")
		case <-time.After(2 * time.Millisecond):
		}
	}
	return err
}
