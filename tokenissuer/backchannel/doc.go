// Package backchannel tells applications that a session has ended (OpenID Connect Back-Channel Logout 1.0).
//
// The step of the store that ends a session also stores the logouts to deliver; see store.LogoutStore. Each node that runs a Worker claims a
// logout before it delivers it. The claim of a node that stops expires, and another node delivers the logout. So a logout is delivered at
// least once.
package backchannel
