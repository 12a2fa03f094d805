// Package passwords hashes and verifies passwords, and limits concurrent hashing.
package passwords
