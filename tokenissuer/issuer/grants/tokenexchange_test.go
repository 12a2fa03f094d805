package grants

import (
	"reflect"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

const ordersAudience = "https://orders.example"

// swapped exchanges one of our tokens for an upstream.
func (a *authority) swapped(tb testing.TB, t *token.AccessToken) string {
	tb.Helper()
	return a.swapFor(tb, token.Exchange{Shown: oauth.NewSecret("the token " + t.ID), Token: t, Audience: ordersAudience})
}

func (a *authority) swapFor(tb testing.TB, s token.Exchange) string {
	tb.Helper()
	swapped, err := a.ExchangeForUpstream(s)
	if err != nil {
		tb.Fatal(err)
	}
	return swapped.Reveal()
}

// atUpstream returns how a gate in front of the upstream judges an exchanged token that it has not seen before.
func (a *authority) atUpstream(tok string) (*token.AccessToken, error) {
	return a.another().Verify(tok, []string{ordersAudience})
}

func (a *authority) wantAtUpstream(tb testing.TB, tok string) *token.AccessToken {
	tb.Helper()
	t, err := a.atUpstream(tok)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// claimsIn returns the claims of a token without verifying it.
func claimsIn(tb testing.TB, token string) map[string]any {
	tb.Helper()
	_, claims := read(tb, token)
	return claims
}

func TestG57SwappedTokenSaysWhatTheClientsSays(t *testing.T) {
	a := assertingAuthority(t)
	a.wait(10 * time.Second)
	source := a.personsToken()
	source.WithGroups([]string{"ops", "Web Team"})
	a.wait(10 * time.Second)
	swapped := a.swapped(t, source)
	now := float64(a.gate.Now().Unix())
	claims := claimsIn(t, swapped)
	if id, _ := claims["jti"].(string); len(id) != oauth.IDLength+12 {
		t.Errorf("jti %q", id)
	}
	delete(claims, "jti")
	want := map[string]any{
		"iss": tokentest.Issuer, "sub": "u-ada", "aud": ordersAudience, "client_id": "conf", "scope": "public reports",
		"iat": now, "exp": now + 300, "sid": "family-1", "org": "acme", "role": "admin", "groups": []any{"ops", "Web Team"}, "auth_time": now - 70,
		"token_iss": tokentest.Issuer, "token_jti": "token-1", "token_iat": now - 10,
		"act": map[string]any{"sub": "gatehouse", "client_id": "gatehouse", "act": map[string]any{"sub": "u-eve", "client_id": "portal"}},
	}
	if !reflect.DeepEqual(claims, want) {
		t.Errorf("claims\n%v, want\n%v", claims, want)
	}
	if read := a.wantAtUpstream(t, swapped); !reflect.DeepEqual(read.Actors, []store.Actor{token.ExchangeActor, source.Actor()}) {
		t.Errorf("actors %v", read.Actors)
	}
}

func TestSwappedServerTokenStaysOne(t *testing.T) {
	a := assertingAuthority(t)
	source := a.serverToken()
	if read := a.wantAtUpstream(t, a.swapped(t, source)); !read.IsServerToken() || read.FamilyID != "" || read.ClientID != "conf" {
		t.Errorf("%+v", read)
	}
}

func (a *authority) serverToken() *token.AccessToken {
	now := a.gate.Now()
	return &token.AccessToken{
		Issuer: tokentest.Issuer, Subject: "conf", Audience: []string{tokentest.Audience}, ClientID: "conf", Scopes: oauth.Scopes{"public"}, ID: "token-2",
		IssuedAt: now, ExpiresAt: now.Add(time.Hour),
	}
}

// TestG57SwappedTokenIsOfNoUseToItsUpstream: an upstream can use its token neither at the issuer nor at another gate, and cannot end the
// sign-in that the token came from.
func TestG57SwappedTokenIsOfNoUseToItsUpstream(t *testing.T) {
	a := assertingAuthority(t)
	swapped := a.swapped(t, a.personsToken())
	a.refuses(t, swapped, "audience_wrong")
	token, err := a.verifier.Verify(swapped, []string{tokentest.Issuer, "https://stock.example"})
	tokentest.WantRefusal(t, token, err, "audience_wrong")
	token, err = a.verifier.VerifyForIssuer(swapped)
	tokentest.WantRefusal(t, token, err, "token_of_an_upstream")
	if found, err := a.Introspect(t.Context(), issuer.Asker{ClientID: "conf"}, oauth.NewSecret(swapped)); found != nil || err != nil {
		t.Errorf("introspected: %+v, %v", found, err)
	}
	if found, err := a.RevokeFor(t.Context(), a.client("conf"), oauth.NewSecret(swapped)); found != nil || err != nil {
		t.Errorf("revoked: %+v, %v", found, err)
	}
	session := a.personsToken()
	session.ClientID = store.BuiltInClientID
	if client, err := a.RevokingClient(t.Context(), clients.Authentication{}, oauth.NewSecret(a.swapped(t, session))); err == nil {
		t.Errorf("whoever holds it may revoke as %s", client.ID)
	}
	if a.wantAtUpstream(t, swapped).FamilyID != "family-1" {
		t.Error("the family is lost")
	}
	if read := a.wantAtUpstream(t, swapped); len(read.Actors) == 0 {
		t.Error("an admin's token without an actor could create tokens")
	}
}

// TestSwappedTokenEndsWithTheClients: an exchanged token ends with the client's token, and after five minutes at the latest. It is not
// returned with less than a fifth of its lifetime left, unless a new one would not live longer.
func TestSwappedTokenEndsWithTheClients(t *testing.T) {
	a := assertingAuthority(t)
	source := a.personsToken()
	first := a.swapped(t, source)
	a.wait(239 * time.Second)
	if a.swapped(t, source) != first {
		t.Error("another was signed while the first one has more than a fifth of its life")
	}
	a.wait(time.Second)
	second := a.swapped(t, source)
	if second == first {
		t.Error("the upstream gets one that is about to end")
	}
	a.wait(source.ExpiresAt.Sub(a.gate.Now()) - 10*time.Second)
	last := a.swapped(t, source)
	if end := a.wantAtUpstream(t, last).ExpiresAt; !end.Equal(source.ExpiresAt) {
		t.Errorf("it ends at %v, the client's at %v", end, source.ExpiresAt)
	}
	a.wait(9 * time.Second)
	if a.swapped(t, source) != last {
		t.Error("another was signed, which lives no longer")
	}
	a.wait(time.Second)
	_, err := a.ExchangeForUpstream(token.Exchange{Shown: oauth.NewSecret("the token " + source.ID), Token: source, Audience: ordersAudience})
	if oauth.AsError(err).Reason != "token_expired" {
		t.Errorf("the client's token has ended: %v", err)
	}
}

// TestSwapSignsOnce: concurrent requests share one signature. Another audience takes another one.
func TestSwapSignsOnce(t *testing.T) {
	a := assertingAuthority(t)
	source := a.personsToken()
	var all sync.Map
	var wait, there sync.WaitGroup
	var asked atomic.Int64
	there.Add(64)
	now := a.Families.Now
	a.Families.Now = func() time.Time { // each request reads the time first and then waits for the others
		if asked.Add(1) <= 64 {
			there.Done()
			there.Wait()
		} else {
			for range 1000 { // lets the others reach the point where they wait
				runtime.Gosched()
			}
		}
		return now()
	}
	for range 64 {
		wait.Go(func() {
			swapped, err := a.ExchangeForUpstream(token.Exchange{Shown: oauth.NewSecret("shown"), Token: source, Audience: ordersAudience})
			if err != nil {
				t.Error(err)
			}
			all.Store(swapped.Reveal(), true)
		})
	}
	wait.Wait()
	n := 0
	all.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("%d tokens were signed", n)
	}
	stock := a.swapFor(t, token.Exchange{Shown: oauth.NewSecret("shown"), Token: source, Audience: "https://stock.example"})
	if _, known := all.Load(stock); known {
		t.Error("two upstreams got one token")
	}
	if _, err := a.atUpstream(stock); err == nil {
		t.Error("one upstream's token is good at another")
	}
}

// TestG44SwapDoesNotGoOnWithWhatHasChanged: changes to what an opaque token stands for, and to the valid keys, take effect.
func TestG44SwapDoesNotGoOnWithWhatHasChanged(t *testing.T) {
	a := assertingAuthority(t)
	first := a.swapped(t, a.personsToken())
	if a.swapped(t, a.personsToken()) != first {
		t.Error("the same claims, read again, were signed again")
	}
	for name, change := range map[string]func(*token.AccessToken){
		"scope":   func(t *token.AccessToken) { t.Scopes = oauth.Scopes{"public"} },
		"role":    func(t *token.AccessToken) { t.Role = "member" },
		"actor":   func(t *token.AccessToken) { t.Actors = nil },
		"group":   func(t *token.AccessToken) { t.WithGroups([]string{"ops"}) },
		"subject": func(t *token.AccessToken) { t.Subject = "u-bob" },
		"end":     func(t *token.AccessToken) { t.ExpiresAt = t.ExpiresAt.Add(-time.Minute) },
	} {
		changed := a.personsToken()
		change(changed)
		if a.swapped(t, changed) == first {
			t.Errorf("another %s, and the upstream gets the same token", name)
		}
		first = a.swapped(t, a.personsToken())
	}
	other := testkeys.Foreign()[oauth.ES256]
	if err := a.keySetState.Replace([]*keys.SigningKey{other}, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	if swapped := a.swapped(t, a.personsToken()); swapped == first || signedBy(t, swapped) != other.ID {
		t.Error("the upstream gets a token of a key that was revoked")
	}
}

// TestG43SwappedTokenIsRevokedWithTheClients: a revocation of the client's token, by any of its properties, also revokes the exchanged
// token, however much later it was made. A node that has not learned of the revocation may still have made it.
func TestG43SwappedTokenIsRevokedWithTheClients(t *testing.T) {
	for name, revocation := range map[string]store.Revocation{
		"token":        {Kind: store.RevokeToken, ID: "token-1"},
		"family":       {Kind: store.RevokeFamily, ID: "family-1"},
		"user":         {Kind: store.RevokeUser, ID: "u-ada"},
		"client":       {Kind: store.RevokeClient, ID: "conf"},
		"organisation": {Kind: store.RevokeOrganisation, ID: "acme"},
	} {
		t.Run(name, func(t *testing.T) {
			a := assertingAuthority(t)
			source := a.personsToken()
			if revocation.IssuedUntil = a.gate.Now(); name == "token" || name == "family" {
				revocation.IssuedUntil = time.Time{}
			}
			revocation.ExpiresAt = a.gate.Now().Add(time.Hour)
			a.wait(2 * time.Second)
			swapped := a.swapped(t, source)
			again := a.swapFor(t, token.Exchange{Shown: oauth.NewSecret(swapped), Token: a.wantAtUpstream(t, swapped), Audience: "https://behind.example"})
			a.revocations.Add(revocation)
			tok, err := a.atUpstream(swapped)
			tokentest.WantRefusal(t, tok, err, "token_revoked")
			tok, err = a.another().Verify(again, []string{"https://behind.example"})
			tokentest.WantRefusal(t, tok, err, "token_revoked")
		})
	}
}

func TestSwappedTokenOfAnotherIssuersNamesNobodyOfOurs(t *testing.T) {
	a := assertingAuthority(t)
	source := a.theirToken(t, `"sub": "u-ada", "client_id": "conf", "scope": "public reports", "jti": "token-1", "sid": "family-1", "org": "acme", "role": "admin",
		"groups": ["admins"], "act": {"sub": "u-eve", "client_id": "portal", "act": {"sub": "u-bob"}}`)
	swapped := a.swapFor(t, token.Exchange{Shown: oauth.NewSecret("theirs"), Token: source, Trust: "corp", Audience: ordersAudience})
	claims := claimsIn(t, swapped)
	for name, want := range map[string]any{
		"iss": tokentest.Issuer, "token_iss": "https://login.example", "sub": "corp:u-ada", "client_id": "corp:conf", "org": "corp:acme",
		"sid": nil, "role": nil, "groups": nil, "scope": "public reports",
		"act": map[string]any{"sub": "gatehouse", "client_id": "gatehouse", "act": map[string]any{
			"sub": "corp:u-eve", "client_id": "corp:portal", "act": map[string]any{"sub": "corp:u-bob"},
		}},
	} {
		if !reflect.DeepEqual(claims[name], want) {
			t.Errorf("%s: %v, want %v", name, claims[name], want)
		}
	}
	for _, ours := range []store.Revocation{
		{Kind: store.RevokeToken, ID: "token-1"}, {Kind: store.RevokeFamily, ID: "family-1"}, {Kind: store.RevokeUser, ID: "u-ada"},
		{Kind: store.RevokeClient, ID: "conf"}, {Kind: store.RevokeOrganisation, ID: "acme"},
	} {
		ours.ExpiresAt = a.gate.Now().Add(time.Hour)
		a.revocations.Add(ours)
	}
	if read := a.wantAtUpstream(t, swapped); read.IsServerToken() {
		t.Errorf("%+v", read)
	}
	source.Subject, source.ClientID, source.ID = "svc", "svc", "theirs-2"
	server := a.wantAtUpstream(t, a.swapFor(t, token.Exchange{Shown: oauth.NewSecret("theirs 2"), Token: source, Trust: "corp", Audience: ordersAudience}))
	if !server.IsServerToken() || server.Subject != "corp:svc" {
		t.Errorf("a server token became %+v", server)
	}
	source.ClientID, source.ID = "", "theirs-3"
	unnamed := a.wantAtUpstream(t, a.swapFor(t, token.Exchange{Shown: oauth.NewSecret("theirs 3"), Token: source, Trust: "corp", Audience: ordersAudience}))
	if unnamed.ClientID != "corp:" {
		t.Errorf("no client became %q", unnamed.ClientID)
	}
}

func TestSwapWithoutKeysIsUnavailable(t *testing.T) {
	a := assertingAuthority(t)
	a.Minter.Keys = new(keys.Set)
	_, err := a.ExchangeForUpstream(token.Exchange{Shown: oauth.NewSecret("shown"), Token: a.personsToken(), Audience: ordersAudience})
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	a.Minter.Keys = a.keySetState
	a.swapped(t, a.personsToken()) // the failure was not cached
}

func BenchmarkSwap(b *testing.B) {
	a := assertingAuthority(b)
	tok, shown := a.personsToken(), oauth.NewSecret("the client's")
	b.Run("known", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := a.ExchangeForUpstream(token.Exchange{Shown: shown, Token: tok, Audience: ordersAudience}); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("signed", func(b *testing.B) {
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			shown := oauth.NewSecret(strconv.Itoa(i))
			if _, err := a.ExchangeForUpstream(token.Exchange{Shown: shown, Token: tok, Audience: ordersAudience}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestSwapOfATokenOfUnknownAge: an introspection response may not say when a token was issued and when it expires.
func TestSwapOfATokenOfUnknownAge(t *testing.T) {
	a := assertingAuthority(t)
	opaque := token.Exchange{Shown: oauth.NewSecret("opaque"), Trust: "corp", Audience: ordersAudience, Token: &token.AccessToken{
		Issuer: "https://login.example", Subject: "u-ada", ClientID: "conf",
	}}
	swapped := a.swapFor(t, opaque)
	read := a.wantAtUpstream(t, swapped)
	if !read.ExpiresAt.Equal(a.gate.Now().Add(token.ExchangedTokenLifetime)) || !read.Origin().IssuedAt.Equal(read.IssuedAt) {
		t.Errorf("%+v", read)
	}
	a.wait(4 * time.Minute)
	if a.swapFor(t, opaque) == swapped {
		t.Error("the upstream gets one that is about to end")
	}
}
