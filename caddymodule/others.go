package caddymodule

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/configuration"
	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/pool"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
)

// others are the servers of others that a configuration names. Each is in a pool, by all settings that make a difference to it, so that
// what is known of it outlives a reload.
type others struct {
	trusted []*trustedIssuer
	// providers are the identity providers, and directories those at which the sign-in page checks passwords.
	providers   []*identityProvider
	directories []*peopleDirectory
	// clientKeys are the keys that clients publish; nil where no state is kept.
	clientKeys *running[*fetch.KeySets]
}

// takeOthers takes the servers of the settings from their pools. It opens no connection.
func takeOthers(settings *configuration.Settings, sources configuration.Sources, u *uses) (*others, error) {
	o := new(others)
	for _, t := range settings.Trusted {
		if err := o.takeTrusted(t, u); err != nil {
			return nil, err
		}
	}
	for _, p := range settings.SignIn.Providers {
		take := o.takeProvider
		if p.LDAP != nil {
			take = o.takeDirectory
		}
		if err := take(p, sources, u); err != nil {
			return nil, err
		}
	}
	return o, nil
}

// start starts fetching what the servers publish. Snapshots of that are kept in the configuration's storage.
func (o *others) start(storage certmagic.Storage) {
	for _, t := range o.trusted {
		t.running.start(storedSnapshots{storage, "oauth/trust/"})
	}
	for _, p := range o.providers {
		p.running.start(storedSnapshots{storage, "oauth/provider/"})
	}
	if o.clientKeys != nil {
		o.clientKeys.start(storedSnapshots{storage, "oauth/client_keys/"})
	}
}

// clientKeys holds what clients publish at their jwks_uri, once for each setting of allow_private_network.
var clientKeys = newRunningPool[*fetch.KeySets]()

func (o *others) takeClientKeys(config *configuration.ClientKeys, u *uses) error {
	private := config != nil && config.AllowPrivateNetwork
	use, err := clientKeys.Take(private, func() (*running[*fetch.KeySets], error) {
		return newRunning(fetch.ClientKeys(fetch.ReachOf(private), fetch.Options{Now: node.Clock, Warn: warnOf("client_keys", "jwks_uri")})), nil
	})
	if err != nil {
		return err
	}
	o.clientKeys = keep(u, use)
	return nil
}

// uses are a configuration's uses of things in pools, in the order in which they were taken.
type uses []interface{ Release() error }

// keep adds a use, and returns its value.
func keep[T any](u *uses, use *pool.Use[T]) T {
	*u = append(*u, use)
	return use.Value
}

// release ends the uses in reverse order: what was taken later may use what was taken before.
func (u uses) release() error {
	var released error
	for _, use := range slices.Backward(u) {
		released = errors.Join(released, use.Release())
	}
	return released
}

// published is data that another server publishes and that is fetched again and again.
type published interface {
	UseSnapshots(fetch.Snapshots)
	// Run returns when ctx has ended.
	Run(ctx context.Context)
}

// running is a published value in a pool, with the goroutine that fetches it from the first start of a configuration that uses it.
type running[T published] struct {
	value T
	once  sync.Once
	life  context.Context
	stop  context.CancelFunc
	runs  sync.WaitGroup
}

func newRunning[T published](value T) *running[T] {
	r := &running[T]{value: value}
	r.life, r.stop = context.WithCancel(context.Background()) //lint:ignore gosec end calls it
	return r
}

func newRunningPool[T published]() *pool.Pool[*running[T]] { return pool.New((*running[T]).end) }

// start sets where snapshots are kept, and starts the fetching, which goes on until no configuration uses the value.
func (r *running[T]) start(s fetch.Snapshots) {
	r.value.UseSnapshots(s)
	r.once.Do(func() { r.runs.Go(func() { r.value.Run(r.life) }) })
}

// end ends the fetching. Requests that are under way go on with what is known.
func (r *running[T]) end() error {
	r.stop()
	r.runs.Wait()
	return nil
}

// warnOf returns a function that warns of a server of that kind and name. It logs to the configuration that runs at that time.
func warnOf(kind, name string) func(string, error) {
	return func(message string, err error) {
		caddy.Log().Named("oauth."+kind).Warn(message, zap.String(kind, name), zap.Error(err))
	}
}

// storedSnapshots keeps snapshots in a folder of Caddy's storage, which several nodes may share.
type storedSnapshots struct {
	storage certmagic.Storage
	folder  string
}

// Load reads a snapshot.
func (s storedSnapshots) Load(ctx context.Context, name string) ([]byte, error) {
	return s.storage.Load(ctx, s.folder+name)
}

// Save replaces a snapshot.
func (s storedSnapshots) Save(ctx context.Context, name string, data []byte) error {
	return s.storage.Store(ctx, s.folder+name, data)
}
