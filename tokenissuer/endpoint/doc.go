// Package endpoint serves OAuth over HTTP: it parses requests into values of tokenissuer, and writes its results as HTTP
// responses.
//
// Handler takes requests to the endpoints; endpoint.go has its routes. Each family of endpoints is a type that has no more than it uses:
// tokenEndpoints (token.go, RFC 6749 §3.2; revoke.go, RFC 7009; introspect.go, RFC 7662; tokeninfo.go; userinfo.go, OpenID Connect Core §5.3),
// memberTokens (usertoken.go), registrations (registration.go, RFC 7591, RFC 7592), documents (servermetadata.go, RFC 8414 and OpenID Connect
// Discovery; metadata.go, RFC 9728, RFC 7517), and the pages: authorizationPages (authorize.go), signInPages (login.go), providerPages
// (callback.go), consentPages, accountPages with tokenPages (account.go, personaltokens.go), signOutPages (endsession.go, RP-Initiated Logout).
// Those share a browser (browser.go), which knows cookies and forms.
// Below it, package requests is the only reader of bodies, client credentials and access tokens, package answers the only writer
// of JSON, of errors and of challenges, and package pages has the HTML. audit.go writes one log line for each decision.
package endpoint
