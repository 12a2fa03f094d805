// Command barecaddy is Caddy as it is, without Gatehouse: what the benchmark holds Gatehouse against. It is built of the
// same versions of the same dependencies, with the same flags.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // what every Caddy has
)

func main() { caddycmd.Main() }
