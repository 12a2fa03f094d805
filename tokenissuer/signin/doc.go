// Package signin establishes who a person is, and keeps them signed in. signin.go verifies passwords, here or in a directory
// (directory.go). accounts.go decides which user an account at a provider belongs to, by accountrules.go; packages upstream and ldap speak to
// providers, and return an Account. session.go keeps the sessions of browsers at the issuer, and hostsessions.go those at hosts behind the
// gate. sealedstate.go seals what waits in the browser meanwhile.
package signin
