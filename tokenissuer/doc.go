// Package tokenissuer is the core of Gatehouse: it decides who gets which token, and whether a token is good. It knows
// no HTTP, no SQL and no logger; clock, keys, directory and store are its fields. Values go in and values come out: a
// TokenRequest becomes a Grant, a Grant becomes Tokens, a bearer string becomes an AccessToken.
//
// The walk of a token request is exchange.go, its steps numbered: clientauth.go proves the client, each grant has the
// file of its name (grant_clientcredentials.go), issuer.go makes the tokens. The walk of a protected request is
// verify.go: jws.go takes the token apart, keyset.go finds the key (signingkey.go), revocation.go says whether it was revoked,
// tokencache.go remembers the verdict, explain.go tells it in words.
//
// client.go, scope.go, grant.go and token.go hold the things themselves; secret.go what must not be printed; jwk.go keys
// on the wire and keyseal.go keys at rest. directory.go says who exists and store.go what happens: the protocol's steps,
// each atomic. registry.go is the operator's side of it. revoke.go ends tokens (RFC 7009) and looks at them for others
// (RFC 7662). errors.go is the one error type.
package tokenissuer
