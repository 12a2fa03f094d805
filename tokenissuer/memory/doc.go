// Package memory is what a process remembers for a while of who exists and what was issued, so that the usual request asks no store:
// clients that have just proved who they are, families, what users are called, and which pages may read answers.
package memory
