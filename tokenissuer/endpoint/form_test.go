package endpoint

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// post returns a request of the token endpoint as net/http would hand it over.
func post(contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// parse parses a body and returns the parameters as a map, which stands for no duplicates.
func parse(contentType, body string) (map[string]string, error) {
	f, err := parseForm(httptest.NewRecorder(), post(contentType, body))
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for _, p := range f.parameters {
		values[p.name] = p.value
	}
	return values, nil
}

// wantRefusal fails unless err is of code with reason, and carries a description that the wire allows.
func wantRefusal(t *testing.T, err error, code oauth.ErrorCode, reason string) {
	t.Helper()
	var e *oauth.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want %s (%s)", err, code, reason)
	}
	if e.Code != code || e.Reason != reason {
		t.Fatalf("got %s (%s), want %s (%s)", e.Code, e.Reason, code, reason)
	}
	if e.Description == "" || strings.ContainsFunc(e.Description, func(c rune) bool {
		return c < ' ' || c > '~' || c == '"' || c == '\\'
	}) {
		t.Fatalf("description %q is not of RFC 6749 §5.2", e.Description)
	}
}

func wantStatus(t *testing.T, err error, status int) {
	t.Helper()
	var e httpError
	if !errors.As(err, &e) || e.status != status {
		t.Fatalf("got %v, want status %d", err, status)
	}
}

// encode renders parameters in the named media type, duplicates included.
func encode(media string, pairs ...[2]string) (contentType, body string) {
	var parts []string
	switch media {
	case mediaMultipart:
		for _, p := range pairs {
			parts = append(parts, field(p[0], p[1]))
		}
		return mediaMultipart + "; boundary=" + boundary, multipartBody(parts...)
	case mediaJSON:
		for _, p := range pairs {
			name, _ := stdjson.Marshal(p[0])
			value, _ := stdjson.Marshal(p[1])
			parts = append(parts, string(name)+":"+string(value))
		}
		return mediaJSON, "{" + strings.Join(parts, ",") + "}"
	default:
		for _, p := range pairs {
			parts = append(parts, url.QueryEscape(p[0])+"="+url.QueryEscape(p[1]))
		}
		return mediaURLEncoded, strings.Join(parts, "&")
	}
}

var encodings = []string{mediaURLEncoded, mediaMultipart, mediaJSON}

func inEachEncoding(t *testing.T, pairs [][2]string, check func(*testing.T, map[string]string, error)) {
	t.Helper()
	for _, media := range encodings {
		t.Run(media, func(t *testing.T) {
			contentType, body := encode(media, pairs...)
			got, err := parse(contentType, body)
			check(t, got, err)
		})
	}
}

func TestT2EachEncodingIsRead(t *testing.T) {
	pairs := [][2]string{{"grant_type", "password"}, {"password", `a&b=c;d%+é"\ 😀`}, {"scope", "public trusted"}, {"x", ""}}
	want := map[string]string{}
	for _, p := range pairs {
		want[p[0]] = p[1]
	}
	inEachEncoding(t, pairs, func(t *testing.T, got map[string]string, err error) {
		if err != nil || !maps.Equal(got, want) {
			t.Fatalf("got %v, %v", got, err)
		}
	})
}

func TestT6QueryIsNeverRead(t *testing.T) {
	r := post(mediaURLEncoded, "grant_type=password")
	r.URL.RawQuery = "client_id=a&client_secret=b&code=c&grant_type=d"
	f, err := parseForm(httptest.NewRecorder(), r)
	if err != nil || len(f.parameters) != 1 || f.get("grant_type") != "password" {
		t.Fatalf("got %v, %v", f.parameters, err)
	}
}

func TestT14ClientCredentialsKeepTheirBytes(t *testing.T) {
	for _, c := range []struct{ name, contentType, body, want string }{
		{"percent NUL", mediaURLEncoded, "client_id=a%00b", "a\x00b"},
		{"percent FF", mediaURLEncoded, "client_id=%ff", "\xff"},
		{"overlong", mediaURLEncoded, "client_id=%c0%af", "\xc0\xaf"},
		{"json NUL", mediaJSON, `{"client_id":"a\u0000b"}`, "a\x00b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse(c.contentType, c.body)
			if err != nil || got["client_id"] != c.want {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
	t.Run("secret", func(t *testing.T) {
		f, err := parseForm(httptest.NewRecorder(), post(mediaURLEncoded, "client_secret=%00%ff"))
		if err != nil || f.secret("client_secret").Reveal() != "\x00\xff" {
			t.Fatal(err)
		}
	})
}

func TestT29DuplicateParameterIsRefused(t *testing.T) {
	for _, c := range []struct {
		name  string
		pairs [][2]string
	}{
		{"different", [][2]string{{"code", "a"}, {"code", "b"}}},
		{"identical", [][2]string{{"grant_type", "password"}, {"a", "b"}, {"grant_type", "password"}}},
		{"empty", [][2]string{{"scope", ""}, {"scope", "a"}}},
		{"unknown (T30)", [][2]string{{"foo", "a"}, {"foo", "b"}}},
		{"client_id", [][2]string{{"client_id", "a"}, {"client_id", "\x00"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inEachEncoding(t, c.pairs, func(t *testing.T, _ map[string]string, err error) {
				wantRefusal(t, err, oauth.InvalidRequest, "parameter_duplicate")
			})
		})
	}
	for _, c := range []struct{ name, contentType, body string }{
		{"percent-encoded name", mediaURLEncoded, "code=a&%63ode=b"},
		{"without equals sign", mediaURLEncoded, "code&code=b"},
		{"escaped name", mediaJSON, `{"code":"a","\u0063ode":"b"}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.contentType, c.body)
			wantRefusal(t, err, oauth.InvalidRequest, "parameter_duplicate")
		})
	}
}

func TestT31EmptyIsAbsent(t *testing.T) {
	f, err := parseForm(httptest.NewRecorder(), post(mediaURLEncoded, "scope=&redirect_uri&code=x"))
	if err != nil || f.get("scope") != "" || f.get("redirect_uri") != "" || f.get("nothing") != "" || f.get("code") != "x" {
		t.Fatalf("got %v, %v", f.parameters, err)
	}
	if !f.secret("scope").IsEmpty() || !f.secret("nothing").IsEmpty() {
		t.Error("a secret is there")
	}
}

func TestT32MalformedPairs(t *testing.T) {
	for _, c := range []struct{ body, reason string }{
		{"a=1;b=2", "form_malformed"},
		{"a=1;", "form_malformed"},
		{"a=1&code=%zz", "form_malformed"},
		{"a=1&b=%", "form_malformed"},
		{"a=1&b=%4", "form_malformed"},
		{"a=1&%=x", "form_malformed"},
		{"a=1&=x", "parameter_name_invalid"},
		{"=", "parameter_name_invalid"},
	} {
		t.Run(c.body, func(t *testing.T) {
			f, err := parseForm(httptest.NewRecorder(), post(mediaURLEncoded, c.body))
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
			if f.parameters != nil {
				t.Error("a part of the parameters came back")
			}
		})
	}
	for _, body := range []string{"&&&", "", "&a=b&&c=d&"} {
		if got, err := parse(mediaURLEncoded, body); err != nil || body != "" && strings.Contains(body, "=") != (len(got) == 2) {
			t.Errorf("%q: got %v, %v", body, got, err)
		}
	}
}

func TestT33NamesOfFrameworksAreRefused(t *testing.T) {
	for _, name := range []string{
		"scope[a]", "client_id[]", "grant_type[$ne]", "$where", "a b", "a\x00", "é", "a\n", "a:b", "", "__proto__[x]", "a/b",
	} {
		t.Run(name, func(t *testing.T) {
			inEachEncoding(t, [][2]string{{name, "x"}}, func(t *testing.T, _ map[string]string, err error) {
				if oauth.AsError(err).Code != oauth.InvalidRequest {
					t.Fatalf("got %v", err)
				}
			})
		})
	}
}

func TestT34PlusIsASpaceAndPercent2BIsAPlus(t *testing.T) {
	for body, want := range map[string]string{
		"scope=public+trusted": "public trusted", "scope=public%20trusted": "public trusted", "scope=public%2Btrusted": "public+trusted",
	} {
		if got, err := parse(mediaURLEncoded, body); err != nil || got["scope"] != want {
			t.Errorf("%s: got %v, %v", body, got, err)
		}
	}
}

func TestT35ScopeIsLeftToItsOwnParser(t *testing.T) {
	for _, scope := range []string{"a\tb", "a\nb", "a\u00a0b", `a"b`, `a\b`, "a\x7fb"} {
		inEachEncoding(t, [][2]string{{"scope", scope}}, func(t *testing.T, got map[string]string, err error) {
			if err != nil || got["scope"] != scope {
				t.Fatalf("got %q, %v", got, err)
			}
		})
	}
	for _, body := range []string{"scope=a%00", "scope=%ff", "scope=%c0%80"} {
		_, err := parse(mediaURLEncoded, body)
		wantRefusal(t, err, oauth.InvalidRequest, "parameter_value_invalid")
	}
}

func TestT38AtMost32Parameters(t *testing.T) {
	for _, n := range []int{32, 33, 4000} {
		pairs := make([][2]string, n)
		for i := range pairs {
			pairs[i] = [2]string{fmt.Sprint("p", i), ""}
		}
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			inEachEncoding(t, pairs, func(t *testing.T, got map[string]string, err error) {
				switch {
				case n == 32 && (err != nil || len(got) != 32):
					t.Fatalf("got %v, %v", got, err)
				case n > 32 && oauth.AsError(err).Code != oauth.InvalidRequest:
					t.Fatalf("got %v", err)
				}
			})
		})
	}
	_, err := parse(mediaURLEncoded, "a=b"+strings.Repeat("&", 10001))
	if err != nil {
		t.Error("blanks were counted:", err)
	}
}

func TestT39ControlsAndBadUTF8AreRefused(t *testing.T) {
	for _, name := range []string{"grant_type", "code", "redirect_uri", "code_verifier", "refresh_token", "email", "password", "application", "session"} {
		for _, value := range []string{"a\x00b", "\x00", "a\tb", "a\nb", "\x1b", "a\x7fb", "\xff", "\xc0\x80", "\xc0\xaf", "\xed\xa0\x80"} {
			for _, media := range []string{mediaURLEncoded, mediaMultipart} {
				contentType, body := encode(media, [2]string{name, value})
				_, err := parse(contentType, body)
				wantRefusal(t, err, oauth.InvalidRequest, "parameter_value_invalid")
			}
		}
	}
	for _, c := range []struct{ name, body, reason string }{
		{"NUL", `{"code":"a\u0000b"}`, "parameter_value_invalid"},
		{"control", `{"code":"a\nb"}`, "parameter_value_invalid"},
		{"raw control", "{\"code\":\"a\nb\"}", "json_malformed"},
		{"lone surrogate", `{"code":"\ud800"}`, "json_malformed"},
		{"lone surrogate in client_id", `{"client_id":"\ud800"}`, "json_malformed"},
		{"swapped surrogates", `{"code":"\udc00\ud800"}`, "json_malformed"},
		{"lone surrogate in a name", `{"\ud800":"x"}`, "json_malformed"},
		{"invalid UTF-8 in client_id", "{\"client_id\":\"\xff\"}", "json_malformed"},
		{"overlong", "{\"client_secret\":\"\xc0\x80\"}", "json_malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(mediaJSON, c.body)
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
}

// TestT147TheValueOfAnUnknownParameterIsNotJudged, in any encoding, as long as it is text. Its name is.
func TestT147TheValueOfAnUnknownParameterIsNotJudged(t *testing.T) {
	for _, value := range []string{"a\x00b", "a\tb", "a\r\nb", "\x1b[2J", "a\x7fb", "\u202e"} {
		inEachEncoding(t, [][2]string{{"note", value}, {"code", "x"}}, func(t *testing.T, got map[string]string, err error) {
			if err != nil || got["code"] != "x" {
				t.Errorf("%q: %v, %v", value, got, err)
			}
		})
	}
	for _, value := range []string{"\xff", "\xc0\xaf", "\xed\xa0\x80"} {
		for _, media := range []string{mediaURLEncoded, mediaMultipart} {
			contentType, body := encode(media, [2]string{"note", value})
			_, err := parse(contentType, body)
			wantRefusal(t, err, oauth.InvalidRequest, "parameter_value_invalid")
		}
	}
}

func TestF31FormDoesNotPrint(t *testing.T) {
	f := form{parameters: []parameter{{"client_secret", "hunter2"}}}
	if text := fmt.Sprintf("%v %+v %#v %s %q", f, f, f, f, f); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}

func BenchmarkParseForm(b *testing.B) {
	_, body := encode(mediaURLEncoded, [2]string{"grant_type", "refresh_token"}, [2]string{"client_id", oauth.NewID()},
		[2]string{"client_secret", oauth.NewClientSecret().Reveal()}, [2]string{"refresh_token", oauth.NewClientSecret().Reveal()})
	r, w := post(mediaURLEncoded, ""), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		if _, err := parseForm(w, r); err != nil {
			b.Fatal(err)
		}
	}
}
