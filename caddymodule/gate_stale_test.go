package caddymodule

import (
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestG79G89AKeyThatAStaleNodeHasNotHeardOf checks a node that is cut off from the store and does not know a new signing key of another
// node. Once its data is stale, it answers a valid token with a temporary error instead of a 401.
func TestG79G89AKeyThatAStaleNodeHasNotHeardOf(t *testing.T) {
	now := setClock(t)
	g := startGate(t, site)
	key, err := keys.NewSigningKey(oauth.EdDSA, node.Clock())
	check(t, err)
	ks, is := new(keys.Set), g.app().issuer
	check(t, ks.Replace([]*keys.SigningKey{key}, oauth.EdDSA))
	another := issuer.New(is.Settings, issuer.Node{
		Keys: ks, Verifier: token.NewVerifier(is.URL, ks, is.Families.Revocations, time.Minute, node.Clock), Now: node.Clock,
	})
	another.Families.Opened = is.Families.Opened
	unheard, err := another.Minter.Issue(issuer.Grant{Type: oauth.ClientCredentials, Client: &store.Client{ID: "conf"}, Scopes: oauth.Scopes{"public"}})
	check(t, err)
	known, request := g.server("public"), g.request("GET", "/any/x", bearer(g.watched(unheard.AccessToken.Reveal())))
	g.silenceFeed()
	is.Families.Revocations.MarkFresh(node.Clock())
	g.refused(t, request, 401)
	now.advance(7 * time.Second)
	header, body := g.refused(t, request, 503)
	if header.Get("Retry-After") == "" || header.Get("Www-Authenticate") != "" || member(t, body, "error") != "temporarily_unavailable" {
		t.Errorf("%v %s", header, body)
	}
	g.passed(t, g.request("GET", "/any/x", bearer(known)))
	g.refused(t, g.request("GET", "/any/x", bearer("bad")), 401)
	is.Families.Revocations.MarkFresh(node.Clock())
	g.refused(t, request, 401)
}
