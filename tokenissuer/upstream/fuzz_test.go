package upstream

import (
	"net/url"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// FuzzReadAnswer: an accepted query has only one meaning.
func FuzzReadAnswer(f *testing.F) {
	for _, seed := range []string{
		"state=a&code=b", "state=a&error=access_denied&iss=https://a.example", "state=a&state=b&code=c", "code=b", "state=%00&code=%ff", "state=a;code=b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		a, err := ReadAnswer(values)
		if err != nil {
			if e := oauth.AsError(err); e.Reason != ErrMalformed.Reason || a.State != "" {
				t.Fatalf("got %+v, %v", a, err)
			}
			return
		}
		if a.State == "" || a.Code.IsEmpty() == (a.Error == "") || len(values["state"]) != 1 || len(values["code"])+len(values["error"]) == 0 {
			t.Fatalf("%q was read as %+v", query, a)
		}
	})
}

// FuzzGitHub: for any response of the API, an account has an id in GitHub's form, and an address only if it is verified.
func FuzzGitHub(f *testing.F) {
	f.Add(`{"id":583231,"login":"octocat"}`, `[{"email":"a@b.example","primary":true,"verified":true}]`)
	f.Add(`{"id":1e3}`, `[{"email":"a@b.example","primary":true,"verified":false}]`)
	f.Add(`{"id":9223372036854775808}`, `[{"primary":true,"verified":true}]`)
	f.Add(`null`, `null`)
	f.Fuzz(func(t *testing.T, user, emails string) {
		u, err := readGitHubUser([]byte(user))
		if err != nil {
			return
		}
		var list []githubEmail
		if json.Unmarshal([]byte(emails), &list) != nil {
			return
		}
		a := u.account("github", list)
		if a.Subject == "" || strings.Trim(a.Subject, "0123456789") != "" || a.Subject[0] == '0' {
			t.Fatalf("subject %q", a.Subject)
		}
		if a.EmailVerified && !strings.Contains(emails, "true") || a.Email != "" && !a.EmailVerified {
			t.Fatalf("got %+v of %s", a, emails)
		}
	})
}

// FuzzClaims: accepted claims give an account or an error, and never a panic.
func FuzzClaims(f *testing.F) {
	f.Add(`{"sub":"a","email":"a@b.example","email_verified":true,"realm_access":{"roles":["a"]}}`, "realm_access.roles")
	f.Add(`{"aud":["a",["b"]],"exp":1e400}`, "..")
	f.Add(`{"_claim_names":{"g":"x"},"a.b":{"c":null}}`, "a.b.c")
	f.Fuzz(func(t *testing.T, claims, path string) {
		c, err := readClaims([]byte(claims))
		if err != nil {
			return
		}
		a, err := (&Settings{GroupsClaim: path}).account(c)
		if err == nil && (a.Groups == nil) != (path == "") {
			t.Fatalf("got %+v", a)
		}
	})
}
