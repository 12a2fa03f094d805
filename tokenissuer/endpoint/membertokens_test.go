package endpoint

import (
	stdjson "encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// reference returns the body that names a user.
func reference(id string) string { return `{"data":{"id":` + strconv.Quote(id) + `,"type":"users"}}` }

// TestM11To15TheBodyNamesOneUserInOneWay: path and body that name different users, another type, missing, doubled or case-folded members
// → 409 or 400; further attributes such as role, scope, expires_in → never read.
func TestM11To15TheBodyNamesOneUserInOneWay(t *testing.T) {
	const malformed = "invalid_json -"
	open := strings.TrimSuffix(reference("u-grace"), "}")
	for _, pair := range [][2]string{{"u-grace", "u-ben"}, {"u-grace", "U-GRACE"}, {"u-grace", "u-grace "}, {"u-grace", "u-grac"}, {"u-grace", "u%2Dgrace"}} {
		holdBody(t, adminUsers+pair[0]+adminSuffix, reference(pair[1]), refusal{409, "id_conflict /data/id"})
	}
	for body, want := range map[string]refusal{
		`{"data":{"id":"u-grace","type":"user"}}`:    {409, "type_conflict /data/type"},
		`{"data":{"id":"u-grace","type":"Users"}}`:   {409, "type_conflict /data/type"},
		`{"data":{"id":"u-grace","type":"users "}}`:  {409, "type_conflict /data/type"},
		`{"data":{"id":"u-grace","type":"uſers"}}`:   {409, "type_conflict /data/type"},
		`{"data":{"id":"u-ben","type":"user"}}`:      {409, "type_conflict /data/type"},
		`{"data":{"id":"u-grace"}}`:                  {400, "missing_member /data"},
		`{"data":{"id":"u-grace","type":null}}`:      {400, "invalid_member /data/type"},
		`{"data":{"id":"u-grace","type":""}}`:        {400, "invalid_member /data/type"},
		`{"data":{"id":"u-grace","type":1}}`:         {400, "invalid_member /data/type"},
		`{"data":{"id":"u-grace","type":["users"]}}`: {400, "invalid_member /data/type"},
		`{}`: {400, "missing_member "},
		`{"meta":{"data":{"id":"u-grace","type":"users"}}}`: {400, "missing_member "},
		`{"data":null}`: {400, "invalid_member /data"},
		`{"data":[{"id":"u-grace","type":"users"}]}`:                 {400, "invalid_member /data"},
		`{"data":"u-grace"}`:                                         {400, "invalid_member /data"},
		`{"data":1}`:                                                 {400, "invalid_member /data"},
		`{"data":{}}`:                                                {400, "missing_member /data"},
		`{"data":{"type":"users"}}`:                                  {400, "missing_member /data"},
		`{"data":{"id":null,"type":"users"}}`:                        {400, "invalid_member /data/id"},
		`{"data":{"id":"","type":"users"}}`:                          {400, "invalid_member /data/id"},
		`{"data":{"id":1,"type":"users"}}`:                           {400, "invalid_member /data/id"},
		`{"data":{"id":true,"type":"users"}}`:                        {400, "invalid_member /data/id"},
		`{"data":{"id":["u-grace"],"type":"users"}}`:                 {400, "invalid_member /data/id"},
		`{"data":{"id":{"id":"u-grace"},"type":"users"}}`:            {400, "invalid_member /data/id"},
		`{"data":{"id":"u-grace","id":"u-ben","type":"users"}}`:      {400, malformed},
		`{"data":{"id":"u-grace","id":"u-grace","type":"users"}}`:    {400, malformed},
		`{"data":{"id":"u-grace","\u0069d":"u-ben","type":"users"}}`: {400, malformed},
		`{"data":{"id":"u-grace","type":"users","type":"users"}}`:    {400, malformed},
		open + `,"data":{"id":"u-ben"}}`:                             {400, malformed},
		open + `,"d\u0061ta":{"id":"u-ben"}}`:                        {400, malformed},
		`{"data":{"id":"u-grace","ID":"u-ben","type":"users"}}`:      {400, malformed},
		`{"data":{"Id":"u-ben","id":"u-grace","type":"users"}}`:      {400, malformed},
		`{"data":{"ID":"u-grace","type":"users"}}`:                   {400, malformed},
		`{"data":{"id":"u-grace","type":"users","Type":"users"}}`:    {400, malformed},
		open + `,"DATA":{"id":"u-ben"}}`:                             {400, malformed},
		`{"Data":{"id":"u-grace","type":"users"}}`:                   {400, malformed},
		open + `,"meta":{"a":1,"a":2}}`:                              {400, malformed},
		`{"data":{"id":"u-grace","type":"users","x":{"a":1,"a":2}}}`: {400, malformed},
		open + `,"x":1,"x":1}`:                                       {400, malformed},
		`{"data":null,"DATA":{"id":"u-grace","type":"users"}}`:       {400, malformed},
		`{"data":{"id":1,"iD":"u-grace","type":"users"}}`:            {400, malformed},
		`{"data":{"iD":"u-grace","type":"users"}}`:                   {400, malformed},
		`{"data":{"type":"\u0075sers","id":"u-\u0067race"}}`:         {},
		`{"data":{"id":"u-grace","type":"users","role":"admin","scope":"orders.read","sub":"u-ada","attributes":{"role":"admin","organisation":"rival","expires_in":9}}}`: {},
		open + `,"meta":{"client_id":"other","act":null},"included":[],"role":"admin","id":"u-ben","expires_in":99999999}`:                                                {},
		`{"data":{"id":"u-grace","type":"users","attributeſ":{"id":"u-ben"},"relationſhips":{}},"jſonapi":{}}`:                                                            {}, // some parsers read a long s as an s
	} {
		t.Run(body, func(t *testing.T) { holdBody(t, adminUsers+"u-grace"+adminSuffix, body, want) })
	}
}

// holdBody fails unless the body is refused as wanted, or names the user u-grace if want is empty.
func holdBody(t *testing.T, path, body string, want refusal) {
	t.Helper()
	id, err := memberOf(path, body)
	if got := refusalOf(err); got != want || err == nil && id != "u-grace" {
		t.Errorf("%.80s: %+v, %q; want %+v", body, got, id, want)
	}
}

// TestM20BodiesAreBoundedAndStrict: a body over 16 KiB, depth 20,000, a BOM, bad UTF-8, trailing text → 413 or 400.
func TestM20BodiesAreBoundedAndStrict(t *testing.T) {
	right := reference("u-grace")
	open := strings.TrimSuffix(right, "}")
	utf16 := strings.Join(strings.Split(right, ""), "\x00") + "\x00"
	deep := func(open, end string, n int) string { return strings.Repeat(open, n) + strings.Repeat(end, n) }
	malformed, tooLarge := refusal{400, "invalid_json -"}, refusal{413, "invalid_request -"}
	for body, want := range map[string]refusal{
		right + strings.Repeat(" ", 16<<10-len(right)):   {},
		open + `,"x":` + deep("[", "]", 31) + `}`:        {},
		right + strings.Repeat(" ", 16<<10+1-len(right)): tooLarge,
		deep("[", "]", 20_000):                           tooLarge,
		deep("[", "]", 8000):                             malformed,
		strings.Repeat("[", 16_000):                      malformed,
		deep(`{"x":`, "}", 2500):                         malformed,
		open + `,"x":` + deep("[", "]", 32) + `}`:        malformed,
		right + `{}`: malformed, right + reference("u-ben"): malformed, right + ` x`: malformed, open + ",}": malformed, right + "\x00": malformed,
		"\xef\xbb\xbf" + right: malformed, utf16: malformed, "{\"data\":{\"id\":\"u-grace\xff\",\"type\":\"users\"}}": malformed,
		open + ",\"x\":\"\xc0\xaf\"}":                            malformed,
		`{"data":{"id":"\ud800","type":"users"}}`:                malformed,
		"{\"data\":{\"id\":\"u-grace\x00\",\"type\":\"users\"}}": malformed,
		`{"data":{"id":"u-grace\u0000","type":"users"}}`:         {400, "invalid_member /data/id"},
		`{"data":{"id":"u-grace","type":"users\u0000"}}`:         {400, "invalid_member /data/type"},
		`{"data":{"id":"u-grace","type":"users"}/**/}`:           malformed,
		`null`: malformed, `[` + right + `]`: malformed, `"u-grace"`: malformed, `data[id]=u-grace`: malformed, ` `: malformed, open: malformed,
		`{"data":{"id":"\x75-grace","type":"users"}}`: malformed,
	} {
		t.Run(fmt.Sprintf("%.50q", body), func(t *testing.T) { holdBody(t, adminUsers+"u-grace"+adminSuffix, body, want) })
	}
}

// TestM16M17SpellingsOfThePath: the user's id with encoded slashes, matrix parameters, leading zeros, full-width digits, or another organisation
// in place of `me` → 400 or 404, never another user, never an upstream.
func TestM16M17SpellingsOfThePath(t *testing.T) {
	paths := []string{
		"me/users/1/access_tokens/", "me/users//1/access_tokens", "me/users/1//access_tokens", "me//users/1/access_tokens", "/me/users/1/access_tokens",
		"me/users//access_tokens", "me/users/access_tokens", "me/users/1/access_tokens.json", "me/users/1/access_tokens%20", "me/users/1/access_tokens%00",
		"me/users/1/access_tokens;x=1", "me/users/1/access_tokens/2", "me/users/1/x/access_tokens", "me/users/1/../2/access_tokens", "me/users/./1/access_tokens",
		"me/users/1/./access_tokens", "me/users/1/x/..%2faccess_tokens", "me/users/1/access_tokens/..", "me/users/1/access_tokens/../access_tokens",
		"me/users%2f1/access_tokens", "me/users/1%2faccess_tokens", "me%2fusers%2f1%2faccess_tokens", "me/%75sers/1/access_tokens", "me/users/1/%61ccess_tokens",
		"me/users/1/access%5Ftokens", "me/Users/1/access_tokens", "me/users/1/ACCESS_TOKENS", "ME/users/1/access_tokens", "%6de/users/1/access_tokens",
		"me;a=b/users/1/access_tokens", "me/users;a=b/1/access_tokens", "me/users\\1\\access_tokens", "me/users%5c1%5caccess_tokens", "me/../me/users/1/access_tokens",
		"x/../me/users/1/access_tokens", "me/users/1/access_tokens#x", "me/x/users/1/access_tokens",
		"acme/users/1/access_tokens", "1/users/1/access_tokens", "mee/users/1/access_tokens", "Me/users/1/access_tokens", "me%20/users/1/access_tokens", "*/users/1/access_tokens", "-/users/1/access_tokens", // M17
	}
	for _, id := range []string{
		"1%2f..%2f2", "1%2F2", "1%2f", "%2f1", "1;2", "1;x=2", ";1", "01", "+1", "1.0", "%31", "１", "%EF%BC%91", "1%00", "%001", "1%0a", "me", "1%20", "%201",
		"1.json", "1,2", "1%2C2", "*", "%2A", "..", "%2e%2e", ".", "1%252f2", "%2531", "1%5c2", "1%ff", "1%c0%af", "0x1", "1e0", "-1", "1%3f", "1%23", "1|2", "1'--", "1%", "%zz",
		strings.Repeat("1", 300), strings.Repeat("%2e%2e%2f", 20) + "1",
	} {
		paths = append(paths, "me/users/"+id+"/access_tokens")
	}
	for i, path := range paths {
		paths[i] = adminPrefix + path
	}
	paths = append(paths,
		"//api/v1/organisations/me/users/1/access_tokens", "/api//v1/organisations/me/users/1/access_tokens", "/api/v1//organisations/me/users/1/access_tokens",
		"/x/../api/v1/organisations/me/users/1/access_tokens", "/./api/v1/organisations/me/users/1/access_tokens", "/%2e/api/v1/organisations/me/users/1/access_tokens",
		"/x%2f..%2fapi/v1/organisations/me/users/1/access_tokens", "/API/V1/Organisations/me/users/1/access_tokens", "/api/v1;x/organisations;y/me/users/1/access_tokens",
		"/%61pi/v1/organisations/me/users/1/access_tokens", "\\api\\v1\\organisations\\me\\users\\1\\access_tokens",
	)
	for _, path := range paths {
		if _, err := url.ParseRequestURI(path); err == nil && !ownsMember("", path) { // net/http answers 400 to what url.Parse refuses
			t.Errorf("%s: an upstream may get it", path)
		}
		for _, member := range []string{"1", "2"} {
			id, err := memberOf(path, reference(member))
			if status := answers.StatusOf(err); err == nil || status != 400 && status != 404 && status != 409 {
				t.Errorf("%s, %s: names %q, %v", path, member, id, err)
			}
		}
	}
	for path, id := range map[string]string{
		"1": "1", "2": "2", "a@b:c": "a@b:c", "a%40b%3Ac": "a@b:c", "a%40b%3ac": "a@b:c", "a%2Fb": "a/b", "%C3%A9": "é", "1?": "1", "1?id=2": "1",
	} {
		path, query, _ := strings.Cut(path, "?")
		if got, err := memberOf(adminUsers+path+adminSuffix+"?"+query, reference(id)); err != nil || got != id {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, path := range []string{
		"/api/v1/organisations/", "/api/v1/organisations/me/users", "/api/v1/organisations/me/users/1", "/api/v1/organisations/me/users/1/access_token", "/api/v1/organisations/me/access_tokens",
		"/api/v1/access_tokens", "/api/v2/organisations/me/users/1/access_tokens", "/docs/api/v1/organisations/me/users/1/access_tokens",
	} {
		if ownsMember("", path) {
			t.Errorf("%s is an upstream's", path)
		}
	}
	const path = "/api/v1/organisations/me/users/1/access_tokens"
	for prefix, paths := range map[string]map[string]bool{"/auth": {"/auth" + path: true, path: false}, "/Auth": {"/aUTH" + path: true}, "/a%20b": {"/a%20b/" + path: true}} {
		for path, want := range paths {
			if ownsMember(prefix, path) != want {
				t.Errorf("%s below %s: %t", path, prefix, !want)
			}
		}
	}
}

// TestM18M19MediaTypes: a missing, other or parametrised Content-Type → 415; an Accept without the JSON:API type → 406.
func TestM18M19MediaTypes(t *testing.T) {
	const media = answers.JSONAPIMediaType
	hold := func(status int, name string, lines ...string) {
		t.Helper()
		r := memberRequest("/", "")
		r.Header = http.Header{"Content-Type": {media}, "Accept": {media}}
		r.Header[name] = lines
		if err := checkMedia(r); refusalOf(err).status != status {
			t.Errorf("%s %q: %v, want %d", name, lines, err, status)
		}
	}
	for _, refused := range []string{
		"", "application/json", "text/plain", requests.URLEncoded, "multipart/form-data; boundary=x", "application/*", "*/*", "vnd.api+json",
		media + `; ext="https://jsonapi.org/ext/atomic"`, media + "; x=1", media + "; charset=utf-16", media + "; charset=iso-8859-1", media + "; q=1",
		media + "; profile=a; x=1", media + ", application/json", media + ";charset=utf-8;charset=utf-16", media + "x", media + "; =", media + " application/json",
	} {
		hold(415, "Content-Type", refused)
	}
	hold(415, "Content-Type")
	hold(415, "Content-Type", media, media)
	hold(415, "Content-Type", media, "application/json")
	for _, accepted := range []string{
		media, media + "; charset=utf-8", media + ";charset=UTF-8", media + `; charset="utf-8"`, "Application/Vnd.API+JSON", "APPLICATION/VND.API+JSON; CHARSET=UTF-8",
		media + `;profile="https://example.com/a https://example.com/b,c"`, media + " ", media + ";",
	} {
		hold(0, "Content-Type", accepted)
	}
	for _, refused := range []string{
		media + "; x=1", media + `; ext="a"`, media + "; charset=utf-8", media + "; x=1, application/json", "application/json", "text/html,application/xhtml+xml,application/xml;q=0.9",
		"text/*", "image/png", media + ";q=0", "*/*;q=0", "application/*;q=0.0", "application/vnd.api", "*", media + "; x=1; q=1", "nonsense", media + ";q=2",
	} {
		hold(406, "Accept", refused)
	}
	hold(0, "Accept")
	for _, accepted := range []string{
		"", "*/*", "application/*", media, "Application/VND.api+JSON", media + "; q=0.1", media + ` ; profile="https://example.com/a"`, "text/html, */*;q=0.1",
		media + "; x=1, " + media, "application/json, application/*;q=0.2", media + "; x=1, */*",
	} {
		hold(0, "Accept", accepted)
	}
}

// FuzzJSONAPIBody: Go's own parser reads the same type and id in every accepted body, also when it ignores the case of names. The path
// names that id and nothing else.
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
		path := adminUsers + segment + adminSuffix
		sent := memberRequest(path, body).URL.EscapedPath()
		id, err := memberOf(path, body)
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
