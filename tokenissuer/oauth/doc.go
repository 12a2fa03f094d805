// Package oauth defines the vocabulary of the authorization server: errors and their codes, scopes, grant types,
// secrets, PKCE, redirect URIs and origins. It imports no other package of Gatehouse.
package oauth
