// Package trust verifies the tokens of other issuers: it fetches and caches their keys, and introspects opaque tokens.
//
// An issuer that we trust is somebody else's server. It may be down, slow, moved, rotated, taken over or simply wrong,
// and none of that may stop the gate, open it, or make it a tool against the network that it stands in. So nothing here
// is on the way of a request whose key is known, every answer is bounded in size and time, and every address is looked at
// when it is dialled. What is not known is answered with temporarily_unavailable, for an invalid_token would make clients
// throw good tokens away.
//
//   - issuer.go is the door: [Settings], and the walk of [Issuer.Verify].
//   - keys.go holds what is known of an issuer's keys, and how that changes; every change is a new state.
//   - refresh.go fetches them: ahead of time, when a token misses one, and never more often than the cool-down lets it.
//   - discover.go finds out where they are.
//   - snapshot.go keeps the last good set beyond the process, for a start without the issuer.
//   - fetch.go is the HTTP client of one issuer; address.go is what it may dial.
//   - introspection.go asks the issuer about opaque tokens.
//   - explain.go tells the operator what Verify does, and what is wrong with an issuer.
//   - openid.go keeps metadata and keys of an OpenID provider in the same way, for package upstream, and client.go sends
//     its requests to one.
//
// The tokens themselves are read by package token, with the same code as our own.
package trust
