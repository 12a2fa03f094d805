// Package signin establishes who a person is, and keeps them signed in. signin.go verifies passwords, here or in a directory
// (directory.go). session.go keeps the sessions of browsers at the issuer and hosts.go those at hosts behind the gate. sealedstate.go seals
// what waits in the browser meanwhile.
package signin
