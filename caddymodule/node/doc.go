// Package node is the state of an issuer that outlives a reload: one Node for each store that a process uses.
//
// Begin with node.go: Acquire returns the Node of some Settings, and Node is what other packages use. startup.go opens it,
// and goes on trying while a database is away; lifetime.go ends it when its last request has ended. In between feed.go reads
// the revocations once a second, keyring.go the signing keys, and housekeeping.go drops what has expired, on one of the nodes
// that share a store.
//
// The store is not trusted blindly: rollback.go notices a database that was put back to an older state, by what marker.go has
// kept of it in a file; sealed.go notices one whose encrypted keys were replaced, and sharedclock.go a clock that differs from
// this machine's. While the store does not answer, attempts.go counts failed sign-ins alone; health.go says so to balancers,
// and metrics.go to monitoring.
package node
