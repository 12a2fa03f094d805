package grants

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func (a *authority) exchange(grant oauth.GrantType, c clients.Authentication, scope string) (issuer.Tokens, error) {
	tokens, _, err := a.Exchange(context.Background(), Request{GrantType: grant, Client: c, Scope: scope})
	return tokens, err
}

func TestLifetimesOfTheClientComeFirst(t *testing.T) {
	a := newAuthority(t)
	changed := *a.client("conf")
	changed.Lifetimes.ClientCredentials = 5 * time.Minute
	a.directory.put(&changed)
	tokens, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	if err != nil || tokens.ExpiresIn != 5*time.Minute || !tokens.Claims.ExpiresAt.Equal(tokentest.Start.Add(5*time.Minute)) {
		t.Errorf("%+v, %v", tokens, err)
	}
	for grant, want := range map[oauth.GrantType]time.Duration{oauth.AuthorizationCode: 6 * time.Hour, oauth.PasswordGrant: 28 * 24 * time.Hour, oauth.ClientCredentials: 2 * time.Hour} {
		if got := store.DefaultLifetimes.For(grant); got != want {
			t.Errorf("%s: %s", grant, got)
		}
	}
}

func TestNoKeyNoTokens(t *testing.T) {
	a := newAuthority(t)
	if err := a.keySetState.Replace(nil, oauth.ES256); err != nil {
		t.Fatal(err)
	}
	_, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
	a.directory.fault = store.Unavailable(errors.New("down"))
	a.Authenticated.Forget("conf")
	_, err = a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestATokenTooLongIsNotHandedOut: a token that our own gate would refuse for its length is not issued.
func TestATokenTooLongIsNotHandedOut(t *testing.T) {
	a := newAuthority(t)
	a.Minter.Audience = []string{tokentest.Audience, strings.Repeat("a", 8<<10)}
	tokens, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.ServerError)
	if !tokens.AccessToken.IsEmpty() {
		t.Error("handed out")
	}
}

// TestT22GeneratedSecretsAreLongAndOneOfAKind: generated secrets → base62 with at least 190 bits, all different.
func TestT22GeneratedSecretsAreLongAndOneOfAKind(t *testing.T) {
	seen := make(map[string]bool)
	for range 1000 {
		s := oauth.NewClientSecret().Reveal()
		if seen[s] || len(s) != 43 || strings.Trim(s, oauth.Base62) != "" {
			t.Fatalf("%q", s)
		}
		seen[s] = true
	}
}

// TestT104ServedGrants: the password grant is off without its rules.
func TestT104ServedGrants(t *testing.T) {
	if got := newAuthority(t).Served(); !slices.Equal(got, []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode, oauth.RefreshTokenGrant, oauth.TokenExchange, oauth.DeviceCode}) {
		t.Errorf("served: %v", got)
	}
	a := newAuthorityOf(t, func(s *issuer.Settings) { s.PasswordGrant = new(issuer.PasswordRules) })
	if got := a.Served(); len(got) != 6 || !slices.Contains(got, oauth.PasswordGrant) {
		t.Errorf("served: %v", got)
	}
}
