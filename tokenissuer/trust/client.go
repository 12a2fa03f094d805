package trust

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// Client sends single requests to the endpoints of an identity provider. It bounds an answer in time and size, takes none
// that is compressed, follows no redirect, and dials what NewClient allows.
type Client struct{ client *client }

// NewClient returns a Client that dials addresses of the internet alone, or of private networks too.
func NewClient(allowPrivateNetwork bool) *Client {
	c := newClient(allowPrivateNetwork)
	c.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{c}
}

// CheckURL returns an error for a URL to which Do would send nothing.
func (c *Client) CheckURL(address string) error {
	_, err := c.client.guard.parseURL(address)
	return err
}

// Do sends a request and reads the whole body, whatever the status.
func (c *Client) Do(request *http.Request) (status int, header http.Header, body []byte, err error) {
	err = guarded(func() (err error) {
		status, header, body, err = c.client.do(request.Context(), request)
		return err
	})
	return status, header, body, err
}

// Addresses resolves the host of a URL. The error says why one of its addresses is not dialled.
func (c *Client) Addresses(ctx context.Context, address string) ([]netip.Addr, error) {
	u, err := c.client.guard.parseURL(address)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(withScheme(ctx, u.Scheme), c.client.timeout)
	defer cancel()
	resolver := c.client.dialer.Resolver
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
		if err := c.client.guard.control(ctx, "tcp", netip.AddrPortFrom(ip, 443).String(), nil); err != nil {
			return list, fmt.Errorf("%s: %w", u.Hostname(), err)
		}
	}
	return list, nil
}

// CloseIdleConnections closes the connections that no request uses.
func (c *Client) CloseIdleConnections() { c.client.transport.CloseIdleConnections() }
