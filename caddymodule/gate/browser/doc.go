// Package browser signs browsers in at the hosts behind the gate, and recognises them by a cookie of that host.
//
// A navigation without a session goes to the issuer (signin.go), comes back to /oauth/callback of its host (callback.go), gets the
// cookie there (cookies.go), and goes on to the page that it requested. Without an issuer it goes to an identity provider
// (provider.go): authority.go knows which of them. People see pages (pages.go, explanation.go); programs of the host ask
// /oauth/session (whoami.go); signout.go ends the session. Package hostpaths puts these paths before all routes of a server.
package browser
