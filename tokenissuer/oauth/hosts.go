package oauth

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
)

// Paths on each host behind the gate. A browser returns to CallbackPath from the sign-in. SignOutPath asks whether to sign out, or says
// that it was done.
const (
	CallbackPath = "/oauth/callback"
	SignOutPath  = "/oauth/sign_out"
)

// Host is a host at which browsers sign in: the scheme and the authority of its origin (RFC 6454).
type Host struct{ Scheme, Authority string }

// Origin returns the origin of the host as browsers send it.
func (h Host) Origin() string { return h.Scheme + "://" + h.Authority }

// Callback returns the redirect URI of the host.
func (h Host) Callback() string { return h.Origin() + CallbackPath }

// Hosts are the hosts at which browsers can sign in. They are published once all routes are known. The zero value knows none.
type Hosts struct{ known atomic.Pointer[knownHosts] }

type knownHosts struct {
	exact map[string]Host // by authority
}

// Publish replaces the hosts by those of the origins. If two origins have the same authority, https wins.
func (hs *Hosts) Publish(origins []string) {
	known := &knownHosts{exact: make(map[string]Host)}
	for _, origin := range origins {
		scheme, authority, _ := strings.Cut(origin, "://")
		if known.exact[authority].Scheme != "https" {
			known.exact[authority] = Host{scheme, authority}
		}
	}
	hs.known.Store(known)
}

// Find returns the host of an authority, which is the Host header or :authority of a request. It does not allocate for one in the spelling
// of browsers.
func (hs *Hosts) Find(authority string) (Host, bool) {
	known := hs.known.Load()
	if known == nil {
		return Host{}, false
	}
	if host, ok := known.exact[authority]; ok {
		return host, true
	}
	authority = strings.ToLower(authority)
	for _, scheme := range []string{"https", "http"} {
		portless := strings.TrimSuffix(authority, map[string]string{"https": ":443", "http": ":80"}[scheme])
		if host, ok := known.exact[portless]; ok && host.Scheme == scheme {
			return host, true
		}
	}
	return Host{}, false
}

// All returns the hosts in no particular order.
func (hs *Hosts) All() []Host {
	known := hs.known.Load()
	if known == nil {
		return nil
	}
	return slices.Collect(maps.Values(known.exact))
}

// Has reports whether an origin, in the spelling of browsers, is one of the hosts'.
func (hs *Hosts) Has(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	host, ok := hs.Find(u.Host)
	return ok && host.Origin() == origin
}
