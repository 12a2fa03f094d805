package growth

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/seed"
)

// Pace leaves the gateway idle most of the time, because the benchmark measures the duration of an operation and not
// of a queue.
const Pace = 4 * time.Millisecond

const (
	conns = 8
	// mostOfARound is the highest number of operations of a kind in a round.
	mostOfARound = 250
)

// user sends requests to a gateway with the credentials of a store's real families.
type user struct {
	*gateway
	options Options
	real    seed.Real

	mu      sync.Mutex
	access  []string
	refresh []string
	asked   int // codes redeemed so far
}

// operation is a request that may slow down with the size of the store.
type operation struct {
	name string
	load func(u *user) load.Load
	// count is the number of requests in a round; 0: perRound.
	count int
}

// operations lists the operations in the order in which they run. The exchange of codes yields the tokens for the
// others.
var operations = []operation{
	{"code exchange", (*user).redeem, 0},
	{"refresh", (*user).rotate, 0},
	{"client_credentials", (*user).token, 0},
	{"introspection", (*user).introspect, 0},
	{"gate", (*user).pass, 0},
	{"account page", (*user).account, 0},
	{"admin: a user", (*user).showUser, 0},
	{"admin: users of an organisation", (*user).listUsers, 50},
	{"admin: clients", (*user).listClients, 50},
	{"revocation", (*user).revoke, 0},
}

// everything measures every operation, in rounds. Each round runs all of them.
func (u *user) everything(ctx context.Context) ([]Latency, error) {
	return u.rounds(ctx, operations, u.options.Rounds)
}

// hot measures the operations that housekeeping must not disturb, for as long as one backlog lasts.
func (u *user) hot(ctx context.Context) ([]Latency, error) {
	return u.rounds(ctx, slices.DeleteFunc(slices.Clone(operations), func(o operation) bool {
		return !slices.Contains([]string{"refresh", "client_credentials", "introspection", "gate"}, o.name)
	}), u.options.Rounds)
}

func (u *user) rounds(ctx context.Context, all []operation, rounds int) ([]Latency, error) {
	best := make([]Latency, len(all))
	for round := range rounds {
		for i, o := range all {
			l, err := u.round(ctx, o)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.name, err)
			}
			if round == 0 {
				best[i] = l
			}
			best[i].CPU, best[i].P50, best[i].P99 = min(best[i].CPU, l.CPU), min(best[i].P50, l.P50), min(best[i].P99, l.P99)
		}
	}
	return best, nil
}

func (u *user) round(ctx context.Context, o operation) (Latency, error) {
	before, err := u.CPU()
	if err != nil {
		return Latency{}, err
	}
	l, count := o.load(u), cmp.Or(o.count, u.perRound())
	l.Pace = Pace
	result, err := l.Send(ctx, conns, count)
	if err != nil {
		return Latency{}, err
	}
	after, err := u.CPU()
	return Latency{o.name, (after - before) / time.Duration(count), result.Latency.Quantile(0.5), result.Latency.Quantile(0.99)}, err
}

// perRound returns the number of requests in a round. Each round needs new codes, and revokes half of the resulting
// families.
func (u *user) perRound() int { return min(len(u.real.Codes)/u.options.Rounds, mostOfARound) }

func (u *user) redeem() load.Load {
	codes := u.real.Codes[u.asked : u.asked+u.perRound()]
	u.asked += len(codes)
	return u.form("/oauth/token", func(i int) url.Values {
		return url.Values{"grant_type": {"authorization_code"}, "code": {codes[i]}, "redirect_uri": {seed.RedirectURI}}
	}, u.keep)
}

func (u *user) rotate() load.Load {
	used := len(u.refresh) - u.perRound()
	tokens := slices.Clone(u.refresh[used:])
	u.refresh = u.refresh[:used]
	return u.form("/oauth/token", func(i int) url.Values {
		return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {tokens[i]}}
	}, u.keep)
}

// keep stores the tokens of a response.
func (u *user) keep(_ int, r *load.Response) error {
	var answer struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
	}
	if err := json.Unmarshal(r.Body, &answer); err != nil {
		return err
	}
	if answer.Access == "" || answer.Refresh == "" {
		return errors.New("the answer lacks a token")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.access, u.refresh = append(u.access, answer.Access), append(u.refresh, answer.Refresh)
	return nil
}

func (u *user) token() load.Load {
	return u.form("/oauth/token", func(int) url.Values { return url.Values{"grant_type": {"client_credentials"}} }, nil)
}

// introspect introspects refresh tokens. They are in the store and in no cache.
func (u *user) introspect() load.Load {
	tokens := slices.Clone(u.refresh)
	return u.form("/oauth/introspect", func(i int) url.Values { return url.Values{"token": {tokens[i%len(tokens)]}} }, active)
}

func active(_ int, r *load.Response) error {
	var answer struct {
		Active bool `json:"active"`
	}
	if err := json.Unmarshal(r.Body, &answer); err != nil || !answer.Active {
		return errors.Join(err, fmt.Errorf("the token is not active: %s", r.Body))
	}
	return nil
}

// revoke revokes families that are not used afterwards.
func (u *user) revoke() load.Load {
	n := u.perRound() / 2
	tokens := slices.Clone(u.refresh[:n])
	u.refresh = slices.Delete(u.refresh, 0, n)
	return u.form("/oauth/revoke", func(i int) url.Values {
		return url.Values{"token": {tokens[i%len(tokens)]}} // the second revocation finds nothing to do
	}, nil)
}

// pass sends tokens that have been used before to the gate.
func (u *user) pass() load.Load {
	tokens := slices.Clone(u.access[max(0, len(u.access)-u.perRound()):])
	return get(u.gate, "/orders/1", func(i int) string { return "Authorization: Bearer " + tokens[i%len(tokens)] })
}

func (u *user) account() load.Load {
	return get(u.issuer, "/oauth/account", func(i int) string { return "Cookie: session=" + u.real.Cookies[i%len(u.real.Cookies)] })
}

func (u *user) showUser() load.Load { return u.ask("/oauth/users/" + u.real.User) }

func (u *user) listUsers() load.Load {
	return u.ask("/oauth/users?organisation=" + u.real.Organisation)
}

func (u *user) listClients() load.Load { return u.ask("/oauth/clients") }

// ask requests a path of the admin endpoint.
func (u *user) ask(path string) load.Load {
	return get(u.admin, path, func(int) string { return "Accept: application/json" })
}

// get returns requests with one more header.
func get(host, path string, header func(i int) string) load.Load {
	return load.Load{Addr: host, Status: http.StatusOK, Request: func(i int, scratch []byte) []byte {
		return fmt.Appendf(scratch, "GET %s HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", path, host, header(i))
	}}
}

// form returns requests of the client to the issuer.
func (u *user) form(path string, values func(i int) url.Values, response func(int, *load.Response) error) load.Load {
	return load.Load{Addr: u.issuer, Status: http.StatusOK, Response: response, Request: func(i int, scratch []byte) []byte {
		form := values(i)
		form.Set("client_id", clientID)
		form.Set("client_secret", clientSecret)
		body := form.Encode()
		return fmt.Appendf(scratch, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s",
			path, u.issuer, len(body), body)
	}}
}
