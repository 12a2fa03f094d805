package clients

import (
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestQ224ClaimsMakeOneSubject: claims chosen so that two sets make one subject, `app/feature` + `x` and `app` + `feature/x` → the first
// is refused.
func TestQ224ClaimsMakeOneSubject(t *testing.T) {
	r := AcceptRule{Subject: "ci:{sub}/{client_id}@{jti}"}
	for _, test := range []struct{ sub, client, jti, want string }{
		{"app", "main", "1", "ci:app/main@1"},
		{"app", "feature/x", "1@2", "ci:app/feature/x@1@2"},
		{"app/feature", "x", "1", ""},
		{"app", "x@1", "2", ""},
	} {
		got, err := r.SubjectOf(&token.AccessToken{Subject: test.sub, ClientID: test.client, ID: test.jti})
		if got != test.want || test.want == "" && oauth.AsError(err).Reason != "subject_ambiguous" {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}

// TestQ270TheEndOfAClaimIsNoPartOfWhatStandsBetween: a claim that ends with the start of the separator → refused.
func TestQ270TheEndOfAClaimIsNoPartOfWhatStandsBetween(t *testing.T) {
	r := AcceptRule{Subject: "ci:{sub}--{client_id}"}
	for _, test := range []struct{ sub, client, want string }{
		{"app", "-main", "ci:app---main"}, {"my-app", "main", "ci:my-app--main"}, {"app-", "main", ""}, {"-", "x", ""},
	} {
		got, err := r.SubjectOf(&token.AccessToken{Subject: test.sub, ClientID: test.client})
		if got != test.want || test.want == "" && oauth.AsError(err).Reason != "subject_ambiguous" {
			t.Errorf("%+v: %q, %v", test, got, err)
		}
	}
}
