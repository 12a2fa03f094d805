package requests

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// bodyRow is a body that is refused with a reason. It is accepted if the reason is empty. "400" means any invalid_request.
type bodyRow struct{ name, contentType, body, reason string }

func holdBodies(t *testing.T, rows ...bodyRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) { holdBody(t, post(row.contentType, row.body), row.reason) })
	}
}

func holdBody(t *testing.T, r *http.Request, reason string) {
	t.Helper()
	f, err := ParseForm(httptest.NewRecorder(), r)
	switch {
	case reason == "" && (err != nil || f.Get("grant_type") != "client_credentials" || f.Get("client_id") != "conf"):
		t.Errorf("%v", err)
	case reason == "" || reason == "400" && oauth.AsError(err).Code == oauth.InvalidRequest:
	default:
		wantRefusal(t, err, oauth.InvalidRequest, reason)
	}
}

const urlBody = "grant_type=client_credentials&client_id=conf&client_secret=s"

// multi returns a multipart body with the usual parameters, preceded by parts.
func multi(parts ...string) string {
	return multipartBody(append(parts, field("grant_type", "client_credentials"), field("client_id", "conf"))...)
}

// object returns a JSON body with the usual members, followed by more.
func object(more string) string {
	return `{"grant_type":"client_credentials","client_id":"conf"` + more + "}"
}

// TestT25To28T37MediaTypes: JSON and multipart of simple fields → 200; a file part, another or no media type, two Content-Type headers,
// utf-16, bytes outside the declared charset → 400; Content-Encoding → 415, and nothing is decompressed.
func TestT25To28T37MediaTypes(t *testing.T) {
	const unsupported, charset, withBoundary = "content_type_unsupported", "charset_unsupported", mediaMultipart + "; boundary=" + boundary
	holdBodies(t, []bodyRow{
		{"T25 JSON", mediaJSON, object(""), ""},
		{"T25 JSON, charset", "application/json;charset=utf-8", object(""), ""},
		{"T25 JSON, other case", "Application/JSON; Charset=\"UTF-8\"", object(""), ""},
		{"T25 JSON with spaces", mediaJSON, "\r\n\t " + strings.ReplaceAll(object(""), ":", " : ") + " \n", ""},
		{"T25 JSON, escaped", mediaJSON, strings.Replace(object(""), "client_credentials", "client\\u005fcredentials", 1), ""},
		{"T26 multipart", withBoundary, multi(), ""},
		{"T26 multipart, quoted boundary", mediaMultipart + `; boundary="` + boundary + `"`, multi(), ""},
		{"T26 with a file", withBoundary, multi("Content-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx"), "multipart_part_unsupported"},
		{"T27 none", "", urlBody, "content_type_missing"},
		{"T27 text", "text/plain", urlBody, unsupported},
		{"T27 JSON:API", "application/vnd.api+json", object(""), unsupported},
		{"T27 XML", "application/xml", urlBody, unsupported},
		{"T27 a form sent as JSON", mediaJSON, urlBody, "json_malformed"},
		{"T27 JSON sent as a form", URLEncoded, object(""), "400"},
		{"T27 suffix", "application/jsonx", object(""), unsupported},
		{"T28 utf-16", URLEncoded + "; charset=utf-16", urlBody, charset},
		{"T28 list", URLEncoded + ", application/json", urlBody, "content_type_malformed"},
		{"T28 UTF-8", URLEncoded + "; charset=UTF-8", urlBody, ""},
		{"T28 us-ascii", URLEncoded + "; charset=us-ascii", urlBody, ""},
		{"T28 ISO-8859-1", URLEncoded + ";charset=ISO-8859-1", urlBody, ""},
		{"T28 ISO-8859-1, JSON", "application/json; charset=iso-8859-1", object(""), ""},
		{"T28 ISO-8859-1, multipart", mediaMultipart + "; charset=ISO-8859-1; boundary=" + boundary, multi(), ""},
		{"T28 us-ascii with others", URLEncoded + "; charset=us-ascii", urlBody + "&x=\xe9", charset},
		{"T28 ISO-8859-1 with others", URLEncoded + "; charset=ISO-8859-1", urlBody + "&x=%E9", charset},
		{"T28 ISO-8859-1 with UTF-8", URLEncoded + "; charset=ISO-8859-1", urlBody + "&x=%C3%A9", charset},
		{"T28 windows-1252", URLEncoded + "; charset=windows-1252", urlBody, charset},
		{"T28 charset twice", URLEncoded + "; charset=utf-8; charset=utf-16", urlBody, "400"},
		{"T28 unknown parameter", URLEncoded + "; boundary=XX", urlBody, charset},
		{"T28 RFC 2231", URLEncoded + "; charset*=utf-8''utf-8", urlBody, "content_type_malformed"},
	}...)
	for _, second := range []string{mediaJSON, URLEncoded} {
		r := post(URLEncoded, urlBody)
		r.Header.Add("Content-Type", second)
		holdBody(t, r, "content_type_duplicate")
	}
	for _, encoding := range []string{"identity", "gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "x"} {
		r := post(URLEncoded, urlBody)
		r.Header.Set("Content-Encoding", encoding)
		_, err := ParseForm(httptest.NewRecorder(), r)
		var refused Error
		if isRefused := errors.As(err, &refused); isRefused == (encoding == "identity") || isRefused && refused.Status != http.StatusUnsupportedMediaType {
			t.Errorf("T37 %s: %v", encoding, err)
		}
	}
}

// TestT29To33Parameters: a parameter twice, even an identical or an unknown one; `;` as separator, malformed escapes, names such as
// `scope[a]` → 400; an unknown one → ignored; an empty one → as omitted.
func TestT29To33Parameters(t *testing.T) {
	const duplicate, name, syntax = "parameter_duplicate", "parameter_name_invalid", "form_malformed"
	for body, reason := range map[string]string{
		"&code=a&code=b": duplicate, "&grant_type=password": duplicate, "&scope=public&scope=public": duplicate, "&scope=&scope=public": duplicate,
		"&client_id=other": duplicate, "&%67rant_type=password": duplicate, "&unknown=1&unknown=1": duplicate, "&client_secret=": duplicate,
		"&unknown=1&display=x&state=y": "", "&SCOPE=trusted": "", "&scope=": "", "&scope&redirect_uri": "", "&redirect_uri=": "", "&scope=+++": "",
		"&a=1;b=2": syntax, "&code=%zz": syntax, "&code=%": syntax, "&code=%4": syntax, "&%zz=1": syntax, "&=x": name, "&=": name, "&&&": "",
		"&scope[a]=b": name, "&client_id[]=x": name, "&grant_type[$ne]=": name, "&scope%5B%5D=trusted": name, "&+scope=trusted": name, "&scope%00=trusted": name,
		"&__proto__=x&constructor.prototype=y": "",
	} {
		holdBodies(t, bodyRow{body, URLEncoded, urlBody + body, reason})
	}
	holdBodies(t, []bodyRow{
		{"blanks", URLEncoded, "&&" + urlBody + "&&&", ""},
		{"JSON key", mediaJSON, object(`,"grant_type":"password"`), duplicate},
		{"JSON key, escaped", mediaJSON, object(`,"x":"1","\u0078":"2"`), duplicate},
		{"part", mediaMultipart + "; boundary=" + boundary, multi(field("scope", "a"), field("scope", "a")), duplicate},
		{"JSON name", mediaJSON, object(`,"grant_type[$ne]":""`), name},
		{"JSON empty name", mediaJSON, object(`,"":""`), name},
	}...)
	for _, body := range []string{"&&&", "grant_type=", "grant_type"} {
		if got, err := parse(URLEncoded, body); err != nil || got["grant_type"] != "" {
			t.Errorf("%q: %v, %v", body, got, err)
		}
	}
}

// TestT38ThirtyTwoParameters: 33 or 10,001 parameters, in each encoding → 400.
func TestT38ThirtyTwoParameters(t *testing.T) {
	for _, media := range encodings {
		for count, reason := range map[int]string{32: "", 33: "parameters_too_many", 600: "parameters_too_many"} {
			pairs := [][2]string{{"grant_type", "client_credentials"}, {"client_id", "conf"}}
			for i := len(pairs); i < count; i++ {
				pairs = append(pairs, [2]string{fmt.Sprintf("%x", i), ""})
			}
			contentType, body := encode(media, pairs...)
			holdBodies(t, bodyRow{fmt.Sprint(media, count), contentType, body, reason})
		}
	}
	var names strings.Builder
	for i := range 9998 {
		fmt.Fprintf(&names, "&%x=", i)
	}
	holdBodies(t, bodyRow{"10001", URLEncoded, urlBody + names.String(), "parameters_too_many"})
}

// TestT39BytesThatAreNoText: NUL, control characters, invalid UTF-8 or lone surrogates in any known parameter, in every encoding → 400,
// for client credentials 401; nothing is cut at a NUL.
func TestT39BytesThatAreNoText(t *testing.T) {
	isRefused := func(parameter, odd string) bool {
		switch parameter {
		case "grant_type":
			return true
		case "scope", "client_id", "client_secret": // ReadClientCredentials checks the latter two
			return !Storable(odd)
		}
		return !Storable(odd) && odd != "\x00" // an unknown parameter is ignored (T147)
	}
	hold := func(t *testing.T, contentType, body, parameter, odd string) {
		t.Helper()
		r := post(contentType, body)
		f, err := ParseForm(httptest.NewRecorder(), r)
		code := oauth.InvalidRequest
		if strings.HasPrefix(parameter, "client_") && err == nil {
			_, err = ReadClientCredentials(r, f)
			code = oauth.InvalidClient
		}
		if refused := isRefused(parameter, odd); refused != (err != nil) || refused && oauth.AsError(err).Code != code {
			t.Errorf("%s %s %q: %v", contentType, parameter, odd, err)
		} else if !refused && f.Get(parameter) != "x"+odd {
			t.Errorf("%s %s %q: read as %q", contentType, parameter, odd, f.Get(parameter))
		}
	}
	for _, parameter := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
		fields := func(odd string) (pairs [][2]string) {
			for _, name := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
				value := "x"
				if name == parameter {
					value += odd
				}
				pairs = append(pairs, [2]string{name, value})
			}
			return pairs
		}
		for _, odd := range []string{"\x00", "\a", "\x1b[2J", "\n", "\r\n", "\t", "\x7f", "\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3"} {
			for _, media := range encodings[:2] {
				contentType, body := encode(media, fields(odd)...)
				hold(t, contentType, body, parameter, odd)
			}
		}
		_, body := encode(mediaJSON, fields("MARK")...)
		hold(t, mediaJSON, strings.Replace(body, "MARK", `\u0000`, 1), parameter, "\x00")
		for _, odd := range []string{"\x00", "\n", "\xff", "\xc0\xaf", "\xed\xa0\x80", `\ud800`, `\udc00\ud800`, `\x41`} {
			holdBodies(t, bodyRow{fmt.Sprintf("JSON %s %q", parameter, odd), mediaJSON, strings.Replace(body, "MARK", odd, 1), "json_malformed"})
		}
	}
}

// TestT97JSONIsStrict: JSON with a number, array or object for a known member, a top-level array, trailing data, a BOM, depth 10,000 →
// 400; null → absent; anything in an unknown member → ignored.
func TestT97JSONIsStrict(t *testing.T) {
	const syntax, noString, right = "json_malformed", "json_member_no_string", `{"grant_type":"client_credentials","client_id":"conf"}`
	for body, reason := range map[string]string{
		right: "", object(`,"scope":1`): noString, object(`,"scope":true`): noString, object(`,"scope":["public"]`): noString, object(`,"scope":{"a":"b"}`): noString,
		`{"grant_type":"client_credentials","client_id":7}`: noString, `{"grant_type":["client_credentials"]}`: noString,
		object(`,"scope":null,"code":null,"x":null`): "", object(`,"scope":null,"scope":"public"`): "parameter_duplicate",
		object(`,"a":1,"b":-1.5e300,"c":true,"d":["x",{"scope":1}],"e":{"grant_type":"password"}`): "",
		object(`,"a":1,"a":1`): "parameter_duplicate", object(`,"a":{"b":1,"b":1}`): syntax,
		"[" + right + "]": syntax, `"x"`: syntax, "null": syntax, " ": syntax, object(`,"client_ſecret":""`): "parameter_name_invalid",
		right + right: syntax, right + "x": syntax, object(","): syntax, right + "\x00": syntax, "\ufeff" + right: syntax, "\xff\xfe{\x00}\x00": syntax,
		object(",\"x\":\"\xff\""): syntax, object(",\"x\xff\":\"\""): "400", right[:len(right)-1]: syntax, right[:len(right)-2]: syntax,
		object(`,"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000)): syntax,
		object("," + strings.Repeat(`"x":{`, 10000) + strings.Repeat("}", 10000)): syntax,
		"/**/" + right: syntax, strings.ReplaceAll(right, `"`, `'`): "400",
	} {
		holdBodies(t, bodyRow{fmt.Sprintf("%.60s", body), mediaJSON, body, reason})
	}
	for _, body := range []string{"{}", `{"grant_type":null}`, `{"Grant_Type":"password"}`} {
		if got, err := parse(mediaJSON, body); err != nil || got["grant_type"] != "" {
			t.Errorf("%s: %v, %v", body, got, err)
		}
	}
	_, err := parse(mediaJSON, object(`,"scope":1`))
	if text := oauth.AsError(err).Description; !strings.HasSuffix(text, " The member scope must be a string.") {
		t.Error(text)
	}
}

// TestT98MultipartIsSimple: multipart with a file name, nested parts, a missing name, another transfer encoding, a long boundary, large
// part headers, or cut off → 400, nothing is written to disk.
func TestT98MultipartIsSimple(t *testing.T) {
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	const syntax, part, disposition = "multipart_malformed", "multipart_part_unsupported", `Content-Disposition: form-data; name="x"`
	for _, row := range []struct{ headers, value, reason string }{
		{disposition + `; filename="x.txt"`, "x", part},
		{disposition + `; filename=""`, "x", part},
		{disposition + `; filename*=utf-8''x`, "x", "400"},
		{disposition + "\r\nContent-Type: multipart/mixed; boundary=YY", "--YY\r\n\r\nx\r\n--YY--", part},
		{"Content-Disposition: form-data", "x", part},
		{`Content-Disposition: form-data; name=""`, "x", "parameter_name_invalid"},
		{"X: y", "x", syntax},
		{disposition + "\r\n" + disposition, "x", syntax},
		{`Content-Disposition: attachment; name="x"`, "x", part},
		{disposition + "\r\nContent-Transfer-Encoding: base64", "eA==", part},
		{disposition + "\r\nContent-Transfer-Encoding: quoted-printable", "=78", part},
		{disposition + "\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64", "eA==", part},
		{disposition + "\r\nContent-Transfer-Encoding: 7bit", "é", "charset_unsupported"},
		{disposition + "\r\nContent-Type: text/plain; charset=ISO-8859-1", "\xe9", "charset_unsupported"},
		{disposition + "\r\nContent-Transfer-Encoding: 7bit", "x", ""},
		{disposition + "\r\nContent-Transfer-Encoding: 8bit\r\nContent-Type: text/plain; charset=UTF-8", "é", ""},
		{disposition + "\r\nContent-Transfer-Encoding: binary", "x", ""},
		{disposition + "\r\nContent-Type: text/plain; charset=utf-16", "x", part},
		{disposition + "\r\nContent-Type: application/json", "{}", part},
		{"Content-Disposition: form-data;\r\n name=\"x\"", "x", syntax},
		{disposition + "\r\nX: " + strings.Repeat("x", 8<<10), "x", syntax},
		{disposition + strings.Repeat("\r\nX: y", 2000), "x", syntax},
		{disposition + "\r\nContent-Type: text/plain; charset=UTF-8", "x", ""},
	} {
		holdBodies(t, bodyRow{fmt.Sprintf("%.80s", row.headers), mediaMultipart + "; boundary=" + boundary, multi(row.headers + "\r\n\r\n" + row.value), row.reason})
	}
	const of, end = mediaMultipart + "; boundary=", "--" + boundary + "--\r\n"
	holdBodies(t, []bodyRow{
		{"missing boundary", mediaMultipart, multi(), syntax},
		{"empty boundary", of + `""`, multi(), syntax},
		{"1 KiB boundary", of + strings.Repeat("X", 1024), multi(), syntax},
		{"other boundary", of + "YY", multi(), syntax},
		{"boundary twice", of + boundary + "; boundary=YY", multi(), "400"},
		{"multipart/mixed", "multipart/mixed; boundary=" + boundary, multi(), "content_type_unsupported"},
		{"truncated", of + boundary, multi()[:len(multi())-6], syntax},
		{"no end", of + boundary, strings.TrimSuffix(multi(), end), syntax},
		{"preamble", of + boundary, "preamble\r\n" + multi(), syntax},
		{"epilogue", of + boundary, multi() + "epilogue", syntax},
		{"bare LF", of + boundary, strings.ReplaceAll(multi(), "\r\n", "\n"), syntax},
		{"as it should be", of + boundary, multi(), ""},
	}...)
	if got, err := parse(of+boundary, end); err != nil || len(got) > 0 {
		t.Errorf("empty: %v, %v", got, err)
	}
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) > 0 {
		t.Errorf("on disk: %v %v", entries, err)
	}
}
