package endpoint

import (
	stdjson "encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
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

// TestM16BelowAnIssuerWithAPath: TestM16SpellingsOfThePath goes through the spellings where the issuer has none.
func TestM16BelowAnIssuerWithAPath(t *testing.T) {
	const path = "/api/v1/organisations/me/users/1/access_tokens"
	for _, c := range []struct {
		name, prefix, path string
		want               bool
	}{
		{"its path", "/auth", "/auth" + path, true},
		{"its path in another case", "/Auth", "/aUTH" + path, true},
		{"its encoded path", "/a%20b", "/a%20b/" + path, true},
		{"without its path", "/auth", path, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u, err := url.ParseRequestURI(c.path)
			if err != nil {
				t.Fatal(err)
			}
			if got := (&memberTokens{prefix: c.prefix}).owns(u); got != c.want {
				t.Errorf("got %t", got)
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
		id, _, err := new(memberTokens).targetOf(httptest.NewRecorder(), r)
		if err != nil {
			e := oauth.AsError(err)
			if status := answers.StatusOf(err); id != "" || status < 400 || status > 499 || e.Reason == "" || e.Description == "" {
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
		if err != nil || inPath != id || strings.Count(sent, "/") != strings.Count(adminUsers+adminSuffix, "/") || !requests.Storable(id) || id == "" {
			t.Fatalf("%s is the path of %q, %v", sent, id, err)
		}
		if len(body) > maxDocument {
			t.Fatalf("%d bytes", len(body))
		}
	})
}
