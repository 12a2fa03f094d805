// Package ldap signs people in with a directory that speaks LDAP: OpenLDAP, Active Directory, FreeIPA, 389 Directory Server.
//
// Its door is [Directory.Authenticate]: one search finds the entry of whoever signs in, a bind on a connection of its own proves the
// password, further searches find the groups. What comes of it is a federation.Account; package federation decides whose it is.
//
//   - settings.go is what an operator says, and what is wrong with it.
//   - filter.go puts what somebody typed into a search filter.
//   - authenticate.go is the walk.
//   - entry.go reads the entry of a person, groups.go finds the groups.
//   - connection.go dials, secures and bounds a connection, pool.go keeps those that are bound to the service account.
//   - outcome.go tells a refusal from a fault.
//   - report.go tells the operator how the directory is doing.
//
// Nothing is bound or searched in the clear unless the directory is on loopback or the operator has asked for it. Referrals are not
// followed: they would send a password to a host that nobody configured.
package ldap
