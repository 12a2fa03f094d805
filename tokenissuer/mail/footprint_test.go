package mail

import (
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestE17WhatALetterTakes: a full queue, 10,000 letters with a link → at most 1.5 KiB of the file for each, indices included, and nothing in the
// process.
func TestE17WhatALetterTakes(t *testing.T) {
	o := newOffice(t)
	link := o.letter()
	link.Link += fmt.Sprintf("%0300d", 0) // as long as a sealed one
	file, heap := teststore.Footprint(t, waiting.All, func(whole store.Store) func(int) error {
		post := *o.post
		post.Store = whole.Mails
		return func(i int) error {
			l := link
			l.To = fmt.Sprintf("person-%d@example.com", i)
			return post.Send(t.Context(), l)
		}
	})
	if t.Logf("a letter takes %.0f bytes of the file and %.1f of the heap", file, heap); file > 1536 || heap > 64 {
		t.Error("that is too much")
	}
}
