// Package oauth defines the vocabulary of the authorization server: errors and their codes, scopes, grant types,
// secrets, PKCE, redirect URIs, origins, and the hosts and resources that the routes make known. It imports no other package of Gatehouse.
package oauth
