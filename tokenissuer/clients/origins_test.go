package clients

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestT124RandomOriginsReadNothing: for any requests, the registry is read once in ten seconds, and an outage removes no origin.
func TestT124RandomOriginsReadNothing(t *testing.T) {
	reads, now := 0, time.Unix(1_800_000_000, 0)
	var fault error
	o := NewOrigins(func(context.Context) ([]*store.Client, error) {
		reads++
		return []*store.Client{
			{Type: store.PublicClient, RedirectURIs: []string{"https://Spa.example:443/cb", "com.example:/cb"}, CORSOrigins: []string{"http://localhost:3000"}},
			{Type: store.ConfidentialClient, RedirectURIs: []string{"https://conf.example/cb"}},
			{Type: store.PublicClient, RedirectURIs: []string{"https://gone.example/cb"}, Disabled: true},
		}, fault
	}, func() time.Time { return now })
	asked := func(want int) {
		t.Helper()
		for i := range 1000 {
			if o.Allow(t.Context(), "https://"+strconv.Itoa(i)+".example") {
				t.Error("a random origin")
			}
		}
		for origin, want := range map[string]bool{"https://spa.example": true, "http://localhost:3000": true, "https://conf.example": false, "https://gone.example": false, "": false} {
			if o.Allow(t.Context(), origin) != want {
				t.Errorf("%q: want %t", origin, want)
			}
		}
		if reads != want {
			t.Errorf("read %d times, want %d", reads, want)
		}
	}
	asked(1)
	now = now.Add(originsTTL - 1)
	asked(1)
	o.Forget()
	asked(2)
	fault = errors.New("down")
	now = now.Add(time.Hour)
	asked(3)
	if (*Origins)(nil).Allow(t.Context(), "https://spa.example") {
		t.Error("allowed by nobody")
	}
}

// TestT124WhoeverHangsUpKeepsTheListFromNobody: the list used to be read in the context of the first request. A client that repeatedly
// disconnected at once kept the pages of all other origins out.
func TestT124WhoeverHangsUpKeepsTheListFromNobody(t *testing.T) {
	o := NewOrigins(func(ctx context.Context) ([]*store.Client, error) {
		return []*store.Client{{ID: "spa", Type: store.PublicClient, RedirectURIs: []string{"https://spa.example/cb"}}}, ctx.Err()
	}, time.Now)
	gone, hangUp := context.WithCancel(t.Context())
	hangUp()
	o.Allow(gone, "https://evil.example")
	if !o.Allow(t.Context(), "https://spa.example") {
		t.Error("a registered origin is kept out")
	}
}
