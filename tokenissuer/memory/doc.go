// Package memory caches what is known of clients: those that have just authenticated, and the origins whose pages may read answers.
package memory
