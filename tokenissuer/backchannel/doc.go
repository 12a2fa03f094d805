// Package backchannel tells applications that a session has ended (OpenID Connect Back-Channel Logout 1.0).
//
// What is to be told stands in the store, where the step that ended the session has put it; see store.LogoutStore. Each node that
// runs a Worker looks for what is due, and takes a logout for itself before it tries: whoever dies meanwhile leaves it to the next
// attempt. A delivery may happen twice, never not at all for want of a node.
package backchannel
