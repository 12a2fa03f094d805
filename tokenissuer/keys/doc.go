// Package keys holds the keys of an issuer: the signing keys, which are made, encrypted, rotated and published as a JWK Set, and the master key,
// from which authorization codes, refresh tokens, session cookies and sealed state are derived.
package keys
