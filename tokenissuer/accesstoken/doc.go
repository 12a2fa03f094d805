// Package accesstoken makes and verifies access tokens (RFC 9068): claims, signature, cache of verified tokens, revocations, and what an operator is
// told of a token.
package accesstoken
