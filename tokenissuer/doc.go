// Package tokenissuer decides who gets which token: it is the authorization server without its wire. It knows no HTTP, no SQL
// and no logger; clock, keys, directory and store are its fields. Values go in and values come out: a TokenRequest becomes a
// Grant, a Grant becomes Tokens.
//
// The walk of a token request is exchange.go, its steps numbered: clientauth.go proves the client, each grant has the file of
// its name (grant_clientcredentials.go), issuer.go makes the tokens. A browser comes by authorize.go, signin.go and session.go,
// and what waits with it meanwhile is sealedstate.go, wrapped by package keys. revoke.go ends tokens (RFC 7009) and looks at them for
// others (RFC 7662). Above it stand account, for what a user has allowed, registry, which is the operator's side, and endpoint, the wire.
//
// The rooms below it, each importing only those after it: token makes and verifies access tokens and ID tokens and those for
// upstreams, keys holds what both are signed with, store says what is kept and what
// a store has to do, passwords hashes, oauth has the words that all of them use. Redirect is where answers to browsers go, routes what
// the routes make known.
// Beside it stand trust, for the tokens of other issuers, and sqlstore, the store.
package tokenissuer
