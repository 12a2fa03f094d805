// Package gate is the `protect` handler: it passes only requests with an access token of a trusted issuer, and tells the
// upstream who is calling.
//
// Read decide.go first: ServeHTTP and decide show the path of a request. Each step has a file: credential.go (where the
// token is), issuers.go (which issuer verifies it), the package rule (the rules of the route), forward.go,
// assertion.go and tokenexchange.go (the upstream's headers), refusal.go (the answer to a refused client), gatewriter.go
// and answerfilter.go (the answer), streams.go (responses that outlive their token), signin.go (browsers). State shared
// by all gates of a configuration is in shared.go; the settings are in protect.go and caddyfile.go.
package gate
