// Package federation decides which user an account at an identity provider belongs to: one who is linked to it, one whom the
// provider's rules let it link, one whom they let it create, or nobody. Its door is Accounts. It speaks to no provider:
// upstream and ldap do, and hand over an Account.
package federation
