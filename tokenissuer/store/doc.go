// Package store says what is kept (clients, users, organisations, token families, stored keys, revocations) and declares the contracts of the
// stores that keep it. Package storetest proves them; sqlstore implements them.
package store
