package fetch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/tracing"
)

const (
	// DefaultTimeout bounds a whole request, with its redirects and the body.
	DefaultTimeout = 5 * time.Second
	// DefaultMaxBytes is the maximum body size. A longer body is an error: half a key set is another key set.
	DefaultMaxBytes = 1 << 20
	// pingAfter is how long an HTTP/2 connection may be silent before it is pinged, and pingTimeout how long the answer
	// may take. Otherwise a connection that died silently would block every request until TCP gives up, after a quarter
	// of an hour.
	pingAfter, pingTimeout = 5 * time.Second, 2 * time.Second
	// userAgent is the User-Agent header of every request that we send.
	userAgent = "Gatehouse (+https://github.com/gatehouse-auth/gatehouse)"
)

// Limits bound the requests of a Client. The zero value reaches the internet only, and follows no redirects.
type Limits struct {
	Reach Reach
	// Timeout bounds a whole request; zero: DefaultTimeout.
	Timeout time.Duration
	// MaxBytes bounds a body; zero: DefaultMaxBytes.
	MaxBytes int64
	// Redirects is how many are followed, to the same origin alone; zero: the redirect is the answer.
	Redirects int
	// JSON refuses documents of another media type than application/json and application/*+json.
	JSON bool
	// StatusOnly discards the body, and reads at most MaxBytes of it.
	StatusOnly bool
	// Once closes each connection after its answer.
	Once bool
}

// Client sends requests to servers of other parties. It dials addresses within its Reach, uses no proxy, and refuses compressed responses. It is
// safe for concurrent use.
type Client struct {
	limits    Limits
	http      *http.Client
	transport *http.Transport
	dialer    *net.Dialer
	guard     addressGuard
}

// Answer is the answer to a request.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// NewClient returns a client. It takes no proxy from the environment: a proxy would dial for us, and the address would not be
// checked. The address is checked when it is dialled, so that a name which resolves to something else a second later
// does not get by (DNS rebinding).
func NewClient(limits Limits) *Client {
	if limits.Timeout == 0 {
		limits.Timeout = DefaultTimeout
	}
	if limits.MaxBytes == 0 {
		limits.MaxBytes = DefaultMaxBytes
	}
	c := &Client{limits: limits, guard: addressGuard{reach: limits.Reach}}
	c.dialer = &net.Dialer{Timeout: limits.Timeout, ControlContext: c.guard.control}
	c.transport = &http.Transport{
		DialContext:            c.dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    limits.Timeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // MaxBytes applies to the bytes read
		DisableKeepAlives:      limits.Once,
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
	c.http = &http.Client{Transport: c.transport, CheckRedirect: c.checkRedirect}
	return c
}

// Do sends a request and reads the whole body, whatever the status. Its error does not contain the URL.
//
// It does not send the trace on: the other server would learn which of its requests belong together.
func (c *Client) Do(request *http.Request) (answer *Answer, err error) {
	ctx, span := tracing.StartCall(request.Context(), "fetch", request.Method)
	span.Set(tracing.Server, request.URL.Hostname())
	err = Guard(func() error {
		answer, err = c.do(ctx, request)
		return err
	})
	if answer != nil {
		span.SetStatus(answer.Status)
	}
	span.End(err)
	if err != nil {
		return nil, err
	}
	return answer, nil
}

func (c *Client) do(ctx context.Context, request *http.Request) (*Answer, error) {
	if err := c.guard.checkURL(request.URL); err != nil {
		return nil, away{err}
	}
	ctx, cancel := context.WithTimeout(withScheme(ctx, request.URL.Scheme), c.limits.Timeout)
	defer cancel()
	request = request.Clone(ctx)
	request.Header.Set("User-Agent", userAgent)
	request.Header.Set("Accept-Encoding", "identity")
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, away{withoutURL(err)}
	}
	defer func() { _ = response.Body.Close() }()
	answer := &Answer{Status: response.StatusCode, Header: response.Header}
	if c.limits.StatusOnly {
		_, _ = io.CopyN(io.Discard, response.Body, c.limits.MaxBytes) // so that the connection can be used again
		return answer, nil
	}
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, unfit(answer.Status, fmt.Errorf("the answer is in encoding %q, which was not asked for", encoding))
	}
	answer.Body, err = io.ReadAll(io.LimitReader(response.Body, c.limits.MaxBytes+1))
	switch {
	case err != nil:
		return nil, away{fmt.Errorf("reading the answer: %w", err)}
	case int64(len(answer.Body)) > c.limits.MaxBytes:
		return nil, unfit(answer.Status, fmt.Errorf("the answer is longer than %d bytes", c.limits.MaxBytes))
	}
	return answer, nil
}

// Get fetches a document. Any status but 200 is an error.
func (c *Client) Get(ctx context.Context, address, accept string) (*Answer, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", accept)
	answer, err := c.Do(request)
	if err != nil {
		return nil, err
	}
	switch status := answer.Status; {
	case status >= 300 && status < 400:
		return nil, errors.New("its URL redirects, which is not followed")
	case status != http.StatusOK:
		return nil, unfit(status, fmt.Errorf("the server answered with status %d", status))
	case c.limits.JSON && !isJSON(answer.Header):
		return nil, errors.New("its media type is not application/json")
	}
	return answer, nil
}

// unfit returns an error about an answer that cannot be used. It is ErrAway where the status says that another attempt may succeed.
func unfit(status int, err error) error {
	if status >= http.StatusInternalServerError || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return away{err}
	}
	return err
}

func isJSON(header http.Header) bool {
	media, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err == nil && (media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"))
}

// checkRedirect allows only redirects to the same origin: the request may carry our credentials, and the operator named this
// origin.
func (c *Client) checkRedirect(next *http.Request, via []*http.Request) error {
	if c.limits.Redirects == 0 {
		return http.ErrUseLastResponse
	}
	if len(via) > c.limits.Redirects {
		return fmt.Errorf("more than %d redirects", c.limits.Redirects)
	}
	if asked, now := originOf(via[0].URL), originOf(next.URL); asked != now {
		return fmt.Errorf("redirected from %s to %s", asked, now)
	}
	return nil
}

// originOf returns scheme, host and port (RFC 6454 §4).
func originOf(u *url.URL) string {
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// CheckURL returns an error for a URL to which Do would send nothing.
func (c *Client) CheckURL(address string) error {
	_, err := c.guard.parseURL(address)
	return err
}

// Addresses resolves the host of a URL. The error says why one of its addresses is not dialled.
func (c *Client) Addresses(ctx context.Context, address string) ([]netip.Addr, error) {
	u, err := c.guard.parseURL(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(withScheme(ctx, u.Scheme), c.limits.Timeout)
	defer cancel()
	resolver := c.dialer.Resolver
	if resolver == nil {
		resolver = net.DefaultResolver
	}
	list, err := resolver.LookupNetIP(ctx, "ip", u.Hostname())
	if err != nil {
		return nil, err
	}
	for i, ip := range list {
		ip = ip.Unmap()
		list[i] = ip
		if err := c.guard.control(ctx, "tcp", netip.AddrPortFrom(ip, 443).String(), nil); err != nil {
			return list, fmt.Errorf("%s: %w", u.Hostname(), err)
		}
	}
	return list, nil
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.transport.CloseIdleConnections() }
