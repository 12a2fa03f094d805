package grants

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestARepetitionIsThatOfTheStoredFamily: the cache may be newer than a restored store. A token that is used according to the cache but
// newest in the store is used up and not repeated.
func TestARepetitionIsThatOfTheStoredFamily(t *testing.T) {
	client := &store.Client{ID: "app", Scopes: oauth.Scopes{"public"}}
	use := refreshUse{client: client, generation: 1, now: tokentest.Start, lifetimes: store.Lifetimes{RefreshIdle: time.Hour, RefreshGrace: time.Minute}}
	remembered := &store.TokenFamily{Grant: store.Grant{ClientID: "app", Scopes: client.Scopes}, Refresh: store.RefreshState{Generation: 2, RotatedAt: tokentest.Start}, Validity: store.Validity{ExpiresAt: tokentest.Start.Add(time.Hour)}}
	stored := *remembered
	stored.Refresh.Generation = 1
	if _, err := use.check(remembered); err != nil || !use.Repeated {
		t.Fatalf("by what is remembered: again %v, %v", use.Repeated, err)
	}
	if _, err := use.check(&stored); err != nil || use.Repeated {
		t.Errorf("by what is stored: again %v, %v", use.Repeated, err)
	}
}
