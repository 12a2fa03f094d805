// Package issuer is the protocol logic of the authorization server, without HTTP. It decides authorization requests, and issues, revokes
// and describes tokens. Clocks, keys and the store are fields.
//
// parts.go lists its parts. authorizationrequest.go reads an authorization request and openid.go its OpenID part. authorize.go determines
// what a request needs and grants it, and sealedrequest.go seals it for its way through the browser. minter.go makes the tokens of a Grant.
// issuedtokens.go revokes tokens (RFC 7009), introspection.go describes them (RFC 7662), and userinfo.go describes their users. Package
// grants implements the token endpoint.
package issuer
