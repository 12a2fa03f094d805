// Package requests reads what a client sends over HTTP, in one way only: the body with its parameters (form.go, multipart.go),
// the client's credentials (basic.go), a bearer token (bearer.go), and every way in which somebody behind us could read the path
// (path.go). What can be read in two ways it refuses, with the status of error.go. It judges nothing that it has read.
package requests
