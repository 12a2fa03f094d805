package token

import (
	"reflect"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestClaimsReadBackAsTheyWereWritten: claims are written by hand and read by a library, which must read the same
// token.
func TestClaimsReadBackAsTheyWereWritten(t *testing.T) {
	const issuer = "https://gate.example"
	at := time.Unix(1_700_000_000, 0)
	server := AccessToken{
		Issuer: issuer, Subject: "demo", Audience: []string{issuer}, ClientID: "demo", Scopes: oauth.Scopes{"public"}, ID: "jti",
		IssuedAt: at, ExpiresAt: at.Add(time.Hour), KeyID: "kid",
	}
	user := server
	user.Subject, user.FamilyID, user.Organisation, user.Role = "user-1", "family", "org", "admin"
	user.AuthTime = at.Add(-time.Minute)
	user.Audience = []string{issuer, "https://other.example", "third"}
	user.Scopes = oauth.Scopes{"public", "trusted"}
	bare := server
	bare.Scopes = nil
	odd := user
	odd.Subject, odd.Role, odd.Audience = `a"b\c/<&>`+"\n\u2028é", "},\"sub\":\"root\"", []string{`x","y`, "z"}
	for _, test := range []struct {
		name  string
		token AccessToken
	}{
		{"server token", server},
		{"user token", user},
		{"no scope", bare},
		{"texts that JSON has to escape", odd},
	} {
		t.Run(test.name, func(t *testing.T) {
			written, err := AppendClaims([]byte("kept"), &test.token)
			if err != nil {
				t.Fatal(err)
			}
			if string(written[:4]) != "kept" {
				t.Fatalf("appendClaims wrote over what was there: %s", written)
			}
			var p payload
			if err := json.Unmarshal(written[4:], &p); err != nil {
				t.Fatalf("%s: %v", written, err)
			}
			if p.Extra != nil {
				t.Errorf("claims that payload does not know: %s", p.Extra)
			}
			v := &Verifier{issuer: issuer, rules: ownRules}
			read, err := v.tokenOf(&p, "kid", keys.AccessTokenType)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(*read, test.token) {
				t.Errorf("read  %+v\nwrote %+v", *read, test.token)
			}
		})
	}
	broken := server
	broken.Subject = "\xff"
	if written, err := AppendClaims(nil, &broken); err == nil {
		t.Errorf("a subject that is not UTF-8 was written: %s", written)
	}
}
