package tokenissuer

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func (a *authority) exchange(grant oauth.GrantType, c ClientAuthentication, scope string) (Tokens, error) {
	tokens, _, err := a.Exchange(context.Background(), TokenRequest{GrantType: grant, Client: c, Scope: scope})
	return tokens, err
}

// TestT99TheOrderOfChecks: each request has two faults, and hears of the one that comes first.
func TestT99TheOrderOfChecks(t *testing.T) {
	a := newAuthority(t)
	a.directory.put(&store.Client{ID: "nocc", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Scopes: oauth.Scopes{oauth.ScopePublic}, Grants: []oauth.GrantType{oauth.AuthorizationCode}})
	for _, v := range []struct {
		name   string
		grant  oauth.GrantType
		client ClientAuthentication
		scope  string
		want   oauth.ErrorCode
	}{
		{"no grant type, wrong secret", "", withSecret("conf", "wrong"), "", oauth.InvalidRequest},
		{"unknown grant type, wrong secret", "foo", withSecret("conf", "wrong"), "", oauth.UnsupportedGrantType},
		{"unknown grant type, no client", "Client_Credentials", ClientAuthentication{}, "", oauth.UnsupportedGrantType},
		{"trailing space", "client_credentials ", withSecret("conf", tokentest.ClientSecret), "", oauth.UnsupportedGrantType},
		{"wrong secret, bad scope", oauth.ClientCredentials, withSecret("conf", "wrong"), "nonsense", oauth.InvalidClient},
		{"unknown client, bad scope", oauth.ClientCredentials, withSecret("gone", "x"), "nonsense", oauth.InvalidClient},
		{"no client, bad scope", oauth.ClientCredentials, ClientAuthentication{}, "nonsense", oauth.InvalidClient},
		{"grant not allowed, wrong secret", oauth.ClientCredentials, withSecret("nocc", "wrong"), "", oauth.InvalidClient},
		{"grant not allowed, bad scope", oauth.ClientCredentials, withSecret("nocc", tokentest.ClientSecret), "nonsense", oauth.UnauthorizedClient},
		{"public client, bad scope", oauth.ClientCredentials, ClientAuthentication{PublicID: "pub"}, "nonsense", oauth.UnauthorizedClient},
		{"bad scope", oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "nonsense", oauth.InvalidScope},
	} {
		t.Run(v.name, func(t *testing.T) {
			tokens, err := a.exchange(v.grant, v.client, v.scope)
			tokentest.WantCode(t, err, v.want)
			if !tokens.AccessToken.IsEmpty() {
				t.Error("tokens come with the error")
			}
		})
	}
	_, err := a.exchange("", ClientAuthentication{}, "")
	if oauth.AsError(err).Description != "Missing required parameter: grant_type." {
		t.Errorf("the client reads %q", oauth.AsError(err).Description)
	}
}

func TestT66ClientCredentialsScopes(t *testing.T) {
	a := newAuthority(t)
	for scope, want := range map[string]oauth.Scopes{
		"": {oauth.ScopePublic}, "  ": {oauth.ScopePublic}, "public": {oauth.ScopePublic}, "reports public": {"reports", oauth.ScopePublic}, "reports reports public reports": {"reports", oauth.ScopePublic}, "reports": {"reports"},
	} {
		tokens, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), scope)
		if err != nil {
			t.Fatalf("%q: %v", scope, err)
		}
		if !slices.Equal(tokens.Scopes, want) || !tokens.RefreshToken.IsEmpty() || tokens.ExpiresIn != 2*time.Hour || !tokens.CreatedAt.Equal(tokentest.Start) {
			t.Errorf("%q: %+v", scope, tokens)
		}
		got := a.accepts(t, tokens.AccessToken.Reveal())
		if !got.IsServerToken() || !slices.Equal(got.Scopes, want) || got.FamilyID != "" || got.Subject != "conf" {
			t.Errorf("%q: %+v", scope, got)
		}
	}
	for _, scope := range []string{"trusted", "refresh_token", "offline_access", "public trusted", "unknown", "PUBLIC", "public+reports", "a\tb", `"`, strings.Repeat("a ", 2000)} {
		_, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), scope)
		tokentest.WantCode(t, err, oauth.InvalidScope)
	}
	_, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "public+reports")
	if !strings.Contains(oauth.AsError(err).Description, "+") {
		t.Errorf("the description does not name the +: %q", oauth.AsError(err).Description)
	}
	for _, c := range oauth.AsError(err).Description {
		if c < 0x20 || c > 0x7e || c == '"' || c == '\\' {
			t.Errorf("the description holds %q", c)
		}
	}
}

func TestT67PublicClientsGetNoServerTokens(t *testing.T) {
	a := newAuthority(t)
	_, err := a.exchange(oauth.ClientCredentials, ClientAuthentication{PublicID: "pub"}, "")
	tokentest.WantCode(t, err, oauth.UnauthorizedClient)
	_, err = a.exchange(oauth.ClientCredentials, ClientAuthentication{PublicID: "nat"}, "")
	tokentest.WantCode(t, err, oauth.UnauthorizedClient)
}

func TestT105TheClientsScopesAreTheCeiling(t *testing.T) {
	a := newAuthority(t)
	_, err := a.exchange(oauth.ClientCredentials, withSecret("other", "other-"+tokentest.ClientSecret), "reports")
	tokentest.WantCode(t, err, oauth.InvalidScope)
	_, err = a.exchange(oauth.ClientCredentials, withSecret("other", "other-"+tokentest.ClientSecret), "public reports")
	tokentest.WantCode(t, err, oauth.InvalidScope)
	for scope, want := range map[string]oauth.Scopes{"": {oauth.ScopePublic}, "public": {oauth.ScopePublic}} {
		tokens, err := a.exchange(oauth.ClientCredentials, withSecret("other", "other-"+tokentest.ClientSecret), scope)
		if err != nil || !slices.Equal(tokens.Scopes, want) {
			t.Errorf("%q: %v, %v", scope, tokens.Scopes, err)
		}
	}
	// A client without public does not get it by saying nothing.
	a.directory.put(&store.Client{ID: "narrow", Type: store.ConfidentialClient, Secrets: digestsOf(tokentest.ClientSecret), Scopes: oauth.Scopes{"reports"}, Grants: []oauth.GrantType{oauth.ClientCredentials}})
	_, err = a.exchange(oauth.ClientCredentials, withSecret("narrow", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.InvalidScope)
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
	a.directory.fault = errors.New("down")
	a.Authenticated.Forget("conf")
	_, err = a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.TemporarilyUnavailable)
}

// TestATokenTooLongIsNotHandedOut: our own gate would refuse it.
func TestATokenTooLongIsNotHandedOut(t *testing.T) {
	a := newAuthority(t)
	a.Audience = []string{tokentest.Audience, strings.Repeat("a", 8<<10)}
	tokens, err := a.exchange(oauth.ClientCredentials, withSecret("conf", tokentest.ClientSecret), "")
	tokentest.WantCode(t, err, oauth.ServerError)
	if !tokens.AccessToken.IsEmpty() {
		t.Error("handed out")
	}
}

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
	a := newAuthority(t)
	if got := a.ServedGrants(); !slices.Equal(got, []oauth.GrantType{oauth.ClientCredentials, oauth.AuthorizationCode, oauth.RefreshTokenGrant}) {
		t.Errorf("served: %v", got)
	}
	a.PasswordGrant = new(PasswordRules)
	if got := a.ServedGrants(); len(got) != len(exchanges) || !slices.Contains(got, oauth.PasswordGrant) {
		t.Errorf("served: %v", got)
	}
}
