// Package hostpaths answers requests for our own paths before any route of a server: a guarded resource may be behind a path, as in
// `handle /mcp/*`, while its metadata and the browser sign-in have other paths on the host. It also removes our cookies and the identity
// headers of clients from all requests.
package hostpaths
