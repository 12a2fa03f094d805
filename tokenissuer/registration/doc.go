// Package registration is about clients that make themselves known: what they may say of themselves, and how they register, read, change
// and remove what is stored of them (RFC 7591, RFC 7592). It knows nothing of HTTP.
package registration
