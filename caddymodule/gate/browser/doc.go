// Package browser signs browsers in at the hosts behind the gate, and knows them afterwards by a cookie of that host.
//
// A navigation without a session goes to the issuer (signin.go), comes back to /oauth/callback of its host (callback.go), gets the
// cookie there, and goes on to the page that was asked for. Where there is no issuer it goes to an identity provider (provider.go).
// These paths are the host's, whatever its routes are: routes.go puts them before all others.
package browser
