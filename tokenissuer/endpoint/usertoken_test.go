package endpoint

import (
	stdjson "encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// mint returns a request for a token for a member, as net/http would hand it over.
func mint(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	r.URL = u
	return r
}

func TestM16NearbyPathsAreOurs(t *testing.T) {
	for _, c := range []struct {
		name, prefix, path string
		want               bool
	}{
		{"exact", "", "/api/v1/organisations/me/users/1/access_tokens", true},
		{"another organisation", "", "/api/v1/organisations/7/users/1/access_tokens", true},
		{"more behind it", "", "/api/v1/organisations/me/users/1/access_tokens/2", true},
		{"letters in another case", "", "/API/v1/organisations/me/Users/1/ACCESS_tokens", true},
		{"encoded letters", "", "/%61pi/v1/organisations/me/%75sers/1/access%5Ftokens", true},
		{"encoded slashes", "", "/api%2fv1%2Forganisations%2fme%2fusers%2f1%2faccess_tokens", true},
		{"backslashes", "", `/api\v1\organisations%5Cme\users\1\access_tokens`, true},
		{"empty segments", "", "//api//v1//organisations//me//users//1//access_tokens", true},
		{"dot segments", "", "/x/../api/./v1/organisations/y/%2e%2e/me/users/1/access_tokens", true},
		{"dot segments that leave", "", "/api/v1/organisations/me/users/1%2f..%2f..%2f../access_tokens", true},
		{"parameters", "", "/api;a/v1;b=c/organisations;/me/users;d/1;e/access_tokens;f", true},
		{"dots with parameters", "", "/x/..;/api/v1/organisations/me/users/1/access_tokens", true},
		{"issuer with a path", "/auth", "/auth/api/v1/organisations/me/users/1/access_tokens", true},
		{"issuer with a path, case", "/Auth", "/aUTH/api/v1/organisations/me/users/1/access_tokens", true},
		{"issuer with an encoded path", "/a%20b", "/a%20b//api/v1/organisations/me/users/1/access_tokens", true},
		{"without the issuer's path", "/auth", "/api/v1/organisations/me/users/1/access_tokens", false},
		{"below another path", "", "/x/api/v1/organisations/me/users/1/access_tokens", false},
		{"another version", "", "/api/v2/organisations/me/users/1/access_tokens", false},
		{"the user", "", "/api/v1/organisations/me/users/1", false},
		{"the users", "", "/api/v1/organisations/me/users", false},
		{"no user", "", "/api/v1/organisations/me/access_tokens", false},
		{"another thing of the user", "", "/api/v1/organisations/me/users/1/devices", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := url.ParseRequestURI(c.path)
			if err != nil {
				t.Fatal(err)
			}
			if got := (&Handler{prefix: c.prefix}).isAdminOperation(u); got != c.want {
				t.Errorf("got %t", got)
			}
		})
	}
}

func TestM16OneUserAPath(t *testing.T) {
	h := &Handler{prefix: "/auth"}
	id := func(segment, inBody string) (string, error) {
		return h.targetOf(httptest.NewRecorder(), mint("/auth"+adminUsers+segment+adminSuffix, `{"data":{"id":`+quoted(t, inBody)+`,"type":"users"}}`))
	}
	for segment, want := range map[string]string{
		"u-1": "u-1", "1;2": "1;2", "+1": "+1", "a%20b": "a b", "a@b": "a@b", "a%40b": "a@b", "%C3%A9": "é", "%c3%a9": "é", "a%2Fb": "a/b", "%25": "%", "~_.-": "~_.-",
	} {
		if got, err := id(segment, want); err != nil || got != want {
			t.Errorf("%s: %q, %v", segment, got, err)
		}
	}
	for segment, inBody := range map[string]string{
		"%31": "1", "%2d": "-", "%2E": ".", "%5f": "_", "%7e": "~", "%41": "A", "%5A": "Z", "%61": "a", "%7a": "z", "%39": "9", "x%31": "x1", "%ff": "\ufffd", "1/2": "1/2", "": "x", "1/": "1", "/1": "1",
	} {
		if got, err := id(segment, inBody); err == nil || oauth.AsError(err).Code != oauth.UserNotFound {
			t.Errorf("%s: %q, %v", segment, got, err)
		}
	}
	if _, err := id("1%00", "1"); oauth.AsError(err).Reason != "path_unknown" {
		t.Error(err)
	}
}

func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := stdjson.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestM37PointersOfTheDocument: every fault of the body has its status, its code and the place of a value that exists.
func TestM37PointersOfTheDocument(t *testing.T) {
	for _, c := range []struct {
		body          string
		status        int
		code, pointer string
	}{
		{`{`, 400, "invalid_json", "-"},
		{``, 400, "invalid_json", "-"},
		{`[]`, 400, "invalid_json", "-"},
		{`{"data":1,"data":1}`, 400, "invalid_json", "-"},
		{`{"Data":1}`, 400, "invalid_json", "-"},
		{`{}`, 400, "missing_member", ""},
		{`{"data":[]}`, 400, "invalid_member", "/data"},
		{`{"data":{}}`, 400, "missing_member", "/data"},
		{`{"data":{"type":"users"}}`, 400, "missing_member", "/data"},
		{`{"data":{"id":"1"}}`, 400, "missing_member", "/data"},
		{`{"data":{"id":"","type":"users"}}`, 400, "invalid_member", "/data/id"},
		{`{"data":{"id":"1","type":true}}`, 400, "invalid_member", "/data/type"},
		{`{"data":{"id":"1","type":"user"}}`, 409, "type_conflict", "/data/type"},
		{`{"data":{"id":"2","type":"users"}}`, 409, "id_conflict", "/data/id"},
	} {
		t.Run(c.body, func(t *testing.T) {
			id, err := new(Handler).targetOf(httptest.NewRecorder(), mint(adminUsers+"1"+adminSuffix, c.body))
			if err == nil {
				t.Fatalf("accepted %q", id)
			}
			wantStatus(t, err, c.status)
			pointer := "-"
			if pointed, ok := errors.AsType[pointedError](err); ok {
				pointer = pointed.pointer
			}
			if e := oauth.AsError(err); string(e.Code) != c.code || pointer != c.pointer {
				t.Errorf("%s at %q", e.Code, pointer)
			}
		})
	}
}

// FuzzJSONAPIBody holds: what is accepted, Go's own parser reads as the same type and id, also where it takes names in
// any case, and the path names that id and nothing else.
func FuzzJSONAPIBody(f *testing.F) {
	for _, body := range []string{
		`{"data":{"id":"1","type":"users"}}`, ` {"data" : {"type":"users", "id":"\u0031"}} `, `{"data":{"id":"1","id":"2","type":"users"}}`,
		`{"data":{"id":"1","ID":"2","type":"users"}}`, `{"data":{"id":"1","type":"users"},"DATA":null}`, `{"data":{"id":"1","type":"uſers"}}`,
		`{"data":{"id":"1","type":"users","attributeſ":{}},"jsonapi":{"version":"1.1"}}`, `{"data":null}`, `{"data":[]}`, `{"data":{"id":1,"type":"users"}}`,
		`{"data":{"id":"1","type":"users"}}{}`, "\xef\xbb\xbf{}", "{\"data\":{\"id\":\"\xff\",\"type\":\"users\"}}", `{"data":{"id":"\ud800","type":"users"}}`,
		`{"data":{"id":"1","type":"users"},"x":` + strings.Repeat("[", 40) + strings.Repeat("]", 40) + `}`, `{"data":{"id":"a/b","type":"users"}}`,
		`{"data":{"\u0069d":"1","type":"users","x":1e999}}`, `{"data":{"id":"1","type":"users","":{"":1}}}`,
	} {
		for _, segment := range []string{"1", "%31", "a%2Fb", "1;2", "１", "1%00", "1/../2"} {
			f.Add(body, segment)
		}
	}
	f.Fuzz(func(t *testing.T, body, segment string) {
		r := mint(adminUsers+segment+adminSuffix, body)
		sent := r.URL.EscapedPath()
		id, err := new(Handler).targetOf(httptest.NewRecorder(), r)
		if err != nil {
			e := oauth.AsError(err)
			if status := StatusOf(err); id != "" || status < 400 || status > 499 || e.Reason == "" || e.Description == "" {
				t.Fatalf("refused with %d %v and %q", status, err, id)
			}
			return
		}
		var reference struct {
			Data struct {
				ID   *string `json:"id"`
				Type *string `json:"type"`
			} `json:"data"`
		}
		if err := stdjson.Unmarshal([]byte(body), &reference); err != nil {
			t.Fatalf("accepted what Go refuses: %v", err)
		}
		if data := reference.Data; data.ID == nil || data.Type == nil || *data.ID != id || *data.Type != "users" {
			t.Fatalf("got %q, Go reads %+v", id, data)
		}
		inPath, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(sent, adminUsers), adminSuffix))
		if err != nil || inPath != id || strings.Count(sent, "/") != strings.Count(adminUsers+adminSuffix, "/") || !storable(id) || id == "" {
			t.Fatalf("%s is the path of %q, %v", sent, id, err)
		}
		if len(body) > maxDocument {
			t.Fatalf("%d bytes", len(body))
		}
	})
}
