// Package passwords hashes and verifies passwords, and limits how many are hashed at a time.
package passwords
