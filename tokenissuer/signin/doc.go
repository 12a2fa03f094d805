// Package signin authenticates people and keeps them signed in. signin.go verifies passwords, here or in a directory (directory.go).
// accounts.go determines the user to whom an account at a provider belongs, by the rules of accountrules.go. Packages upstream and ldap
// talk to providers, and return an Account. session.go has the sessions of browsers at the issuer, and hostsessions.go those at hosts
// behind the gate. sealedstate.go seals the state that a browser carries during a sign-in.
package signin
