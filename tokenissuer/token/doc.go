// Package token has the tokens of the issuer.
//
//   - Access tokens (RFC 9068): claims, signature, the Verifier with its cache, revocations, and explanations for operators. The tokens of
//     other issuers take the same checks.
//   - ID tokens and logout tokens (OpenID Connect Core), and ID tokens as hints. No reader of an access token accepts an ID token, nor the
//     reverse: they require different typ headers and return different types.
//   - Opaque credentials, such as session cookies: OpaqueCache keeps the AccessToken that a credential stands for.
//   - Assertions and exchanged tokens for upstreams: UpstreamTokens.
//   - Families and user names that were read lately: FamilyCache and UsernameCache.
package token
