// Package store defines the records that Gatehouse keeps (clients, users, organisations, token families, signing keys, revocations) and
// the Store interface. Package storetest tests an implementation of that interface, and package sqlstore is one.
package store
