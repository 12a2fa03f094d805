package requests

import (
	stdjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// post returns a request to the token endpoint as net/http would deliver it.
func post(contentType, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/oauth/token", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	return r
}

// parse parses a body and returns the parameters as a map, which cannot have duplicates.
func parse(contentType, body string) (map[string]string, error) {
	f, err := ParseForm(httptest.NewRecorder(), post(contentType, body))
	if err != nil {
		return nil, err
	}
	values := make(map[string]string)
	for _, p := range f.parameters {
		values[p.name] = p.value
	}
	return values, nil
}

// wantRefusal fails unless err has the code and the reason, and a description that a response may contain.
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

// encode encodes parameters in the media type, including duplicates.
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
		return URLEncoded, strings.Join(parts, "&")
	}
}

var encodings = []string{URLEncoded, mediaMultipart, mediaJSON}

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

// TestT147TheValueOfAnUnknownParameterIsNotJudged: control characters or any JSON value in an unknown parameter → ignored; invalid UTF-8,
// the name twice, or a forbidden name → 400.
func TestT147TheValueOfAnUnknownParameterIsNotJudged(t *testing.T) {
	for _, value := range []string{"a\x00b", "a\tb", "a\r\nb", "\x1b[2J", "a\x7fb", "\u202e"} {
		inEachEncoding(t, [][2]string{{"note", value}, {"code", "x"}}, func(t *testing.T, got map[string]string, err error) {
			if err != nil || got["code"] != "x" {
				t.Errorf("%q: %v, %v", value, got, err)
			}
		})
	}
	for _, value := range []string{"\xff", "\xc0\xaf", "\xed\xa0\x80"} {
		for _, media := range []string{URLEncoded, mediaMultipart} {
			contentType, body := encode(media, [2]string{"note", value})
			_, err := parse(contentType, body)
			wantRefusal(t, err, oauth.InvalidRequest, "parameter_value_invalid")
		}
	}
}

func TestF31FormDoesNotPrint(t *testing.T) {
	f := Form{parameters: []parameter{{"client_secret", "hunter2"}}}
	if text := fmt.Sprintf("%v %+v %#v %s %q", f, f, f, f, f); strings.Contains(text, "hunter2") {
		t.Error(text)
	}
}

func BenchmarkParseForm(b *testing.B) {
	_, body := encode(URLEncoded, [2]string{"grant_type", "refresh_token"}, [2]string{"client_id", oauth.NewID()},
		[2]string{"client_secret", oauth.NewClientSecret().Reveal()}, [2]string{"refresh_token", oauth.NewClientSecret().Reveal()})
	r, w := post(URLEncoded, ""), httptest.NewRecorder()
	b.ReportAllocs()
	for b.Loop() {
		r.Body = io.NopCloser(strings.NewReader(body))
		if _, err := ParseForm(w, r); err != nil {
			b.Fatal(err)
		}
	}
}
