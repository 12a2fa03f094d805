// Package upstream signs people in at identity providers of others: OpenID providers, and GitHub.
//
// A provider is somebody else's server, as the issuers of package trust are, and it speaks through two channels. What comes
// through the browser (a code, or an error) is believed only as far as the browser's sealed state and RFC 9207 go. What
// comes from the provider's own endpoints is believed because of TLS and the configured URL, and an ID token is verified
// nevertheless. Nothing here is on the way of a request for which nobody has chosen the provider.
//
//   - provider.go is the door: [Provider], and what goes in and out.
//   - answer.go reads the query of the callback.
//   - outcome.go has the ways in which a sign-in fails.
//   - openid.go is the walk of an OpenID provider: [OpenID.Begin] and [OpenID.Finish].
//   - metadata.go says which metadata is usable.
//   - exchange.go redeems a code.
//   - idtoken.go verifies ID tokens, and userinfo.go asks for what they lack.
//   - claims.go makes an account of the claims, and quirks.go knows what Google and Entra mean by them.
//   - github.go is GitHub, which is no OpenID provider, and githubapi.go what it says of people.
//   - look.go tells the operator what works and what does not, and state.go how it went lately.
package upstream
