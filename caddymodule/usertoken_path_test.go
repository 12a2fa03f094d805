package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

// Which paths are the operation's, and whom they name: rows M16 and M17.

// TestM16SpellingsOfThePath: the user's id with encoded slashes, matrix parameters, leading zeros, full-width digits → 400 or 404, never
// another user, never an upstream.
func TestM16SpellingsOfThePath(t *testing.T) {
	d := openAdmin(t, cutRoutes(t)...)
	for _, id := range []string{"1", "2", "a@b:c", "a/b", "é"} {
		d.manager(id)
	}
	from := func(path string) string { return "/api/v1/organisations/" + path }
	ids := []string{
		"1%2f..%2f2", "1%2F2", "1%2f", "%2f1", "1;2", "1;x=2", ";1", "01", "+1", "1.0", "%31", "１", "%EF%BC%91", "1%00", "%001", "1%0a", "me", "1%20", "%201",
		"1.json", "1,2", "1%2C2", "*", "%2A", "..", "%2e%2e", ".", "1%252f2", "%2531", "1%5c2", "1%ff", "1%c0%af", "0x1", "1e0", "-1", "1%3f", "1%23", "1|2", "1'--", "1%", "%zz",
		strings.Repeat("1", 300), strings.Repeat("%2e%2e%2f", 20) + "1",
	}
	paths := []string{
		"me/users/1/access_tokens/", "me/users//1/access_tokens", "me/users/1//access_tokens", "me//users/1/access_tokens", "/me/users/1/access_tokens",
		"me/users//access_tokens", "me/users/access_tokens", "me/users/1/access_tokens.json", "me/users/1/access_tokens%20", "me/users/1/access_tokens%00",
		"me/users/1/access_tokens;x=1", "me/users/1/access_tokens/2", "me/users/1/x/access_tokens", "me/users/1/../2/access_tokens", "me/users/./1/access_tokens",
		"me/users/1/./access_tokens", "me/users/1/x/..%2faccess_tokens", "me/users/1/access_tokens/..", "me/users/1/access_tokens/../access_tokens",
		"me/users%2f1/access_tokens", "me/users/1%2faccess_tokens", "me%2fusers%2f1%2faccess_tokens", "me/%75sers/1/access_tokens", "me/users/1/%61ccess_tokens",
		"me/users/1/access%5Ftokens", "me/Users/1/access_tokens", "me/users/1/ACCESS_TOKENS", "ME/users/1/access_tokens", "%6de/users/1/access_tokens",
		"me;a=b/users/1/access_tokens", "me/users;a=b/1/access_tokens", "me/users\\1\\access_tokens", "me/users%5c1%5caccess_tokens", "me/../me/users/1/access_tokens",
		"x/../me/users/1/access_tokens", "me/users/1/access_tokens#x", "me/x/users/1/access_tokens",
	}
	whole := []string{
		"//api/v1/organisations/me/users/1/access_tokens", "/api//v1/organisations/me/users/1/access_tokens", "/api/v1//organisations/me/users/1/access_tokens",
		"/x/../api/v1/organisations/me/users/1/access_tokens", "/./api/v1/organisations/me/users/1/access_tokens", "/%2e/api/v1/organisations/me/users/1/access_tokens",
		"/x%2f..%2fapi/v1/organisations/me/users/1/access_tokens", "/API/V1/Organisations/me/users/1/access_tokens", "/api/v1;x/organisations;y/me/users/1/access_tokens",
		"/%61pi/v1/organisations/me/users/1/access_tokens", "\\api\\v1\\organisations\\me\\users\\1\\access_tokens",
	}
	for _, id := range ids {
		paths = append(paths, "me/users/"+id+"/access_tokens")
	}
	for _, path := range paths {
		whole = append(whole, from(path))
	}
	for _, path := range whole {
		d.sub(path, func(d *adminDoor) {
			decoded, err := url.PathUnescape(strings.TrimSuffix(strings.TrimPrefix(path, from("me/users/")), mintPathEnd))
			bodies := []string{reference("1"), reference("2")}
			if err == nil {
				bodies = append(bodies, `{"data":{"id":`+asJSON(d.t, decoded)+`,"type":"users"}}`)
			}
			for _, body := range bodies {
				before := d.families()
				a := d.rawMint("POST", path, "Content-Type: "+documentMedia+"\n", body)
				// An id that is none of ours and another one in the body is a conflict (row M11); nothing else is.
				if a.status != 400 && a.status != 404 && (a.status != 409 || body == bodies[len(bodies)-1] && len(bodies) == 3) {
					d.t.Errorf("status %d: %s", a.status, a.body)
				}
				if d.families() != before {
					d.t.Errorf("a family was born: %s", a.body)
				}
				d.upstream.none(d.t)
			}
		})
	}
	for path, sub := range map[string]string{
		"1": "1", "2": "2", "a@b:c": "a@b:c", "a%40b%3Ac": "a@b:c", "a%40b%3ac": "a@b:c", "a%2Fb": "a/b", "%C3%A9": "é", "1?": "1", "1?id=2": "1",
	} {
		id, query, _ := strings.Cut(path, "?")
		if len(query)+len(id) < len(path) {
			query = "?" + query
		}
		got := d.created(d.admin, mintRequest{path: mintPath + id + mintPathEnd, query: query, body: `{"data":{"id":` + asJSON(t, sub) + `,"type":"users"}}`})
		if claims(t, got.AccessToken)["sub"] != sub {
			t.Errorf("%s: the token of %v", path, claims(t, got.AccessToken)["sub"])
		}
	}
	// What is near by belongs to the upstream.
	for _, path := range []string{
		from(""), from("me/users"), from("me/users/1"), from("me/users/1/access_token"), from("me/access_tokens"), "/api/v1/access_tokens", "/api/v2/organisations/me/users/1/access_tokens",
		"/docs/api/v1/organisations/me/users/1/access_tokens",
	} {
		if a := d.rawMint("GET", path, "", ""); a.status != http.StatusOK || a.body != "ok" {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		if seen := d.upstream.one(t); seen.Target != path {
			t.Errorf("the upstream saw %s", seen.Target)
		}
	}
}

func asJSON(t *testing.T, text string) string {
	t.Helper()
	quoted, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(quoted)
}

// TestM17OnlyOnesOwnOrganisation: another organisation in place of `me` → 404.
func TestM17OnlyOnesOwnOrganisation(t *testing.T) {
	d := openAdmin(t, cutRoutes(t)...)
	for _, organisation := range []string{"acme", "rival", "1", "mee", "Me", "me%20", "*", "-", strconv.Quote("me")} {
		for _, id := range []string{"u-grace", "u-rita"} {
			r := mintRequest{path: "/api/v1/organisations/" + organisation + "/users/" + id + mintPathEnd, body: reference(id)}
			d.refused(d.admin, r, plainRefusal(404, "user_not_found", "path_unknown"))
		}
	}
	d.mintFor("u-grace")
}
