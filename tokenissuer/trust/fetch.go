package trust

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// fetchTimeout bounds a whole request, with its redirects and the body.
	fetchTimeout = 5 * time.Second
	// maxAnswer is the maximum body size in bytes. A longer body is an error: half a key set is another key set.
	maxAnswer    = 1 << 20
	maxRedirects = 3
	// pingAfter is how long an HTTP/2 connection may be silent before it is pinged, and pingTimeout how long the answer
	// may take. Otherwise a connection that died silently would block every request until TCP gives up, after a quarter
	// of an hour.
	pingAfter, pingTimeout = 5 * time.Second, 2 * time.Second
	// UserAgent is the User-Agent header of every request that we send.
	UserAgent = "Gatehouse (+https://github.com/gatehouse-auth/gatehouse)"
)

// client sends requests to the endpoints of one issuer.
type client struct {
	http      *http.Client
	transport *http.Transport
	dialer    *net.Dialer
	guard     addressGuard
	timeout   time.Duration
}

// newClient returns a client. It takes no proxy from the environment: a proxy would dial for us, and nobody would look at
// the address. The address is looked at when it is dialled, so that a name which resolves to something else a second later
// does not get by (DNS rebinding).
func newClient(private bool) *client {
	c := &client{guard: addressGuard{private: private}, timeout: fetchTimeout}
	c.dialer, c.transport = newTransport(c.guard)
	c.http = &http.Client{Transport: c.transport, CheckRedirect: sameOrigin}
	return c
}

func newTransport(guard addressGuard) (*net.Dialer, *http.Transport) {
	dialer := &net.Dialer{Timeout: fetchTimeout, ControlContext: guard.control}
	return dialer, &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        &tls.Config{MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    fetchTimeout,
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		DisableCompression:     true, // maxAnswer applies to the bytes read
		MaxIdleConnsPerHost:    16,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 64 << 10,
	}
}

// do sends a request and reads the whole body, whatever the status. The body is nil if there is an error.
func (c *client) do(ctx context.Context, request *http.Request) (status int, header http.Header, body []byte, err error) {
	if err := c.guard.checkURL(request.URL); err != nil {
		return 0, nil, nil, err
	}
	ctx, cancel := context.WithTimeout(withScheme(ctx, request.URL.Scheme), c.timeout)
	defer cancel()
	request = request.Clone(ctx)
	request.Header.Set("User-Agent", UserAgent)
	request.Header.Set("Accept-Encoding", "identity")
	if request.Header.Get("Accept") == "" {
		request.Header.Set("Accept", "application/json")
	}
	response, err := c.http.Do(request) //nolint:gosec // G704: the address is looked at when it is dialled
	if err != nil {
		return 0, nil, nil, err
	}
	defer func() { _ = response.Body.Close() }()
	if encoding := response.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return 0, nil, nil, fmt.Errorf("%s answered in encoding %q, which nobody asked for", request.URL, encoding)
	}
	body, err = io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return 0, nil, nil, fmt.Errorf("reading the answer of %s: %w", request.URL, err)
	case len(body) > maxAnswer:
		return 0, nil, nil, fmt.Errorf("the answer of %s is longer than %d bytes", request.URL, maxAnswer)
	}
	return response.StatusCode, response.Header, body, nil
}

// get fetches a document. Any status but 200 is an error.
func (c *client) get(ctx context.Context, address, accept string) (http.Header, []byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, nil, err
	}
	request.Header.Set("Accept", accept)
	status, header, body, err := c.do(ctx, request)
	if err == nil && status != http.StatusOK {
		err = fmt.Errorf("%s answered with status %d", address, status)
	}
	if err != nil {
		return nil, nil, err
	}
	return header, body, nil
}

// sameOrigin allows only redirects to the same origin: the request may carry our credentials, and the operator named this
// origin.
func sameOrigin(next *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return fmt.Errorf("more than %d redirects", maxRedirects)
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
