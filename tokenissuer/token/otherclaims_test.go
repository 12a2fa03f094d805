package token

import (
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestG122AClaimByItsPath: `require claim a.b.c` → the claim of that name first, then the longest path; null or objects → absent.
func TestG122AClaimByItsPath(t *testing.T) {
	p := newPartner()
	token := p.accepts(t, p.token("at+jwt", p.marked(
		"realm_access", `{"roles":["boss","clerk"],"level":7,"active":true,"nothing":null,"mixed":["a",{"b":1}],"empty":[],"deep":{"er":{"still":"x"}}}`,
		"resource_access", `{"api":{"roles":["read"]},"api.v2":{"roles":["write"]},"a":{"b.c":"dotted"}}`,
		"https://example.com/roles", `["auth0"]`, "a.b", `"literal"`, "a", `{"b":"path","c":"only here"}`,
		"x", `{"y.z":"inner","y":{"z":"outer"}}`, "one", `"text"`, "none", "{}", "act", `{"sub":"admin","client_id":"portal"}`,
	)))
	for name, want := range map[string][]string{
		"realm_access.roles": {"boss", "clerk"}, "realm_access.level": {"7"}, "realm_access.active": {"true"}, "realm_access.deep.er.still": {"x"},
		"resource_access.api.roles": {"read"}, "resource_access.api.v2.roles": {"write"}, "resource_access.a.b.c": {"dotted"},
		"https://example.com/roles": {"auth0"}, "a.b": {"literal"}, "a.c": {"only here"}, "x.y.z": {"inner"}, "one": {"text"}, "act": {"admin"},
		"realm_access": nil, "realm_access.nothing": nil, "realm_access.mixed": nil, "realm_access.empty": nil, "realm_access.deep": nil, "realm_access.Roles": nil,
		"realm_access.": nil, ".roles": nil, "": nil, ".": nil, "..": nil, "one.text": nil, "none.x": nil, "realm_access.roles.0": nil, "realm_access..roles": nil,
		"sub.x": nil, "resource_access.api.v2": nil, "iss.x": nil,
	} {
		if got := token.Claim(name); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	again, err := p.verifier.Verify(p.token("at+jwt", p.marked("a", `{"b":"path"}`)), []string{tokentest.Audience})
	if err != nil || again.Claim("a.b")[0] != "path" {
		t.Errorf("%v, %v", again, err)
	}
}

// TestG81NestedClaimsAreWeighed: nested claims count in the weight of a cached token, so an issuer cannot fill the
// memory with them.
func TestG81NestedClaimsAreWeighed(t *testing.T) {
	p := newPartner()
	light := p.accepts(t, p.token("at+jwt", p.marked("x", `{"a":1}`)))
	heavy := p.accepts(t, p.token("at+jwt", p.marked("x", "{"+strings.Repeat(`"`+strings.Repeat("n", 20)+`":{`, 1)+`"v":["`+strings.Repeat("text ", 400)+`"]}}`)))
	many := new(strings.Builder)
	for i := range 300 {
		many.WriteString(`"` + string(rune('a'+i/26)) + string(rune('a'+i%26)) + `":1,`)
	}
	broad := p.accepts(t, p.token("at+jwt", p.marked("x", "{"+many.String()+`"zz":1}`)))
	if light.Size()+1900 > heavy.Size() || light.Size()+300*64 > broad.Size() {
		t.Errorf("sizes %d, %d, %d", light.Size(), heavy.Size(), broad.Size())
	}
}

// TestG127RolesFromAnotherClaim: `roles_claim` → its values are the roles, `role` in the token is ignored.
func TestG127RolesFromAnotherClaim(t *testing.T) {
	p := newPartner()
	p.rolesClaim = "realm_access.roles"
	p.verifier = p.another()
	for _, test := range []struct {
		name  string
		edits []string
		role  string
		roles []string
	}{
		{"several", []string{"realm_access", `{"roles":["boss","clerk"]}`}, "", []string{"boss", "clerk"}},
		{"one", []string{"realm_access", `{"roles":["boss"]}`}, "boss", []string{"boss"}},
		{"a text", []string{"realm_access", `{"roles":"boss"}`}, "boss", []string{"boss"}},
		{"none, and others in role", []string{"realm_access", `{"roles":[]}`, "role", `["admin","boss"]`}, "", nil},
		{"absent, and one in role", []string{"role", `"admin"`}, "", nil},
		{"both", []string{"realm_access", `{"roles":["clerk"]}`, "role", `"admin"`}, "clerk", []string{"clerk"}},
		{"the name of the path", []string{"realm_access.roles", `["literal"]`, "realm_access", `{"roles":["clerk"]}`}, "literal", []string{"literal"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			token := p.accepts(t, p.token("at+jwt", p.marked(test.edits...)))
			if token.Role != test.role || !slices.Equal(token.Claim("role"), test.roles) {
				t.Errorf("role %q, roles %q", token.Role, token.Claim("role"))
			}
		})
	}
	said, err := ParseIntrospection([]byte(p.answer("realm_access", `{"roles":["boss"]}`, "role", `"admin"`)),
		TrustedTokens{Issuer: otherIssuer, RolesClaim: "realm_access.roles"})
	if err != nil || said.token.Role != "boss" {
		t.Errorf("introspected: %v, %v", said, err)
	}
}

// TestG128ATokenWithoutAnAudience: a trusted issuer's token without aud → 401; with `audience_from client_id` → only
// listed clients. A token with an audience is meant for that alone, and RFC 9068 tokens must have one.
func TestG128ATokenWithoutAnAudience(t *testing.T) {
	closed, open := newPartner("at+jwt", TypeJWT, TypeNone), newPartner("at+jwt", TypeJWT, TypeNone)
	open.clientAudience = true
	open.verifier = open.another()
	judged := func(p *partner, typ string, client string, edits ...string) string {
		_, err := p.verifier.Verify(p.token(typ, p.claims(slices.Concat([]string{"scope", `"read"`, "client_id", client}, edits)...)), []string{tokentest.Audience})
		if err == nil {
			return ""
		}
		return oauth.AsError(err).Reason
	}
	const us = `"` + tokentest.Audience + `"`
	for _, test := range []struct {
		name, typ, client string
		edits             []string
		open, closed      string
	}{
		{"for us", "", us, []string{"aud", ""}, "", "claims_malformed"},
		{"for us, JWT", "JWT", us, []string{"aud", ""}, "", "claims_malformed"},
		{"for us, at+jwt", "at+jwt", us, []string{"aud", ""}, "claims_malformed", "claims_malformed"},
		{"for another client", "", `"other"`, []string{"aud", ""}, "audience_wrong", "claims_malformed"},
		{"no client", "", "", []string{"aud", ""}, "claims_malformed", "claims_malformed"},
		{"an empty client", "", `""`, []string{"aud", ""}, "claims_malformed", "claims_malformed"},
		{"the audience is another's", "", us, []string{"aud", `"other"`}, "audience_wrong", "audience_wrong"},
		{"an empty list", "", us, []string{"aud", "[]"}, "claims_malformed", "claims_malformed"},
		{"an empty text", "", us, []string{"aud", `""`}, "claims_malformed", "claims_malformed"},
		{"an ID token", "", us, []string{"aud", "", "token_use", `"id"`}, "not_an_access_token", "not_an_access_token"},
		{"an ordinary token", "", `"other"`, nil, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := judged(open, test.typ, test.client, test.edits...); got != test.open {
				t.Errorf("with the setting: %q, want %q", got, test.open)
			}
			if got := judged(closed, test.typ, test.client, test.edits...); got != test.closed {
				t.Errorf("without: %q, want %q", got, test.closed)
			}
		})
	}
}
