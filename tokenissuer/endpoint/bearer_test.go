package endpoint

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// withAuthorization returns a request with these Authorization headers.
func withAuthorization(headers ...string) *http.Request {
	r := &http.Request{Header: http.Header{}}
	if headers != nil {
		r.Header["Authorization"] = headers
	}
	return r
}

func TestG1NoAuthorizationIsNoToken(t *testing.T) {
	r := withAuthorization()
	r.URL = &url.URL{RawQuery: "access_token=x"} // G9
	r.Header.Set("Proxy-Authorization", "Bearer x")
	r.Header.Set("X-Access-Token", "x")
	r.Header.Set("Cookie", "accessToken=x")
	if token, present, err := BearerToken(r); !token.IsEmpty() || present || err != nil {
		t.Errorf("got %t, %v", present, err)
	}
}

func TestG2BearerInAnyCase(t *testing.T) {
	for _, header := range []string{"Bearer aZ09-._~+/==", "bearer aZ09-._~+/==", "BEARER aZ09-._~+/=="} {
		token, present, err := BearerToken(withAuthorization(header))
		if token.Reveal() != "aZ09-._~+/==" || !present || err != nil {
			t.Errorf("%s: got %t, %v", header, present, err)
		}
	}
}

func TestMalformedBearerIsRefused(t *testing.T) {
	const request, token = oauth.InvalidRequest, oauth.InvalidToken
	for _, c := range []struct {
		name, header string
		code         oauth.ErrorCode
	}{
		{"G3 two spaces", "Bearer  good", request},
		{"G3 tab", "Bearer\tgood", request},
		{"G3 tab after the space", "Bearer \tgood", request},
		{"G3 trailing space", "Bearer good ", request},
		{"G3 trailing tab", "Bearer good\t", request},
		{"G3 NBSP", "Bearer\u00a0good", token},
		{"G3 NBSP after the space", "Bearer \u00a0good", token},
		{"G3 em space", "Bearer \u2003good", token},
		{"G3 BOM", "Bearer \ufeffgood", token},
		{"G3 leading space", " Bearer good", request},
		{"G3 leading tab", "\tBearer good", request},
		{"G3 leading BOM", "\ufeffBearer good", request},
		{"G4 scheme alone", "Bearer", request},
		{"G4 scheme and a space", "Bearer ", request},
		{"G5 two words", "Bearer a b", request},
		{"G5 split token", "Bearer good .jjj", request},
		{"G5 list", "Bearer a, Bearer b", request},
		{"G5 quotes", `Bearer "good"`, request},
		{"G5 equals sign", "Bearer=good", request},
		{"comma", "Bearer,good", request},
		{"only padding", "Bearer ==", request},
		{"padding within", "Bearer a=b", request},
		{"G7 fold", "Bearer good continued", request},
		{"G8 high byte", "Bearer go\x80od", token},
		{"G8 DEL", "Bearer good\x7f", token},
		{"G8 UTF-8", "Bearer é", token},
		{"NUL", "Bearer good\x00", request},
		{"line end", "Bearer good\r\n", request},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, present, err := BearerToken(withAuthorization(c.header))
			reason := map[oauth.ErrorCode]string{request: "bearer_malformed", token: "bearer_bytes_invalid"}[c.code]
			wantRefusal(t, err, c.code, reason)
			if !got.IsEmpty() || !present {
				t.Error("a token came back, or no credential was seen")
			}
		})
	}
}

func TestG6TwoAuthorizationHeadersAreRefused(t *testing.T) {
	for _, headers := range [][]string{
		{"Bearer a", "Bearer a"}, {"Bearer a", "Basic YTpi"}, {"Basic YTpi", "Bearer a"}, {"Basic a", "Digest b"}, {"Bearer a", ""},
		{"", "Bearer a"}, {"Bearer a", "Bearer b", "Bearer c"},
	} {
		got, present, err := BearerToken(withAuthorization(headers...))
		wantRefusal(t, err, oauth.InvalidRequest, "authorization_header_duplicate")
		if !got.IsEmpty() || !present {
			t.Errorf("%q: a token came back, or no credential was seen", headers)
		}
	}
}

func TestG12OtherSchemesAreNoToken(t *testing.T) {
	for _, header := range []string{
		"Basic YTpi", "Token x", "Digest x", "Negotiate x", "DPoP x", "Bearerx y", "Bearer-x y", "Bear er", "", "x",
	} {
		if token, present, err := BearerToken(withAuthorization(header)); !token.IsEmpty() || present || err != nil {
			t.Errorf("%q: got %t, %v", header, present, err)
		}
	}
}

// TestBearerTokenAllocatesOnlyTheSecret: the address by which a Secret holds its text, and no copy of the text.
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

		{"none", "a=b&c=%20", "a=b&c=%20"},
		{"in a value", "a=access_token&b=x%26access_token=y", "a=access_token&b=x%26access_token=y"},
		{"longer name", "access_tokens=x&xaccess_token=y", "access_tokens=x&xaccess_token=y"},
		{"other case", "Access_Token=x", "Access_Token=x"},
		{"encoded twice", "access%255Ftoken=x", "access%255Ftoken=x"},
		{"malformed name", "access_token%zz=x", "access_token%zz=x"},
		{"array", "access_token[]=x", "access_token[]=x"},
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

// FuzzParseAuthorization holds: what is accepted is one header of scheme, one space and one canonical token, with
// nothing trimmed. A query that was cleaned has no token left, in ours and in Go's reading.
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
