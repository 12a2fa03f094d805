package token

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestT170ReadsTheClaimsParameter(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       ClaimsRequest
		compact    string
	}{
		{"none", ``, ClaimsRequest{}, ``},
		{"nothing", `{}`, ClaimsRequest{}, ``},
		{"nothing in either", `{"userinfo":{},"id_token":null}`, ClaimsRequest{}, ``},
		{"the default manner", ` {"userinfo": {"name": null, "email": null}} `, ClaimsRequest{UserInfo: []string{"name", "email"}}, `{"userinfo":{"email":null,"name":null}}`},
		{"essential", `{"userinfo":{"name":{"essential":true}},"id_token":{"email":{"essential":false}}}`,
			ClaimsRequest{UserInfo: []string{"name"}, IDToken: []string{"email"}}, `{"userinfo":{"name":null},"id_token":{"email":null}}`},
		{"values of another claim", `{"id_token":{"locale":{"value":"de"},"groups":{"values":["a",1]}}}`,
			ClaimsRequest{IDToken: []string{"locale", "groups"}}, `{"id_token":{"groups":null,"locale":null}}`},
		{"unknown names", `{"userinfo":{"http://x.example/y":null,"name#de":null,"Name":null,"nickname":{"essential":true}},"other":{"name":null}}`, ClaimsRequest{}, ``},
		{"unknown names that ask in another form", `{"userinfo":{"verified_claims":[{"trust_framework":null}],"x":"essential","name":null}}`, ClaimsRequest{UserInfo: []string{"name"}}, `{"userinfo":{"name":null}}`},
		{"unknown members", `{"userinfo":{"name":{"purpose":"fun","essential":true}}}`, ClaimsRequest{UserInfo: []string{"name"}}, `{"userinfo":{"name":null}}`},
		{"claims of every ID token", `{"id_token":{"auth_time":{"essential":true},"sub":null,"acr":null,"iss":null}}`, ClaimsRequest{}, ``},
		{"sub in the ID token", `{"id_token":{"sub":{"value":"ada"}}}`, ClaimsRequest{Subjects: []string{"ada"}}, `{"id_token":{"sub":{"values":["ada"]}}}`},
		{"sub at userinfo", `{"userinfo":{"sub":{"value":"ada"}}}`, ClaimsRequest{Subjects: []string{"ada"}}, `{"id_token":{"sub":{"values":["ada"]}}}`},
		{"sub in both", `{"userinfo":{"sub":{"values":["ada","bob"]}},"id_token":{"sub":{"values":["eve","bob"]}}}`, ClaimsRequest{Subjects: []string{"bob"}}, `{"id_token":{"sub":{"values":["bob"]}}}`},
		{"sub without a value", `{"id_token":{"sub":{"value":null,"essential":true}}}`, ClaimsRequest{}, ``},
		{"acr, essential", `{"id_token":{"acr":{"essential":true,"values":["2","1"]}}}`, ClaimsRequest{ACR: []string{"2", "1"}}, `{"id_token":{"acr":{"essential":true,"values":["2","1"]}}}`},
		{"acr, by one value", `{"id_token":{"acr":{"essential":true,"value":"2"}}}`, ClaimsRequest{ACR: []string{"2"}}, `{"id_token":{"acr":{"essential":true,"values":["2"]}}}`},
		{"acr, voluntary", `{"id_token":{"acr":{"values":["2"]}}}`, ClaimsRequest{}, ``},
		{"acr at userinfo", `{"userinfo":{"acr":{"essential":true,"values":["2"]}}}`, ClaimsRequest{}, ``},
	} {
		t.Run("T170 "+c.name, func(t *testing.T) {
			got, err := ParseClaimsRequest(c.text)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Fatalf("%+v, %v; want %+v", got, err, c.want)
			}
			if compact := got.String(); compact != c.compact {
				t.Errorf("written as %s, want %s", compact, c.compact)
			}
			if again, err := ParseClaimsRequest(got.String()); err != nil || !reflect.DeepEqual(again, got) {
				t.Errorf("read again: %+v, %v", again, err)
			}
		})
	}
}

// TestT170MalformedClaimsParameters: `claims` that is not an object, has a name twice or a wrong type, is not UTF-8
// or over 2 KiB → invalid_request.
func TestT170MalformedClaimsParameters(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":                   `name`,
		"null":                      `null`,
		"a space":                   ` `,
		"an array":                  `[]`,
		"a string":                  `"userinfo"`,
		"something behind it":       `{}{}`,
		"cut off":                   `{"userinfo":{`,
		"a member twice":            `{"userinfo":{},"userinfo":{}}`,
		"a claim twice":             `{"userinfo":{"name":null,"name":null}}`,
		"an unknown claim twice":    `{"userinfo":{"x":null,"x":null}}`,
		"an array of names":         `{"userinfo":["name"]}`,
		"a claim that is true":      `{"userinfo":{"name":true}}`,
		"a claim that is text":      `{"userinfo":{"name":"essential"}}`,
		"essential is text":         `{"userinfo":{"name":{"essential":"true"}}}`,
		"values are no array":       `{"userinfo":{"name":{"values":"x"}}}`,
		"sub is a number":           `{"id_token":{"sub":{"value":7}}}`,
		"sub that nobody has":       `{"userinfo":{"sub":{"value":"ada"}},"id_token":{"sub":{"value":"bob"}}}`,
		"acr is a number":           `{"id_token":{"acr":{"essential":true,"values":[1]}}}`,
		"not UTF-8":                 "{\"userinfo\":{\"\xff\":null}}",
		"half a surrogate pair":     `{"id_token":{"sub":{"value":"\ud800"}}}`,
		"too long":                  `{"userinfo":{"x":{"value":"` + strings.Repeat("x", maxClaimsRequest) + `"}}}`,
		"too long, of white space":  strings.Repeat(" ", maxClaimsRequest-1) + "{}",
		"nested as deep as it fits": strings.Repeat("[", maxClaimsRequest),
	} {
		t.Run("T170 "+name, func(t *testing.T) {
			got, err := ParseClaimsRequest(text)
			if !reflect.DeepEqual(got, ClaimsRequest{}) {
				t.Errorf("read as %+v", got)
			}
			tokentest.WantCode(t, err, oauth.InvalidRequest)
		})
	}
	// The stored form is longer than the request, and must be readable too.
	const short, compact = `{"userinfo":{"sub":{"value":""}}}`, `{"id_token":{"sub":{"values":[""]}}}`
	for n := maxClaimsRequest - len(compact) - 2; n <= maxClaimsRequest-len(short); n++ {
		got, err := ParseClaimsRequest(strings.Replace(short, `""`, `"`+strings.Repeat("x", n)+`"`, 1))
		if fits := n+len(compact) <= maxClaimsRequest; (err == nil) != fits {
			t.Fatalf("a sub of %d bytes: %v", n, err)
		}
		if again, err2 := ParseClaimsRequest(got.String()); err2 != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("a sub of %d bytes is not read again: %v", n, err2)
		}
	}
	if _, err := ParseClaimsRequest(strings.Repeat(" ", maxClaimsRequest-2) + "{}"); err != nil {
		t.Errorf("2 KiB are too long: %v", err)
	}
}

func TestT170WhomAClaimsRequestAllows(t *testing.T) {
	anybody, ada := ClaimsRequest{}, ClaimsRequest{Subjects: []string{"ada"}, ACR: []string{"2"}}
	if !anybody.Allows("ada") || !ada.Allows("ada") || ada.Allows("Ada") || ada.Allows("") {
		t.Error("sub")
	}
	if !anybody.AllowsACR("1") || ada.AllowsACR("1") || !ada.AllowsACR("2") {
		t.Error("acr")
	}
}

// TestT170AClientLearnsNoMoreThanItsScopes: a single claim beyond the client's scopes → left out.
func TestT170AClientLearnsNoMoreThanItsScopes(t *testing.T) {
	asked := ClaimsRequest{UserInfo: []string{"name", "email", "groups"}, IDToken: []string{"email_verified", "address"}, Subjects: []string{"ada"}}
	if got := asked.Scopes(); !slices.Equal(got, oauth.Scopes{oauth.ScopeProfile, oauth.ScopeEmail, oauth.ScopeGroups, oauth.ScopeAddress}) {
		t.Errorf("scopes %s", got)
	}
	want := ClaimsRequest{UserInfo: []string{"email"}, IDToken: []string{"email_verified"}, Subjects: []string{"ada"}}
	if got := asked.Within(oauth.Scopes{oauth.ScopeOpenID, oauth.ScopeEmail}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := asked.Within(nil).Scopes(); got != nil {
		t.Errorf("of nothing: %s", got)
	}
}

// FuzzClaimsRequest: an accepted request has a stored form of at most 4 KiB, which parses to the same request.
func FuzzClaimsRequest(f *testing.F) {
	for _, text := range []string{
		`{"userinfo":{"name":null,"email":{"essential":true}},"id_token":{"acr":{"essential":true,"values":["1","2"]},"sub":{"value":"ada"}}}`,
		`{"id_token":{"sub":{"values":["a","b"]}},"userinfo":{"sub":{"value":"b"}}}`, `{}`, `null`, ` `, `{"userinfo":{"\u006eame":null}}`,
		`{"id_token":{"sub":{"value":"\u2028\ud83d\ude00<\u0000"}}}`,
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseClaimsRequest(text)
		if err != nil {
			if oauth.AsError(err).Code != oauth.InvalidRequest || !reflect.DeepEqual(got, ClaimsRequest{}) {
				t.Fatalf("%+v, %v", got, err)
			}
			return
		}
		for _, names := range [][]string{got.UserInfo, got.IDToken} {
			for _, name := range names {
				if !slices.Contains(IDClaimNames(), name) {
					t.Fatalf("kept the name %q", name)
				}
			}
		}
		compact := got.String()
		if again, err := ParseClaimsRequest(compact); err != nil || !reflect.DeepEqual(again, got) || again.String() != compact {
			t.Fatalf("%q is kept as %q, which is %+v, %v", text, compact, again, err)
		}
	})
}
