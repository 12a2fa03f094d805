// Package store defines the records that Gatehouse keeps (clients, users, organisations, token families, signing keys, revocations) and
// the Store, in parts. Package storetest tests an implementation, and package sqlstore is one.
package store
