// Package idtoken is OpenID Connect's part of the core: it makes ID tokens and logout tokens, reads the ID tokens that come
// back as hints, reads the claims parameter, and says which claims of a user go where.
package idtoken
