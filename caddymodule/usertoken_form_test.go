package caddymodule

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// The credential, the method and the form of a request.

// TestM2M3M4M6M30M31M34M37EveryErrorIsADocument: no token, one in a cookie, the query or the body, an expired, revoked or garbage one, a server token,
// too little scope, another method or an override header, early data → 401, 403, 405, 425, each as a JSON:API document.
func TestM2M3M4M6M30M31M34M37EveryErrorIsADocument(t *testing.T) {
	c := setClock(t)
	d := openAdmin(t, "protect trusted", "protect trusted {\n\t\t\ttoken_from cookie accessToken\n\t\t}")
	d.stored(store.User{ID: "u-off", Organisation: "acme", Role: store.RoleGroupManager, Status: store.UserDisabled})
	server, member, public := d.token(), d.operatorToken("conf", "u-max", "trusted"), d.operatorToken("conf", "u-ada", "public")
	b := d.browser()
	b.authorize(requestOf("conf"), ada)
	cookie := b.cookie("accessToken")
	cookies := "accessToken=" + cookie + "; session=" + b.cookie("session")
	d.remember("access token", server)
	d.remember("cookie", cookie, b.cookie("session"))
	d.send(t, http.MethodGet, "/api/x", "", "Cookie", cookies).is(t, http.StatusOK, "the route that takes the cookie")
	d.upstream.seen()
	revoked := d.operatorToken("conf", "u-ada", "trusted")
	d.created(revoked, mintRequest{id: "u-grace"})
	d.revoked(t, d.revoke(requestOf("conf"), revoked), true)
	unauthorized, malformed := tokenRefusal(401, "unauthorized", ""), tokenRefusal(400, "invalid_request", `, error="invalid_request", error_description="`+contract["invalid_request"]+`"`)
	with := func(headers ...string) mintRequest {
		r := mintRequest{id: "u-grace", headers: make(map[string]string)}
		for pair := range slices.Chunk(headers, 2) {
			r.headers[pair[0]] = pair[1]
		}
		return r
	}
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
		{"no token, and nothing else wrong", "", with(), unauthorized},
		{"Basic", "", with("Authorization", "Basic Y29uZjp4"), unauthorized},
		{"a cookie", "", with("Cookie", cookies), unauthorized},
		{"a cookie, same origin", "", with("Cookie", cookies, "Sec-Fetch-Site", "same-origin", "Origin", d.url), unauthorized},
		{"the query", "", mintRequest{id: "u-grace", query: "?access%5Ftoken=" + d.admin}, unauthorized},
		{"the body", "", mintRequest{id: "u-grace", body: `{"access_token":"` + d.admin + `","data":{"id":"u-grace","type":"users"}}`}, unauthorized},
		{"other headers", "", with("X-Access-Token", d.admin, "X-Auth-Subject", "u-ada", "Proxy-Authorization", "Bearer "+d.admin), unauthorized},
		{"two tokens", d.admin, mintRequest{id: "u-grace", query: "?access_token=" + d.admin}, malformed},
		{"two spaces", "", with("Authorization", "Bearer  x"), malformed},
		{"bad token", "x", mintRequest{id: "u", body: "{", headers: wrongMedia}, invalidToken},
		{"three parts", "a.b.c", with(), invalidToken},
		{"bad signature", d.admin[:len(d.admin)-8] + "AAAAAAAA", with(), invalidToken},
		{"a client's secret", confSecret, with(), invalidToken},
		{"a refresh token", d.mintFor("u-grace").RefreshToken, with(), invalidToken},
		{"revoked", revoked, with(), revokedToken},
		{"server token", server, mintRequest{id: "u", body: "{", headers: wrongMedia}, plainRefusal(403, "user_context_required", "server_token")},
		{"no trusted", public, mintRequest{id: "u", body: "{", headers: wrongMedia}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"orders.read", d.operatorToken("conf", "u-ada", "public orders.read"), mintRequest{id: "u-grace"}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"refresh_token", d.operatorToken("conf", "u-ada", "refresh_token"), mintRequest{id: "u-grace"}, tokenRefusal(403, "insufficient_scope", needsTrusted)},
		{"no admin", member, mintRequest{id: "u", body: "{", headers: wrongMedia}, adminRequired},
		{"media type", d.admin, mintRequest{id: "u", body: "{", headers: wrongMedia}, plainRefusal(415, "unsupported_media_type", "")},
		{"accept", d.admin, mintRequest{id: "u", body: "{", headers: wrongAccept}, plainRefusal(406, "not_acceptable", "")},
		{"too large", d.admin, mintRequest{id: "u", body: strings.Repeat("{", 20_000)}, plainRefusal(413, "invalid_request", "body_too_large")},
		{"JSON", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: "{"}, bodyRefusal(400, "invalid_json", "-")},
		{"member", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: `{"data":{}}`}, bodyRefusal(400, "missing_member", "/data")},
		{"type", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: `{"data":{"id":"u","type":"x"}}`}, bodyRefusal(409, "type_conflict", "/data/type")},
		{"path", d.admin, mintRequest{path: mintPath + "x/y" + mintPathEnd, body: reference("u")}, plainRefusal(404, "user_not_found", "path_unknown")},
		{"id", d.admin, mintRequest{id: "u-off", body: reference("u")}, bodyRefusal(409, "id_conflict", "/data/id")},
		{"unknown", d.admin, mintRequest{id: "u"}, userNotFound},
		{"role", d.admin, mintRequest{id: "u-max"}, roleNotAllowed},
		{"inactive", d.admin, mintRequest{id: "u-off"}, plainRefusal(422, "user_inactive", "target_inactive")},
	} {
		d.sub(step.name, func(d *adminDoor) { d.refused(step.token, step.r, step.want) })
	}
	for _, method := range []string{"GET", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "QUERY", "post", "Post"} {
		r := with("X-HTTP-Method-Override", "POST", "X-HTTP-Method", "POST", "X-Method-Override", "POST", "Accept", "*/*")
		r.method, r.query = method, "?_method=POST"
		d.sub(method, func(d *adminDoor) {
			d.refused(d.admin, r, plainRefusal(405, "method_not_allowed", "method_not_allowed"))
		})
	}
	d.created(cookie, with("X-HTTP-Method-Override", "DELETE")) // the token of the cookie, in the header
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
	d.sub("expired", func(d *adminDoor) {
		c.advance(6*time.Hour + 10*time.Second)
		d.app().node.Revocations.MarkFresh(node.Clock())
		d.refused(d.admin, with(), tokenRefusal(401, "invalid_token", `, error="invalid_token", error_description="The access token expired"`))
	})
	d.sub("shutting down", func(d *adminDoor) {
		e := d.app().node
		if !e.Life.Enter() { // a request in progress
			t.Fatal("it lets nobody in")
		}
		defer e.Life.Leave()
		check(t, e.Destruct())
		d.refused(d.admin, with(), plainRefusal(503, "temporarily_unavailable", "shutting_down"))
		d.hold(d.t, d.ask(d.t, "/oauth/token", "grant_type=x"), outcome{
			status: 503, code: "temporarily_unavailable", text: "The service is temporarily unable to handle the request. Try again later.",
		})
	})
}
