package trust

import (
	"net"
	"net/http"
)

// Reach says which addresses beside those of the internet may be dialled.
type Reach uint8

const (
	// Internet is none.
	Internet Reach = iota
	// Loopback is loopback, with plain http too.
	Loopback
	// PrivateNetwork is loopback, with plain http too, and private and link-local addresses.
	PrivateNetwork
)

// Transport is an http.RoundTripper for URLs that others have named. It dials no address beyond its Reach, which it looks at when it
// dials, and it uses no proxy. A URL must be https, or http where the Reach has loopback.
type Transport struct {
	guard     addressGuard
	dialer    *net.Dialer
	transport *http.Transport
}

// NewTransport returns a transport. CloseIdleConnections ends it.
func NewTransport(reach Reach) *Transport {
	t := &Transport{guard: addressGuard{private: reach == PrivateNetwork, loopback: reach == Loopback}}
	t.dialer, t.transport = newTransport(t.guard)
	return t
}

// RoundTrip sends one request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.guard.checkURL(r.URL); err != nil {
		return nil, err
	}
	return t.transport.RoundTrip(r.WithContext(withScheme(r.Context(), r.URL.Scheme)))
}

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() { t.transport.CloseIdleConnections() }
