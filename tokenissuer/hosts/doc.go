// Package hosts keeps the sessions of browsers at the hosts behind the gate. A browser that has signed in at the issuer gets one at
// each host that it visits; it is a token family of its own, and ends with the sign-in.
//
// A sign-in at a host is attempt.go on its way through the browser, and redeem.go when it comes back. sessions.go turns the
// cookie of a session into what the gate knows of a caller.
package hosts
