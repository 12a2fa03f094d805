// Package people manages users, for operators and for the users themselves. users.go and organisations.go change stored users and
// organisations, never declared ones; dryrun.go makes their checks alone. search.go finds users and sessions.go sessions, among those of
// everybody. reconcile.go ends what a new configuration no longer declares. account.go lists and ends what acts for a user, for the account
// page. links.go makes the links with which people set passwords, and registration.go those with which they become users. personaltokens.go
// makes and verifies personal access tokens.
package people
