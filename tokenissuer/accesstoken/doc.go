// Package accesstoken issues and verifies access tokens (RFC 9068): claims, signature, the cache of verified tokens,
// revocations, and the explanations of tokens for operators.
package accesstoken
