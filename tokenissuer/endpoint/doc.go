// Package endpoint implements the HTTP endpoints of OAuth. It parses requests, calls the packages of tokenissuer, and writes their results
// as HTTP responses.
//
// Handler routes requests; endpoint.go has the routes. Each group of endpoints is a type with only the dependencies that it uses:
// tokenEndpoints (token.go, RFC 6749 §3.2; revoke.go, RFC 7009; introspect.go, RFC 7662; tokeninfo.go; userinfo.go, OpenID Connect Core
// §5.3), memberTokens (usertoken.go), registrations (registration.go, RFC 7591, RFC 7592), documents (servermetadata.go, RFC 8414 and
// OpenID Connect Discovery; metadata.go, RFC 9728, RFC 7517), and the pages: authorizationPages (authorize.go), signInPages (login.go),
// providerPages (callback.go), consentPages, accountPages with tokenPages (account.go, personaltokens.go), signOutPages (endsession.go,
// RP-Initiated Logout). The pages share a browser (browser.go), which handles cookies and forms.
// Only package requests reads bodies, client credentials and access tokens. Only package answers writes JSON, errors and challenges.
// Package pages renders HTML. audit.go writes one log line for each decision.
package endpoint
