// Package fetch speaks HTTP to servers that others run, for every part of the program that does.
//
// Such a server may be down, slow, moved, rotated, taken over or simply wrong, and none of that may stop us, open us, or make us a tool against the
// network that we stand in. A [Client] therefore bounds every answer in size and time and looks at every address when it is dialled. [Keys] keeps the
// keys that a server publishes at a jwks_uri, and where they are, so that no request whose key is known waits for it; [KeySets] does so for many places.
// What differs between trusted issuers, identity providers and clients is in [Limits] and [Source].
//
//   - client.go is the HTTP client, and address.go decides what it may dial.
//   - failure.go sorts what goes wrong, and keeps secrets and endless texts out of errors.
//   - freshness.go reads how long an answer may be used.
//   - keys.go holds what is known of a key set, and how that changes; every change is a new state.
//   - refresh.go fetches it: ahead of time, when a token misses a key, and never more often than the cool-down allows.
//   - discover.go finds out where it is.
//   - snapshot.go keeps the last good set beyond the process, for a start without the server.
//   - keysets.go has the key sets of many clients.
//   - report.go describes keys to the operator.
package fetch
