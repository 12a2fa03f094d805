package token

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// memoryOf returns the average number of bytes that a cached family takes.
func memoryOf(family *store.TokenFamily, user *store.User) float64 {
	const count = 4000
	var before, after runtime.MemStats
	kept := make([]*rememberedFamily, count)
	runtime.GC()
	runtime.GC() // collects what had a finalizer
	runtime.ReadMemStats(&before)
	for i := range kept {
		f := *family
		f.ID = fmt.Sprintf("%022d", i)
		kept[i] = newRememberedFamily(&f, user)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(kept)
	return float64(after.HeapAlloc-before.HeapAlloc) / count
}

// TestOpenIDTakesAFamilyLittleMemory measures what a family keeps for ID tokens, and what a user's profile takes with
// each of the user's families.
func TestOpenIDTakesAFamilyLittleMemory(t *testing.T) {
	id := func(letter string) string { return strings.Repeat(letter, 22) }
	family := store.TokenFamily{
		User:          store.FamilyUser{ID: id("u"), Version: id("v")},
		Grant:         store.Grant{ClientID: "portal", Origin: oauth.AuthorizationCode, Scopes: oauth.Scopes{"public", "trusted", "refresh_token"}},
		Refresh:       store.RefreshState{RotatedBy: strings.Repeat("r", 43)},
		Preconditions: store.Preconditions{SessionID: id("s")},
		Code:          store.CodeBinding{RequestID: id("q"), RedirectURI: "https://app.example/callback", Challenge: strings.Repeat("c", 43)},
	}
	user := store.User{ID: id("u"), Email: "ada@example.com", Name: "Ada Lovelace", Organisation: "acme", Role: "admin", Status: store.UserActive, Version: id("v"), Groups: []string{"staff"}}
	plain := memoryOf(&family, &user)

	family.SignIn.SessionID, family.Code.Nonce = id("s"), strings.Repeat("n", 43)
	family.Scopes = oauth.Scopes{"openid", "profile", "email", "refresh_token"}
	user.EmailVerifiedBy = store.VerifiedByOperator
	user.Profile = &store.Profile{GivenName: "Ada", FamilyName: "Lovelace", PreferredUsername: "ada", Locale: "en-GB", Zoneinfo: "Europe/London"}
	withOpenID := memoryOf(&family, &user)

	t.Logf("%.0f bytes without openid, %.0f with it: %.2f times", plain, withOpenID, withOpenID/plain)
	if withOpenID > 1.2*plain {
		t.Errorf("a family takes %.0f bytes with openid and %.0f without, more than 1.2 times", withOpenID, plain)
	}
}
