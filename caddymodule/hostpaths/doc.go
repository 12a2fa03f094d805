// Package hostpaths answers at paths of our own before any route of a server does: what is guarded may stand behind a path, as in
// `handle /mcp/*`, while its metadata and the sign-in of browsers stand elsewhere on the host.
package hostpaths
