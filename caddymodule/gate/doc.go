// Package gate is the `protect` handler: it passes only requests with an access token of a trusted issuer, and tells the
// upstream who is calling.
//
// Read decide.go first: ServeHTTP and decide show the path of a request. Protect has the settings, and Provision builds a
// part of the gate for each of its jobs, with a file each: credential.go (where the token is), tokens.go (whose tokens pass,
// verified in turns.go's turns), rules.go (the rules of the route), forward.go, assertion.go and tokenexchange.go (what the
// upstream gets), hostsession.go (browsers), cors.go (pages of other origins), refusal.go (the answer to a refused client),
// gatewriter.go and answerfilter.go (the answer), streams.go (responses that outlive their token). State shared by all gates
// of a configuration is in shared.go; the directive is parsed in caddyfile.go.
package gate
