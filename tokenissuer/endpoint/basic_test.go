package endpoint

import (
	"encoding/base64"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func basicHeader(id, secret string) string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(id+":"+secret))
}

// readings writes credentials as id:secret, so that tests can compare them.
func readings(list []credentials) (texts []string) {
	for _, c := range list {
		texts = append(texts, c.ID+":"+c.Secret.Reveal())
	}
	return texts
}

func TestT8BasicIsReadDecodedThenRaw(t *testing.T) {
	const special = ":%+& é"
	for _, c := range []struct {
		name, id, secret string
		want             []string
	}{
		{"base62", "abc", "XYZ09", []string{"abc:XYZ09"}},
		{"form-encoded", url.QueryEscape(special), url.QueryEscape(special),
			[]string{special + ":" + special, url.QueryEscape(special) + ":" + url.QueryEscape(special)}},
		{"RFC 6749 appendix B", "+%25%26%2B%C2%A3%E2%82%AC", "s", []string{" %&+£€:s", "+%25%26%2B%C2%A3%E2%82%AC:s"}},
		{"marks encoded too", "%2D%5F%2E%21%7E%2A%27%28%29", "s", []string{"-_.!~*'():s", "%2D%5F%2E%21%7E%2A%27%28%29:s"}},
		{"raw, split at the first colon", "id", "a:b:c", []string{"id:a:b:c"}},
		{"raw with a plus", "id", "a+b", []string{"id:a b", "id:a+b"}},
		{"raw with a malformed percent", "id", "100%", []string{"id:100%"}},
		{"malformed percent in the id only", "10%", "a+b", []string{"10%:a+b"}},
		{"raw with what looks encoded", "id", "a%41", []string{"id:aA", "id:a%41"}},
		{"raw UTF-8", "é", "😀 &", []string{"é:😀 &"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseBasic(basicHeader(c.id, c.secret))
			if err != nil || !slices.Equal(readings(got), c.want) {
				t.Fatalf("got %q, %v, want %q", readings(got), err, c.want)
			}
		})
	}
}

func TestT9MalformedBasicIsRefused(t *testing.T) {
	for _, c := range []struct{ name, header string }{
		{"no colon", "Basic " + base64.StdEncoding.EncodeToString([]byte("abc"))},
		{"not base64", "Basic !!!!"},
		{"scheme alone", "Basic"},
		{"scheme and a space", "Basic "},
		{"two spaces", "Basic  YTpi"},
		{"tab", "Basic\tYTpi"},
		{"tab after the space", "Basic \tYTpi"},
		{"trailing space", "Basic YTpi "},
		{"url-safe alphabet", strings.NewReplacer("+", "-", "/", "_").Replace(basicHeader("a", "???>>>"))},
		{"non-canonical tail", "Basic YTpjZh=="},
		{"no padding", "Basic YTpiYw"},
		{"too much padding", "Basic YTpi===="},
		{"line end", "Basic YT\r\npi"},
		{"two credentials", "Basic YTpi, Basic YTpi"},
		{"text without a space", "BasicYTpi"},
		{"other scheme", "Bearer YTpi"},
		{"empty", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseBasic(c.header)
			wantRefusal(t, err, oauth.InvalidClient, "basic_malformed")
			if got != nil {
				t.Error("a reading came back")
			}
			r := post(mediaURLEncoded, "")
			r.Header.Set("Authorization", c.header)
			p, err := clientCredentials(r, form{})
			ignored := !hasScheme(c.header, "Basic")
			if !p.UsedHeader || p.Readings != nil || (err == nil) != ignored {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
	if !strings.ContainsAny(basicHeader("a", "???>>>")[len("Basic "):], "+/") {
		t.Error("the url-safe row says nothing")
	}
}

func TestT10BasicInAnyCase(t *testing.T) {
	for _, scheme := range []string{"Basic", "basic", "BASIC", "bAsIc"} {
		if got, err := parseBasic(scheme + " YTpi"); err != nil || !slices.Equal(readings(got), []string{"a:b"}) {
			t.Errorf("%s: got %v, %v", scheme, got, err)
		}
	}
}

func TestT11AnEmptyIDIsRefusedAndAnEmptySecretIsNone(t *testing.T) {
	for _, secret := range []string{"secret", ""} {
		_, err := parseBasic(basicHeader("", secret))
		wantRefusal(t, err, oauth.InvalidClient, "basic_malformed")
	}
	got, err := parseBasic(basicHeader("id", ""))
	if err != nil || len(got) != 1 || got[0].ID != "id" || !got[0].Secret.IsEmpty() {
		t.Errorf("got %q, %v", readings(got), err)
	}
}

func TestT14BytesThatNoDirectoryHolds(t *testing.T) {
	for _, c := range []struct {
		name, id, secret string
		want             []string
	}{
		{"encoded NUL", "a%00", "b", []string{"a%00:b"}},
		{"encoded FF in the secret", "a", "%ff", []string{"a:%ff"}},
		{"encoded overlong", "%c0%af", "b", []string{"%c0%af:b"}},
		{"raw NUL", "a\x00", "b", nil},
		{"raw FF", "a", "\xff", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseBasic(basicHeader(c.id, c.secret))
			if !slices.Equal(readings(got), c.want) {
				t.Errorf("got %q", readings(got))
			}
			if c.want == nil {
				wantRefusal(t, err, oauth.InvalidClient, "basic_malformed")
			}
		})
	}
	for _, body := range []string{
		"client_id=%00&client_secret=b", "client_id=a&client_secret=%ff", "client_id=%c0%af", "client_id=a%00b",
	} {
		t.Run(body, func(t *testing.T) {
			r := post(mediaURLEncoded, body)
			f, err := parseForm(httptest.NewRecorder(), r)
			if err != nil {
				t.Fatal(err)
			}
			p, err := clientCredentials(r, f)
			wantRefusal(t, err, oauth.InvalidClient, "client_credentials_malformed")
			if p.UsedHeader || p.Readings != nil || p.PublicID != "" {
				t.Errorf("got %+v", p)
			}
		})
	}
}

func TestClientCredentials(t *testing.T) {
	basic := basicHeader("A", "s")
	const (
		request, client = oauth.InvalidRequest, oauth.InvalidClient
		twice           = "client_authentication_twice"
	)
	for _, c := range []struct {
		name          string
		authorization []string
		body          string
		readings      []string
		publicID      string
		code          oauth.ErrorCode
		reason        string
	}{
		{name: "nothing", body: "grant_type=x"},
		{name: "T1 Basic", authorization: []string{basic}, readings: []string{"A:s"}},
		{name: "T2 body", body: "client_id=A&client_secret=a%2Bb", readings: []string{"A:a+b"}},
		{name: "T3 same", authorization: []string{basic}, body: "client_id=A&client_secret=s", code: request, reason: twice},
		{name: "T3 different secret", authorization: []string{basic}, body: "client_secret=x", code: request, reason: twice},
		{name: "T3 other client", authorization: []string{basic}, body: "client_id=B&client_secret=s", code: request, reason: twice},
		{name: "T3 malformed Basic", authorization: []string{"Basic"}, body: "client_secret=s", code: request, reason: twice},
		{name: "T4 other client_id", authorization: []string{basic}, body: "client_id=B", code: client, reason: "client_id_mismatch"},
		{name: "T4 other case", authorization: []string{basic}, body: "client_id=a", code: client, reason: "client_id_mismatch"},
		{name: "T5 same client_id", authorization: []string{basic}, body: "client_id=A", readings: []string{"A:s"}},
		{name: "T5 the decoded reading agrees", authorization: []string{basicHeader("a+b", "s")}, body: "client_id=a+b", readings: []string{"a b:s"}},
		{name: "T5 the raw reading agrees", authorization: []string{basicHeader("a+b", "s")}, body: "client_id=a%2Bb", readings: []string{"a+b:s"}},
		{name: "empty body secret", authorization: []string{basic}, body: "client_id=A&client_secret=", readings: []string{"A:s"}},
		{name: "T12 client_id only", body: "client_id=A", publicID: "A"},
		{name: "T12 empty secret", body: "client_id=A&client_secret=", publicID: "A"},
		{name: "secret only", body: "client_secret=s", code: client, reason: "client_id_missing"},
		{name: "T19 two headers", authorization: []string{basic, basic}, code: request, reason: "authorization_header_duplicate"},
		{name: "T19 two schemes", authorization: []string{"Bearer x", basic}, code: request, reason: "authorization_header_duplicate"},
		{name: "T11 empty secret by Basic", authorization: []string{basicHeader("A", "")}, readings: []string{"A:"}},
		{name: "T3 empty secret by Basic, and one in the body", authorization: []string{basicHeader("A", "")}, body: "client_secret=s", code: request, reason: twice},
		{name: "T20 Bearer and client_id", authorization: []string{"Bearer x"}, body: "client_id=A", publicID: "A"},
		{name: "T20 Bearer and both", authorization: []string{"Bearer x"}, body: "client_id=A&client_secret=s", readings: []string{"A:s"}},
		{name: "T20 Bearer alone", authorization: []string{"Bearer x"}},
		{name: "T20 Token", authorization: []string{"Token x"}, body: "client_id=A&client_secret=s", readings: []string{"A:s"}},
		{name: "T20 no scheme", authorization: []string{"x"}, body: "client_id=A&client_secret=s", readings: []string{"A:s"}},
		{name: "T20 empty header", authorization: []string{""}, body: "client_id=A&client_secret=s", readings: []string{"A:s"}},
		{name: "T20 empty header alone", authorization: []string{""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := post(mediaURLEncoded, c.body)
			if c.authorization != nil {
				r.Header["Authorization"] = c.authorization
			}
			f, err := parseForm(httptest.NewRecorder(), r)
			if err != nil {
				t.Fatal(err)
			}
			p, err := clientCredentials(r, f)
			if c.code != "" {
				wantRefusal(t, err, c.code, c.reason)
				const sentence = "The request utilizes more than one mechanism for authenticating the client."
				if got := oauth.AsError(err).Description; (got == sentence) != (c.reason == twice) {
					t.Errorf("description %q", got)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if p.UsedHeader != (c.authorization != nil) || p.PublicID != c.publicID || !slices.Equal(readings(p.Readings), c.readings) {
				t.Errorf("got %q, %q, header %t", readings(p.Readings), p.PublicID, p.UsedHeader)
			}
		})
	}
}

// FuzzBasicAuth holds: what is accepted is canonical base64 that re-encodes to the input, and each reading is the
// raw pair or its form-decoded one.
func FuzzBasicAuth(f *testing.F) {
	for _, header := range []string{
		"Basic YTpi", "basic YTpi", "BASIC YTpiYw==", "Basic", "Basic ", "Basic  YTpi", "Basic\tYTpi", "Basic YTpi ", "Basic YTpjZh==",
		"Basic YT\npi", "Basic YTpi, Basic YTpi", "Bearer x", "Basic Og==", "Basic YTo=", "Basic OmI=",
		basicHeader("a%41", "b+c"), basicHeader("10%", "%zz"), basicHeader("a%00", "%ff"), basicHeader("\xff", "a"), basicHeader("é", "a:b"),
		basicHeader("%3A", ":%"), basicHeader("' OR 1=1--", "%"), basicHeader("???>>>", "???"),
	} {
		f.Add(header)
	}
	f.Fuzz(func(t *testing.T, header string) {
		got, err := parseBasic(header)
		if err != nil {
			wantRefusal(t, err, oauth.InvalidClient, "basic_malformed")
			if got != nil {
				t.Fatal("refused with a reading")
			}
			return
		}
		scheme, encoded, _ := strings.Cut(header, " ")
		decoded, err := base64.StdEncoding.Strict().DecodeString(encoded)
		if err != nil || base64.StdEncoding.EncodeToString(decoded) != encoded || !strings.EqualFold(scheme, "basic") {
			t.Fatalf("accepted %q: %v", header, err)
		}
		id, secret, _ := strings.Cut(string(decoded), ":")
		plainID, idErr := url.QueryUnescape(id)
		plainSecret, secretErr := url.QueryUnescape(secret)
		pairs := []string{plainID + ":" + plainSecret, id + ":" + secret}
		if idErr != nil || secretErr != nil || plainID == id && plainSecret == secret {
			pairs = pairs[1:]
		}
		want := slices.DeleteFunc(pairs, func(text string) bool {
			return !utf8.ValidString(text) || strings.Contains(text, "\x00")
		})
		if !slices.Equal(readings(got), want) {
			t.Fatalf("%q: got %q, want %q", header, readings(got), want)
		}
		for _, c := range got {
			if c.ID == "" || c.Secret.IsEmpty() != (secret == "") {
				t.Fatalf("%q: id %q, empty secret %t", header, c.ID, c.Secret.IsEmpty())
			}
		}
	})
}

func BenchmarkParseBasic(b *testing.B) {
	header := basicHeader(oauth.NewID(), oauth.NewClientSecret().Reveal())
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parseBasic(header); err != nil {
			b.Fatal(err)
		}
	}
}
