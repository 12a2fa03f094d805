// Package gate is `protect`: it lets a request pass only with an access token of an issuer that the route trusts, and tells the
// upstream who is calling.
//
// Read decide.go first: ServeHTTP and decide show the whole way of a request. Each step has a file: credential.go (where the token
// is), issuers.go (whose it is, and what that issuer's keys say of it), rules.go and rule_*.go (what the route asks for), forward.go,
// assertion.go and tokenexchange.go (what the upstream is told), refusal.go (what a refused client is told), gatewriter.go and
// answerfilter.go (the answer), streams.go (answers that outlast their token), signin.go (browsers). What all gates of a
// configuration share is in shared.go, the settings are in protect.go and caddyfile.go.
package gate
