// Package hostpaths answers at paths of our own before any route of a server does: what is guarded may stand behind a path, as in
// `handle /mcp/*`, while its metadata and the sign-in of browsers stand elsewhere on the host. It also keeps from all routes of the server what
// only the gate may tell an upstream, and our cookies.
package hostpaths
