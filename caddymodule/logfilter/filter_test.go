package logfilter

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// signedText is a compact JWS with an invalid signature.
const signedText = "eyJhbGciOiJFUzI1NiJ9.eyJzdWIiOiJ1LTEifQ.c2lnbmF0dXJl"

// personalText is a personal access token that was never issued.
const personalText = "gh_pat_5WFI0ZOHouggOMWVdBMHwURwcPslDY0AYymH"

// TestRedactedTexts: a personal access token (Q194) in a header, path or parameter that the log filter sees, cut or escaped → REDACTED.
func TestRedactedTexts(t *testing.T) {
	for name, test := range map[string]struct{ field, text, want string }{
		"no query":                 {"uri", "/orders/1", "/orders/1"},
		"harmless":                 {"uri", "/orders?page=2&sort=-date&state=xyz", "/orders?page=2&sort=-date&state=xyz"},
		"a code":                   {"uri", "/cb?code=s3cret&state=xyz", "/cb?code=REDACTED&state=xyz"},
		"in another place":         {"uri", "/cb?state=xyz&code=s3cret", "/cb?state=xyz&code=REDACTED"},
		"no value":                 {"uri", "/cb?code=&state=xyz", "/cb?code=REDACTED&state=xyz"},
		"names that only resemble": {"uri", "/x?error_code=1&code_challenge=abc&codec=2", "/x?error_code=1&code_challenge=abc&codec=2"},
		"in capitals":              {"uri", "/cb?CODE=s3cret", "/cb?CODE=REDACTED"},
		"in one word":              {"uri", "/cb?accessToken=s3cret&client-secret=s3cret", "/cb?accessToken=REDACTED&client-secret=REDACTED"},
		"an escaped name":          {"uri", "/cb?%63ode=s3cret&c%6Fd%65=s3cret", "/cb?%63ode=REDACTED&c%6Fd%65=REDACTED"},
		"escaped twice":            {"uri", "/cb?%2563ode=s3cret", "/cb?%2563ode=REDACTED"},
		"an array":                 {"uri", "/cb?code[]=s3cret&code%5B0%5D=s3cret", "/cb?code[]=REDACTED&code%5B0%5D=REDACTED"},
		"semicolons":               {"uri", "/cb?a=1;code=s3cret;b=2", "/cb?a=1;code=REDACTED"},
		"a value with a hash":      {"uri", "/cb?code=s3#cret", "/cb?code=REDACTED"},
		"a path parameter":         {"uri", "/cb;access_token=s3cret/x", "/cb;access_token=REDACTED"},
		"a malformed value":        {"uri", "/cb?code=%zzs3cret&x=1", "/cb?code=REDACTED&x=1"},
		"a malformed name":         {"uri", "/cb?co%zzde=s3cret", "/cb?co%zzde=REDACTED"},
		"a malformed path":         {"uri", "/%zz/cb?code=s3cret", "/%zz/cb?code=REDACTED"},
		"our own pages":            {"uri", "/oauth/login?pending=s3cret", "/oauth/login?pending=REDACTED"},
		"a nested address":         {"uri", "/go?to=https%3A%2F%2Fx.example%2Fcb%3Fcode%3Ds3cret&n=1", "/go?to=REDACTED&n=1"},
		"a harmless one":           {"uri", "/go?to=https%3A%2F%2Fx.example%2Fcb%3Fpage%3D2", "/go?to=https%3A%2F%2Fx.example%2Fcb%3Fpage%3D2"},
		"hidden before another":    {"Location", "https://x.example/?to=%3Fcode%3Ds3cret#access_token=s3cret", "https://x.example/?to=REDACTED"},
		"hidden in a name":         {"uri", "/?code%3Ds3cret%zz=1", "REDACTED"},
		"an escaped ampersand":     {"uri", "/cb?a=1%26code%3Ds3cret", "/cb?a=REDACTED"},
		"escaped in the path":      {"uri", "/cb%3Fcode%3Ds3cret", "REDACTED"},
		"escaped without end":      {"uri", "/cb?a=%" + strings.Repeat("25", 9) + "3D", "/cb?a=REDACTED"},
		"absolute":                 {"Location", "https://x.example/cb?code=s3cret&state=xyz", "https://x.example/cb?code=REDACTED&state=xyz"},
		"a fragment":               {"Location", "https://x.example/cb#access_token=s3cret&token_type=Bearer", "https://x.example/cb#access_token=REDACTED&token_type=Bearer"},
		"relative":                 {"Location", "cb?code=s3cret", "cb?code=REDACTED"},
		"only a query":             {"Referer", "code=s3cret&state=xyz", "code=REDACTED&state=xyz"},
		"a password of a URL":      {"Referer", "https://ada:s3cret@x.example/", "https://REDACTED@x.example/"},
		"an at in a path":          {"Referer", "https://x.example/@ada", "https://x.example/@ada"},
		"a JWS":                    {"X-Assertion", signedText, "REDACTED"},
		"a JWS in words":           {"error", "bad " + signedText + ": no key", "bad REDACTED: no key"},
		"a JWS in the path":        {"uri", "/reset/" + signedText + "/x", "/reset/REDACTED/x"},
		"a JWS under any name":     {"uri", "/x?z=" + signedText + "&y=1", "/x?z=REDACTED&y=1"},
		"a JWS with escaped dots":  {"uri", "/x?z=" + strings.ReplaceAll(signedText, ".", "%2E"), "/x?z=REDACTED"},
		"a JWS that is escaped":    {"uri", "/x?z=%65%79%4A" + signedText[3:], "/x?z=REDACTED"},
		"a JWE":                    {"uri", "/x?z=eyJhbGciOiJkaXIifQ..aXY.dGV4dA.dGFn", "/x?z=REDACTED"},
		"half a JWS":               {"uri", "/x?z=eyJhbGciOiJFUzI1NiJ9.eyJzdW", "/x?z=REDACTED"},
		"Q194 in a header":         {"X-Api-Key", personalText, "REDACTED"},
		"Q194 in words":            {"error", "no such key: " + personalText + ".", "no such key: REDACTED."},
		"Q194 in the path":         {"uri", "/keys/" + personalText + "/x", "/keys/REDACTED/x"},
		"Q194 under any name":      {"uri", "/x?z=" + personalText + "&y=1", "/x?z=REDACTED&y=1"},
		"Q194 cut off":             {"uri", "/x?z=" + personalText[:20], "/x?z=REDACTED"},
		"Q194 escaped":             {"uri", "/x?z=gh%5Fpat%5F" + personalText[7:], "/x?z=REDACTED"},
		"Q194 escaped within":      {"uri", "/x?z=gh_pat_5%57" + personalText[9:] + "&y=1", "/x?z=REDACTED&y=1"},
		"Q194 two":                 {"X-Any", personalText + ", " + personalText, "REDACTED, REDACTED"},
		"Q194 something alike":     {"uri", "/gh_patterns/gh-pat-1", "/gh_patterns/gh-pat-1"},
		"bearer":                   {"Authorization", "Bearer s3cret", "Bearer REDACTED"},
		"basic":                    {"Authorization", "Basic s3cret==", "Basic REDACTED"},
		"two in one":               {"Authorization", "Bearer s3cret, Basic s3cret", "Bearer REDACTED"},
		"no scheme":                {"Authorization", "s3cret", "REDACTED"},
		"another scheme":           {"Authorization", "AWS4-HMAC-SHA256 Credential=s3cret", "REDACTED"},
		"of a proxy":               {"Proxy-Authorization", "basic s3cret", "basic REDACTED"},
		"moved":                    {"X-Forwarded-Authorization", "Bearer s3cret", "Bearer REDACTED"},
		"under another name":       {"X-Original", "Bearer s3cret", "Bearer REDACTED"},
		"quoted":                   {"error", "cannot send Authorization: Bearer s3cret to x", "cannot send Authorization: REDACTED"},
		"a challenge":              {"Www-Authenticate", `Bearer realm="https://x.example", error="invalid_token"`, `Bearer realm="https://x.example", error="invalid_token"`},
		"a header of a token":      {"X-Auth-Token", "s3cret", "REDACTED"},
		"cookies":                  {"Cookie", "accessToken=s3cret; theme=s3cret", "accessToken=REDACTED; theme=REDACTED"},
		"a cookie without a name":  {"Cookie", "s3cret; a=1", "REDACTED; a=REDACTED"},
		"nested by a framework":    {"uri", "/cb?session[access_token]=s3cret&user.token=s3cret", "/cb?session[access_token]=REDACTED&user.token=REDACTED"},
		"of an application":        {"uri", "/x?auth_token=s3cret&api_secret=s3cret&new_password=s3cret", "/x?auth_token=REDACTED&api_secret=REDACTED&new_password=REDACTED"},
		"a zero byte in a name":    {"uri", "/cb?refresh_token%00=s3cret", "/cb?refresh_token%00=REDACTED"},
		"the kind of a token":      {"uri", "/x?token_type=Bearer&grant_type=password", "/x?token_type=Bearer&grant_type=password"},
		"JSON":                     {"error", `bad answer {"x":1,"refresh_token" : "s3cret"}`, `bad answer {"x":1,"refresh_token" : REDACTED`},
		"JSON in JSON":             {"error", `bad answer {\"access_token\":\"s3cret\"}`, `bad answer {\"access_token\": REDACTED`},
		"JSON in a query":          {"uri", "/x?a=%7B%22access_token%22%3A%22s3cret%22%7D&b=1", "/x?a=REDACTED&b=1"},
		"a code in JSON":           {"error", `{"error_code":"e1","code":"s3cret"}`, `{"error_code":"e1","code": REDACTED`},
		"bearer in words":          {"error", `bad token "Bearer s3cret0123456789==" of x`, `bad token "Bearer REDACTED" of x`},
		"words about bearer":       {"error", "no bearer authentication, or malformed", "no bearer authentication, or malformed"},
		"a cookie that is set":     {"Set-Cookie", "__Host-session=s3cret; Path=/; HttpOnly", "__Host-session=REDACTED; Path=/; HttpOnly"},
	} {
		if got := redactField(test.field, test.text); got != test.want {
			t.Errorf("%s: %s: %q\n got %q\nwant %q", name, test.field, test.text, got, test.want)
		}
	}
}

// loggedAs returns a field as it appears in a filtered log.
func loggedAs(t *testing.T, field zapcore.Field) string {
	t.Helper()
	encoder := zapcore.NewJSONEncoder(zapcore.EncoderConfig{})
	line, err := encoder.EncodeEntry(zapcore.Entry{}, []zapcore.Field{Filter{}.Filter(field)})
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line.String())
}

// person is a value that logs encode as JSON.
type person struct{ Token string }

// MarshalLogObject writes the token under another name.
func (p person) MarshalLogObject(enc zapcore.ObjectEncoder) error {
	enc.AddString("note", "?token="+p.Token)
	enc.AddInt("age", 30)
	return enc.AddReflected("self", map[string]string{"token": p.Token})
}

func TestFieldsOfEveryKind(t *testing.T) {
	header := http.Header{
		"Authorization": {"Bearer s3cret"}, "Referer": {"https://x.example/?code=s3cret"}, "Accept": {"text/html"}, "Cookie": {"a=s3cret", "b=s3cret; c=s3cret"},
	}
	for name, test := range map[string]struct {
		field zapcore.Field
		want  string
	}{
		"text":          {zap.String("uri", "/?code=s3cret"), `{"uri":"/?code=REDACTED"}`},
		"texts":         {zap.Strings("Location", []string{"/?code=s3cret", "/x"}), `{"Location":["/?code=REDACTED","/x"]}`},
		"bytes":         {zap.ByteString("uri", []byte("/?code=s3cret")), `{"uri":"/?code=REDACTED"}`},
		"lines of text": {zap.ByteStrings("uri", [][]byte{[]byte("/?code=s3cret")}), `{"uri":["/?code=REDACTED"]}`},
		"binary":        {zap.Binary("uri", []byte("/?code=s3cret")), `{"uri":"Lz9jb2RlPVJFREFDVEVE"}`},
		"error":         {zap.Error(errors.New("get /?code=s3cret")), `{"error":"get /?code=REDACTED"}`},
		"stringer":      {zap.Stringer("to", &url.URL{Path: "/", RawQuery: "code=s3cret"}), `{"to":"/?code=REDACTED"}`},
		"number":        {zap.Int("status", 200), `{"status":200}`},
		"truth":         {zap.Bool("ok", true), `{"ok":true}`},
		"nothing":       {zap.Reflect("none", nil), `{"none":null}`},
		"reflected":     {zap.Reflect("map", map[string]string{"token": "s3cret"}), `{"map":"REDACTED"}`},
		"object":        {zap.Object("who", person{"s3cret"}), `{"who":{"note":"?token=REDACTED","age":30,"self":"REDACTED"}}`},
		"objects":       {zap.Objects("who", []person{{"s3cret"}}), `{"who":[{"note":"?token=REDACTED","age":30,"self":"REDACTED"}]}`},
		"header": {
			zap.Object("headers", caddyhttp.LoggableHTTPHeader{Header: header, ShouldLogCredentials: true}),
			`{"headers":{"Accept":["text/html"],"Authorization":["Bearer REDACTED"],"Cookie":["a=REDACTED","b=REDACTED; c=REDACTED"],"Referer":["https://x.example/?code=REDACTED"]}}`,
		},
	} {
		var got, want any
		line := loggedAs(t, test.field)
		if err := errors.Join(json.Unmarshal([]byte(line), &got), json.Unmarshal([]byte(test.want), &want)); err != nil {
			t.Fatal(err)
		}
		again, _ := json.Marshal(got)
		wanted, _ := json.Marshal(want)
		if string(again) != string(wanted) {
			t.Errorf("%s: %s\nwant %s", name, line, test.want)
		}
	}
}

// FuzzRedaction: whatever surrounds a credential, and however often all of it is escaped, the credential does not
// survive. Redacting a redacted text does not change it.
func FuzzRedaction(f *testing.F) {
	for _, seed := range []string{"/cb?x=1&", "https://x.example/#", "a%zz;", "%26", "&", "", "=", "?a=%3F", "\x00", "{\"", "eyJ.", "://@", "%2525", "authorization:"} {
		f.Add(seed, "&state=xyz", uint8(0), uint8(0))
		f.Add(seed, "%", uint8(3), uint8(1))
		f.Add(seed, "@x", uint8(7), uint8(2))
	}
	names := []string{"code", "access_token", "refresh_token", "id_token", "client_secret", "password", "pending", "form_token", "Client-Assertion"}
	const secret = "s3cretzzq"
	f.Fuzz(func(t *testing.T, before, after string, name, escaped uint8) {
		if strings.Contains(before+after, secret) {
			return
		}
		inner := url.QueryEscape("?" + names[int(name)%len(names)] + "=" + secret)
		text := before + inner + "&" + names[int(name)%len(names)] + "=" + secret + after
		for range escaped % 9 {
			text = url.QueryEscape(text)
		}
		for field, value := range map[string]string{
			"uri": text, "Location": text, "Cookie": "a=" + strings.NewReplacer(";", "").Replace(text), "Authorization": "Bearer " + text, "X-Any": before + signedText + after,
		} {
			got := redactField(field, value)
			if decoded := everyReading(got); strings.Contains(decoded, secret) || strings.Contains(decoded, "c2lnbmF0dXJl") {
				t.Errorf("%s: %q became %q", field, value, got)
			}
			if again := redactField(field, got); again != got {
				t.Errorf("%s: %q became %q and then %q", field, value, got, again)
			}
		}
	})
}

// everyReading returns a text together with the results of decoding it repeatedly.
func everyReading(text string) string {
	all := text
	for range 12 {
		decoded := unescape(text)
		if decoded == text {
			break
		}
		text = decoded
		all += "\n" + text
	}
	return all
}
