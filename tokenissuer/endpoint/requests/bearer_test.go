package requests

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// withAuthorization returns a request with these Authorization headers.
func withAuthorization(headers ...string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	if headers != nil {
		r.Header["Authorization"] = headers
	}
	return r
}

// TestBearerTokenAllocatesOnlyTheSecret: the only allocation is the pointer in Secret. The text is not copied.
func TestBearerTokenAllocatesOnlyTheSecret(t *testing.T) {
	r := withAuthorization("Bearer " + strings.Repeat("a.b-c_", 150))
	if n := testing.AllocsPerRun(100, func() {
		if _, _, err := BearerToken(r); err != nil {
			t.Fatal(err)
		}
	}); n > 1 {
		t.Errorf("%v allocations", n)
	}
}

// TestG3To8WhatIsNoBearerToken: white space, quotes, lists, two headers or bytes outside ASCII in Authorization → 400 or 401.
func TestG3To8WhatIsNoBearerToken(t *testing.T) {
	for _, header := range []string{
		"Bearer", "bearer", "Bearer ", "Bearer =", "Bearer  a.b", "Bearer\ta.b", "Bearer \ta.b", "Bearer a\t.b", " Bearer a.b", "Bearer a.b ", "Bearer \u00a0a.b", "Bearer\u2003a.b",
		"Bearer \ufeffa.b", "\ufeffBearer a.b", "Bearer a.b\u0085", "\uff22earer a.b", "Bearer a b", "Bearer a .b", "Bearer a.b, Bearer a.b", "Bearer a.b,", `Bearer "a.b"`, "Bearer 'a.b'",
		"Bearer=a.b", "Bearer:a.b", "Bearer token=a.b", "Bearer a.b;", "Bearer Bearer a.b", "Bearer Basic a.b", "Bearer a.b\x80", "Bearer a\xff.b", "Bearer a.bé", "Bearer a.b\x7f",
	} {
		if token, present, err := BearerToken(withAuthorization(header)); !present || err == nil || !token.IsEmpty() {
			t.Errorf("%q: %t, %v", header, present, err)
		}
	}
	for _, headers := range [][]string{
		{"Bearer a.b", "Bearer a.b"}, {"Bearer a.b", "Bearer bad"}, {"Basic x", "Bearer a.b"}, {"Bearer a.b", "Basic x"}, {"", "Bearer a.b"}, {"Bearer a.b", ""},
	} {
		if _, present, err := BearerToken(withAuthorization(headers...)); !present || err == nil {
			t.Errorf("%q: %t, %v", headers, present, err)
		}
	}
	for _, header := range []string{"", "Basic x", "Token x", "Digest x", "Negotiate x", "DPoP x", "Bearer- x", "Bear x", "a.b"} {
		if token, present, err := BearerToken(withAuthorization(header)); present || err != nil || !token.IsEmpty() {
			t.Errorf("%q: %t, %v", header, present, err)
		}
	}
	for _, header := range []string{"Bearer a.b", "bearer a.b", "BEARER a.b", "bEaReR a.b"} {
		if token, _, err := BearerToken(withAuthorization(header)); err != nil || token.Reveal() != "a.b" {
			t.Errorf("%q: %v", header, err)
		}
	}
}

func TestG9QueryToken(t *testing.T) {
	for _, c := range []struct{ name, query, without string }{
		{"empty", "", ""},
		{"alone", "access_token=x", ""},
		{"no value", "access_token", ""},
		{"empty value", "a=b&access_token=", "a=b"},
		{"first", "access_token=x&a=b", "a=b"},
		{"middle", "a=%62&access_token=x&c=+d", "a=%62&c=+d"},
		{"last", "a=b&access_token=x", "a=b"},
		{"twice", "access_token=x&a&access_token=y", "a"},
		{"encoded", "a=b&%61ccess%5Ftoken=x", "a=b"},
		{"all encoded", "%61%63%63%65%73%73%5f%74%6f%6b%65%6e=x", ""},
		{"semicolon", "a=b;access_token=x&c=d", "a=b&c=d"},
		{"semicolon behind", "access_token=x;a=b", "a=b"},
		{"blanks stay", "&access_token=x&&a&", "&&a&"},
		{"blank first", "&access_token=x", ""},
		{"malformed pairs stay", "%zz=a&access_token=x&b=%", "%zz=a&b=%"},

		{"V12 other case", "Access_Token=x&ACCESS_TOKEN=y&a", "a"},
		{"V12 other case in Unicode", "acce%c5%bf%C5%BF_to%e2%84%aaen=x", ""},
		{"V12 PHP", "access.token=x&access+token=x&access%20token=x&access[token=x&access%5btoken=x&a", "a"},
		{"V12 PHP, what is around it", "+access_token=x&%20%20access.token=x&access_token%00z=x&a", "a"},
		{"V12 list", "access_token[]=x&access_token%5B%5D=x&access_token[0]=x&access_token[a][b]=x&Access.Token[]=x&a", "a"},
		{"V12 list that is not closed", "access_token%5B=x&access_token[]", "access_token%5B=x"},
		{"V12 Rack and qs", "[access_token]=x&[[access_token]]=x&access_token]=x&]access_token=x&a", "a"},
		{"V12 malformed behind it", "access_token[%zz]=x&a", "a"},

		{"none", "a=b&c=%20", "a=b&c=%20"},
		{"in a value", "a=access_token&b=x%26access_token=y", "a=access_token&b=x%26access_token=y"},
		{"longer name", "access_tokens=x&xaccess_token=y", "access_tokens=x&xaccess_token=y"},
		{"encoded twice", "access%255Ftoken=x", "access%255Ftoken=x"},
		{"malformed name", "access_token%zz=x", "access_token%zz=x"},
		{"nested", "access[token]=x&user[access_token]=y&token.access=z", "access[token]=x&user[access_token]=y&token.access=z"},
		{"other separators", "accessToken=x&access-token=y&access__token=z", "accessToken=x&access-token=y&access__token=z"},
		{"blanks", "&;&", "&;&"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := QueryCarriesToken(c.query); got != (c.query != c.without) {
				t.Errorf("carries: %t", got)
			}
			if got := WithoutQueryToken(c.query); got != c.without {
				t.Errorf("without: %q, want %q", got, c.without)
			}
			if QueryCarriesToken(c.without) {
				t.Error("a token is left")
			}
		})
	}
}

// FuzzParseAuthorization: an accepted header consists of the scheme, one space and one canonical token, and nothing is trimmed. A cleaned
// query has no token left, as read by our parser and by Go's.
func FuzzParseAuthorization(f *testing.F) {
	for _, header := range []string{
		"Bearer good", "bearer aZ09-._~+/==", "Bearer", "Bearer ", "Bearer  good", "Bearer\tgood", "Bearer good ", "Bearer a b", "Bearer a, Bearer b",
		`Bearer "good"`, "Bearer=good", "Bearer \u00a0good", "Bearer \x7f", "Bearer ==", "Basic YTpi", "DPoP x", "", "\ufeffBearer x",
		"access_token=x&a=b", "a;%61ccess_token=b&c", "&access_token&&",
		"Bearer eyJhbGciOiJFUzI1NiIsInR5cCI6ImF0K2p3dCJ9.eyJpc3MiOiJhIn0.c2ln",
	} {
		f.Add(header, "")
		f.Add(header, header)
	}
	shape := regexp.MustCompile(`\A(?i:bearer) ([A-Za-z0-9\-._~+/]+=*)\z`)
	f.Fuzz(func(t *testing.T, header, second string) {
		headers := []string{header}
		if second != "" {
			headers = append(headers, second)
		}
		token, present, err := BearerToken(withAuthorization(headers...))
		match := shape.FindStringSubmatch(header)
		switch accepted := present && err == nil; {
		case accepted != (match != nil && second == ""):
			t.Fatalf("%q: accepted %t, %v", headers, accepted, err)
		case accepted && token.Reveal() != match[1]:
			t.Fatalf("%q: another token", header)
		case !accepted && !token.IsEmpty():
			t.Fatalf("%q: a token came back", headers)
		case err != nil && !present:
			t.Fatalf("%q: an error without a credential", headers)
		}

		without := WithoutQueryToken(header)
		values, _ := url.ParseQuery(without)
		if QueryCarriesToken(without) || values.Has(queryToken) || !QueryCarriesToken(header) && without != header {
			t.Fatalf("%q became %q", header, without)
		}
	})
}

func BenchmarkBearerToken(b *testing.B) {
	r := withAuthorization("Bearer " + strings.Repeat("a.b-c_", 150))
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := BearerToken(r); err != nil {
			b.Fatal(err)
		}
	}
}
