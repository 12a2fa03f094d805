package token

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestQ163ExchangedClaimsReadBack: claims with actors and odd texts written and read → the same.
func TestQ163ExchangedClaimsReadBack(t *testing.T) {
	at := time.Unix(1_900_000_000, 0)
	token := &AccessToken{
		Issuer: "https://auth.example", Subject: "u-\"ada\"", Audience: []string{"a"}, ClientID: "app\\é", Scopes: oauth.Scopes{"read"}, ID: "first.1",
		IssuedAt: at, ExpiresAt: at.Add(time.Hour), SignIn: SignIn{FamilyID: "family", Organisation: "acme", Role: "admin", AuthTime: at.Add(-time.Hour)},
	}
	token.WithGroups([]string{"ops", "web \"team\""})
	for i, actor := range []store.Actor{{Subject: "orders", ClientID: "orders"}, ExchangeActor, {Subject: "st\"ock", ClientID: "st\"ock"}} {
		next := &AccessToken{
			Issuer: token.Issuer, Audience: []string{"b"}, ClientID: actor.ClientID, Scopes: token.Scopes, ID: oauth.NewID(),
			IssuedAt: at.Add(time.Minute), ExpiresAt: token.ExpiresAt, KeyID: "k",
		}
		if actor == ExchangeActor { // a gate keeps the client
			next.ClientID = token.ClientID
		}
		next.Delegate(token, actor)
		text, err := AppendClaims(nil, next)
		if err != nil {
			t.Fatal(err)
		}
		var p payload
		if err := json.Unmarshal(text, &p); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		read, err := (&Verifier{issuer: token.Issuer, rules: ownRules}).tokenOf(&p, "k", "at+jwt")
		if err != nil || !reflect.DeepEqual(read, next) {
			t.Errorf("exchange %d: %v\n%+v, want\n%+v\nin %s", i, err, read, next, text)
		}
		origin := Origin{"https://auth.example", "first.1", "app\\é", at}
		if got := read.Origin(); got != origin || len(read.extra.texts(OriginVia)) != i || len(read.Actors) != i+1 || read.IsServerToken() {
			t.Errorf("exchange %d: from %+v by way of %q, %v", i, got, read.extra.texts(OriginVia), read.Actors)
		}
		token = read
	}
}
