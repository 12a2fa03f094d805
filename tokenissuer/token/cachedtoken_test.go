package token

import (
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// plainToken returns a typical token.
func plainToken() *AccessToken {
	return &AccessToken{
		Issuer: tokentest.Issuer, Subject: "user-1", Audience: []string{tokentest.Audience, "https://other.example"}, ClientID: "client-1",
		Scopes: oauth.Scopes{"public", "trusted"}, ID: "token-1", IssuedAt: tokentest.Start, ExpiresAt: tokentest.Start.Add(time.Hour), KeyID: "key-1",
		SignIn: SignIn{FamilyID: "family-1", Organisation: "acme", Role: "admin", AuthTime: tokentest.Start.Add(-time.Hour)},
	}
}

// TestAPackedTokenSaysTheSame changes one field of a token after the other. Each must come back unchanged, whether
// the token is packed or, where that is not possible, kept whole.
func TestAPackedTokenSaysTheSame(t *testing.T) {
	for _, test := range []struct {
		name   string
		change func(*AccessToken)
		whole  bool
	}{
		{name: "nothing", change: func(*AccessToken) {}},
		{name: "issuer", change: func(t *AccessToken) { t.Issuer = "https://else.example" }},
		{name: "server token", change: func(t *AccessToken) { t.Subject = t.ClientID }},
		{name: "no client", change: func(t *AccessToken) { t.ClientID = "" }},
		{name: "no subject", change: func(t *AccessToken) { t.Subject = "" }, whole: true},
		{name: "neither", change: func(t *AccessToken) { t.Subject, t.ClientID = "", "" }},
		{name: "no family, no organisation", change: func(t *AccessToken) { t.FamilyID, t.Organisation = "", "" }},
		{name: "texts that touch otherwise", change: func(t *AccessToken) { t.FamilyID, t.Organisation = "family-1ac", "me" }},
		{name: "one audience", change: func(t *AccessToken) { t.Audience = t.Audience[:1] }},
		{name: "another audience", change: func(t *AccessToken) { t.Audience[0] = "https://b.example" }},
		{name: "audiences the other way round", change: func(t *AccessToken) { t.Audience[0], t.Audience[1] = t.Audience[1], t.Audience[0] }},
		{name: "one scope", change: func(t *AccessToken) { t.Scopes = t.Scopes[1:] }},
		{name: "no scope", change: func(t *AccessToken) { t.Scopes = nil }},
		{name: "another key", change: func(t *AccessToken) { t.KeyID = "key-2" }},
		{name: "no role", change: func(t *AccessToken) { t.Role = "" }},
		{name: "no times", change: func(t *AccessToken) { t.IssuedAt, t.AuthTime, t.ExpiresAt = time.Time{}, time.Time{}, time.Time{} }},
		{name: "the last second", change: func(t *AccessToken) { t.ExpiresAt = time.Unix(1<<32-1, 0) }},
		{name: "beyond the last second", change: func(t *AccessToken) { t.ExpiresAt = time.Unix(1<<32, 0) }, whole: true},
		{name: "1970", change: func(t *AccessToken) { t.IssuedAt = time.Unix(0, 0) }, whole: true},
		{name: "parts of a second", change: func(t *AccessToken) { t.IssuedAt = t.IssuedAt.Add(time.Millisecond) }, whole: true},
		{name: "an actor", change: func(t *AccessToken) { t.Actors = []store.Actor{{Subject: "admin"}} }, whole: true},
		{name: "a person", change: func(t *AccessToken) { t.extra.person = &Person{Name: "Ada"} }, whole: true},
		{name: "other claims", change: func(t *AccessToken) { t.extra.set("a", claimValue{texts: []string{"b"}}) }, whole: true},
		{name: "texts that just fit", change: func(t *AccessToken) { t.ID = strings.Repeat("x", 255-26) }},
		{name: "texts that do not fit", change: func(t *AccessToken) { t.ID = strings.Repeat("x", 256-26) }, whole: true},
		{name: "shared texts that do not fit", change: func(t *AccessToken) { t.Audience[1] = strings.Repeat("x", 512) }, whole: true},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := newTokenCache()
			c.packToken(plainToken(), nil) // the shared texts are stored already
			token, want := plainToken(), plainToken()
			test.change(token)
			test.change(want)
			packed := c.packToken(token, nil)
			if got := c.token(packed); !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			if whole := packed.common == nil; whole != test.whole {
				t.Errorf("it is kept whole: %v", whole)
			}
		})
	}
}

// TestEveryFieldOfATokenIsPacked detects a field of AccessToken that packToken omits.
func TestEveryFieldOfATokenIsPacked(t *testing.T) {
	if n, m := reflect.TypeFor[AccessToken]().NumField(), reflect.TypeFor[SignIn]().NumField(); n != 12 || m != 4 {
		t.Errorf("AccessToken has %d fields and SignIn %d, and packToken and TestAPackedTokenSaysTheSame know 12 and 4", n, m)
	}
}

// TestTokensThatShareTextsShareMemory: the cache copies every text that it keeps of a token, so it does not retain
// the request.
func TestTokensThatShareTextsShareMemory(t *testing.T) {
	c := newTokenCache()
	first, second := plainToken(), plainToken()
	second.ID, second.Subject = "token-2", "user-2"
	if a, b := c.packToken(first, nil), c.packToken(second, nil); a.common != b.common || a.ownText == b.ownText {
		t.Error("they do not share what is the same")
	}
	shared := c.packToken(plainToken(), nil)
	original := plainToken()
	original.Role = strings.Clone("a role of its own")
	lone := c.packToken(original, nil)
	if shared.weight() != leastWeight || lone.weight() <= leastWeight {
		t.Errorf("a token that shares what it can is weighed as %d, one that is alone as %d", shared.weight(), lone.weight())
	}
	if unsafe.StringData(lone.common.role) == unsafe.StringData(original.Role) {
		t.Error("it keeps a text of the token that came")
	}
	original.Audience[0], original.Scopes[0] = "changed", "changed"
	if got := c.token(lone); got.Audience[0] != tokentest.Audience || got.Scopes[0] != "public" {
		t.Errorf("it keeps the lists of the token that came: %v %v", got.Audience, got.Scopes)
	}
	// Texts beyond the capacity evict each other, and each token still has its own.
	for i := range 10 * len(c.common.slots) {
		token := plainToken()
		token.Scopes = oauth.Scopes{"scope-" + strconv.Itoa(i)}
		if got := c.token(c.packToken(token, nil)); got.Scopes[0] != token.Scopes[0] {
			t.Fatalf("%v became %v", token.Scopes, got.Scopes)
		}
	}
}

// TestTokensThatAreShownStayUnpacked: a bounded number stays unpacked, those unpacked last.
func TestTokensThatAreShownStayUnpacked(t *testing.T) {
	c := newTokenCache()
	tokens := make([]*cachedToken, maxUnpacked+10)
	for i := range tokens {
		tokens[i] = c.packToken(plainToken(), nil)
		if first := c.token(tokens[i]); c.token(tokens[i]) != first {
			t.Fatal("a token that was just unpacked is unpacked again")
		}
	}
	unpacked := 0
	for i, token := range tokens {
		if token.whole.Load() == nil {
			if i >= 10 {
				t.Fatalf("token %d of %d is packed again", i, len(tokens))
			}
			continue
		}
		unpacked++
	}
	if unpacked != maxUnpacked {
		t.Errorf("%d tokens are unpacked", unpacked)
	}
	if got := c.token(tokens[0]); !reflect.DeepEqual(got, plainToken()) {
		t.Errorf("once more it says %+v", got)
	}
}
