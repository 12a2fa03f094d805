package requests

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// boundary is a boundary as browsers generate it.
const boundary = "----WebKitFormBoundary7MA4YWxkTrZu0gW"

func multipartBody(parts ...string) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString("--" + boundary + "\r\n" + p + "\r\n")
	}
	return b.String() + "--" + boundary + "--\r\n"
}

func field(name, value string) string {
	return "Content-Disposition: form-data; name=\"" + name + "\"\r\n\r\n" + value
}

// TestT98MultipartIsStrict has the malformed bodies that TestT98MultipartIsSimple leaves out.
func TestT98MultipartIsStrict(t *testing.T) {
	const malformed, unsupported = "multipart_malformed", "multipart_part_unsupported"
	good := multipartBody(field("a", "b"))
	for _, c := range []struct{ name, body, reason string }{
		{"name in pieces", multipartBody("Content-Disposition: form-data; name*0=\"a\"\r\n\r\nb"), malformed},
		{"two part types", multipartBody("Content-Type: text/plain\r\nContent-Type: text/plain\r\n" + field("a", "b")), "content_type_duplicate"},
		{"no headers", multipartBody("\r\nb"), malformed},
		{"empty transfer encoding", multipartBody("Content-Transfer-Encoding:\r\n" + field("a", "b")), unsupported},
		{"US-ASCII with others", multipartBody("Content-Type: text/plain; charset=US-ASCII\r\n" + field("client_secret", "é")), "charset_unsupported"},
		{"UTF-8 that is none", multipartBody("Content-Type: text/plain; charset=UTF-8\r\n" + field("a", "\xe9")), "parameter_value_invalid"},
		{"space before the colon", multipartBody("Content-Disposition : form-data; name=\"a\"\r\n\r\nb"), malformed},
		{"line feed in a header", multipartBody("X: y\n\nz\r\n" + field("a", "b")), malformed},
		{"second body behind the end", good + good, malformed},
		{"truncated in a value", good[:len(good)-len(boundary)-10], malformed},
		{"truncated in a header", good[:60], malformed},
		{"longer boundary", strings.ReplaceAll(good, boundary, boundary+"x"), malformed},
		{"part headers of 8 KiB together", multipartBody("X: "+strings.Repeat("y", 5000)+"\r\n"+field("a", "b"), "X: "+strings.Repeat("y", 5000)+"\r\n"+field("b", "b")), malformed},
		{"empty", "", malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(mediaMultipart+"; boundary="+boundary, c.body)
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
	for name, limit := range map[string]struct {
		boundary string
		good     bool
	}{
		"70 characters": {strings.Repeat("a", 70), true}, "71 characters": {strings.Repeat("a", 71), false}, "trailing space": {`"a "`, false}, "line end": {"\"a\r\nb\"", false},
	} {
		t.Run("boundary of "+name, func(t *testing.T) {
			if _, err := parse(mediaMultipart+"; boundary="+limit.boundary, strings.ReplaceAll(good, boundary, strings.Trim(limit.boundary, `"`))); (err == nil) != limit.good {
				t.Errorf("%v", err)
			}
		})
	}
}
