package upstream

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/strictjson"
)

// lie replaces members of an ID token. reason is the reason of the refusal. If it is empty, the token is accepted.
type lie struct {
	claims, header map[string]any
	reason         string
}

// refuses makes a provider tell each lie.
func refuses(t *testing.T, lies map[string]lie) {
	t.Helper()
	for name, l := range lies {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			for n, value := range l.claims {
				if text, is := value.(string); is {
					value = strings.ReplaceAll(text, "ISSUER", p.URL)
				}
				p.claims[n] = value
			}
			p.header = l.header
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{MaxAge: 0})
			got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			if l.reason == "" {
				if err != nil || got.Subject == "" {
					t.Errorf("got %+v, %v", got, err)
				}
				return
			}
			wantReason(t, err, l.reason)
			if got.Subject != "" {
				t.Errorf("got %+v beside the error", got)
			}
			if provider.State().DownSince.IsZero() != (l.reason == ErrUntrusted.Reason) {
				t.Errorf("the state is %+v", provider.State())
			}
		})
	}
}

// TestP1IssuerOfTheIDToken: an ID token with another issuer, a slash, another case, none, a list → refused.
func TestP1IssuerOfTheIDToken(t *testing.T) {
	refuses(t, map[string]lie{
		"another":     {claims: map[string]any{"iss": "https://evil.example"}, reason: ErrUntrusted.Reason},
		"a slash":     {claims: map[string]any{"iss": "ISSUER/"}, reason: ErrUntrusted.Reason},
		"upper case":  {claims: map[string]any{"iss": "HTTP://127.0.0.1"}, reason: ErrUntrusted.Reason},
		"none":        {claims: map[string]any{"iss": nil}, reason: ErrUntrusted.Reason},
		"a list":      {claims: map[string]any{"iss": []string{"ISSUER"}}, reason: ErrUntrusted.Reason},
		"the own one": {claims: map[string]any{"iss": "ISSUER"}},
	})
}

// TestP1GoogleWithoutScheme: Google's issuer without `https://` → refused, though go-oidc would let it pass.
func TestP1GoogleWithoutScheme(t *testing.T) {
	p := &OpenID{settings: Settings{Issuer: google, Client: Client{ID: ourID}}}
	soon, now := &strictjson.NumericDate{Time: tokentest.Start.Add(time.Minute)}, &strictjson.NumericDate{Time: tokentest.Start}
	c := &claimSet{registered: registered{Issuer: google, Subject: "1", Audience: strictjson.Texts{ourID}, Nonce: "n", Expiry: soon, IssuedAt: now}}
	if err := p.check(c, Flow{Nonce: "n"}, tokentest.Start); err != nil {
		t.Fatal(err)
	}
	c.Issuer = "accounts.google.com"
	wantReason(t, p.check(c, Flow{Nonce: "n"}, tokentest.Start), ErrUntrusted.Reason)
}

// TestP2Nonce: an ID token with no nonce, an empty one, another or an earlier one → refused.
func TestP2Nonce(t *testing.T) {
	refuses(t, map[string]lie{
		"none":    {claims: map[string]any{"nonce": nil}, reason: ErrUntrusted.Reason},
		"empty":   {claims: map[string]any{"nonce": ""}, reason: ErrUntrusted.Reason},
		"another": {claims: map[string]any{"nonce": "2Vw0XWfmoF5QjzHqG9xT0q"}, reason: ErrUntrusted.Reason},
		"a list":  {claims: map[string]any{"nonce": []string{"a"}}, reason: ErrUntrusted.Reason},
	})
	t.Run("of a sign-in before", func(t *testing.T) {
		p := newIDP(t)
		provider := p.provider(nil)
		first, _ := p.begin(provider, Request{})
		nonce := p.nonce
		second, _ := p.begin(provider, Request{})
		if first.Nonce == second.Nonce || first.Verifier.Reveal() == second.Verifier.Reveal() {
			t.Fatal("two sign-ins share a secret")
		}
		p.claims["nonce"] = nonce
		_, err := provider.Finish(t.Context(), second, goodAnswer(), redirectURI)
		wantReason(t, err, ErrUntrusted.Reason)
	})
	t.Run("a flow without one", func(t *testing.T) {
		p := newIDP(t)
		p.claims["nonce"] = ""
		provider := p.provider(nil)
		flow, _ := p.begin(provider, Request{})
		flow.Nonce = ""
		_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
		wantReason(t, err, ErrUntrusted.Reason)
	})
}

// TestP3Audience: aud of another client, missing, several without azp, azp of another → refused.
func TestP3Audience(t *testing.T) {
	refuses(t, map[string]lie{
		"another":                {claims: map[string]any{"aud": "other"}, reason: ErrUntrusted.Reason},
		"none":                   {claims: map[string]any{"aud": nil}, reason: ErrUntrusted.Reason},
		"empty":                  {claims: map[string]any{"aud": []string{}}, reason: ErrUntrusted.Reason},
		"a list of it alone":     {claims: map[string]any{"aud": []string{ourID}}},
		"several, without azp":   {claims: map[string]any{"aud": []string{ourID, "other"}}, reason: ErrUntrusted.Reason},
		"several, azp another":   {claims: map[string]any{"aud": []string{ourID, "other"}, "azp": "other"}, reason: ErrUntrusted.Reason},
		"several, azp is ours":   {claims: map[string]any{"aud": []string{ourID, "other"}, "azp": ourID}},
		"one, and azp another":   {claims: map[string]any{"azp": "other"}, reason: ErrUntrusted.Reason},
		"another, azp is ours":   {claims: map[string]any{"aud": "other", "azp": ourID}, reason: ErrUntrusted.Reason},
		"an object":              {claims: map[string]any{"aud": map[string]any{ourID: true}}, reason: ErrUntrusted.Reason},
		"our id in another case": {claims: map[string]any{"aud": "GATEHOUSE"}, reason: ErrUntrusted.Reason},
	})
}

// TestP4Algorithms: alg none, HS256 with the public key, one not offered, `crit`, `jwk`, `jku`, wrong signature, JWE, JSON form →
// refused; the keys come from the metadata alone.
func TestP4Algorithms(t *testing.T) {
	refuses(t, map[string]lie{
		"RS256 of an ES256 key":     {header: map[string]any{"alg": "RS256"}, reason: ErrUntrusted.Reason},
		"ES384, not offered":        {header: map[string]any{"alg": "ES384"}, reason: ErrUntrusted.Reason},
		"HS256":                     {header: map[string]any{"alg": "HS256"}, reason: ErrUntrusted.Reason},
		"none":                      {header: map[string]any{"alg": "none"}, reason: ErrUntrusted.Reason},
		"None":                      {header: map[string]any{"alg": "None"}, reason: ErrUntrusted.Reason},
		"crit":                      {header: map[string]any{"crit": []string{"b64"}, "b64": false}, reason: ErrUntrusted.Reason},
		"a key in the header":       {header: map[string]any{"jwk": map[string]string{"kty": "EC"}, "kid": "evil"}, reason: ErrUntrusted.Reason},
		"a key's URL in the header": {header: map[string]any{"jku": "https://evil.example/keys", "kid": "evil"}, reason: ErrUntrusted.Reason},
		"no kid, one key":           {header: map[string]any{"kid": nil}},
	})
	for name, forge := range map[string]func(p *idp, token string) string{
		"none, and no signature": func(_ *idp, token string) string {
			parts := strings.Split(token, ".")
			return tokentest.Encode(`{"alg":"none"}`) + "." + parts[1] + "."
		},
		"HS256 with the public key": func(p *idp, token string) string {
			public, err := p.key.PublicKey.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			return hmacToken(public, strings.Split(token, ".")[1])
		},
		"another signature": func(_ *idp, token string) string {
			return token[:strings.LastIndexByte(token, '.')+1] + strings.Repeat("A", 86)
		},
		"no signature":  func(_ *idp, token string) string { return token[:strings.LastIndexByte(token, '.')+1] },
		"four parts":    func(_ *idp, token string) string { return token + ".e30" },
		"JWE":           func(*idp, string) string { return "e30.e30.e30.e30.e30" },
		"not base64url": func(_ *idp, token string) string { return strings.Replace(token, ".", "=.", 1) },
		"JSON form": func(_ *idp, token string) string {
			parts := strings.Split(token, ".")
			return fmt.Sprintf(`{"payload":%q,"protected":%q,"signature":%q}`, parts[1], parts[0], parts[2])
		},
		"header with alg twice": func(p *idp, token string) string {
			return p.signInput(tokentest.Encode(`{"alg":"ES256","alg":"ES256","kid":"first"}`) + "." + strings.Split(token, ".")[1])
		},
		"longer than 64 KiB": func(p *idp, _ string) string {
			return p.sign([]byte(`{"x":"` + strings.Repeat("a", maxIDToken) + `"}`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{})
			token := forge(p, p.idToken())
			p.tokens(map[string]any{"access_token": accessToken, "token_type": "Bearer", "id_token": token})
			_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			wantReason(t, err, ErrUntrusted.Reason)
			if strings.Contains(err.Error(), token) {
				t.Error("the error quotes the token")
			}
		})
	}
	for name, id := range map[string]any{"no ID token": nil, "not a text": 7, "empty": ""} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{})
			p.tokens(with(map[string]any{"access_token": accessToken, "id_token": "x"}, map[string]any{"id_token": id}))
			_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			wantReason(t, err, ErrMisconfigured.Reason)
		})
	}
}

// TestP4AlgorithmsOfTheMetadata: metadata that offers none or HS256 alone → the provider is not used and its state says why.
func TestP4AlgorithmsOfTheMetadata(t *testing.T) {
	for name, c := range map[string]struct {
		offered any
		usable  bool
	}{
		"none and HS256 alone":     {[]string{"none", "HS256"}, false},
		"unknown ones":             {[]string{"ES256K"}, false},
		"nothing: RS256 is meant":  {nil, false}, // the key is for ES256
		"with none and HS256":      {[]string{"none", "HS256", "ES256"}, true},
		"other than the key's own": {[]string{"RS256"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.metadata["id_token_signing_alg_values_supported"] = c.offered
			provider := p.provider(nil)
			location, flow, err := provider.Begin(t.Context(), Request{RedirectURI: redirectURI, State: "state"})
			if err == nil {
				p.follow(location)
				_, err = provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			}
			if (err == nil) != c.usable {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestP5Times: expired, from the future, off by 61 s, without exp or iat, times that are no numbers → refused; off by 59 s → accepted.
func TestP5Times(t *testing.T) {
	at := func(seconds int64) int64 { return tokentest.Start.Unix() + seconds }
	refuses(t, map[string]lie{
		"expired":                {claims: map[string]any{"exp": at(-61)}, reason: ErrUntrusted.Reason},
		"expired within 60 s":    {claims: map[string]any{"exp": at(-59)}},
		"no exp":                 {claims: map[string]any{"exp": nil}, reason: ErrUntrusted.Reason},
		"exp is a text":          {claims: map[string]any{"exp": fmt.Sprint(at(60))}, reason: ErrUntrusted.Reason},
		"exp with a fraction":    {claims: map[string]any{"exp": float64(at(60)) + 0.5}},
		"exp beyond all years":   {claims: map[string]any{"exp": 1e300}, reason: ErrUntrusted.Reason},
		"exp is negative":        {claims: map[string]any{"exp": -1}, reason: ErrUntrusted.Reason},
		"issued in the future":   {claims: map[string]any{"iat": at(61)}, reason: ErrUntrusted.Reason},
		"issued within 60 s":     {claims: map[string]any{"iat": at(59)}},
		"no iat":                 {claims: map[string]any{"iat": nil}, reason: ErrUntrusted.Reason},
		"not valid yet":          {claims: map[string]any{"nbf": at(61)}, reason: ErrUntrusted.Reason},
		"valid within 60 s":      {claims: map[string]any{"nbf": at(59)}},
		"auth_time to come":      {claims: map[string]any{"auth_time": at(61)}, reason: ErrUntrusted.Reason},
		"auth_time is a text":    {claims: map[string]any{"auth_time": "now"}, reason: ErrUntrusted.Reason},
		"exp is null":            {claims: map[string]any{"exp": json.RawMessage("null")}, reason: ErrUntrusted.Reason},
		"exp is an empty object": {claims: map[string]any{"exp": map[string]any{}}, reason: ErrUntrusted.Reason},
	})
}

// TestP6MembersTwice: a member twice in ID token, header, token answer, metadata or userinfo → refused; `SUB` beside `sub` → `sub`
// counts; an empty, endless or numeric sub → refused.
func TestP6MembersTwice(t *testing.T) {
	for name, c := range map[string]struct {
		edit   func(string) string
		reason string
	}{
		"sub twice":             {func(s string) string { return `{"sub":"victim",` + s[1:] }, ErrUntrusted.Reason},
		"a claim inside, twice": {func(s string) string { return `{"realm_access":{"roles":["a"],"roles":["admin"]},` + s[1:] }, ErrUntrusted.Reason},
		"SUB beside sub":        {func(s string) string { return s[:len(s)-1] + `,"SUB":"victim"}` }, ""},
		"Nonce beside nonce":    {func(s string) string { return s[:len(s)-1] + `,"Nonce":"x"}` }, ""},
		"SUB alone":             {func(s string) string { return strings.Replace(s, `"sub"`, `"SUB"`, 1) }, ErrUntrusted.Reason},
		"data after it":         {func(s string) string { return s + `{}` }, ErrUntrusted.Reason},
		"no UTF-8":              {func(s string) string { return strings.Replace(s, "Jane", "J\xffne", 1) }, ErrUntrusted.Reason},
		"a list":                {func(s string) string { return "[" + s + "]" }, ErrUntrusted.Reason},
		"null":                  {func(string) string { return "null" }, ErrUntrusted.Reason},
		"sub is a number":       {func(s string) string { return strings.Replace(s, `"248289761001"`, `248289761001`, 1) }, ErrUntrusted.Reason},
		"sub is empty":          {func(s string) string { return strings.Replace(s, `"248289761001"`, `""`, 1) }, ErrUntrusted.Reason},
		"sub is endless":        {func(s string) string { return strings.Replace(s, `248289761001`, strings.Repeat("1", 256), 1) }, ErrUntrusted.Reason},
		"sub with a line break": {func(s string) string { return strings.Replace(s, `248289761001`, `1\n2`, 1) }, ErrUntrusted.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{})
			payload, err := base64.RawURLEncoding.DecodeString(strings.Split(p.idToken(), ".")[1])
			if err != nil {
				t.Fatal(err)
			}
			p.tokens(map[string]any{"access_token": accessToken, "id_token": p.sign([]byte(c.edit(string(payload))))})
			got, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			if c.reason != "" {
				wantReason(t, err, c.reason)
			} else if err != nil || got.Subject != "248289761001" {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
	t.Run("token response with id_token twice", func(t *testing.T) {
		p := newIDP(t)
		provider := p.provider(nil)
		flow, _ := p.begin(provider, Request{})
		p.answer("/token", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json") // otherwise it would be parsed as a form
			_, _ = fmt.Fprintf(w, `{"access_token":%q,"id_token":%q,"id_token":%q}`, accessToken, "x", p.idToken())
		})
		_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
		wantReason(t, err, ErrUnavailable.Reason)
	})
	t.Run("metadata with issuer twice", func(t *testing.T) {
		p := newIDP(t)
		p.answer(metadataPath, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"issuer":"x","issuer":%q}`, p.URL)
		})
		_, _, err := p.provider(nil).Begin(t.Context(), Request{})
		wantReason(t, err, ErrUnavailable.Reason)
	})
}

// TestP20MaxAge: a sign-in at the provider that is older than max_age or of unknown age → refused.
func TestP20MaxAge(t *testing.T) {
	for name, c := range map[string]struct {
		authTime any
		reason   string
	}{
		"recent":  {tokentest.Start.Add(-time.Hour).Unix(), ""},
		"too old": {tokentest.Start.Add(-time.Hour - 61*time.Second).Unix(), ErrInteraction.Reason},
		"unknown": {nil, ErrInteraction.Reason},
	} {
		t.Run(name, func(t *testing.T) {
			p := newIDP(t)
			p.claims["auth_time"] = c.authTime
			provider := p.provider(nil)
			flow, _ := p.begin(provider, Request{MaxAge: time.Hour})
			_, err := provider.Finish(t.Context(), flow, goodAnswer(), redirectURI)
			if c.reason != "" {
				wantReason(t, err, c.reason)
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}

// TestP3AccessTokenOfAnother: at_hash of another access token → refused.
func TestP3AccessTokenOfAnother(t *testing.T) {
	p := newIDP(t)
	p.claims["at_hash"] = "77QmUPtjPfzWtF2AnpK9RQ"
	_, err := p.signIn(p.provider(nil))
	wantReason(t, err, ErrUntrusted.Reason)
}

// TestP18ManyTenants: Entra's `common`, `organizations` or `consumers` → refused, with the URL to write.
func TestP18ManyTenants(t *testing.T) {
	for issuer, want := range map[string]string{
		"https://login.microsoftonline.com/common/v2.0":                               "stands for many tenants",
		"https://login.microsoftonline.com/Organizations/v2.0":                        "stands for many tenants",
		"https://login.microsoftonline.us/consumers/v2.0":                             "stands for many tenants",
		"https://login.microsoftonline.com":                                           "stands for many tenants",
		"https://login.microsoftonline.com/9188040d-6c67-4c5b-b112-36a304b66dad/v2.0": "",
		"https://example.com/common/v2.0":                                             "",
		"https://example.com/?tenant=a":                                               "without query",
		"http://example.com":                                                          "must be https",
		"example.com":                                                                 "is no issuer",
	} {
		_, err := NewOpenID(Settings{Issuer: issuer, Client: Client{ID: "a"}}, fetch.Options{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", issuer, err, want)
		}
	}
}

// tokens replaces the token response.
func (p *idp) tokens(response map[string]any) {
	p.answer("/token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		p.write(w, response)
	})
}
