// Package issuer is the authorization server without its wire: it decides authorization requests, makes tokens, revokes them and describes
// them. Values go in and values come out; clocks, keys and the store are fields.
//
// parts.go lists its parts. authorizationrequest.go reads an authorization request and openid.go its OpenID part, authorize.go asks for what
// is missing and grants it, and sealedrequest.go keeps it in the browser meanwhile. minter.go makes the tokens of a Grant. issuedtokens.go
// revokes tokens (RFC 7009), introspection.go describes them (RFC 7662), and userinfo.go describes their users. Package grants is the token
// endpoint.
package issuer
