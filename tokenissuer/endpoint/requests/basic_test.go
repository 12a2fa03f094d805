package requests

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

// readings formats credentials as id:secret, so that tests can compare them.
func readings(list []credentials) (texts []string) {
	for _, c := range list {
		texts = append(texts, c.ID+":"+c.Secret.Reveal())
	}
	return texts
}

// TestT5TheClientIDChoosesAReading: of the two readings of a Basic header, the one that has the id of the body is meant.
func TestT5TheClientIDChoosesAReading(t *testing.T) {
	for body, want := range map[string]string{"client_id=a+b": "a b:s", "client_id=a%2Bb": "a+b:s"} {
		r := post(URLEncoded, body)
		r.Header.Set("Authorization", basicHeader("a+b", "s"))
		f, err := ParseForm(httptest.NewRecorder(), r)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := ReadClientCredentials(r, f); err != nil || !slices.Equal(readings(p.Readings), []string{want}) {
			t.Errorf("%s: %q, %v", body, readings(p.Readings), err)
		}
	}
}

// FuzzBasicAuth: accepted headers are canonical base64 that re-encodes to the input. Each reading is the raw pair or its form-decoded one.
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

func TestNamesOfSchemesAreTokens(t *testing.T) {
	const tchar = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz" // RFC 9110 §5.6.2
	for c := range 256 {
		if got := isTokenChar(byte(c)); got != (strings.IndexByte(tchar, byte(c)) >= 0) {
			t.Errorf("%q: %t", byte(c), got)
		}
	}
}
