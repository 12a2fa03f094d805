package grants

import (
	"context"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestRevocationsOutliveWhateverIsIssued: a revoked token may have just been issued with the maximum lifetime.
func TestRevocationsOutliveWhateverIsIssued(t *testing.T) {
	a := newAuthority(t)
	for _, kind := range []store.RevocationKind{store.RevokeUser, store.RevokeClient, store.RevokeOrganisation, store.RevokeFamily, store.RevokeKey} {
		if r := a.RevocationOf(kind, "x"); r.ExpiresAt.Before(tokentest.Start.Add(store.MaxLifetime + store.Leeway)) {
			t.Errorf("%s: ends at %s", kind, r.ExpiresAt)
		}
	}
}

// TestT68Q263AUserTokenIsNeverAServerToken: a client declared with the id of a stored user → its exchange fails, since the token would
// pass for the client's own.
func TestT68Q263AUserTokenIsNeverAServerToken(t *testing.T) {
	a := newAuthority(t)
	_, err := a.Issue(issuer.Grant{Type: oauth.AuthorizationCode, Client: a.client("conf"), User: &store.User{ID: "conf"}, Scopes: oauth.Scopes{oauth.ScopeTrusted}})
	tokentest.WantCode(t, err, oauth.ServerError)
	exchanged := &token.AccessToken{Issuer: tokentest.Issuer, Subject: "conf", ClientID: "other", ID: "x", IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour)}
	_, err = a.Issue(issuer.Grant{Type: oauth.TokenExchange, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}, Exchanged: exchanged})
	tokentest.WantCode(t, err, oauth.ServerError)
	tokens, err := a.Issue(issuer.Grant{Type: oauth.AuthorizationCode, Client: a.client("conf"), User: &store.User{ID: "user-9", Organisation: "o", Role: "r"}, Family: &store.TokenFamily{ID: "f", SignIn: store.SignIn{Time: tokentest.Start}}, Scopes: oauth.Scopes{oauth.ScopeTrusted}})
	if err != nil {
		t.Fatal(err)
	}
	if got := a.accepts(t, tokens.AccessToken.Reveal()); got.IsServerToken() || got.Subject != "user-9" || got.FamilyID != "f" {
		t.Errorf("got %+v", got)
	}
}

// TestIssuedTokensAreKnownFromBirth removes the public keys after issuing. Verifying the signature would then fail, so the token must be
// cached.
func TestIssuedTokensAreKnownFromBirth(t *testing.T) {
	for _, alg := range oauth.OwnAlgorithms {
		a := newAuthority(t)
		if err := a.keySetState.Replace([]*keys.SigningKey{a.signing[alg]}, alg); err != nil {
			t.Fatal(err)
		}
		user, err := a.Issue(issuer.Grant{Type: oauth.PasswordGrant, Client: a.client("conf"), User: &store.User{ID: "user-9", Organisation: "o", Role: "r"},
			Family: &store.TokenFamily{ID: "f", SignIn: store.SignIn{Time: tokentest.Start.Add(-time.Minute)}}, Scopes: oauth.Scopes{oauth.ScopeTrusted, oauth.ScopePublic}})
		if err != nil {
			t.Fatal(err)
		}
		server, _, err := a.Exchange(context.Background(), Request{GrantType: oauth.ClientCredentials, Client: withSecret("conf", tokentest.ClientSecret)})
		if err != nil {
			t.Fatal(err)
		}
		for _, tokens := range []issuer.Tokens{user, server} {
			// Another node, which must verify the signature, reads the same.
			there, err := a.another().Verify(tokens.AccessToken.Reveal(), a.audiences)
			if err != nil {
				t.Fatal(err)
			}
			here, err := a.verifier.Verify(tokens.AccessToken.Reveal(), a.audiences)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(here, tokens.Claims) {
				t.Error("the issued claims are not those in the cache")
			}
			names := []string{"iss", "sub", "aud", "client_id", "scope", "jti", "iat", "exp", "sid", "org", "role", "auth_time"}
			for _, claim := range names {
				if !slices.Equal(here.Claim(claim), there.Claim(claim)) {
					t.Errorf("%s: issued as %q, read as %q", claim, here.Claim(claim), there.Claim(claim))
				}
			}
			for claim := range claimsIn(t, tokens.AccessToken.Reveal()) {
				if !slices.Contains(names, claim) {
					t.Errorf("issued with the claim %s", claim)
				}
			}
			if here.KeyID != there.KeyID {
				t.Errorf("issued as %+v, read as %+v", here, there)
			}
		}
		blind := *a.signing[alg]
		blind.VerificationKey = testkeys.Foreign()[alg].VerificationKey
		blind.ID = a.signing[alg].ID
		if err := a.keySetState.Replace([]*keys.SigningKey{&blind}, alg); err != nil {
			t.Fatal(err)
		}
		if _, err := a.verifier.Verify(user.AccessToken.Reveal(), a.audiences); err != nil {
			t.Errorf("%s: an issued token was verified again: %v", alg, err)
		}
		if _, err := a.another().Verify(user.AccessToken.Reveal(), a.audiences); oauth.AsError(err).Reason != "signature_wrong" {
			t.Errorf("%s: the blind key verifies: %v", alg, err)
		}
	}
}

// TestIssuedTokensHoldWhatTheContractSays reads header and claims with independent code.
func TestIssuedTokensHoldWhatTheContractSays(t *testing.T) {
	a := newAuthority(t)
	tokens, err := a.Issue(issuer.Grant{Type: oauth.ClientCredentials, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic, "reports"}})
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(tokens.AccessToken.Reveal(), ".")
	h, _ := base64.RawURLEncoding.DecodeString(parts[0])
	if want := `{"alg":"ES256","typ":"at+jwt","kid":"` + a.signing[oauth.ES256].ID + `"}`; string(h) != want {
		t.Errorf("header %s, want %s", h, want)
	}
	p, _ := base64.RawURLEncoding.DecodeString(parts[1])
	want := fmt.Sprintf(`{"jti":%q,"iss":%q,"sub":"conf","aud":%q,"client_id":"conf","scope":"public reports","iat":%d,"exp":%d}`,
		tokens.Claims.ID, tokentest.Issuer, tokentest.Audience, tokentest.Start.Unix(), tokentest.Start.Add(2*time.Hour).Unix())
	if string(p) != want {
		t.Errorf("claims %s\nwant %s", p, want)
	}
	if tokens.ExpiresIn != 2*time.Hour || !tokens.CreatedAt.Equal(tokentest.Start) || !tokens.RefreshToken.IsEmpty() {
		t.Errorf("tokens %+v", tokens)
	}
}

func BenchmarkIssue(b *testing.B) {
	for _, alg := range oauth.OwnAlgorithms {
		b.Run(string(alg), func(b *testing.B) {
			a := newAuthority(b)
			if err := a.keySetState.Replace([]*keys.SigningKey{a.signing[alg]}, alg); err != nil {
				b.Fatal(err)
			}
			grant := issuer.Grant{Type: oauth.ClientCredentials, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Issue(grant); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestEverythingThatIsIssuedHasAMAC: every token has a MAC at the end of its jti, for every grant.
func TestEverythingThatIsIssuedHasAMAC(t *testing.T) {
	a := assertingAuthority(t)
	a.Master = testkeys.Master(t, 7, tokentest.Start)
	a.JTIMAC = token.NewJTIMAC(a.Master)
	fresh := func() *token.Verifier { // it refuses tokens without a MAC
		v := a.another()
		v.UseJTIMAC(a.JTIMAC)
		return v
	}
	user := &store.User{ID: "u-ada", Organisation: "acme", Role: store.RoleAdmin}
	for _, g := range []issuer.Grant{
		{Type: oauth.ClientCredentials, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}},
		{Type: oauth.AuthorizationCode, Client: a.client("conf"), Scopes: oauth.Scopes{oauth.ScopePublic}, User: user, Family: &store.TokenFamily{ID: "family-1"}},
		{Type: store.AdminCreated, Client: a.client("pub"), User: user, Family: &store.TokenFamily{ID: "family-2", Actor: store.Actor{Subject: "u-eve", ClientID: "portal"}}},
		{Type: store.BrowserSession, Client: a.BuiltIn(), User: user, Family: &store.TokenFamily{ID: "family-3"}, Consume: issuer.Once(func() error { return nil })},
	} {
		tokens, err := a.Issue(g)
		if err != nil {
			t.Fatal(err)
		}
		read, err := fresh().Verify(tokens.AccessToken.Reveal(), a.audiences)
		if err != nil || read.ID != tokens.Claims.ID || len(read.ID) != oauth.IDLength+12 {
			t.Errorf("%s: read as %+v, %v; issued as %+v", g.Type, read, err, tokens.Claims)
		}
		if _, err := fresh().Verify(a.swapped(t, tokens.Claims), []string{ordersAudience}); err != nil {
			t.Errorf("%s, swapped: %v", g.Type, err)
		}
	}
}
