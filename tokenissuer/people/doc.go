// Package people is what operators and people themselves change about people. users.go and organisations.go change stored users and
// organisations, never what the configuration declares; reconcile.go ends what a new configuration no longer declares. account.go lists and
// ends what acts for a user, for the account page. personaltokens.go makes and verifies personal access tokens.
package people
