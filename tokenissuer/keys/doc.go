// Package keys holds the keys of an issuer: the signing keys, which it generates, encrypts, rotates and publishes as a
// JWK Set, and the master key, from which it derives authorization codes, refresh tokens, session cookies and sealed
// state.
package keys
