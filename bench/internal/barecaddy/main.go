// Command barecaddy is Caddy without Gatehouse, for the benchmark to compare with. It is built from the same versions
// of the same dependencies, with the same flags.
package main

import (
	caddycmd "github.com/caddyserver/caddy/v2/cmd"
	_ "github.com/caddyserver/caddy/v2/modules/standard" // the modules of every Caddy
)

func main() { caddycmd.Main() }
