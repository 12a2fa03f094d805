// Package endpoint serves OAuth over HTTP: it parses requests into values of tokenissuer, and writes its results as HTTP
// responses.
//
// Handler serves the issuer's endpoints; endpoint.go has its routes, and each route has a file of its name: token.go (RFC
// 6749 §3.2), revoke.go (RFC 7009), introspect.go (RFC 7662), tokeninfo.go, servermetadata.go (RFC 8414,
// OpenID Connect Discovery), metadata.go (RFC 9728, RFC 7517), userinfo.go (OpenID Connect Core §5.3), endsession.go (RP-Initiated Logout).
// Below it, package requests is the only reader of bodies, client credentials and access tokens, package answers the only writer
// of JSON, of errors and of challenges, and package pages has the HTML. audit.go writes one log line for each decision.
package endpoint
