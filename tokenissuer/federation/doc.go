// Package federation decides which user an account at an identity provider belongs to: a user who is linked to it, one whom the provider's
// rules link to it, a new one whom they create, or none. Accounts does that. Packages upstream and ldap speak to providers, and return an
// Account.
package federation
