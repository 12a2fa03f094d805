package requests

import (
	stdjson "encoding/json"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// FuzzParseForm: Go's own parsers read the same single values in every accepted body. In JSON, a known member is a string or null, and a
// member that is not a string counts as empty. Under a charset other than UTF-8, a body is ASCII.
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
		f.Add(URLEncoded, body)
		f.Add(URLEncoded+"; charset=us-ascii", body)
	}
	for _, body := range []string{
		`{}`, `{"a":"b"}`, `{"a":null}`, `{"a":"\ud83d\ude00"}`, `{"a":"\ud800"}`, `{"a":"b","\u0061":"c"}`, `{"a":"b"} x`, "{\"a\":\"\xff\"}",
		`{"client_id":"\u0000"}`, `[{"a":"b"}]`, `{"a":"b",}`, `{"scope":1}`, `{"a":[{"scope":1}],"b":{"c":null}}`, `{"a":1e400,"b":-0}`,
	} {
		f.Add("application/json; charset=UTF-8", body)
		f.Add("application/json; charset=iso-8859-1", body)
	}
	f.Add("application/x-www-form-urlencoded", "a=1%01%00") // a is not a known parameter
	for _, body := range []string{
		"--b--", "--b--\r\n", "--b\r\n" + field("a", "") + "\r\n--b--", "--b\r\n" + field("a", "--b") + "\r\n--b--\r\n",
		"--b\r\n" + field("a", "\r\n--") + "\r\n--b\r\nContent-Type: text/plain\r\n" + field("c", "d") + "\r\n--b--",
		"--b \r\n" + field("a", "c") + "\r\n--b--", "--b\n" + field("a", "c") + "\n--b--",
		"--b\r\nContent-Transfer-Encoding: 8bit\r\nContent-Type: text/plain; charset=ISO-8859-1\r\n" + field("a", "\xe9") + "\r\n--b--",
		"--b\r\nContent-Transfer-Encoding: quoted-printable\r\n" + field("a", "=41") + "\r\n--b--",
	} {
		f.Add("multipart/form-data; boundary=b", body)
	}
	f.Fuzz(func(t *testing.T, contentType, body string) {
		r := post("", body)
		r.Header["Content-Type"] = []string{contentType}
		got, err := ParseForm(httptest.NewRecorder(), r)
		if err != nil {
			var e *oauth.Error
			if !errors.As(err, &e) || e.Code != oauth.InvalidRequest || e.Reason == "" || got.parameters != nil {
				t.Fatalf("refused with %v and %v", err, got.parameters)
			}
			return
		}
		values := map[string]string{}
		for _, p := range got.parameters {
			values[p.name] = p.value
			isRead := p.name == "scope" || slices.Contains(textMembers, p.name) || slices.Contains(pageTexts, p.name)
			clean := utf8.ValidString(p.value) && (!isRead || !strings.Contains(p.value, "\x00"))
			if !clean && p.name != "client_id" && p.name != "client_secret" || !validName(p.name) {
				t.Fatalf("accepted %q=%q", p.name, p.value)
			}
		}
		if len(values) != len(got.parameters) || len(values) > MaxParameters || len(body) > maxBody {
			t.Fatalf("%d names, %d parameters, %d bytes", len(values), len(got.parameters), len(body))
		}
		if media, params, _ := mime.ParseMediaType(contentType); params["charset"] != "" && !strings.EqualFold(params["charset"], "utf-8") {
			text := body
			for name, value := range values {
				if media != mediaJSON { // JSON has escapes of its own
					text += name + value
				}
			}
			if !isASCII(text) {
				t.Fatalf("%s: accepted %q", contentType, text)
			}
		}
		if want := reference(t, contentType, body); !reflect.DeepEqual(values, want) {
			t.Fatalf("%s %q: got %q, Go reads %q", contentType, body, values, want)
		}
	})
}

// reference parses a body with Go's own parsers. It fails if a name has several values.
func reference(t *testing.T, contentType, body string) map[string]string {
	t.Helper()
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	switch media {
	case URLEncoded:
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
		var members map[string]stdjson.RawMessage
		if err := stdjson.Unmarshal([]byte(body), &members); err != nil {
			t.Fatal(err)
		}
		for name, value := range members {
			var text string
			isText := stdjson.Unmarshal(value, &text) == nil // also for null
			if values[name] = text; !isText && slices.Contains(textMembers, name) {
				t.Fatalf("accepted %s: %s", name, value)
			}
		}
	case mediaMultipart:
		reader := multipart.NewReader(strings.NewReader(body), params["boundary"])
		for part, err := reader.NextRawPart(); !errors.Is(err, io.EOF); part, err = reader.NextRawPart() {
			if err != nil {
				t.Fatal(err)
			}
			if encoding := strings.ToLower(part.Header.Get("Content-Transfer-Encoding")); !slices.Contains([]string{"", "7bit", "8bit", "binary"}, encoding) {
				t.Fatalf("part %q: transfer encoding %s", part.FormName(), encoding)
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

// TestWhereADuplicateIs: a duplicate parameter is distinguished from a duplicate member inside an unknown parameter.
func TestWhereADuplicateIs(t *testing.T) {
	for body, reason := range map[string]string{`{"a":1,"a":1}`: "parameter_duplicate", `{"a":{"b":1,"b":1}}`: "json_malformed", `{"a":{"b":1},"c":2,"a":3}`: "parameter_duplicate"} {
		if _, err := parseJSON([]byte(body)); oauth.AsError(err).Reason != reason {
			t.Errorf("%s: %v", body, err)
		}
	}
}
