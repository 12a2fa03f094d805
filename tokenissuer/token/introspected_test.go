package token

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// answer returns the partner's introspection response for a good token, edited like header.
func (p *partner) answer(edits ...string) string {
	return p.claims(slices.Concat([]string{
		"active", "true", "client_id", `"app"`, "scope", `"read write"`, "token_type", `"Bearer"`, "username", `"al"`,
	}, edits)...)
}

func judgeAnswer(data string, now time.Time, audiences ...string) (*AccessToken, error) {
	said, err := ParseIntrospection([]byte(data), TrustedTokens{Issuer: otherIssuer})
	if err != nil {
		return nil, err
	}
	return said.Verify(audiences, now)
}

func TestWhatAnIssuerSaysOfAToken(t *testing.T) {
	p := newPartner()
	for _, v := range []struct {
		name  string
		edits []string
		want  map[string][]string
	}{
		{"in full", []string{"role", `["a","b"]`, "level", "3"}, map[string][]string{
			"iss": {otherIssuer}, "sub": {"alice"}, "client_id": {"app"}, "scope": {"read", "write"}, "aud": {tokentest.Audience}, "jti": {"1"},
			"username": {"al"}, "token_type": {"Bearer"}, "role": {"a", "b"}, "level": {"3"}, "active": {"true"}, "iat": {"1800000000"}, "exp": {"1800003600"},
		}},
		{"the least", []string{"iss", "", "jti", "", "iat", "", "client_id", "", "scope", "", "username", ""}, map[string][]string{
			"iss": {otherIssuer}, "sub": {"alice"}, "client_id": nil, "scope": nil, "jti": nil, "iat": nil,
		}},
		{"a client alone", []string{"sub", ""}, map[string][]string{"sub": {"app"}, "client_id": {"app"}}},
		{"azp", []string{"client_id", "", "azp", `"portal"`}, map[string][]string{"client_id": {"portal"}, "azp": {"portal"}}},
		{"scp", []string{"scope", "", "scp", `["a","b"]`}, map[string][]string{"scope": {"a", "b"}}},
		{"bearer in lower case", []string{"token_type", `"bearer"`}, nil},
		{"with a word for its use", []string{"token_use", `"access_token"`, "typ", `"Bearer"`, "nonce", `"n"`}, nil},
		{"with a word for its use alone", []string{"token_use", `"access_token"`, "token_type", ""}, nil},
		{"several audiences", []string{"aud", `["x","` + tokentest.Audience + `"]`}, nil},
		{"30 s ago", []string{"exp", "1799999970"}, nil},
		{"in 30 s", []string{"nbf", "1800000030", "iat", "1800000060"}, nil},
	} {
		t.Run(v.name, func(t *testing.T) {
			got, err := judgeAnswer(p.answer(v.edits...), tokentest.Start, tokentest.Audience)
			if err != nil {
				t.Fatal(err)
			}
			for name, want := range v.want {
				if !slices.Equal(got.Claim(name), want) {
					t.Errorf("%s is %q, want %q", name, got.Claim(name), want)
				}
			}
		})
	}
	if got, err := judgeAnswer(p.answer("sub", ""), tokentest.Start, tokentest.Audience); err != nil || !got.IsServerToken() {
		t.Errorf("a token of a client alone is %+v, %v", got, err)
	}
}

// TestG90WhatIsNoGoodAnswer: `active` missing or not boolean, bad times → inactive.
func TestG90WhatIsNoGoodAnswer(t *testing.T) {
	p := newPartner()
	const inactive, other, malformed = "token_inactive", "not_an_access_token", "introspection_malformed"
	members := strings.TrimSuffix(p.answer(), "}")
	for _, v := range []struct {
		name, answer, reason string
	}{
		{"active missing", p.answer("active", ""), inactive},
		{"active false", p.answer("active", "false"), inactive},
		{"active a text", p.answer("active", `"true"`), inactive},
		{"active a number", p.answer("active", "1"), inactive},
		{"active null", p.answer("active", "null"), inactive},
		{"active an array", p.answer("active", "[true]"), inactive},
		{"active an object", p.answer("active", `{"active":true}`), inactive},
		{"Active", p.answer("active", "", "Active", "true"), inactive},
		{"an empty object", "{}", inactive},
		{"nothing but active", `{"active":true}`, "introspection_without_audience"},
		{"no aud", p.answer("aud", ""), "introspection_without_audience"},
		{"aud null", p.answer("aud", "null"), "introspection_without_audience"},
		{"aud empty", p.answer("aud", "[]"), "introspection_without_audience"},
		{"aud of others", p.answer("aud", `"https://else.example"`), "audience_wrong"},
		{"iss of another", p.answer("iss", `"`+tokentest.Issuer+`"`), "issuer_wrong"},
		{"iss with a slash", p.answer("iss", `"`+otherIssuer+`/"`), "issuer_wrong"},
		{"neither sub nor client", p.answer("sub", "", "client_id", ""), "introspection_without_subject"},
		{"31 s ago", p.answer("exp", "1799999969"), "token_expired"},
		{"nbf in 31 s", p.answer("nbf", "1800000031"), "token_from_future"},
		{"iat in 61 s", p.answer("iat", "1800000061"), "token_from_future"},
		{"token type DPoP", p.answer("token_type", `"DPoP"`), other},
		{"token type N_A", p.answer("token_type", `"N_A"`), other},
		{"token type access", p.answer("token_type", `"access"`), other},
		{"token type empty", p.answer("token_type", `""`), other},
		{"token type an array", p.answer("token_type", `["Bearer"]`), other},
		{"bound to a key", p.answer("cnf", `{"jkt":"A"}`), "token_bound"},
		{"a refresh token", p.answer("token_use", `"refresh_token"`), other},
		{"a refresh token of ours", p.answer("token_use", `"refresh_token"`, "token_type", "", "exp", ""), other},
		{"no token type", p.answer("token_type", ""), "introspection_without_token_type"},
		{"token type null", p.answer("token_type", "null"), other},
		{"no exp", p.answer("exp", ""), "introspection_without_expiry"},
		{"exp null", p.answer("exp", "null"), "introspection_without_expiry"},
		{"neither token type nor exp", p.answer("token_type", "", "exp", ""), "introspection_without_token_type"},
		{"no exp, with a word for its use", p.answer("token_use", `"access_token"`, "exp", ""), "introspection_without_expiry"},
		{"a refresh token of Keycloak", p.answer("typ", `"Refresh"`), other},
		{"an ID token", p.answer("token_use", `"id"`), other},
		{"an ID token by its hash", p.answer("token_type", "", "at_hash", `"h"`), other},
		{"an ID token by its nonce", p.answer("token_type", "", "nonce", `"n"`), other},
		{"a logout token", p.answer("events", "{}"), other},
		{"active twice", members + `,"active":false}`, malformed},
		{"aud twice", members + `,"aud":"x"}`, malformed},
		{"a nested name twice", members + `,"x":{"a":1,"a":2}}`, malformed},
		{"Scope", p.answer("Scope", `"admin"`), malformed},
		{"exp a text", p.answer("exp", `"1800003600"`), malformed},
		{"exp a fraction", p.answer("exp", "1800003600.5"), malformed},
		{"exp negative", p.answer("exp", "-1"), malformed},
		{"exp 2^63", p.answer("exp", "9223372036854775808"), malformed},
		{"nbf a text", p.answer("nbf", `"1"`), malformed},
		{"sub a number", p.answer("sub", "1"), malformed},
		{"sub with a NUL", p.answer("sub", `"a\u0000"`), malformed},
		{"aud with a number", p.answer("aud", `["`+tokentest.Audience+`",1]`), malformed},
		{"aud with an empty text", p.answer("aud", `["`+tokentest.Audience+`",""]`), malformed},
		{"scope of strange characters", p.answer("scope", `"a\"b"`), malformed},
		{"a JWT", p.token("at+jwt", p.marked()), malformed},
		{"an array", "[" + p.answer() + "]", malformed},
		{"nothing", "", malformed},
		{"a page", "<!DOCTYPE html>", malformed},
		{"true", "true", malformed},
		{"null", "null", malformed},
		{"more behind it", p.answer() + "{}", malformed},
		{"cut", members, malformed},
		{"not UTF-8", members + `,"x":"` + "\xff" + `"}`, malformed},
		{"too deep", members + `,"x":` + strings.Repeat("[", strictjson.MaxDepth) + strings.Repeat("]", strictjson.MaxDepth) + "}", malformed},
	} {
		t.Run(v.name, func(t *testing.T) {
			got, err := judgeAnswer(v.answer, tokentest.Start, tokentest.Audience)
			if err == nil || got != nil {
				t.Fatalf("accepted: %+v", got)
			}
			code := oauth.InvalidToken
			if v.reason == malformed {
				code = oauth.TemporarilyUnavailable // the issuer is at fault, and the token may be valid
			}
			if e := oauth.AsError(err); e.Code != code || e.Reason != v.reason {
				t.Errorf("refused with %v, want %s", err, v.reason)
			}
		})
	}
}

// TestG90AnAnswerIsJudgedAnewEveryTime checks one response for another audience and at another time.
func TestG90AnAnswerIsJudgedAnewEveryTime(t *testing.T) {
	p := newPartner()
	said, err := ParseIntrospection([]byte(p.answer("nbf", "1800000060", "exp", "1800000120")), TrustedTokens{Issuer: otherIssuer})
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		after    time.Duration
		audience string
		reason   string
	}{
		{29 * time.Second, tokentest.Audience, "token_from_future"}, {30 * time.Second, tokentest.Audience, ""}, {30 * time.Second, otherIDs, "audience_wrong"},
		{30 * time.Second, "", "audience_wrong"}, {150 * time.Second, tokentest.Audience, ""}, {151 * time.Second, tokentest.Audience, "token_expired"}, {time.Minute, tokentest.Audience, ""},
	} {
		got, err := said.Verify([]string{v.audience}, tokentest.Start.Add(v.after))
		if v.reason != "" {
			tokentest.WantRefusal(t, got, err, v.reason)
		} else if err != nil {
			t.Errorf("after %s: %v", v.after, err)
		}
	}
	if got, err := said.Verify(nil, tokentest.Start.Add(time.Minute)); err == nil {
		t.Errorf("for nobody: %+v", got)
	}
	if !said.ExpiresAt().Equal(tokentest.Start.Add(2*time.Minute)) || said.Size() < 512 {
		t.Errorf("ends %s, %d bytes", said.ExpiresAt(), said.Size())
	}
}
