// Command openapi writes docs/openapi.json from the routes of the admin API: `make openapi`.
package main

import (
	"log"
	"os"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func main() {
	if err := os.WriteFile("docs/openapi.json", admin.Document(), 0o600); err != nil {
		log.Fatal(err)
	}
}
