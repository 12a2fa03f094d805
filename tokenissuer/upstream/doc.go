// Package upstream signs people in at external identity providers: OpenID providers and GitHub.
//
// A provider is another party's server, like the issuers of package trust, and responds through two channels. A response through the
// browser (a code or an error) is bound by the sealed state and RFC 9207. Responses of the provider's endpoints are authenticated by TLS
// and the configured URL; ID tokens are verified as well. Only sign-ins at a provider depend on it.
//
//   - provider.go has [Provider] and its parameters and results.
//   - answer.go reads the query of the callback.
//   - outcome.go has the ways in which a sign-in fails.
//   - openid.go has the steps at an OpenID provider: [OpenID.Begin] and [OpenID.Finish].
//   - metadata.go checks the metadata.
//   - exchange.go redeems a code.
//   - idtoken.go verifies ID tokens, and userinfo.go fetches missing claims.
//   - claims.go converts claims to an account; quirks.go handles those of Google and Entra.
//   - github.go is for GitHub, which is not an OpenID provider; githubapi.go calls its API.
//   - look.go checks a provider for the operator; state.go records its health.
package upstream
