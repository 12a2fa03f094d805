package tokenissuer_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const day = 24 * time.Hour

func TestT80RefreshKeepsScopeAndLifetime(t *testing.T) {
	f := newFlow(t)
	f.PasswordGrant.Refresh = true
	signedIn, err := f.exchange(TokenRequest{GrantType: oauth.PasswordGrant, Client: f.credentials("conf"), Email: "ada@acme.example", Password: oauth.NewSecret(userPassword), Scope: "trusted"})
	f.must(err)
	minted, _ := f.mint("grace")
	for name, v := range map[string]struct {
		first    Tokens
		lifetime time.Duration
		subject  string
	}{
		"code":          {f.tokens("conf", "trusted refresh_token"), 6 * time.Hour, "u-ada"},
		"password":      {signedIn, 28 * day, "u-ada"},
		"admin-created": {minted, 28 * day, "u-grace"},
	} {
		t.Run(name, func(t *testing.T) {
			next := v.first
			for range 3 {
				f.wait(time.Minute)
				before := next
				next, err = f.refresh("conf", before.RefreshToken)
				f.must(err)
				f.alive(next)
				sameScopes(t, next.Scopes, v.first.Scopes...)
				was, is := before.Claims, next.Claims
				if next.ExpiresIn != v.lifetime || !next.CreatedAt.Equal(f.clock()) || next.Repeated || next.RefreshToken.Reveal() == before.RefreshToken.Reveal() {
					t.Errorf("tokens %+v", next)
				}
				if is.FamilyID != was.FamilyID || is.Subject != v.subject || is.Actor != was.Actor || !is.AuthTime.Equal(was.AuthTime) || is.ID == was.ID || is.ClientID != "conf" {
					t.Errorf("claims %+v, were %+v", is, was)
				}
			}
		})
	}
}

func TestT81IdleAndAbsoluteExpiry(t *testing.T) {
	for idle, works := range map[time.Duration]bool{30 * day: true, 30*day + time.Second: false} {
		f := newFlow(t)
		first := f.tokens("conf", "refresh_token")
		f.wait(idle)
		if _, err := f.refresh("conf", first.RefreshToken); (err == nil) != works {
			t.Errorf("idle for %s: %v", idle, err)
		}
	}
	f := newFlow(t)
	next := f.tokens("conf", "refresh_token")
	for range 89 {
		f.wait(day)
		var err error
		next, err = f.refresh("conf", next.RefreshToken)
		f.must(err)
	}
	f.wait(day + time.Second)
	_, err := f.refresh("conf", next.RefreshToken)
	wantReason(t, err, oauth.InvalidGrant, "refresh_token_expired")
}

func TestT82ARefreshTokenOfAnotherClient(t *testing.T) {
	f := newFlow(t)
	first := f.tokens("conf", "refresh_token")
	for range 3 {
		_, err := f.refresh("other", first.RefreshToken)
		wantReason(t, err, oauth.InvalidGrant, "refresh_token_of_another_client")
	}
	f.alive(first)
	next, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	// Used before, and a reuse by its own client: another client's does not count as one.
	f.wait(time.Minute)
	_, err = f.refresh("other", first.RefreshToken)
	wantReason(t, err, oauth.InvalidGrant, "refresh_token_of_another_client")
	f.alive(next)
}

func TestT83TheScopeNarrowsTheAccessTokenOnly(t *testing.T) {
	f := newFlow(t)
	next := f.tokens("conf", "trusted public refresh_token")
	for _, v := range []struct {
		name, scope string
		want        oauth.Scopes
	}{
		{"equal", "trusted public refresh_token", oauth.Scopes{"trusted", "public", "refresh_token"}},
		{"subset", "public", oauth.Scopes{"public"}},
		{"another order", "public trusted", oauth.Scopes{"public", "trusted"}},
		{"absent", "", oauth.Scopes{"trusted", "public", "refresh_token"}},
		{"blank", "  ", oauth.Scopes{"trusted", "public", "refresh_token"}},
	} {
		t.Run(v.name, func(t *testing.T) {
			var err error
			next, err = f.narrow("conf", next.RefreshToken, v.scope)
			f.must(err)
			sameScopes(t, next.Scopes, v.want...)
			sameScopes(t, next.Claims.Scopes, v.want...)
		})
	}
	for _, scope := range []string{"public offline_access", "reports", "unknown", "PUBLIC", "a\tb"} {
		_, err := f.narrow("conf", next.RefreshToken, scope)
		tokentest.WantCode(t, err, oauth.InvalidScope)
	}
	again, err := f.refresh("conf", next.RefreshToken) // none of which has used it up
	if f.must(err); again.Repeated {
		t.Error("a refusal used the refresh token up")
	}
}

func TestT83AScopeThatTheClientHasLost(t *testing.T) {
	f := newFlow(t)
	declare := func(scopes ...string) {
		declared, err := store.NewStaticDirectory(store.Declarations{Clients: []*store.Client{{
			ID: "declared", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode, oauth.RefreshTokenGrant}, Scopes: scopes, RedirectURIs: []string{callback},
		}}})
		f.must(err)
		f.Directory = store.OverlayDirectory{Declared: declared, Stored: f.store}
	}
	declare("public", "trusted")
	byID := ClientAuthentication{PublicID: "declared"}
	r := f.redemption("declared", f.code("declared", parameters("public trusted")))
	r.Client = byID
	first, err := f.exchange(r)
	f.must(err)
	declare("public")
	next, err := f.exchange(TokenRequest{GrantType: oauth.RefreshTokenGrant, Client: byID, RefreshToken: first.RefreshToken})
	f.must(err)
	sameScopes(t, next.Scopes, "public")
	_, err = f.exchange(TokenRequest{GrantType: oauth.RefreshTokenGrant, Client: byID, RefreshToken: next.RefreshToken, Scope: "trusted"})
	tokentest.WantCode(t, err, oauth.InvalidScope)
	declare("reports")
	_, err = f.exchange(TokenRequest{GrantType: oauth.RefreshTokenGrant, Client: byID, RefreshToken: next.RefreshToken})
	tokentest.WantCode(t, err, oauth.InvalidGrant)
}

// TestT84ReuseEndsTheFamily: of two holders one is a thief, and nobody knows which.
func TestT84ReuseEndsTheFamily(t *testing.T) {
	for name, reuse := range map[string]func(f *flow, first, second Tokens) oauth.Secret{
		"after the successor was used": func(f *flow, first, second Tokens) oauth.Secret {
			_, err := f.refresh("conf", second.RefreshToken)
			f.must(err)
			return first.RefreshToken
		},
		"31 seconds after": func(f *flow, first, _ Tokens) oauth.Secret {
			f.wait(31 * time.Second)
			return first.RefreshToken
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFlow(t)
			first := f.tokens("conf", "refresh_token")
			second, err := f.refresh("conf", first.RefreshToken)
			f.must(err)
			stranger := f.tokens("conf", "refresh_token")
			_, err = f.refresh("conf", reuse(f, first, second))
			wantReason(t, err, oauth.InvalidGrant, oauth.ReasonRefreshReused)
			f.dead(first)
			f.dead(second)
			for _, token := range []oauth.Secret{first.RefreshToken, second.RefreshToken} {
				_, err = f.refresh("conf", token)
				tokentest.WantCode(t, err, oauth.InvalidGrant)
			}
			f.alive(stranger)
		})
	}
}

func TestT85ThePredecessorsPredecessorIsAReuse(t *testing.T) {
	f := newFlow(t)
	first := f.tokens("conf", "refresh_token")
	second, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	third, err := f.refresh("conf", second.RefreshToken)
	f.must(err)
	_, err = f.refresh("conf", second.RefreshToken) // within the grace
	f.must(err)
	_, err = f.refresh("conf", first.RefreshToken)
	wantReason(t, err, oauth.InvalidGrant, oauth.ReasonRefreshReused)
	f.dead(third)
}

// TestT86ALostAnswerLosesNothing: within the grace the same token gives the same successor, on every node and after a
// restart, because the successor is made and not stored.
func TestT86ALostAnswerLosesNothing(t *testing.T) {
	f := newFlow(t)
	first := f.tokens("conf", "refresh_token")
	second, err := f.refresh("conf", first.RefreshToken)
	f.must(err)
	if second.Repeated {
		t.Error("the first use is marked as a repetition")
	}
	f.wait(29 * time.Second)
	for name, node := range map[string]*Issuer{"same node": f.Issuer, "another node": f.node()} {
		again, _, err := node.Exchange(t.Context(), TokenRequest{GrantType: oauth.RefreshTokenGrant, Client: f.credentials("conf"), RefreshToken: first.RefreshToken})
		f.must(err)
		if again.RefreshToken.Reveal() != second.RefreshToken.Reveal() || !again.Repeated {
			t.Errorf("%s: another successor, or not marked", name)
		}
		f.alive(again)
	}
	_, err = f.refresh("conf", second.RefreshToken)
	f.must(err)
}

func TestS4TheGraceIsConfigurable(t *testing.T) {
	for grace, works := range map[time.Duration]bool{store.NoGrace: false, 10 * time.Second: false, 11 * time.Second: true, 5 * time.Minute: true} {
		f := newFlow(t)
		f.Lifetimes.RefreshGrace = grace
		first := f.tokens("conf", "refresh_token")
		_, err := f.refresh("conf", first.RefreshToken)
		f.must(err)
		f.wait(11 * time.Second)
		if _, err = f.refresh("conf", first.RefreshToken); (err == nil) != works {
			t.Errorf("grace %s: %v", grace, err)
		}
	}
}

func TestT90OtherCredentialsAreNoRefreshTokens(t *testing.T) {
	f := newFlow(t)
	tokens := f.tokens("conf", "refresh_token")
	_, cookie, err := f.OpenSession(t.Context(), f.user("ada"), "", "")
	f.must(err)
	for name, wrong := range map[string]oauth.Secret{"access token": tokens.AccessToken, "code": f.code("conf", parameters("")), "session": cookie} {
		if _, err := f.refresh("conf", wrong); oauth.AsError(err).Code != oauth.InvalidGrant {
			t.Errorf("%s: %v", name, err)
		}
		// Without a client it is not even looked at.
		if _, err := f.exchange(TokenRequest{GrantType: oauth.RefreshTokenGrant, RefreshToken: wrong}); oauth.AsError(err).Code != oauth.InvalidClient {
			t.Errorf("%s without a client: %v", name, err)
		}
	}
	if _, err := f.Verifier.Verify(tokens.RefreshToken.Reveal(), f.Audience); oauth.AsError(err).Code != oauth.InvalidToken {
		t.Errorf("a refresh token as Bearer: %v", err)
	}
	_, err = f.refresh("conf", oauth.Secret{})
	tokentest.WantCode(t, err, oauth.InvalidRequest)
	_, err = f.exchange(TokenRequest{GrantType: oauth.RefreshTokenGrant, RefreshToken: tokens.RefreshToken})
	tokentest.WantCode(t, err, oauth.InvalidClient)
	f.must(f.registry.RemoveClient(t.Context(), "conf"))
	_, err = f.refresh("conf", tokens.RefreshToken)
	tokentest.WantCode(t, err, oauth.InvalidClient)
	f.dead(tokens)
}

func TestT92WhoGetsARefreshToken(t *testing.T) {
	f := newFlow(t)
	f.addClient(&store.Client{ID: "scoped", Grants: []oauth.GrantType{oauth.AuthorizationCode}, Scopes: oauth.Scopes{oauth.ScopePublic, oauth.ScopeRefreshToken, oauth.ScopeOfflineAccess}})
	for name, v := range map[string]struct {
		client, scope string
		want          bool
	}{
		"the client is registered":     {"conf", "public", true},
		"refresh_token":                {"scoped", "public refresh_token", true},
		"offline_access":               {"scoped", "offline_access", true},
		"neither asked nor registered": {"legacy", "public", false},
		"may ask and does not":         {"scoped", "public", false},
	} {
		tokens := f.tokens(v.client, v.scope)
		if tokens.RefreshToken.IsEmpty() == v.want {
			t.Errorf("%s: %v", name, !v.want)
		}
		if v.want {
			if _, err := f.refresh(v.client, tokens.RefreshToken); err != nil {
				t.Errorf("%s: it does not work: %v", name, err)
			}
		}
	}
	server, err := f.exchange(TokenRequest{GrantType: oauth.ClientCredentials, Client: f.credentials("conf")})
	f.must(err)
	minted, err := f.mint("grace")
	f.must(err)
	if !server.RefreshToken.IsEmpty() || minted.RefreshToken.IsEmpty() {
		t.Error("a server token never has one, an admin-created one always")
	}
}

func TestT93OnlyTheRefreshTokenItselfIsOne(t *testing.T) {
	f := newFlow(t)
	tokens := f.tokens("conf", "refresh_token")
	token := tokens.RefreshToken.Reveal()
	wrongs := []string{token[1:], token[:len(token)-1], token + "0", strings.ToUpper(token), strings.ToLower(token), token + "=", token[:27] + "2" + token[28:], token[:21] + "01" + token[23:]}
	for i := range len(token) {
		changed := []byte(token)
		if changed[i] = '0'; token[i] == '0' {
			changed[i] = '1'
		}
		wrongs = append(wrongs, string(changed))
	}
	for _, wrong := range wrongs {
		if _, err := f.refresh("conf", oauth.NewSecret(wrong)); oauth.AsError(err).Code != oauth.InvalidGrant || oauth.AsError(err).Reason == oauth.ReasonRefreshReused {
			t.Errorf("%d characters: %v", len(wrong), err)
		}
	}
	f.alive(tokens)
	_, err := f.refresh("conf", tokens.RefreshToken)
	f.must(err)
}
