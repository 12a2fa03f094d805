package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	userEmail    = "ada@acme.example"
	userPassword = "correct-horse-battery-staple"
	// userHash is the argon2id hash of userPassword, at the costs of new ones: 19 MiB, 2 passes.
	userHash = "$argon2id$v=19$m=19456,t=2,p=1$yXa/aZkhUX8piebebAAWpQ$HznGJ7IpMFKJ97enetQiFCNU3xnfnVJQbbPZM8/VJRQ"
	// manyConns is a busy moment.
	manyConns = 64
	fsyncs    = 400
)

// refresh rotates the refresh tokens of as many families as there are connections. Each is one durable step.
func (b *bench) refresh() error {
	fsync, err := fsyncTime(b.gateway.dir, fsyncs)
	if err != nil {
		return err
	}
	chains, err := b.chains(manyConns)
	if err != nil {
		return err
	}
	rotate := b.rotation(chains)
	writeRow(b.out, "", "CPU µs/request", "requests/s", "of one fsync a request")
	writeRow(b.out, "---", "---:", "---:", "---:")
	for _, conns := range []int{1, b.conns, manyConns} {
		count := b.requests
		if conns == 1 {
			count /= 8
		}
		var costs []cost
		for range b.rounds {
			c, err := b.gateway.measure(b.ctx, rotate, conns, count)
			if err != nil {
				return err
			}
			costs = append(costs, c)
		}
		rate := medianOf(costs, func(c cost) float64 { return c.rate })
		writeRow(b.out, fmt.Sprintf("refresh, %d connections", conns),
			fmt.Sprintf("%.1f", medianOf(costs, func(c cost) float64 { return c.cpu })),
			fmt.Sprintf("%.0f", rate), fmt.Sprintf("%.1f×", rate*fsync.Seconds()))
	}
	writeRow(b.out, "write 4 KiB and fsync, alone", "", fmt.Sprintf("%.0f", 1/fsync.Seconds()), "1.0×")
	return nil
}

// chains begins families, and returns a refresh token of each.
func (b *bench) chains(count int) ([]string, error) {
	form := url.Values{"grant_type": {"password"}, "email": {userEmail}, "password": {userPassword}}
	tokens := make([]string, count)
	begin := load{
		addr: b.gateway.issuer, status: http.StatusOK, request: constant(b.tokenForm(form)),
		response: func(i int, body []byte) error {
			var err error
			tokens[i], err = refreshToken(body)
			return err
		},
	}
	_, err := begin.send(b.ctx, 1, count)
	return tokens, err
}

// rotation takes a token that nobody is using, and puts its successor back.
func (b *bench) rotation(tokens []string) load {
	free := make(chan string, len(tokens))
	for _, token := range tokens {
		free <- token
	}
	return load{
		addr: b.gateway.issuer, status: http.StatusOK,
		request: func(_ int, scratch []byte) []byte {
			form := url.Values{"grant_type": {"refresh_token"}, "refresh_token": {<-free}}
			return append(scratch, b.tokenForm(form)...)
		},
		response: func(_ int, body []byte) error {
			token, err := refreshToken(body)
			free <- token
			return err
		},
	}
}

func refreshToken(body []byte) (string, error) {
	var answer struct {
		RefreshToken string `json:"refresh_token"`
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", err
	}
	if answer.RefreshToken == "" {
		return "", errors.New("the answer holds no refresh_token")
	}
	return answer.RefreshToken, nil
}

// tokenForm is a request to the token endpoint by the benchmark's client.
func (b *bench) tokenForm(form url.Values) []byte {
	form.Set("client_id", clientID)
	form.Set("client_secret", clientSecret)
	body := form.Encode()
	return fmt.Appendf(nil, "POST /oauth/token HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\n"+
		"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", b.gateway.issuer, len(body), body)
}

// fsyncTime is what the disk under dir takes to make 4 KiB durable.
func fsyncTime(dir string, count int) (time.Duration, error) {
	file, err := os.Create(filepath.Join(dir, "fsync"))
	if err != nil {
		return 0, err
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	page := make([]byte, 4<<10)
	start := time.Now()
	for range count {
		if _, err := file.WriteAt(page, 0); err != nil {
			return 0, err
		}
		if err := file.Sync(); err != nil {
			return 0, err
		}
	}
	return time.Since(start) / time.Duration(count), nil
}

// signIns sends a flood of wrong passwords, each of which costs a slow hash, and looks at what the gate's callers notice.
func (b *bench) signIns() error {
	tokens, err := b.obtain(1)
	if err != nil {
		return err
	}
	gate := load{addr: b.gateway.protected, status: http.StatusOK, request: b.orders(tokens)}
	if _, err := latencies(b.ctx, gate, b.conns, b.requests/4); err != nil { // warm
		return err
	}
	writeRow(b.out, "", "p50 ms", "p99 ms", "answers of the flood", "RSS MiB")
	writeRow(b.out, "---", "---:", "---:", "---", "---:")
	for _, flooded := range []bool{false, true, false, true} {
		ctx, stop := context.WithCancel(b.ctx)
		var flooding sync.WaitGroup
		var answers statusCounts
		name := "gate alone"
		if flooded {
			name = fmt.Sprintf("gate, and %d connections that guess passwords", manyConns)
			for range manyConns {
				flooding.Go(func() { b.guess(ctx, &answers) })
			}
		}
		taken, err := latencies(b.ctx, gate, b.conns, b.requests)
		resident, memoryErr := b.gateway.residentBytes()
		stop()
		flooding.Wait()
		if err := errors.Join(err, memoryErr); err != nil {
			return err
		}
		milliseconds := func(q int) string {
			return fmt.Sprintf("%.2f", float64(taken[len(taken)*q/100].Microseconds())/1000)
		}
		writeRow(b.out, name, milliseconds(50), milliseconds(99), answers.String(), fmt.Sprintf("%.0f", float64(resident)/(1<<20)))
	}
	return nil
}

// pace is the time between two requests whose latency is measured: a gate that is in use and not at its limit.
const pace = time.Second / 1000

// latencies sends a load at that pace and returns how long each answer took, the shortest first.
func latencies(ctx context.Context, l load, conns, count int) ([]time.Duration, error) {
	started, taken := make([]time.Time, count), make([]time.Duration, count)
	request := l.request
	begin := time.Now()
	l.request = func(i int, scratch []byte) []byte {
		bytes := request(i, scratch)
		time.Sleep(time.Until(begin.Add(time.Duration(i) * pace)))
		started[i] = time.Now()
		return bytes
	}
	l.response = func(i int, _ []byte) error {
		taken[i] = time.Since(started[i])
		return nil
	}
	_, err := l.send(ctx, conns, count)
	slices.Sort(taken)
	return taken, err
}

// statusCounts counts answers by status.
type statusCounts struct{ wrong, busy, other atomic.Int64 }

func (c *statusCounts) String() string {
	if c.wrong.Load()+c.busy.Load()+c.other.Load() == 0 {
		return ""
	}
	return fmt.Sprintf("%d wrong, %d turned away, %d other", c.wrong.Load(), c.busy.Load(), c.other.Load())
}

// guess tries passwords of ever other accounts until the context ends.
func (b *bench) guess(ctx context.Context, answers *statusCounts) {
	c, err := dial(b.gateway.issuer)
	if err != nil {
		return
	}
	defer c.close()
	for i := 0; ctx.Err() == nil; i++ {
		form := url.Values{"grant_type": {"password"}, "email": {strconv.Itoa(i) + userEmail}, "password": {"wrong"}}
		switch status, _, err := c.do(b.tokenForm(form)); {
		case err != nil:
			return
		case status == http.StatusBadRequest:
			answers.wrong.Add(1)
		case status == http.StatusServiceUnavailable:
			answers.busy.Add(1)
		default:
			answers.other.Add(1)
		}
	}
}
