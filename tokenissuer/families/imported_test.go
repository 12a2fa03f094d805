package families

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
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

// failingImports has no token and cannot be reached.
type failingImports struct{}

func (*failingImports) HasImported(context.Context) (bool, error) { return false, errDown }

func (*failingImports) Imported(context.Context, [sha256.Size]byte) (*store.ImportedToken, error) {
	return nil, errDown
}

var errDown = errors.New("the store is down")

// TestDK30AStoreThatIsDownWhereNothingWasImported: the store has said that nothing was imported, and cannot be reached any more → an opaque token
// is unknown, and no error; it has said that something was, or has never been asked → an error.
func TestDK30AStoreThatIsDownWhereNothingWasImported(t *testing.T) {
	for name, test := range map[string]struct {
		before ImportStore
		fails  bool
	}{
		"nothing was imported":   {new(countingImports), false},
		"something was imported": {&countingImports{has: true}, true},
		"it was never asked":     {nil, true},
	} {
		now := time.Unix(1000, 0)
		fs := &Families{Opened: Opened{Imports: test.before}, NodeNow: func() time.Time { return now }}
		fs.Imported = NewImported(fs)
		if test.before != nil {
			if _, err := fs.Imported.Access(t.Context(), oauth.NewSecret("opaque-token-of-the-first")); err != nil {
				t.Fatal(err)
			}
		}
		fs.Imports = new(failingImports)
		for i := range 3 {
			now = now.Add(askedFor)
			found, err := fs.Imported.Access(t.Context(), oauth.NewSecret(fmt.Sprintf("opaque-token-number-%d", i)))
			if found != nil || (err != nil) != test.fails {
				t.Errorf("%s: %v, %v", name, found, err)
			}
		}
	}
}

// waitingImports answers nobody before it is released.
type waitingImports struct {
	asked   chan struct{}
	release chan struct{}
}

func (*waitingImports) HasImported(context.Context) (bool, error) { return true, nil }

func (w *waitingImports) Imported(context.Context, [sha256.Size]byte) (*store.ImportedToken, error) {
	w.asked <- struct{}{}
	<-w.release
	return nil, store.ErrNotFound
}

// addressKey has the address of a request.
type addressKey struct{}

// TestDK31AnAddressThatFillsTheLookups: one address shows more unknown tokens than are looked up at once, and the store is slow → two of them are
// looked up, and that of another address is at once.
func TestDK31AnAddressThatFillsTheLookups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		imports := &waitingImports{asked: make(chan struct{}, 100), release: make(chan struct{})}
		fs := &Families{Opened: Opened{Imports: imports}, NodeNow: func() time.Time { return time.Unix(1000, 0) }}
		fs.Imported = NewImported(fs)
		fs.Imported.AddressOf = func(ctx context.Context) string { address, _ := ctx.Value(addressKey{}).(string); return address }
		show := func(address string, i int) {
			go func() {
				_, _ = fs.Imported.Access(context.WithValue(t.Context(), addressKey{}, address), oauth.NewSecret(fmt.Sprintf("opaque-token-%s-%d", address, i)))
			}()
		}
		for i := range 20 {
			show("first", i)
		}
		synctest.Wait()
		if n := len(imports.asked); n != maxOfAddress {
			t.Errorf("%d tokens of one address are looked up at once", n)
		}
		show("second", 0)
		synctest.Wait()
		if n := len(imports.asked); n != maxOfAddress+1 {
			t.Errorf("%d tokens are looked up once another address shows one", n)
		}
		close(imports.release)
	})
}
