// Package tokenissuer is the map of an authorization server without its wire: the packages below it decide who gets which token, and know
// no HTTP, no SQL and no logger. Values go in and values come out; clocks, keys, directories and stores are fields.
//
// A request comes from package endpoint, the wire. The token endpoint is package grants: grants/grants.go walks a request, its steps numbered, and
// each grant type has the file of its name (grants/refreshtoken.go). Package issuer decides authorization requests (issuer/authorize.go),
// makes tokens (issuer/minter.go), revokes them (issuer/issuedtokens.go) and describes them (issuer/introspection.go). Package clients establishes who a client
// is (clients/authentication.go), and package signin who a person is (signin/signin.go), whose sessions are in signin/session.go.
//
// What all of them share is package families: token families with the users whom they act for. Below it, accesstoken makes and verifies
// access tokens, idtoken makes ID tokens, keys holds what both are signed with, store says what is kept and what a store has to do,
// passwords hashes, attempts limits, and oauth has the words that all of them use.
//
// Beside issuer stand the operator's and the users' side, which do not need it: registry, account, personaltoken and registration; and
// federation and hosts, for sign-ins at providers and at hosts behind the gate. trust verifies tokens of other issuers, and delegation makes
// what upstreams are told. sqlstore is the store.
package tokenissuer
