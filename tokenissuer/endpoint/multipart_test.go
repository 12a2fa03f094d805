package endpoint

import (
	"bytes"
	"maps"
	"mime/multipart"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// boundary is one as browsers make it.
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

func TestT26MultipartTakesFieldsAndNoFiles(t *testing.T) {
	contentType := mediaMultipart + "; boundary=" + boundary
	for _, part := range []string{
		field("code", "x"),
		"content-disposition: form-data; name=code\r\n\r\nx",
		"Content-Disposition: form-data; name=\"code\"\r\nContent-Type: text/plain\r\n\r\nx",
		"Content-Type: text/plain; charset=UTF-8\r\nContent-Disposition: form-data; name=\"code\"\r\nContent-Length: 1\r\n\r\nx",
		"Content-Type: text/plain; charset=ISO-8859-1\r\nContent-Transfer-Encoding: 8bit\r\n" + field("code", "x"),
		"Content-Type: text/plain; charset=US-ASCII\r\nContent-Transfer-Encoding: 7bit\r\n" + field("code", "x"),
		"content-transfer-encoding: BINARY\r\n" + field("code", "x"),
	} {
		got, err := parse(contentType, multipartBody(part))
		if err != nil || got["code"] != "x" {
			t.Errorf("%q: got %v, %v", part, got, err)
		}
	}
	t.Run("as Go writes it", func(t *testing.T) {
		var b bytes.Buffer
		w := multipart.NewWriter(&b)
		_ = w.WriteField("code", "a\r\nb")
		_ = w.WriteField("client_id", "a\r\n--b")
		_ = w.WriteField("scope", "")
		_ = w.Close()
		_, err := parse(w.FormDataContentType(), b.String())
		wantRefusal(t, err, oauth.InvalidRequest, "parameter_value_invalid") // line ends in code

		got, err := parse(w.FormDataContentType(), strings.Replace(b.String(), "a\r\nb", "ab", 1))
		if err != nil || !maps.Equal(got, map[string]string{"code": "ab", "client_id": "a\r\n--b", "scope": ""}) {
			t.Fatalf("got %q, %v", got, err)
		}
	})
	t.Run("file", func(t *testing.T) {
		_, err := parse(contentType, multipartBody(field("a", "b"),
			"Content-Disposition: form-data; name=\"code\"; filename=\"f\"\r\nContent-Type: text/plain\r\n\r\nx"))
		wantRefusal(t, err, oauth.InvalidRequest, "multipart_part_unsupported")
	})
}

func TestT27OtherMediaTypesAreRefused(t *testing.T) {
	for _, c := range []struct{ contentType, reason string }{
		{"", "content_type_missing"},
		{"text/plain", "content_type_unsupported"},
		{"application/vnd.api+json", "content_type_unsupported"},
		{"application/xml", "content_type_unsupported"},
		{"application/x-www-form-urlencodedx", "content_type_unsupported"},
		{"multipart/mixed; boundary=x", "content_type_unsupported"},
		{"multipart", "content_type_unsupported"},
		{"/", "content_type_malformed"},
		{" ", "content_type_malformed"},
		{"application/json\u00a0", "content_type_malformed"},
	} {
		t.Run(c.contentType, func(t *testing.T) {
			_, err := parse(c.contentType, "a=b")
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
}

func TestT28CharsetsAndOneContentType(t *testing.T) {
	for _, c := range []struct{ name, contentType, reason string }{
		{"utf-16", mediaURLEncoded + "; charset=utf-16", "charset_unsupported"},
		{"empty charset", mediaURLEncoded + `; charset=""`, "charset_unsupported"},
		{"other parameter", mediaJSON + "; profile=x", "charset_unsupported"},
		{"boundary on json", mediaJSON + "; boundary=x", "charset_unsupported"},
		{"two charsets", mediaJSON + "; charset=utf-8; charset=utf-16", "content_type_malformed"},
		{"continuation", mediaJSON + "; charset*=utf-8''utf-8", "content_type_malformed"},
		{"comma list", mediaURLEncoded + ", " + mediaJSON, "content_type_malformed"},
		{"comma list after parameter", mediaURLEncoded + "; charset=utf-8, " + mediaJSON, "content_type_malformed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(c.contentType, "a=b")
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
	t.Run("two headers", func(t *testing.T) {
		r := post(mediaURLEncoded, "a=b")
		r.Header.Add("Content-Type", mediaURLEncoded)
		_, err := parseForm(httptest.NewRecorder(), r)
		wantRefusal(t, err, oauth.InvalidRequest, "content_type_duplicate")
	})
	for _, charset := range []string{"UTF-8", "utf-8", "us-ascii", "ISO-8859-1", `"iso-8859-1"`} {
		t.Run("charset="+charset, func(t *testing.T) {
			for media, body := range map[string]string{mediaURLEncoded: "a=b%25", mediaJSON: `{"a":"b%"}`, mediaMultipart + "; boundary=" + boundary: multipartBody(field("a", "b%"))} {
				if got, err := parse(media+"; charset="+charset, body); err != nil || got["a"] != "b%" {
					t.Errorf("%s: got %v, %v", media, got, err)
				}
			}
		})
	}
	for _, charset := range []string{"us-ascii", "ISO-8859-1"} {
		for name, c := range map[string]struct{ media, body string }{
			"urlencoded":                   {mediaURLEncoded, "a=\xe9"},
			"urlencoded UTF-8":             {mediaURLEncoded, "a=é"},
			"urlencoded, escaped":          {mediaURLEncoded, "a=%E9"},
			"urlencoded, escaped UTF-8":    {mediaURLEncoded, "a=b&client_secret=%C3%A9"},
			"urlencoded, escaped in names": {mediaURLEncoded, "%C3%A9=b"},
			"JSON":                         {mediaJSON, `{"a":"é"}`},
			"multipart":                    {mediaMultipart + "; boundary=" + boundary, multipartBody(field("a", "é"))},
		} {
			t.Run(charset+" "+name, func(t *testing.T) {
				_, err := parse(c.media+"; charset="+charset, c.body)
				wantRefusal(t, err, oauth.InvalidRequest, "charset_unsupported")
			})
		}
	}
}

func TestT98MultipartIsStrict(t *testing.T) {
	const malformed, unsupported = "multipart_malformed", "multipart_part_unsupported"
	good := multipartBody(field("a", "b"))
	for _, c := range []struct{ name, body, reason string }{
		{"filename", multipartBody("Content-Disposition: form-data; name=\"a\"; filename=\"\"\r\n\r\nb"), unsupported},
		{"extended filename", multipartBody("Content-Disposition: form-data; name=\"a\"; filename*=utf-8''f\r\n\r\nb"), malformed},
		{"name in pieces", multipartBody("Content-Disposition: form-data; name*0=\"a\"\r\n\r\nb"), malformed},
		{"nested multipart", multipartBody("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: multipart/mixed; boundary=x\r\n\r\nb"), unsupported},
		{"part of another charset", multipartBody("Content-Disposition: form-data; name=\"a\"\r\nContent-Type: text/plain; charset=utf-16\r\n\r\nb"), unsupported},
		{"two part types", multipartBody("Content-Type: text/plain\r\nContent-Type: text/plain\r\n" + field("a", "b")), "content_type_duplicate"},
		{"no name", multipartBody("Content-Disposition: form-data\r\n\r\nb"), unsupported},
		{"empty name", multipartBody(field("", "b")), "parameter_name_invalid"},
		{"no disposition", multipartBody("Content-Type: text/plain\r\n\r\nb"), malformed},
		{"no headers", multipartBody("\r\nb"), malformed},
		{"two dispositions", multipartBody("Content-Disposition: form-data; name=\"x\"\r\n" + field("a", "b")), malformed},
		{"attachment", multipartBody("Content-Disposition: attachment; name=\"a\"\r\n\r\nb"), unsupported},
		{"transfer encoding", multipartBody("Content-Transfer-Encoding: quoted-printable\r\n" + field("a", "b")), unsupported},
		{"base64", multipartBody("content-transfer-encoding: BASE64\r\n" + field("a", "b")), unsupported},
		{"two transfer encodings", multipartBody("Content-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: 8bit\r\n" + field("a", "b")), unsupported},
		{"empty transfer encoding", multipartBody("Content-Transfer-Encoding:\r\n" + field("a", "b")), unsupported},
		{"7bit with others", multipartBody("Content-Transfer-Encoding: 7bit\r\n" + field("a", "é")), "charset_unsupported"},
		{"ISO-8859-1 with others", multipartBody("Content-Type: text/plain; charset=ISO-8859-1\r\n" + field("a", "\xe9")), "charset_unsupported"},
		{"US-ASCII with others", multipartBody("Content-Type: text/plain; charset=US-ASCII\r\n" + field("client_secret", "é")), "charset_unsupported"},
		{"UTF-8 that is none", multipartBody("Content-Type: text/plain; charset=UTF-8\r\n" + field("a", "\xe9")), "parameter_value_invalid"},
		{"folded header", multipartBody("Content-Disposition: form-data;\r\n name=\"a\"\r\n\r\nb"), malformed},
		{"space before the colon", multipartBody("Content-Disposition : form-data; name=\"a\"\r\n\r\nb"), malformed},
		{"bare line feeds", strings.ReplaceAll(good, "\r\n", "\n"), malformed},
		{"line feed in a header", multipartBody("X: y\n\nz\r\n" + field("a", "b")), malformed},
		{"preamble", "hello\r\n" + good, malformed},
		{"epilogue", good + "hello", malformed},
		{"second body behind the end", good + good, malformed},
		{"truncated at the end", strings.TrimSuffix(good, "--\r\n"), malformed},
		{"truncated in a value", good[:len(good)-len(boundary)-10], malformed},
		{"truncated in a header", good[:60], malformed},
		{"other boundary", strings.ReplaceAll(good, boundary, "x"), malformed},
		{"longer boundary", strings.ReplaceAll(good, boundary, boundary+"x"), malformed},
		{"part headers of 8 KiB", multipartBody("X: " + strings.Repeat("y", maxPartHeaders) + "\r\n" + field("a", "b")), malformed},
		{"part headers of 8 KiB together", multipartBody("X: "+strings.Repeat("y", 5000)+"\r\n"+field("a", "b"), "X: "+strings.Repeat("y", 5000)+"\r\n"+field("b", "b")), malformed},
		{"empty", "", malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(mediaMultipart+"; boundary="+boundary, c.body)
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
	for _, c := range []struct{ name, boundary string }{
		{"missing", ""},
		{"empty", `; boundary=""`},
		{"1 KiB", "; boundary=" + strings.Repeat("a", 1024)},
		{"71 characters", "; boundary=" + strings.Repeat("a", 71)},
		{"trailing space", `; boundary="a "`},
		{"line end", "; boundary=\"a\r\nb\""},
		{"in pieces", "; boundary*0=a"},
	} {
		t.Run("boundary "+c.name, func(t *testing.T) {
			_, err := parse(mediaMultipart+c.boundary, good)
			if oauth.AsError(err).Code != oauth.InvalidRequest {
				t.Fatalf("got %v", err)
			}
		})
	}
	t.Run("70 characters", func(t *testing.T) {
		long := strings.Repeat("a", 70)
		if _, err := parse(mediaMultipart+"; boundary="+long, strings.ReplaceAll(good, boundary, long)); err != nil {
			t.Fatal(err)
		}
	})
}
