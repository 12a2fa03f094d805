package requests

import (
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// authRow is a request with Authorization headers and body parameters. want is id:secret of each reading, the id of a public client, or "-"
// and the reason of the refusal.
type authRow struct {
	name    string
	body    string
	headers []string
	want    []string
}

func holdAuthentication(t *testing.T, rows ...authRow) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := post(URLEncoded, row.body)
			r.Header["Authorization"] = row.headers
			f, err := ParseForm(httptest.NewRecorder(), r)
			if err != nil {
				t.Fatal(err)
			}
			p, err := ReadClientCredentials(r, f)
			got := readings(p.Readings)
			switch {
			case err != nil:
				got = []string{"-" + oauth.AsError(err).Reason}
			case p.PublicID != "":
				got = []string{p.PublicID}
			}
			if !slices.Equal(got, row.want) || p.UsedHeader != (len(row.headers) > 0) {
				t.Errorf("%q, used the header: %t; want %q", got, p.UsedHeader, row.want)
			}
		})
	}
}

func encoded(text string) []string {
	return []string{"Basic " + base64.StdEncoding.EncodeToString([]byte(text))}
}

// TestT01To05OneMechanism: Basic, or credentials in a form, multipart or JSON body → read; both with a secret → 400 invalid_request; Basic
// for A beside client_id=B → 401, authenticated as neither; Basic A beside client_id=A → read.
func TestT01To05OneMechanism(t *testing.T) {
	conf, one, twice, mismatch := encoded("conf:s"), []string{"conf:s"}, []string{"-client_authentication_twice"}, []string{"-client_id_mismatch"}
	holdAuthentication(t, []authRow{
		{"T1 Basic", "", conf, one},
		{"T2 body", "client_id=conf&client_secret=s", nil, one},
		{"T3 the same secret", "client_id=conf&client_secret=s", conf, twice},
		{"T3 another secret", "client_id=conf&client_secret=wrong", conf, twice},
		{"T3 another client", "client_id=other&client_secret=s", conf, twice},
		{"T3 a secret alone", "client_secret=s", conf, twice},
		{"T3 broken Basic", "client_id=conf&client_secret=s", []string{"Basic"}, twice},
		{"T4 another client_id", "client_id=other", conf, mismatch},
		{"T4 another spelling", "client_id=CONF", conf, mismatch},
		{"T5 the same client_id", "client_id=conf", conf, one},
		{"T5 an empty secret is absent", "client_id=conf&client_secret=", conf, one},
		{"nothing", "", nil, nil},
	}...)
}

// TestT08BasicInEitherHabit: id and secret with `: % + &` or letters beyond ASCII in Basic → read form-encoded, as RFC 6749 has it, and raw,
// as half of all clients write it.
func TestT08BasicInEitherHabit(t *testing.T) {
	const id, secret = "co:lon %+&é id", "se:cret %+&é 50% ="
	both := []string{id + ":" + secret}
	everyByte := func(text string) string { return strings.ReplaceAll(fmt.Sprintf("% X", " "+text)[2:], " ", "%") }
	rawAndPlain := func(raw string) []string { return append(slices.Clone(both), raw) }
	habit := func(name string, write func(string) string) authRow {
		raw := write(id) + ":" + write(secret)
		return authRow{name, "", encoded(raw), rawAndPlain(raw)}
	}
	holdAuthentication(t, []authRow{
		habit("form-encoded", url.QueryEscape),
		habit("form-encoded, space as %20", func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }),
		habit("form-encoded, every byte", everyByte),
		{"form-encoded, with the client_id beside it", "client_id=" + url.QueryEscape(id), encoded(url.QueryEscape(id) + ":" + url.QueryEscape(secret)), both},
		{"unreserved, as they are", "", encoded("plain-_.!~*'():word-_.!~*'()"), []string{"plain-_.!~*'():word-_.!~*'()"}},
		{"raw, split at the first colon, malformed %", "", encoded("raw +&é id:raw:secret %+&é 50%zz"), []string{"raw +&é id:raw:secret %+&é 50%zz"}},
		{"both readings", "", encoded("conf:a%2Bb"), []string{"conf:a+b", "conf:a%2Bb"}},
		{"malformed %", "", encoded("conf:%zz"), []string{"conf:%zz"}},
	}...)
}

// TestT09T10T11T14TheShapeOfBasic: Basic without a colon or an id, without base64, with two spaces, a tab, the URL-safe alphabet, a
// non-canonical tail, NUL or invalid UTF-8 → 401; the scheme in any case → read.
func TestT09T10T11T14TheShapeOfBasic(t *testing.T) {
	right := encoded("conf:s")[0][len("Basic "):]
	malformed := []string{"-basic_malformed"}
	for name, header := range map[string]string{
		"no colon": encoded("conf")[0], "no id": encoded(":s")[0], "neither": encoded(":")[0], "not base64": "Basic conf:s", "alone": "Basic", "two spaces": "Basic  " + right,
		"tab": "Basic\t" + right, "space within": "Basic " + right[:4] + " " + right[4:], "parameters behind": "Basic " + right + ", realm=x",
		"url-safe alphabet": "Basic " + base64.URLEncoding.EncodeToString([]byte("conf:\xff\xfe\xfd~~~?>>")), "non-canonical tail": "Basic YTpjZh==",
		"no padding": "Basic " + base64.RawStdEncoding.EncodeToString([]byte("a:cf")), "padding twice": "Basic " + right + "====",
		"T14 NUL": encoded("conf\x00:s")[0], "T14 bytes": encoded("\xc0\xaf:\xff")[0],
	} {
		holdAuthentication(t, authRow{name, "", []string{header}, malformed})
	}
	holdAuthentication(t, []authRow{
		{"T10 basic", "", []string{"basic " + right}, []string{"conf:s"}},
		{"T10 BASIC", "", []string{"BASIC " + right}, []string{"conf:s"}},
		{"T11 no secret", "", encoded("conf:"), []string{"conf:"}},
		{"T11 a secret that decodes to nothing", "", encoded("%00:%00"), []string{"%00:%00"}},
		{"T11 no id in the body", "client_secret=s", nil, []string{"-client_id_missing"}},
		{"T12 client_id only", "client_id=conf", nil, []string{"conf"}},
		{"T12 empty secret", "client_id=conf&client_secret=", nil, []string{"conf"}},
		{"T14 %00", "", encoded("conf%00:s"), []string{"conf%00:s"}},
		{"T14 %ff", "", encoded("conf:%ff%fe"), []string{"conf:%ff%fe"}},
	}...)
}

// TestT19T20OneAuthorizationHeader: two Authorization headers → 400; another scheme or an empty header beside body credentials → ignored.
func TestT19T20OneAuthorizationHeader(t *testing.T) {
	const body = "client_id=conf&client_secret=s"
	conf, duplicate := encoded("conf:s")[0], []string{"-authorization_header_duplicate"}
	for _, headers := range [][]string{{conf, conf}, {conf, encoded("conf:x")[0]}, {conf, "Bearer x"}, {"Bearer x", ""}} {
		holdAuthentication(t, authRow{strings.Join(headers, " and "), body, headers, duplicate})
	}
	for _, header := range []string{"Bearer x", "Token x", "", "Digest username=conf", "Basically x"} {
		holdAuthentication(t, authRow{header, body, []string{header}, []string{"conf:s"}}, authRow{header + " alone", "", []string{header}, nil})
	}
}
