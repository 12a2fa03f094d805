package clients

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// oneKey is a key set with one key.
type oneKey struct{ *keys.SigningKey }

func (k oneKey) Find(kid string, algorithm oauth.Algorithm) (*keys.VerificationKey, error) {
	if kid != k.ID || algorithm != k.Algorithm {
		return nil, oauth.NewError(oauth.InvalidToken, keys.ReasonKeyUnknown)
	}
	return &k.VerificationKey, nil
}

func (oneKey) Generation() uint64 { return 0 }

// membersOf decodes a JSON object with the standard library, with case-sensitive names.
func membersOf(t *testing.T, part string) map[string]any {
	t.Helper()
	text, err := base64.RawURLEncoding.DecodeString(part)
	var members map[string]any
	if err != nil || json.Unmarshal(text, &members) != nil {
		t.Fatalf("accepted is %q", part)
	}
	return members
}

// FuzzQ71Assertion: an accepted client assertion, whatever was signed with a valid key, names one client and this issuer, is valid now and
// has an id. An assertion accepted as a grant by a rule is from the rule's issuer, for this issuer alone, and has the claim of the rule.
func FuzzQ71Assertion(f *testing.F) {
	key := testkeys.Fixed(f)[oauth.EdDSA]
	now := tokentest.Start
	const good = `{"iss":"app","sub":"app","aud":"` + tokentest.Audience + `","jti":"j","exp":1800000060,"iat":1800000000}`
	const job = `{"iss":"https://ci.example","sub":"repo:acme/app","aud":["` + tokentest.Audience + `"],"exp":1800000060,"iat":1800000000,"repository":"acme/app"}`
	for _, claims := range []string{
		good, job, strings.Replace(good, `"sub"`, `"SUB"`, 1), strings.Replace(good, `"iss":"app"`, `"iss":"other"`, 1), strings.Replace(good, "60", "60.5", 1), strings.Replace(good, "1800000060", "9e99", 1),
		strings.Replace(good, `"aud":"`, `"aud":["`, 1), strings.Replace(good, `"jti":"j"`, `"jti":"j","jti":"k"`, 1), strings.Replace(job, `"acme/app"}`, `["acme/app","x"]}`, 1), strings.Replace(job, `]`, `,"x"]`, 1),
		strings.Replace(job, `"repository":"acme/app"`, `"repository":"acme/app\u0000"`, 1), strings.Replace(job, `"iat"`, `"nonce":"n","iat"`, 1),
	} {
		for _, edits := range [][]string{{"typ", `"JWT"`}, {"typ", `"client-authentication+jwt"`}, {"typ", `"at+jwt"`}, {"alg", `"Ed25519"`}, {"typ", `"oauth-id-jag+jwt"`}, {"crit", `["x"]`}, {"jku", `"https://x"`}} {
			f.Add(testkeys.Header(key, edits...), claims)
		}
	}
	grants := token.NewAssertionVerifier("https://ci.example", []string{token.TypeJWT, token.TypeNone, token.TypeJAG}, oneKey{key}, func() time.Time { return now })
	claim, err := NewClaimRule("repository", []string{"acme/*"})
	if err != nil {
		f.Fatal(err)
	}
	rule := AcceptRule{Issuer: "https://ci.example", Claims: []ClaimRule{claim}, Types: []string{"jwt", ""}, Subject: "ci:{repository}"}
	f.Fuzz(func(t *testing.T, header, claims string) {
		text := testkeys.Sign(key, header, claims)
		parts := strings.Split(text, ".")
		if c, err := ReadAssertion(oauth.NewSecret(text)); err == nil && c.Check([]string{tokentest.Audience}, now) == nil && c.Verify(&key.VerificationKey) == nil {
			head, said := membersOf(t, parts[0]), membersOf(t, parts[1])
			exp, _ := said["exp"].(float64)
			if said["iss"] != c.ID || said["sub"] != c.ID || said["aud"] != tokentest.Audience || said["jti"] != c.JTI || c.ID == "" || c.JTI == "" || len(c.JTI) > maxID ||
				exp < float64(now.Unix())-skew.Seconds() || exp > float64(now.Unix())+(maxAhead+skew).Seconds()+1 || !c.Expires.After(now) {
				t.Fatalf("taken for a client's is %s", claims)
			}
			for name := range head {
				if slices.Contains([]string{"jwk", "jku", "x5u", "x5c", "crit", "b64", "zip", "cty"}, name) {
					t.Fatalf("taken is the header %s", header)
				}
			}
		}
		granted, err := grants.Verify(text, []string{tokentest.Audience})
		if err != nil || len(granted.Audience) != 1 || !rule.Fits(granted, "jwt") {
			return
		}
		said := membersOf(t, parts[1])
		if list, several := said["aud"].([]any); several && (len(list) != 1 || list[0] != tokentest.Audience) || !several && said["aud"] != tokentest.Audience || said["iss"] != rule.Issuer {
			t.Fatalf("granted is %s", claims)
		}
		subject, err := rule.SubjectOf(granted)
		if err != nil {
			return
		}
		if repository, ok := said["repository"].(string); ok && subject != "ci:"+repository || !strings.HasPrefix(subject, "ci:acme/") {
			t.Fatalf("the subject of %s is %q", claims, subject)
		}
	})
}

// FuzzQ80ClaimRule: a value without * matches only itself, and one with * only a claim that contains all its texts in order.
func FuzzQ80ClaimRule(f *testing.F) {
	for _, seed := range [][2]string{{"acme/app", "acme/app"}, {"acme/*", "acme/app/x"}, {"refs/**", "refs/heads/main\n"}, {"a.c", "abc"}, {"*a*", "/a/"}, {`\Q*`, `\Qx`}, {"a|b", "a"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, value string) {
		rule, err := NewClaimRule("claim", []string{pattern})
		if err != nil {
			return
		}
		fits := slices.Contains(rule.values, value) || rule.globs != nil && rule.globs.MatchString(value)
		if !strings.Contains(pattern, "*") && fits != (value == pattern) {
			t.Fatalf("%q fits %q: %t", value, pattern, fits)
		}
		if !fits {
			return
		}
		if single := strings.ReplaceAll(pattern, "**", ""); single == pattern && strings.Count(value, "/") != strings.Count(pattern, "/") {
			t.Fatalf("%q fits %q: a * stands for a /", value, pattern)
		}
		rest := value
		for text := range strings.SplitSeq(pattern, "*") {
			at := strings.Index(rest, text)
			if at < 0 {
				t.Fatalf("%q fits %q without %q", value, pattern, text)
			}
			rest = rest[at+len(text):]
		}
	})
}
