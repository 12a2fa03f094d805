package token

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ada has a value for every claim.
func ada() *store.User {
	return &store.User{
		ID: "ada", Name: "Ada Lovelace", Email: "ada@example.com", EmailVerifiedBy: store.VerifiedByOperator, Groups: []string{"math", "engines"},
		CreatedAt: time.Unix(1000, 0), UpdatedAt: time.Unix(2000, 999),
		Organisation: "acme", Role: "admin", PasswordHash: oauth.NewSecret("$argon2id$"), Version: "v1",
		Profile: &store.Profile{
			GivenName: "Ada", FamilyName: "Lovelace", PreferredUsername: "ada", Locale: "en-GB", Zoneinfo: "Europe/London",
			Picture: "https://example.com/ada.png", Phone: "+44 20 1", PhoneVerified: true,
			Address: store.Address{Formatted: "1 Square\nLondon", StreetAddress: "1 Square", Locality: "London", Region: "L", PostalCode: "SW1", Country: "GB"},
		},
	}
}

// userClaimsOf returns what IDClaims returns, decoded. Without a claim it is empty.
func userClaimsOf(t *testing.T, u *store.User, scopes oauth.Scopes, names ...string) map[string]any {
	t.Helper()
	claims := map[string]any{}
	text, err := IDClaims(u, scopes, names)
	if err != nil {
		t.Fatal(err)
	}
	if text == nil {
		return claims
	}
	if err := json.Unmarshal(text, &claims); err != nil {
		t.Fatal(err)
	}
	return claims
}

// TestT172TheClaimsOfEachScope: the claims of a user for each scope → exactly those of OpenID Connect Core §5.4, only what has a value,
// never password or role.
func TestT172TheClaimsOfEachScope(t *testing.T) {
	address := map[string]any{"formatted": "1 Square\nLondon", "street_address": "1 Square", "locality": "London", "region": "L", "postal_code": "SW1", "country": "GB"}
	for scope, want := range map[string]map[string]any{
		"openid":  {},
		"trusted": {},
		"profile": {
			"name": "Ada Lovelace", "given_name": "Ada", "family_name": "Lovelace", "preferred_username": "ada", "locale": "en-GB",
			"zoneinfo": "Europe/London", "picture": "https://example.com/ada.png", "updated_at": 2000.0,
		},
		"email":   {"email": "ada@example.com", "email_verified": true},
		"phone":   {"phone_number": "+44 20 1", "phone_number_verified": true},
		"address": {"address": address},
		"groups":  {"groups": []any{"math", "engines"}},
	} {
		t.Run("T172 "+scope, func(t *testing.T) {
			if got := userClaimsOf(t, ada(), oauth.Scopes{scope}); !reflect.DeepEqual(got, want) {
				t.Errorf("%v, want %v", got, want)
			}
		})
	}
	all := userClaimsOf(t, ada(), oauth.Scopes{"profile", "email", "phone", "address", "groups"})
	if names := IDClaimNames(); len(all) != len(names) || slices.ContainsFunc(names, func(name string) bool { return all[name] == nil }) {
		t.Errorf("of all claims %v there are %v", names, slices.Collect(maps.Keys(all)))
	}
}

func TestT172SingleClaims(t *testing.T) {
	for _, name := range IDClaimNames() {
		got := userClaimsOf(t, ada(), oauth.Scopes{"openid"}, name)
		if len(got) != 1 || got[name] == nil {
			t.Errorf("%s alone: %v", name, got)
		}
	}
	claims, err := IDClaims(ada(), nil, []string{"email_verified", "name"})
	if err != nil || string(claims) != `{"name":"Ada Lovelace","email_verified":true}` {
		t.Errorf("%s, %v", claims, err)
	}
	for _, name := range []string{"sub", "password", "role", "org", ""} {
		if claims, err := IDClaims(ada(), oauth.Scopes{""}, []string{name}); err != nil || claims != nil {
			t.Errorf("%q: %s, %v", name, claims, err)
		}
	}
}

func TestT172OnlyWhatHasAValue(t *testing.T) {
	all := oauth.Scopes{"openid", "profile", "email", "phone", "address", "groups"}
	declared := &store.User{ID: "bob", Email: "bob@example.com", Profile: &store.Profile{Address: store.Address{Country: "DE"}}}
	want := map[string]any{"email": "bob@example.com", "email_verified": false, "address": map[string]any{"country": "DE"}}
	if got := userClaimsOf(t, declared, all); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got := userClaimsOf(t, &store.User{ID: "eve", CreatedAt: time.Unix(1000, 0)}, all); !reflect.DeepEqual(got, map[string]any{"updated_at": 1000.0}) {
		t.Errorf("%v", got)
	}
}
