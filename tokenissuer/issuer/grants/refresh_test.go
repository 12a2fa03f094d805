package grants_test

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const day = 24 * time.Hour

func TestT83AScopeThatTheClientHasLost(t *testing.T) {
	f := newFlow(t)
	declare := func(scopes ...string) {
		declared, err := store.NewStaticDirectory(store.Declarations{Clients: []*store.Client{{
			ID: "declared", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, Scopes: scopes, RedirectURIs: []string{callback},
		}}})
		f.must(err)
		f.Directory = store.OverlayDirectory{Declared: declared, Stored: f.store.Directory()}
	}
	declare("public", "trusted")
	byID := clients.Authentication{PublicID: "declared"}
	r := f.redemption("declared", f.code("declared", parameters("public trusted")))
	r.Client = byID
	first, err := f.exchange(r)
	f.must(err)
	declare("public")
	next, err := f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Client: byID, Refresh: RefreshParameters{Token: first.RefreshToken}})
	f.must(err)
	sameScopes(t, next.Scopes, "public")
	_, err = f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Client: byID, Refresh: RefreshParameters{Token: next.RefreshToken}, Scope: "trusted"})
	tokentest.WantCode(t, err, oauth.InvalidScope)
	declare("reports")
	_, err = f.exchange(Request{GrantType: oauth.RefreshTokenGrant, Client: byID, Refresh: RefreshParameters{Token: next.RefreshToken}})
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}
