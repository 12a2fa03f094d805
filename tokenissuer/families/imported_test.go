package families

import (
	"context"
	"crypto/sha256"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// countingImports has no token and counts the queries.
type countingImports struct {
	has     bool
	queries int
}

func (c *countingImports) Imported(context.Context, [sha256.Size]byte) (*store.ImportedToken, error) {
	c.queries++
	return nil, store.ErrNotFound
}

func (c *countingImports) HasImported(context.Context) (bool, error) {
	c.queries++
	return c.has, nil
}

// TestDK4AFloodOfUnknownTokens: a thousand unknown opaque tokens where nothing was imported → the store is asked once in ten seconds; where
// something was, a text → it is asked once, whatever the text may be, and not again for the same text or for one that cannot be a token.
func TestDK4AFloodOfUnknownTokens(t *testing.T) {
	now, imports := time.Unix(1000, 0), new(countingImports)
	fs := &Families{Opened: Opened{Imports: imports}, NodeNow: func() time.Time { return now }}
	fs.Imported = NewImported(fs)
	ask := func(what, text string, want int) {
		t.Helper()
		before := imports.queries
		found, err := fs.Imported.Access(t.Context(), oauth.NewSecret(text))
		if found != nil || err != nil || imports.queries-before != want {
			t.Errorf("%s: %v, %v, %d queries, want %d", what, found, err, imports.queries-before, want)
		}
	}
	ask("the first", "opaque-token-of-the-first", 1)
	for i := range 1000 {
		ask("nothing was imported", fmt.Sprintf("opaque-token-number-%d", i), 0)
	}
	now = now.Add(askedFor)
	imports.has = true
	ask("something was imported", "opaque-token-of-the-first", 2)
	ask("once more", "opaque-token-of-the-first", 0)
	ask("another", "opaque-token-of-another", 1)
	if found, err := fs.Imported.Refresh(t.Context(), oauth.NewSecret("opaque-token-of-a-third")); found != nil || err != nil {
		t.Errorf("an unknown refresh token: %v, %v", found, err)
	}
	ask("what was no refresh token, as an access token", "opaque-token-of-a-third", 0)
	for _, text := range []string{"", "short", "eyJhbGciOiJub25lIn0.e30.c2lnbmF0dXJl", "with a space in the middle of it", string(make([]byte, 300))} {
		ask("no opaque token", text, 0)
	}
}
