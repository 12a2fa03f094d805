// Package ldap signs people in with a directory that speaks LDAP: OpenLDAP, Active Directory, FreeIPA, 389 Directory Server.
//
// [Directory.Authenticate] finds the person's entry with a search, verifies the password with a bind on a separate connection, and finds
// the groups with further searches. It returns a signin.Account; package signin finds its user.
//
//   - settings.go has the settings and their checks.
//   - filter.go puts the login into a search filter.
//   - authenticate.go has the steps of a sign-in.
//   - entry.go reads the entry of a person, groups.go finds the groups.
//   - connection.go dials, secures and bounds a connection, pool.go keeps those that are bound to the service account.
//   - outcome.go distinguishes refusals and faults.
//   - report.go reports to the operator.
//
// Connections are encrypted unless the directory is on loopback or the operator allows otherwise. Referrals are not followed: they would send a
// password to a host that is not configured.
package ldap
