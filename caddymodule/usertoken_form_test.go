package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover the form of a request: rows M30, M31, M34 and M37.

// rawMint writes a request to a socket. lines are further header lines after those of the token, the host and the
// length.
func (d *adminDoor) rawMint(method, target, lines, body string) answer {
	d.t.Helper()
	head := fmt.Sprintf("%s %s HTTP/1.1\nHost: %s\nAuthorization: Bearer %s\nContent-Length: %d\nConnection: close\n%s\n", method, target, d.addr, d.admin, len(body), lines)
	status, header, text := d.raw(crlf(head) + body)
	return answer{status, header, text}
}

// TestM30OnlyTheHeaderIsACredential: the admin's token in a cookie or the query → 401.
func TestM30OnlyTheHeaderIsACredential(t *testing.T) {
	d := openAdmin(t, "protect trusted", "protect trusted {\n\t\t\ttoken_from cookie accessToken\n\t\t}")
	b := d.browser()
	b.authorize(requestOf("conf"), "ada@acme.example")
	cookie := b.cookie("accessToken")
	d.remember("cookie", cookie, b.cookie("session"))
	if cookie == "" {
		t.Fatal("there is no cookie accessToken")
	}
	cookies := "accessToken=" + cookie + "; session=" + b.cookie("session")
	if a := d.send(t, http.MethodGet, "/api/x", "", "Cookie", cookies); a.status != http.StatusOK {
		t.Fatalf("the route takes the cookie: %d", a.status)
	}
	d.upstream.seen()
	unauthorized := tokenRefusal(401, "unauthorized", "")
	for name, r := range map[string]mintRequest{
		"cookie":        {headers: map[string]string{"Cookie": cookies}},
		"cookie, same":  {headers: map[string]string{"Cookie": cookies, "Sec-Fetch-Site": "same-origin", "Origin": d.url}},
		"query":         {query: "?access_token=" + d.admin},
		"query, encded": {query: "?access%5Ftoken=" + d.admin},
		"body":          {body: `{"access_token":"` + d.admin + `","data":{"id":"u-grace","type":"users"}}`},
		"other headers": {headers: map[string]string{"X-Access-Token": d.admin, "X-Auth-Subject": "u-ada", "Proxy-Authorization": "Bearer " + d.admin}},
	} {
		d.sub(name, func(d *adminDoor) {
			r.id = "u-grace"
			d.refused("", r, unauthorized)
		})
	}
	// The same token in the header is accepted.
	d.created(cookie, mintRequest{id: "u-grace"})
}

// TestM31OnlyPost: another method or an override header → 405.
func TestM31OnlyPost(t *testing.T) {
	d := openAdmin(t)
	notAllowed := plainRefusal(405, "method_not_allowed", "method_not_allowed")
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "Post"} {
		d.sub(method, func(d *adminDoor) {
			for name, value := range map[string]string{"X-HTTP-Method-Override": "POST", "X-HTTP-Method": "POST", "X-Method-Override": "POST", "Accept": "*/*"} {
				d.decisions(d.t)
				a := d.rawMint(method, mintPath+"u-grace"+mintPathEnd+"?_method=POST", "Content-Type: "+documentMedia+"\n"+name+": "+value+"\n", reference("u-grace"))
				d.holdRefused(a, reference("u-grace"), notAllowed)
			}
		})
	}
	if a := d.rawMint("HEAD", mintPath+"u-grace"+mintPathEnd, "", ""); a.status != 405 || a.header.Get("Allow") != "POST" || a.body != "" {
		t.Errorf("HEAD: %d %s", a.status, a.body)
	}
	d.created(d.admin, mintRequest{id: "u-grace", headers: map[string]string{"X-HTTP-Method-Override": "DELETE"}})
}

// TestM2M4M6M34M37EveryErrorIsADocument: no token, a server token, too little scope, early data → 401, 403, 403, 425, each as a JSON:API
// document.
func TestM2M4M6M34M37EveryErrorIsADocument(t *testing.T) {
	d := openAdmin(t)
	d.stored(store.User{ID: "u-off", Organisation: "acme", Role: store.RoleGroupManager, Status: store.UserDisabled})
	server, member, public := d.token(), d.operatorToken("conf", "u-max", "trusted"), d.operatorToken("conf", "u-ada", "public")
	d.remember("access token", server)
	const needsTrusted = `, error="insufficient_scope", error_description="Access to this resource requires scope \"trusted\".", scope="trusted"`
	early := func(value string) mintRequest {
		return mintRequest{id: "u", body: "{", headers: map[string]string{"Early-Data": value, "Content-Type": "text/plain"}}
	}
	wrongMedia, wrongAccept := map[string]string{"Content-Type": "text/plain", "Accept": "text/html"}, map[string]string{"Accept": "text/html"}
	for _, step := range []struct {
		name  string
		token string
		r     mintRequest
		want  mintRefusal
	}{
		{"early data", "", early("1"), plainRefusal(425, "invalid_request", "early_data")},
		{"early data 0", d.admin, early("0"), plainRefusal(425, "invalid_request", "early_data")},
		{"early data, no number", d.admin, early("true"), plainRefusal(425, "invalid_request", "early_data")},
		{"no token", "", mintRequest{id: "u", body: "{", headers: wrongMedia}, tokenRefusal(401, "unauthorized", "")},
		{"no token, and nothing else wrong", "", mintRequest{id: "u-grace"}, tokenRefusal(401, "unauthorized", "")},
		{"Basic", "", mintRequest{id: "u-grace", headers: map[string]string{"Authorization": "Basic Y29uZjp4"}}, tokenRefusal(401, "unauthorized", "")},
		{"bad token", "x", mintRequest{id: "u", body: "{", headers: wrongMedia}, invalidToken},
		{"server token", server, mintRequest{id: "u", body: "{", headers: wrongMedia}, plainRefusal(403, "user_context_required", "server_token")},
		{"no trusted", public, mintRequest{id: "u", body: "{", headers: wrongMedia}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"orders.read", d.operatorToken("conf", "u-ada", "public orders.read"), mintRequest{id: "u-grace"}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"refresh_token", d.operatorToken("conf", "u-ada", "refresh_token"), mintRequest{id: "u-grace"}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"no admin", member, mintRequest{id: "u", body: "{", headers: wrongMedia}, adminRequired},
		{"media type", d.admin, mintRequest{id: "u", body: "{", headers: wrongMedia}, plainRefusal(415, "unsupported_media_type", "")},
		{"accept", d.admin, mintRequest{id: "u", body: "{", headers: wrongAccept}, plainRefusal(406, "not_acceptable", "")},
		{"too large", d.admin, mintRequest{id: "u", body: strings.Repeat("{", 20_000)}, bodyTooLarge},
		{"JSON", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: "{"}, malformedDocument},
		{"member", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: `{"data":{}}`}, bodyRefusal(400, "missing_member", "/data")},
		{"type", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: `{"data":{"id":"u","type":"x"}}`}, bodyRefusal(409, "type_conflict", "/data/type")},
		{"path", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: reference("u")}, plainRefusal(404, "user_not_found", "path_unknown")},
		{"id", d.admin, mintRequest{id: "u-off", body: reference("u")}, bodyRefusal(409, "id_conflict", "/data/id")},
		{"unknown", d.admin, mintRequest{id: "u"}, userNotFound},
		{"role", d.admin, mintRequest{id: "u-max"}, roleNotAllowed},
		{"inactive", d.admin, mintRequest{id: "u-off"}, userInactive},
	} {
		d.sub(step.name, func(d *adminDoor) { d.refused(step.token, step.r, step.want) })
	}
	d.sub("identifiers differ", func(d *adminDoor) {
		var ids []string
		for range 20 {
			var document errorDocument
			check(d.t, json.Unmarshal([]byte(d.mint(d.admin, mintRequest{id: "u"}).body), &document))
			ids = append(ids, document.Errors[0].ID)
		}
		if slices.Sort(ids); len(slices.Compact(ids)) != 20 {
			d.t.Errorf("identifiers %v", ids)
		}
	})
	d.sub("unavailable", func(d *adminDoor) {
		// The feed may refresh the known revocations at any time.
		var a answer
		for range 100 {
			d.decisions(d.t)
			d.app().node.Revocations.MarkFresh(time.Unix(1, 0))
			if a = d.mint(d.admin, mintRequest{id: "u-grace"}); a.status != http.StatusCreated {
				break
			}
		}
		d.holdRefused(a, "{}", plainRefusal(503, "temporarily_unavailable", "revocations_stale"))
		d.app().node.Revocations.MarkFresh(node.Clock())
	})
	d.mintFor("u-grace")
	d.sub("shutting down", func(d *adminDoor) {
		e := d.app().node
		if !e.Life.Enter() { // a request in progress
			t.Fatal("it lets nobody in")
		}
		defer e.Life.Leave()
		check(t, e.Destruct())
		d.refused(d.admin, mintRequest{id: "u-grace"}, plainRefusal(503, "temporarily_unavailable", "shutting_down"))
		d.hold(d.t, d.ask(d.t, "/oauth/token", "grant_type=x"), outcome{
			status: 503, code: "temporarily_unavailable", text: "The service is temporarily unable to handle the request. Try again later.",
		})
	})
}
