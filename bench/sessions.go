package main

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/bench/internal/load"
	"github.com/gatehouse-auth/gatehouse/bench/internal/report"
	"github.com/gatehouse-auth/gatehouse/bench/internal/stats"
)

const (
	// attemptCookie identifies a browser to a host during a sign-in. All sign-ins share it here; in production each
	// browser needs its own.
	attemptCookie = "gatehouse_sign_in=benchBenchBenchBenchBe"
	// manySessions is the number of sessions that the memory goal refers to.
	manySessions = 100_000
)

// sessions compares requests that carry a host's session with the same requests that carry a bearer token of the same
// person, on one route. Every session and every token has been used before.
func (b *bench) sessions() {
	s := b.ours(setup{})
	p := must(signIn(b.ctx, s))
	few := min(1000, b.tokens)
	tokens, _ := b.familiesOf(s, p, plainScope, few)
	bearer := side{name: "bearer token", on: s, load: orders(s.Web, tokens)}
	session := side{name: "session of a host", against: bearer.name, on: s, load: pages(s.Web, b.atHost(s, p, few))}
	b.send(session.load, few) // a token is cached when it is issued, a session when it is first used
	exchange := side{name: "code exchange", on: s, requests: b.requests / 4, prepare: func(count int) load.Load {
		return redeem(s, b.authorize(s, p, plainScope, count))
	}}
	callback := side{name: "callback of a host", against: exchange.name, on: s, requests: b.requests / 4, prepare: func(count int) load.Load {
		return comeBack(s, b.approved(s, p, count), nil)
	}}
	outs := b.compare(bearer, session, bearer.again(), exchange, callback)
	b.atMost("a request with a warm session: CPU", 1.15, outs.ratio(session.name, cpuOf), 3, "of the same with a warm bearer token")
	b.sessionCommits(s, p, session.load)
	b.sessionMemory()
}

// sessionCommits counts the commits that sessions cause. Requests are sent one after the other, so no two share a
// commit.
func (b *bench) sessionCommits(s *server, p person, warm load.Load) {
	const count = 50
	one := func(l load.Load) { must(l.Send(b.ctx, 1, count)) }
	begin := func() (callbacks load.Load) { return comeBack(s, b.approved(s, p, count), nil) }
	table := b.report.Table("", "commits")
	least := func(name string, prepare func() load.Load, run func(load.Load)) float64 {
		commits := math.MaxInt
		for range 5 { // housekeeping writes too
			l := prepare()
			if n, known := b.commitsOf(s, func() { run(l) }); known {
				commits = min(commits, n)
			}
		}
		table.Row(name, report.Number(float64(commits), 0))
		return float64(commits)
	}
	callbacks := least(fmt.Sprintf("%d callbacks of hosts", count), begin, one)
	used := least(fmt.Sprintf("%d requests with warm sessions", count), func() load.Load { return warm }, one)
	resting := least("as long as they rest", func() load.Load { return warm }, func(load.Load) { b.settle() })
	b.atMost("callback of a host", 2, callbacks/count, 2, "commits")
	b.atMost("sessions that are used again, and that are not used", 0, used+resting, 0, "commits")
}

// pages requests the same page with each session in turn, as an application's script does.
func pages(addr string, cookies []string) load.Load {
	requests := make([][]byte, len(cookies))
	for i, cookie := range cookies {
		requests[i] = []byte("GET /orders/1 HTTP/1.1\r\nHost: " + addr + "\r\nUser-Agent: bench/1\r\nAccept: application/json\r\n" +
			"Accept-Encoding: gzip\r\nCookie: " + cookie + "\r\n\r\n")
	}
	return load.Load{Addr: addr, Status: http.StatusOK, Request: load.InTurn(requests)}
}

// navigate opens each page as a browser does, and passes the target of each redirect to redirected. The pages are all
// at one address.
func navigate(addr, cookie string, targets []string, redirected func(i int, to *url.URL, r *load.Response) error) load.Load {
	return load.Load{
		Addr: addr, Status: http.StatusSeeOther,
		Request: func(i int, scratch []byte) []byte {
			return fmt.Appendf(scratch, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAccept: text/html\r\nSec-Fetch-Mode: navigate\r\n"+
				"Sec-Fetch-Dest: document\r\nCookie: %s\r\n\r\n", targets[i%len(targets)], addr, cookie)
		},
		Response: func(i int, r *load.Response) error {
			to, err := url.Parse(r.Get("Location"))
			if err != nil {
				return err
			}
			return redirected(i, to, r)
		},
	}
}

// approved begins sign-ins at the host and returns the callback URLs to which the issuer redirects the browser. Each
// is good once.
func (b *bench) approved(s *server, p person, count int) []string {
	asked, callbacks := make([]string, count), make([]string, count)
	into := func(targets []string, path string) func(int, *url.URL, *load.Response) error {
		return func(i int, to *url.URL, _ *load.Response) error {
			if to.Path != path {
				return fmt.Errorf("sent to %s", to)
			}
			targets[i] = to.RequestURI()
			return nil
		}
	}
	b.send(navigate(s.Web, attemptCookie, []string{"/orders/1"}, into(asked, "/oauth/authorize")), count)
	b.send(navigate(s.Issuer, p.cookies, asked, into(callbacks, "/oauth/callback")), count)
	return callbacks
}

// comeBack delivers the issuer's responses to the host, and stores the cookies that the host sets in cookies, unless
// that is nil.
func comeBack(s *server, callbacks, cookies []string) load.Load {
	return navigate(s.Web, attemptCookie, callbacks, func(i int, to *url.URL, r *load.Response) error {
		cookie, _, _ := strings.Cut(r.Get("Set-Cookie"), ";")
		if !strings.HasPrefix(cookie, "gatehouse_session=") {
			return fmt.Errorf("no session, and sent to %s", to)
		}
		if cookies != nil {
			cookies[i] = cookie
		}
		return nil
	})
}

// atHost signs a person in at the host count times and returns the cookies.
func (b *bench) atHost(s *server, p person, count int) []string {
	cookies := make([]string, count)
	b.send(comeBack(s, b.approved(s, p, count), cookies), count)
	return cookies
}

// sessionMemory fills a server with more and more sessions and measures the process's memory, as tokenMemory does.
func (b *bench) sessionMemory() {
	s := b.ours(setup{gogc: 10})
	p := must(signIn(b.ctx, s))
	table := b.report.Table("remembered sessions, GOGC=10", "RSS MiB", "bytes per session")
	each := min(b.tokens, manySessions/10)
	var before int64
	var growth []float64
	for step := range 4 { // the first brings the process to its working size
		b.send(pages(s.Web, b.atHost(s, p, each)), each)
		b.settle()
		resident := must(s.Resident())
		row := []report.Cell{mebibytes(resident)}
		if step > 0 {
			growth = append(growth, float64(resident-before)/float64(each))
			row = append(row, report.Number(growth[step-1], 0))
		}
		before = resident
		table.Row(strconv.Itoa((step+1)*each), row...)
	}
	one := stats.MedianOf(growth, func(bytes float64) float64 { return bytes })
	b.atMost(fmt.Sprintf("memory of %d sessions", manySessions), 100, one*manySessions/(1<<20), 1, "MiB RSS")
}
