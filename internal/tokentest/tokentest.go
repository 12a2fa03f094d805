// Package tokentest has helpers for the tests of several packages of the core: a clock, names, JSON objects. It imports only package
// oauth, and the internal tests of every other package can therefore import it.
package tokentest

import (
	"encoding/base64"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Names of an issuer and its clients in tests.
const (
	// Issuer and Audience are those of our own tokens in every test.
	Issuer   = "https://id.example"
	Audience = "https://api.example"

	// ClientSecret is the secret of a test's confidential client.
	ClientSecret = "kP3wq8ZrT1vN6yXbC4mGdJ7sLfHa2uEoRi5tYn0QzWc"
)

// Start is the time at the beginning of every test.
var Start = time.Unix(1_800_000_000, 0)

// Clock is a clock that only a test moves.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at Start.
func NewClock() *Clock { return &Clock{now: Start} }

// Now returns the time that the clock was last set to.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock, forward or back.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Add moves the clock by d.
func (c *Clock) Add(d time.Duration) { c.Set(c.Now().Add(d)) }

// WantCode fails the test unless err is an oauth.Error of the given code.
func WantCode(tb testing.TB, err error, code oauth.ErrorCode) {
	tb.Helper()
	var e *oauth.Error
	if !errors.As(err, &e) || e.Code != code {
		tb.Fatalf("got %v, want %s", err, code)
	}
}

// WantRefusal fails the test unless the result is only an invalid_token for one of the reasons. Several reasons are for malformed tokens
// whose first detected fault does not matter.
func WantRefusal[T any](tb testing.TB, got *T, err error, reasons ...string) {
	tb.Helper()
	if err == nil || got != nil {
		tb.Fatalf("accepted: %+v", got)
	}
	WantCode(tb, err, oauth.InvalidToken)
	if reason := oauth.AsError(err).Reason; !slices.Contains(reasons, reason) {
		tb.Errorf("the reason is %s, want %s", reason, reasons)
	}
}

// Eventually waits for what happens in the background, for at most two minutes.
func Eventually(tb testing.TB, what string, happened func() bool) {
	tb.Helper()
	for end := time.Now().Add(2 * time.Minute); !happened(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			tb.Fatalf("in vain: %s", what)
		}
	}
}

// Object returns a JSON object. members are alternating names and values, each value as raw JSON. edits have the same form: they replace
// a member's value, add a member, or (with the value "") remove it.
func Object(members, edits []string) string {
	members = slices.Clone(members)
	for i := 0; i < len(edits); i += 2 {
		at := 0
		for at < len(members) && members[at] != edits[i] {
			at += 2
		}
		switch {
		case at >= len(members):
			members = append(members, edits[i], edits[i+1])
		case edits[i+1] == "":
			members = slices.Delete(members, at, at+2)
		default:
			members[at+1] = edits[i+1]
		}
	}
	var b strings.Builder
	for i := 0; i < len(members); i += 2 {
		if members[i+1] == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Quote(members[i]) + ":" + members[i+1])
	}
	return "{" + b.String() + "}"
}

// Encode returns text in base64url without padding, like the parts of a JWS (RFC 7515 §2).
func Encode(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// Together makes n concurrent calls and returns their errors.
func Together(n int, call func(i int) error) []error {
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	errs := make([]error, n)
	ready.Add(n)
	for i := range n {
		done.Go(func() {
			ready.Done()
			<-begin
			errs[i] = call(i)
		})
	}
	ready.Wait()
	close(begin)
	done.Wait()
	return errs
}
