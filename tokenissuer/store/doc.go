// Package store says what is kept (clients, users, organisations, token families, stored keys, revocations) and declares the contract of the
// store that keeps it. Package storetest proves it; sqlstore implements it.
package store
