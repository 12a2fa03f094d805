package grants

import (
	"context"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// takenIDs is a store in which every client id is taken.
type takenIDs struct{ families.ClientStore }

func (takenIDs) AddClient(context.Context, *store.Client) error { return store.ErrTaken }

// TestQ40AClientIsRemovedWhileItIsAdmitted: an operator removes a client between two steps of its first approval → access_denied.
func TestQ40AClientIsRemovedWhileItIsAdmitted(t *testing.T) {
	a := newAuthority(t)
	a.store.ClientStore = takenIDs{}
	a.Origins = clients.NewOrigins(nil, a.gate.Now)
	err := a.Admit(t.Context(), &store.Client{ID: "https://app.example/client", Origin: store.FromMetadata})
	tokentest.WantCode(t, err, oauth.Denied)
}
