// Package passwords hashes and verifies passwords, and shares the processor out among those who sign in.
package passwords
