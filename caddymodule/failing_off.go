//go:build !failpoint

package caddymodule

import "net/http"

// failing is for builds with failpoints.
func failing(w http.ResponseWriter, _ *http.Request) http.ResponseWriter { return w }
