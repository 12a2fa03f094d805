// Package trust verifies the tokens of other issuers: it fetches and caches their keys, and introspects opaque tokens.
//
// A trusted issuer is another party's server. It may be down, slow, moved, compromised or wrong, and none of that may stop the gate, open it,
// or make it send requests into its own network. So a request whose key is known needs no fetch, and package fetch bounds every response in
// size and time and checks every address when it is dialled. What cannot be decided is temporarily_unavailable: an invalid_token would make
// clients discard valid tokens.
//
//   - issuer.go has [Settings] and [Issuer.Verify].
//   - introspection.go introspects opaque tokens, in turns by source; endpoint.go sends the requests, introspectioncache.go caches the
//     responses, and outage.go records failures.
//   - assertion.go verifies assertions for the token endpoint.
//   - explain.go explains verdicts and failures to the operator.
//
// The tokens themselves are read by package token, with the same code as our own.
package trust
