package endpoint

import (
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

func TestT25JSONObjectOfStrings(t *testing.T) {
	for _, contentType := range []string{
		"application/json", "application/json;charset=utf-8", "application/json; charset=\"UTF-8\"", "Application/JSON",
	} {
		got, err := parse(contentType, " {\"grant_type\" : \"client_credentials\"}\r\n")
		if err != nil || got["grant_type"] != "client_credentials" {
			t.Errorf("%s: got %v, %v", contentType, got, err)
		}
	}
}

func TestT97JSONIsOneObjectOfStrings(t *testing.T) {
	const noString, malformed = "json_member_no_string", "json_malformed"
	for _, c := range []struct{ name, body, reason string }{
		{"number", `{"scope":1}`, noString},
		{"negative number", `{"scope":-1}`, noString},
		{"bool", `{"scope":true}`, noString},
		{"array", `{"scope":["b"]}`, noString},
		{"object", `{"scope":{"b":"c"}}`, noString},
		{"array behind unknown members", `{"a":[1],"b":null,"scope":[]}`, noString},
		{"top-level array", `["a"]`, malformed},
		{"top-level string", `"a"`, malformed},
		{"top-level null", `null`, malformed},
		{"empty", ``, malformed},
		{"trailing object", `{"a":"b"}{}`, malformed},
		{"trailing text", `{"a":"b"} x`, malformed},
		{"trailing NUL", "{\"a\":\"b\"}\x00", malformed},
		{"trailing comma", `{"a":"b",}`, malformed},
		{"leading comma", `{,"a":"b"}`, malformed},
		{"no colon", `{"a" "b"}`, malformed},
		{"name is no string", `{1:"b"}`, malformed},
		{"truncated", `{"a":"b"`, malformed},
		{"truncated in a name", `{"a`, malformed},
		{"truncated in a value", `{"a":"b`, malformed},
		{"truncated after a colon", `{"a":`, malformed},
		{"comment", `{"a":"b"/**/}`, malformed},
		{"single quotes", `{'a':'b'}`, malformed},
		{"BOM", "\xef\xbb\xbf{\"a\":\"b\"}", malformed},
		{"UTF-16", "{\x00\"\x00a\x00\"\x00", malformed},
		{"invalid UTF-8", "{\"a\":\"\xff\"}", malformed},
		{"bad escape", `{"a":"\x41"}`, malformed},
		{"deep array", `{"a":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`, malformed},
		{"deep object", strings.Repeat(`{"a":`, 10001) + `"b"` + strings.Repeat("}", 10001), malformed},
		{"truncated in an unknown member", `{"a":[1,`, malformed},
		{"duplicate name in an unknown member", `{"a":{"b":1,"b":1}}`, malformed},
		{"invalid UTF-8 in an unknown member", "{\"a\":[\"\xff\"]}", malformed},
		{"an unknown member twice", `{"a":1,"a":2}`, "parameter_duplicate"},
		{"null and a string", `{"scope":null,"scope":"a"}`, "parameter_duplicate"},
		{"an unknown member of a bad name", `{"a[]":1}`, "parameter_name_invalid"},
		{"deep top-level array", strings.Repeat("[", 10000), malformed},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse(mediaJSON, c.body)
			wantRefusal(t, err, oauth.InvalidRequest, c.reason)
		})
	}
	t.Run("null is absent, and unknown members may be anything", func(t *testing.T) {
		got, err := parse(mediaJSON, `{"scope":null,"a":1,"b":true,"c":[{"scope":"x"},null],"d":{"scope":["x"]},"e":null,"code":"f"}`)
		if err != nil || got["code"] != "f" || len(got) != 7 {
			t.Fatalf("got %v, %v", got, err)
		}
		if delete(got, "code"); strings.Join(slices.Collect(maps.Values(got)), "") != "" {
			t.Errorf("got %v", got)
		}
	})
	t.Run("each member that is a string is named", func(t *testing.T) {
		for _, name := range textMembers {
			_, err := parse(mediaJSON, `{"`+name+`":1}`)
			wantRefusal(t, err, oauth.InvalidRequest, noString)
			if text := oauth.AsError(err).Description; !strings.HasSuffix(text, " The member "+name+" must be a string.") {
				t.Error(text)
			}
		}
	})
	t.Run("names keep their case", func(t *testing.T) {
		f, err := parseForm(httptest.NewRecorder(), post(mediaJSON, `{"Grant_Type":"password"}`))
		if err != nil || f.get("grant_type") != "" || f.get("Grant_Type") != "password" {
			t.Fatalf("got %v, %v", f.parameters, err)
		}
	})
	t.Run("no quotation of the body", func(t *testing.T) {
		_, err := parse(mediaJSON, `{"hunter2":"a","hunter2":"b"}`)
		if strings.Contains(err.Error(), "hunter2") {
			t.Error(err)
		}
	})
}

// TestS7StrictJSON pins what the JSON library must refuse by default, as all our JSON is read with it.
func TestS7StrictJSON(t *testing.T) {
	type header struct {
		Alg string `json:"alg"`
	}
	for _, c := range []struct{ name, text string }{
		{"duplicate name", `{"alg":"a","alg":"a"}`},
		{"duplicate unknown name", `{"x":1,"x":1}`},
		{"duplicate escaped name", `{"alg":"a","\u0061lg":"b"}`},
		{"duplicate name in an unknown member", `{"x":{"y":1,"y":2}}`},
		{"invalid UTF-8", "{\"alg\":\"\xff\"}"},
		{"invalid UTF-8 in an unknown member", "{\"x\":\"\xff\"}"},
		{"lone high surrogate", `{"alg":"\ud800"}`},
		{"lone low surrogate", `{"alg":"\udc00"}`},
		{"lone surrogate in a name", `{"\ud800":"a"}`},
		{"trailing data", `{"alg":"a"}{}`},
		{"trailing text", `{"alg":"a"}x`},
		{"BOM", "\xef\xbb\xbf{\"alg\":\"a\"}"},
		{"wrong kind", `{"alg":1}`},
		{"deeper than 10 000", `{"x":` + strings.Repeat("[", 10000) + strings.Repeat("]", 10000) + `}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			var h header
			if err := json.Unmarshal([]byte(c.text), &h); err == nil {
				t.Errorf("accepted as %+v", h)
			}
		})
	}
	t.Run("names keep their case", func(t *testing.T) {
		var h struct {
			Alg string `json:"alg"`
			Sub string `json:"sub"`
		}
		if err := json.Unmarshal([]byte(`{"ALG":"a","Alg":"b","ſub":"c"}`), &h); err != nil || h.Alg+h.Sub != "" {
			t.Errorf("got %+v, %v", h, err)
		}
	})
	t.Run("surrogate pair", func(t *testing.T) {
		var h header
		if err := json.Unmarshal([]byte(`{"alg":"\ud83d\ude00"}`), &h); err != nil || h.Alg != "😀" {
			t.Errorf("got %+v, %v", h, err)
		}
	})
}
