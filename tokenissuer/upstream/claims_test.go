package upstream

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// TestP7EmailVerified: `email_verified` true or "true" → verified; "True", 1, null, a list, Entra without xms_edov, a Google domain of no
// Workspace → not verified.
func TestP7EmailVerified(t *testing.T) {
	const entra = "https://login.microsoftonline.com/8eaef023-2b34-4da1-9baa-8bc8c9d6a490/v2.0"
	for name, c := range map[string]struct {
		issuer, claims string
		want           bool
	}{
		"true":                                {"https://a.example", `{"email":"a@b.example","email_verified":true}`, true},
		"the text true":                       {"https://a.example", `{"email":"a@b.example","email_verified":"true"}`, true},
		"false":                               {"https://a.example", `{"email":"a@b.example","email_verified":false}`, false},
		"the text false":                      {"https://a.example", `{"email":"a@b.example","email_verified":"false"}`, false},
		"the text True":                       {"https://a.example", `{"email":"a@b.example","email_verified":"True"}`, false},
		"1":                                   {"https://a.example", `{"email":"a@b.example","email_verified":1}`, false},
		"the text 1":                          {"https://a.example", `{"email":"a@b.example","email_verified":"1"}`, false},
		"null":                                {"https://a.example", `{"email":"a@b.example","email_verified":null}`, false},
		"a list":                              {"https://a.example", `{"email":"a@b.example","email_verified":[true]}`, false},
		"nothing":                             {"https://a.example", `{"email":"a@b.example"}`, false},
		"another name":                        {"https://a.example", `{"email":"a@b.example","Email_Verified":true,"verified":true}`, false},
		"no address":                          {"https://a.example", `{"email_verified":true}`, false},
		"an address that is none":             {"https://a.example", `{"email":["a@b.example"],"email_verified":true}`, false},
		"Entra's claim elsewhere":             {"https://a.example", `{"email":"a@b.example","xms_edov":true}`, false},
		"Entra says nothing":                  {entra, `{"email":"a@b.example"}`, false},
		"Entra with email_verified":           {entra, `{"email":"a@b.example","email_verified":true}`, false},
		"Entra with xms_edov":                 {entra, `{"email":"a@b.example","xms_edov":true}`, true},
		"Entra with xms_edov 1":               {entra, `{"email":"a@b.example","xms_edov":1}`, true},
		"Entra with xms_edov almost 1":        {entra, `{"email":"a@b.example","xms_edov":1.00000000000000000001}`, false},
		"Entra with xms_edov as text":         {entra, `{"email":"a@b.example","xms_edov":"1"}`, true},
		"Entra with xms_edov false":           {entra, `{"email":"a@b.example","xms_edov":false}`, false},
		"Entra with xms_edov 0":               {entra, `{"email":"a@b.example","xms_edov":"0"}`, false},
		"Google, in a Workspace":              {google, `{"email":"a@b.example","email_verified":true,"hd":"b.example"}`, true},
		"Google, in a Workspace, not yet":     {google, `{"email":"a@b.example","email_verified":false,"hd":"b.example"}`, false},
		"Google, of a domain of somebody":     {google, `{"email":"a@b.example","email_verified":true}`, false},
		"Google, of a domain, hd is empty":    {google, `{"email":"a@b.example","email_verified":true,"hd":""}`, false},
		"Google, at gmail.com":                {google, `{"email":"a@gmail.com","email_verified":true}`, true},
		"Google, at a domain like gmail.com":  {google, `{"email":"a@notgmail.com","email_verified":true}`, false},
		"Google's rule elsewhere":             {"https://accounts.google.com.evil.example", `{"email":"a@b.example","email_verified":true}`, true},
		"Google, hd is something else's list": {google, `{"email":"a@b.example","email_verified":true,"hd":["b.example"]}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			settings := &Settings{Issuer: c.issuer}
			claims, err := readClaims([]byte(c.claims))
			if err != nil {
				t.Fatal(err)
			}
			got, err := settings.account(claims)
			if err != nil {
				t.Fatal(err)
			}
			if got.EmailVerified != c.want {
				t.Errorf("verified is %t of %q", got.EmailVerified, got.Email)
			}
		})
	}
}

// TestP19Groups: groups missing or empty → out of all groups; by path → found; of other types, or too many for Entra to tell → refused.
func TestP19Groups(t *testing.T) {
	for name, c := range map[string]struct {
		path, claims string
		want         []string
		reason       string
	}{
		"a list":                     {"groups", `{"groups":["a","b"]}`, []string{"a", "b"}, ""},
		"an empty list":              {"groups", `{"groups":[]}`, []string{}, ""},
		"no claim: out of all":       {"groups", `{}`, []string{}, ""},
		"null":                       {"groups", `{"groups":null}`, []string{}, ""},
		"not asked for: as before":   {"", `{"groups":["a"]}`, nil, ""},
		"one text":                   {"groups", `{"groups":"a b"}`, []string{"a b"}, ""},
		"a path":                     {"realm_access.roles", `{"realm_access":{"roles":["a"]}}`, []string{"a"}, ""},
		"a path to nothing":          {"realm_access.roles", `{"realm_access":["roles"]}`, []string{}, ""},
		"a deep path":                {"resource_access.app.roles", `{"resource_access":{"app":{"roles":["a"]}}}`, []string{"a"}, ""},
		"a name with dots":           {"https://a.example/groups", `{"https://a.example/groups":["a"]}`, []string{"a"}, ""},
		"the name before the path":   {"a.b", `{"a.b":["x"],"a":{"b":["y"]}}`, []string{"x"}, ""},
		"another case":               {"groups", `{"Groups":["admin"]}`, []string{}, ""},
		"numbers in it":              {"groups", `{"groups":["a",7]}`, nil, ErrMisconfigured.Reason},
		"a list in it":               {"groups", `{"groups":["a",["admin"]]}`, nil, ErrMisconfigured.Reason},
		"an object":                  {"groups", `{"groups":{"a":true}}`, nil, ErrMisconfigured.Reason},
		"Entra: too many to be told": {"groups", `{"_claim_names":{"groups":"src1"},"_claim_sources":{"src1":{"endpoint":"http://127.0.0.1/"}}}`, nil, ErrMisconfigured.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			claims, err := readClaims([]byte(c.claims))
			if err != nil {
				t.Fatal(err)
			}
			got, err := (&Settings{GroupsClaim: c.path}).account(claims)
			if c.reason != "" {
				wantReason(t, err, c.reason)
			} else if err != nil || !slices.Equal(got.Groups, c.want) || (got.Groups == nil) != (c.want == nil) {
				t.Errorf("got %#v, %v", got.Groups, err)
			}
		})
	}
}

// TestP12Userinfo: userinfo of another sub or none → refused; an address that it verifies in place of the ID token's → not verified.
func TestP12Userinfo(t *testing.T) {
	without := func(names ...string) map[string]any {
		claims := make(map[string]any)
		for _, name := range names {
			claims[name] = nil
		}
		return claims
	}
	for name, c := range map[string]struct {
		claims, userinfo map[string]any
		reason           string
		want             signin.Account
	}{
		"all from userinfo": {
			without("name", "email", "email_verified"), map[string]any{"name": "J", "email": "j@b.example", "email_verified": true, "groups": []string{"a"}}, "",
			signin.Account{Name: "J", Email: "j@b.example", EmailVerified: true, Groups: []string{"a"}},
		},
		"groups alone": {nil, map[string]any{"name": "Eve", "email": "eve@evil.example", "groups": []string{"a"}}, "",
			signin.Account{Name: "Jane Doe", Email: "jane@example.com", EmailVerified: true, Groups: []string{"a"}}},
		"nothing there either": {without("name", "email", "email_verified"), nil, "", signin.Account{Groups: []string{}}},
		"another sub":          {nil, map[string]any{"sub": "victim"}, ErrUntrusted.Reason, signin.Account{}},
		"no sub":               {nil, map[string]any{"sub": nil}, ErrUntrusted.Reason, signin.Account{}},
		"sub in another case":  {nil, map[string]any{"sub": nil, "SUB": "248289761001"}, ErrUntrusted.Reason, signin.Account{}},
		"sub is a number":      {nil, map[string]any{"sub": 248289761001}, ErrUntrusted.Reason, signin.Account{}},
		"verified for another address": {
			without("email_verified"), map[string]any{"email": "eve@evil.example", "email_verified": true}, "",
			signin.Account{Name: "Jane Doe", Email: "jane@example.com", Groups: []string{}},
		},
		"verified for the same address": {
			without("email_verified"), map[string]any{"email": "jane@example.com", "email_verified": true}, "",
			signin.Account{Name: "Jane Doe", Email: "jane@example.com", EmailVerified: true, Groups: []string{}},
		},
		"the ID token verifies an address of userinfo": {
			without("email"), map[string]any{"email": "eve@evil.example"}, "",
			signin.Account{Name: "Jane Doe", Email: "eve@evil.example", Groups: []string{}},
		},
		"not verified in the ID token": {
			map[string]any{"email_verified": false}, map[string]any{"email": "jane@example.com", "email_verified": true}, "",
			signin.Account{Name: "Jane Doe", Email: "jane@example.com", Groups: []string{}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.claims, p.userinfo = c.claims, c.userinfo
			got, err := p.signIn(p.provider(func(s *Settings) { s.GroupsClaim = "groups" }))
			if c.reason != "" {
				wantReason(t, err, c.reason)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got.Provider, got.Subject = "", ""
			if g, w := asJSON(t, got), asJSON(t, c.want); g != w {
				t.Errorf("got %s, want %s", g, w)
			}
			if p.count("/userinfo") != 1 {
				t.Errorf("userinfo was asked %d times", p.count("/userinfo"))
			}
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestP12UserinfoThatCannotBeRead: userinfo signed or malformed → refused.
func TestP12UserinfoThatCannotBeRead(t *testing.T) {
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		reason string
	}{
		"signed":            {says("application/jwt", "e30.e30.e30"), ErrMisconfigured.Reason},
		"a member twice":    {says("application/json", `{"sub":"victim","sub":"248289761001"}`), ErrMisconfigured.Reason},
		"null":              {says("application/json", `null`), ErrMisconfigured.Reason},
		"unauthorized":      {status(http.StatusUnauthorized), ErrMisconfigured.Reason},
		"a redirect":        {redirect("https://evil.example/"), ErrMisconfigured.Reason},
		"broken":            {status(http.StatusBadGateway), ErrUnavailable.Reason},
		"too often":         {status(http.StatusTooManyRequests), ErrUnavailable.Reason},
		"endless":           {endless, ErrUnavailable.Reason},
		"a gzip bomb":       {gzipped, ErrUnavailable.Reason},
		"another's address": {says("text/html", "<html>"), ErrMisconfigured.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.answer("/userinfo", c.answer)
			_, err := p.signIn(p.provider(func(s *Settings) { s.GroupsClaim = "groups" }))
			wantReason(t, err, c.reason)
		})
	}
}

// TestP141AddressesThatAreNoTexts: an address that is a list or an object → no address, no panic.
func TestP141AddressesThatAreNoTexts(t *testing.T) {
	list, object := []string{"jane@example.com"}, map[string]any{"value": "jane@example.com"}
	for name, c := range map[string]struct{ claims, userinfo any }{
		"lists": {list, list}, "objects": {object, object}, "a list and a text": {list, "jane@example.com"}, "a text and a list": {"jane@example.com", list},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.claims["email"], p.claims["email_verified"] = c.claims, nil
			p.userinfo = map[string]any{"email": c.userinfo, "email_verified": true, "groups": []string{"a"}}
			got, err := p.signIn(p.provider(func(s *Settings) { s.GroupsClaim = "groups" }))
			if err != nil || got.EmailVerified || len(got.Groups) != 1 {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestProfileKeepsWhatIsValid(t *testing.T) {
	claims, err := readClaims([]byte(`{"given_name":"Jane","family_name":"` + strings.Repeat("x", 5000) + `","locale":"de_DE!","zoneinfo":"Europe/Berlin","picture":"http://a.example/"}`))
	if err != nil {
		t.Fatal(err)
	}
	p := claims.profile()
	if p.GivenName != "Jane" || p.FamilyName != "" || p.Locale != "" || p.Zoneinfo != "Europe/Berlin" || p.Picture != "" {
		t.Errorf("got %+v", p)
	}
}

// TestProviderTestSaysWhenTheGroupsNeverCome: Test reports a missing groups claim, before the first sign-in and afterwards.
func TestProviderTestSaysWhenTheGroupsNeverCome(t *testing.T) {
	step := func(provider *OpenID) string {
		t.Helper()
		for _, s := range provider.Test(t.Context(), redirectURI) {
			if s.Name == "groups" {
				return string(s.Result) + ": " + s.Text
			}
		}
		return ""
	}
	p := newIDP(t)
	provider := p.provider(func(s *Settings) { s.GroupsClaim = "realm.roles" })
	none := p.provider(nil)
	for name, c := range map[string]struct {
		listed any
		want   string
	}{
		"no list": {nil, ""}, "listed": {[]string{"sub", "realm.roles"}, ""}, "its object is listed": {[]string{"realm"}, ""},
		"not listed": {[]string{"sub", "roles"}, "advice: the provider lists its claims"},
	} {
		p.metadata["claims_supported"] = c.listed
		if got := step(provider); !strings.HasPrefix(got, c.want) || (got == "") != (c.want == "") {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
		if got := step(none); got != "" {
			t.Errorf("%s, without a groups line: %q", name, got)
		}
	}
	for range 2 {
		if _, err := p.signIn(provider); err != nil {
			t.Fatal(err)
		}
	}
	if got := step(provider); !strings.HasPrefix(got, `advice: the claim "realm.roles" has come in none of 2 sign-ins`) {
		t.Errorf("when it never came: %q", got)
	}
	p.claims = map[string]any{"realm": map[string]any{"roles": []string{}}}
	if _, err := p.signIn(provider); err != nil {
		t.Fatal(err)
	}
	if got := step(provider); !strings.HasPrefix(got, "passed: ") {
		t.Errorf("when it came, empty: %q", got)
	}
}
