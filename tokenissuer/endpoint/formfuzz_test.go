package endpoint

import (
	stdjson "encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http/httptest"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// FuzzParseForm holds: what is accepted, Go's own parsers read as the same single values.
func FuzzParseForm(f *testing.F) {
	naughty := [][2]string{{"grant_type", "password"}, {"email", "a@b.c"}, {"password", `é"\&=;%+ 😀`}, {"client_id", "\x00"}}
	for _, media := range encodings {
		contentType, body := encode(media, naughty...)
		f.Add(contentType, body)
	}
	for _, body := range []string{
		"", "&&&", "a=1;b=2", "code=%zz", "=x", "a=b&a=b", "scope=public+trusted&x=%2B", "scope[a]=b", "client_id=%ff&client_secret=%00",
		"%63ode=a&code=b", "a", "a=b=c", "+=a",
	} {
		f.Add(mediaURLEncoded, body)
	}
	for _, body := range []string{
		`{}`, `{"a":"b"}`, `{"a":null}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"a":"b","\u0061":"c"}`, `{"a":"b"} x`, "{\"a\":\"\xff\"}",
		`{"client_id":"\u0000"}`, `[{"a":"b"}]`, `{"a":"b",}`,
	} {
		f.Add("application/json; charset=UTF-8", body)
	}
	for _, body := range []string{
		"--b--", "--b--\r\n", "--b\r\n" + field("a", "") + "\r\n--b--", "--b\r\n" + field("a", "--b") + "\r\n--b--\r\n",
		"--b\r\n" + field("a", "\r\n--") + "\r\n--b\r\nContent-Type: text/plain\r\n" + field("c", "d") + "\r\n--b--",
		"--b \r\n" + field("a", "c") + "\r\n--b--", "--b\n" + field("a", "c") + "\n--b--",
	} {
		f.Add("multipart/form-data; boundary=b", body)
	}
	f.Fuzz(func(t *testing.T, contentType, body string) {
		r := post("", body)
		r.Header["Content-Type"] = []string{contentType}
		got, err := parseForm(httptest.NewRecorder(), r)
		if err != nil {
			var e *tokenissuer.Error
			if !errors.As(err, &e) || e.Code != tokenissuer.InvalidRequest || e.Reason == "" || got.parameters != nil {
				t.Fatalf("refused with %v and %v", err, got.parameters)
			}
			return
		}
		values := map[string]string{}
		for _, p := range got.parameters {
			values[p.name] = p.value
			clean := utf8.ValidString(p.value) && !strings.Contains(p.value, "\x00")
			if !clean && p.name != "client_id" && p.name != "client_secret" || !validName(p.name) {
				t.Fatalf("accepted %q=%q", p.name, p.value)
			}
		}
		if len(values) != len(got.parameters) || len(values) > maxParameters || len(body) > maxBody {
			t.Fatalf("%d names, %d parameters, %d bytes", len(values), len(got.parameters), len(body))
		}
		if want := reference(t, contentType, body); !reflect.DeepEqual(values, want) {
			t.Fatalf("%s %q: got %q, Go reads %q", contentType, body, values, want)
		}
	})
}

// reference reads a body with Go's own parsers, and fails where a name has several values.
func reference(t *testing.T, contentType, body string) map[string]string {
	t.Helper()
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	switch media {
	case mediaURLEncoded:
		query, err := url.ParseQuery(body)
		if err != nil {
			t.Fatal(err)
		}
		for name, all := range query {
			if values[name] = all[0]; len(all) != 1 {
				t.Fatalf("%s has %q", name, all)
			}
		}
	case mediaJSON:
		if err := stdjson.Unmarshal([]byte(body), &values); err != nil {
			t.Fatal(err)
		}
	case mediaMultipart:
		reader := multipart.NewReader(strings.NewReader(body), params["boundary"])
		for part, err := reader.NextPart(); err != io.EOF; part, err = reader.NextPart() {
			if err != nil {
				t.Fatal(err)
			}
			content, err := io.ReadAll(part)
			if _, twice := values[part.FormName()]; err != nil || twice || part.FileName() != "" {
				t.Fatalf("part %q: %v", part.FormName(), err)
			}
			values[part.FormName()] = string(content)
		}
	default:
		t.Fatalf("accepted media type %s", media)
	}
	return values
}
