package oauth

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestCopiesOfAnErrorAreThatError: callers act on errors with errors.Is, whatever cause, sentence or time was added. An error with
// the same code and reason is not the same.
func TestCopiesOfAnErrorAreThatError(t *testing.T) {
	known, other := NewError(InvalidGrant, "known"), NewError(InvalidGrant, "known")
	for name, c := range map[string]struct {
		err  error
		same bool
	}{
		"itself":        {known, true},
		"a copy":        {known.WithCause(errors.New("why")).WithDescription("That.").WithRetryAfter(time.Second), true},
		"wrapped":       {fmt.Errorf("redeeming: %w", known.WithCause(errors.New("why"))), true},
		"as a cause":    {Unavailable("away", known), true},
		"made likewise": {other, false},
		"zero":          {&Error{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if errors.Is(c.err, known) != c.same {
				t.Errorf("errors.Is says %t", !c.same)
			}
		})
	}
	if known.RetryAfter != 0 || known.Unwrap() != nil {
		t.Errorf("a copy changed the original: %+v", known)
	}
}
