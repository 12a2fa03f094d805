package console

import (
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
)

// start is the front page.
func start(*visit) (sheet, error) {
	return sheet{title: "console.place.start", blocks: []pages.Block{}}, nil
}
