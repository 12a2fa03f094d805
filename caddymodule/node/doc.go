// Package node is the state of an issuer that outlives a reload: one Node for each store that a process uses.
//
// Begin with node.go: Acquire returns the Node of some Settings, and other packages use Node. startup.go opens it, and goes on trying while
// a database is away; lifetime.go ends it after its last request. In between feed.go reads the revocations once a second, keyring.go
// reads the signing keys, and housekeeping.go drops expired records, on one of the nodes that share a store.
//
// The store may be wrong: rollback.go detects a database that was restored to an older state, from what marker.go has written to a file.
// sealed.go detects one whose encrypted keys were replaced, and sharedclock.go a clock that differs from this machine's. While the store
// does not answer, attempts.go counts failed sign-ins on this node alone. health.go reports the state to balancers, and metrics.go to
// monitoring.
package node
