// Package store says what is kept (clients, users, organisations, token families, stored keys, revocations) and declares the contract of the
// store that keeps it. members.go reads and changes what can be set of a client, a user or an organisation, by the tags of its struct. Package
// storetest proves it; sqlstore implements it.
package store
