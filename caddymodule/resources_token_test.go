package caddymodule

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// These tests cover resources (RFC 8707): how tokens are requested for them, and where these pass.

// resourceRoutes are guarded routes, each with its own resource.
var resourceRoutes = gated("/orders/*") +
	gated("/catalogue/*", "resource https://api.example/catalogue") +
	gated("/slash/*", "resource {env.GATE_TEST_RESOURCE}") +
	gated("/named/*", "audience urn:named https://named.example named") +
	gated("/strict/*", "resource_required") + `	handle {
		respond 404
`

// resourceDoor is a door to people and to resourceRoutes.
type resourceDoor struct{ *userDoor }

func openResources(t *testing.T, changes ...string) resourceDoor {
	t.Helper()
	t.Setenv("GATE_TEST_RESOURCE", "https://slash.example/")
	return resourceDoor{openUsers(t, slices.Concat([]string{"	handle {\n		respond 404\n", resourceRoutes}, changes)...)}
}

func (d resourceDoor) sub(name string, test func(resourceDoor)) {
	d.t.Run(name, func(t *testing.T) { test(resourceDoor{d.in(t)}) })
}

// forResources returns a form that requests resources.
func forResources(form url.Values, resources ...string) url.Values {
	changed := with(form)
	if len(resources) > 0 {
		changed["resource"] = resources
	}
	return changed
}

// aud checks the audience of a token, in the token and in its introspection response. A single audience is a string.
func (d resourceDoor) aud(token string, want ...string) {
	d.t.Helper()
	var value any = want[0]
	if len(want) > 1 {
		list := make([]any, len(want))
		for i := range want {
			list[i] = want[i]
		}
		value = list
	}
	if got := claims(d.t, token)["aud"]; !reflect.DeepEqual(got, value) {
		d.t.Errorf("aud %v, want %v", got, value)
	}
	a := d.ask(d.t, "/oauth/introspect", asConf+"&token="+token)
	var said struct {
		Active   bool `json:"active"`
		Audience any  `json:"aud"`
	}
	if err := json.Unmarshal([]byte(a.body), &said); err != nil || !said.Active || !reflect.DeepEqual(said.Audience, value) {
		d.t.Errorf("introspection says %s", a.body)
	}
}

// passesAt checks that a token passes the listed routes, and that the others refuse it for its audience.
func (d resourceDoor) passesAt(token string, routes ...string) {
	d.t.Helper()
	for range 2 { // the second time it is cached
		for _, route := range []string{"/orders", "/catalogue", "/slash", "/named", "/strict"} {
			d.decisions(d.t)
			a := d.send(d.t, http.MethodGet, route+"/x", "", "Authorization", "Bearer "+token)
			d.upstream.seen()
			if passes := slices.Contains(routes, route); passes && a.status != http.StatusOK || !passes && a.status != http.StatusUnauthorized {
				d.t.Errorf("%s: %d %s", route, a.status, a.body)
			} else if lines := d.decisions(d.t); !passes && (len(lines) != 1 || lines[0]["reason"] != "audience_wrong") {
				d.t.Errorf("%s: audited as %v", route, lines)
			}
		}
	}
}

func badTarget(reason string) outcome {
	return outcome{status: http.StatusBadRequest, code: "invalid_target", reason: reason, text: "The requested resource is invalid, missing, unknown, or malformed."}
}

// serverGrant returns a good request of conf for a server token.
func serverGrant() url.Values {
	return url.Values{"grant_type": {"client_credentials"}, "client_id": {"conf"}, "client_secret": {confSecret}}
}

// TestT149TokenForAResource: `resource` of a route, in any spelling of scheme and host, one or two, with each grant → aud is that alone
// and passes those routes alone; none → the issuer's.
func TestT149TokenForAResource(t *testing.T) {
	setClock(t)
	d := openResources(t)
	orders, named := d.url+"/orders", "https://named.example"
	const catalogue, slash = "https://api.example/catalogue", "https://slash.example/"
	for name, test := range map[string]struct{ resources, aud, routes []string }{
		"none":                      {nil, []string{d.url}, []string{"/orders", "/catalogue", "/slash"}},
		"of a path":                 {[]string{orders}, []string{orders}, []string{"/orders"}},
		"configured":                {[]string{catalogue}, []string{catalogue}, []string{"/catalogue"}},
		"host in upper case":        {[]string{"HTTPS://API.EXAMPLE/catalogue"}, []string{catalogue}, []string{"/catalogue"}},
		"slash at the end":          {[]string{catalogue + "/"}, []string{catalogue}, []string{"/catalogue"}},
		"twice":                     {[]string{catalogue, catalogue, catalogue + "/"}, []string{catalogue}, []string{"/catalogue"}},
		"two":                       {[]string{catalogue, orders}, []string{catalogue, orders}, []string{"/orders", "/catalogue"}},
		"an audience":               {[]string{named}, []string{named}, []string{"/named"}},
		"of a route with audiences": {[]string{d.url + "/named"}, []string{d.url + "/named"}, []string{"/named"}},
		"the issuer's audience":     {[]string{d.url + "/"}, []string{d.url}, []string{"/orders", "/catalogue", "/slash"}},
	} {
		d.sub(name, func(d resourceDoor) {
			a := d.ask(d.t, "/oauth/token", forResources(serverGrant(), test.resources...).Encode())
			if a.status != http.StatusOK {
				d.t.Fatalf("%d %s", a.status, a.body)
			}
			token := member(d.t, a.body, "access_token")
			d.aud(token, test.aud...)
			d.passesAt(token, test.routes...)
		})
	}
	r := requestOf("conf")
	r.more = url.Values{"resource": {catalogue + "/", orders}}
	for name, got := range map[string]tokens{
		"authorize": d.userTokens(r, ada),
		"password": d.gives(forResources(url.Values{"grant_type": {"password"}, "client_id": {"conf"}, "client_secret": {confSecret}, "email": {ada},
			"password": {peoplePassword}, "scope": {"trusted public"}}, catalogue, orders)),
	} {
		d.sub(name, func(d resourceDoor) {
			d.aud(got.AccessToken, catalogue, orders)
			d.passesAt(got.AccessToken, "/catalogue", "/orders")
		})
	}
}

// TestT150UnknownResource: `resource` that no route has, another path, port or query, a fragment, not a URI →
// invalid_target, and the code or refresh token stays good. No token is issued for a resource other than the
// requested one.
func TestT150UnknownResource(t *testing.T) {
	setClock(t)
	d := openResources(t, "store memory", "store memory\n\t\ttrust corp https://corp.example {\n\t\t\taudience https://corp-audience.example\n\t\t}",
		"	handle /orders/* {", "	handle /corp/* {\n		protect {\n			issuer corp\n		}\n		reverse_proxy UPSTREAM\n	}\n	handle /orders/* {")
	const catalogue = "https://api.example/catalogue"
	wrong := map[string]struct {
		resources []string
		reason    string
	}{
		"another path": {[]string{"https://api.example/catalogue/x"}, "resource_unknown"}, "path in upper case": {[]string{"https://api.example/Catalogue"}, "resource_unknown"},
		"another scheme": {[]string{"http://api.example/catalogue"}, "resource_unknown"}, "a port": {[]string{"https://api.example:443/catalogue"}, "resource_unknown"},
		"a query": {[]string{catalogue + "?x"}, "resource_unknown"}, "two slashes": {[]string{catalogue + "//"}, "resource_unknown"},
		"another host": {[]string{"https://evil.example/catalogue"}, "resource_unknown"}, "user information": {[]string{"https://x@api.example/catalogue"}, "resource_unknown"},
		"beside a known one": {[]string{catalogue, "https://evil.example"}, "resource_unknown"}, "an escape": {[]string{"https://api.example/%63atalogue"}, "resource_unknown"},
		"of another issuer's route": {[]string{d.url + "/corp"}, "resource_unknown"}, "another issuer's audience": {[]string{"https://corp-audience.example"}, "resource_unknown"},
		"a fragment": {[]string{catalogue + "#x"}, "resource_malformed"}, "an empty fragment": {[]string{catalogue + "#"}, "resource_malformed"},
		"a path alone": {[]string{"/catalogue"}, "resource_malformed"}, "no scheme": {[]string{"//api.example/catalogue"}, "resource_malformed"},
		"an audience that is no URI": {[]string{"named"}, "resource_malformed"}, "a space": {[]string{" "}, "resource_malformed"},
	}
	r := requestOf("conf")
	r.scope = "trusted public refresh_token"
	code := r.exchange(d.code(r, ada))
	token := d.userTokens(r, ada).RefreshToken
	for name, test := range wrong {
		d.sub(name, func(d resourceDoor) {
			d.denied(forResources(serverGrant(), test.resources...), badTarget(test.reason))
			if name != "another path" && name != "a fragment" { // the other grants call the same function
				return
			}
			for what, form := range map[string]url.Values{
				"code": code, "refresh": r.refresh(token),
				"password": {"grant_type": {"password"}, "client_id": {"conf"}, "client_secret": {confSecret}, "email": {ada}, "password": {peoplePassword}},
			} {
				d.sub(what, func(d resourceDoor) { d.denied(forResources(form, test.resources...), badTarget(test.reason)) })
			}
			asks := r
			asks.more = url.Values{"resource": test.resources}
			b := d.browserOf(ada)
			b.errorToClient(d.t, b.open(asks.path()), asks, "invalid_target", badTarget("").text)
		})
	}
	d.gives(code)
	d.gives(r.refresh(token))
}

// TestT151RefreshNarrows: a grant for two resources refreshed for one → narrowed; for another or one more →
// invalid_target; routes that have gone → passes nowhere. The exchange of a code narrows likewise.
func TestT151RefreshNarrows(t *testing.T) {
	setClock(t)
	d := openResources(t)
	orders := d.url + "/orders"
	const catalogue, slash = "https://api.example/catalogue", "https://slash.example/"
	r := requestOf("conf")
	r.scope = "trusted public refresh_token"
	bound := r
	bound.more = url.Values{"resource": {catalogue, orders}}
	t.Run("granted for two", func(t *testing.T) {
		d := resourceDoor{d.in(t)}
		code := bound.exchange(d.code(bound, ada))
		d.denied(forResources(code, slash), badTarget("resource_not_granted"))
		d.denied(forResources(code, catalogue, slash), badTarget("resource_not_granted"))
		d.denied(forResources(code, d.url), badTarget("resource_not_granted"))
		got := d.gives(forResources(code, "HTTPS://API.example/catalogue/"))
		d.aud(got.AccessToken, catalogue)
		for _, step := range []struct{ resources, aud []string }{
			{[]string{orders}, []string{orders}}, {nil, []string{catalogue, orders}}, {[]string{catalogue}, []string{catalogue}},
			{[]string{orders, catalogue}, []string{orders, catalogue}},
		} {
			for _, wide := range []string{slash, d.url, "https://evil.example", "urn:named"} {
				d.denied(forResources(r.refresh(got.RefreshToken), wide), badTarget("resource_not_granted"))
				d.denied(forResources(r.refresh(got.RefreshToken), catalogue, wide), badTarget("resource_not_granted"))
			}
			got = d.gives(forResources(r.refresh(got.RefreshToken), step.resources...))
			d.aud(got.AccessToken, step.aud...)
		}
	})
	t.Run("granted for none in particular", func(t *testing.T) {
		d := resourceDoor{d.in(t)}
		got := d.gives(forResources(r.exchange(d.code(r, ada)), catalogue))
		d.aud(got.AccessToken, catalogue)
		got = d.gives(r.refresh(got.RefreshToken))
		d.aud(got.AccessToken, d.url)
		got = d.gives(forResources(r.refresh(got.RefreshToken), slash, orders))
		d.aud(got.AccessToken, slash, orders)
		d.passesAt(got.AccessToken, "/slash", "/orders")
	})
	t.Run("after a restart", func(t *testing.T) {
		onFile := []string{"store memory", "store sqlite DIR/x.db"}
		d := openResources(t, onFile...)
		r.more = url.Values{"resource": {catalogue, d.url + "/orders"}}
		got := d.userTokens(r, ada)
		d.reload(peopleSite(slices.Concat([]string{"	handle {\n		respond 404\n", resourceRoutes}, onFile)...))
		got = d.gives(r.refresh(got.RefreshToken))
		d.aud(got.AccessToken, catalogue, d.url+"/orders")
		// The routes are gone. The grant stays, and its tokens pass nowhere.
		d.reload(peopleSite(onFile...))
		got = d.gives(r.refresh(got.RefreshToken))
		d.aud(got.AccessToken, catalogue, d.url+"/orders")
		if d.alive(got.AccessToken) {
			t.Error("it passes a route that it is not for")
		}
		d.denied(forResources(serverGrant(), catalogue), badTarget("resource_unknown"))
	})
}

// TestT152TokenForAResourceAtOurEndpoints: a token for a resource at token info, as introspection's bearer or for a
// member's token → 401; at revocation and introspection → served. Revocation and introspection do not check the
// audience.
func TestT152TokenForAResourceAtOurEndpoints(t *testing.T) {
	setClock(t)
	d := openResources(t)
	r := requestOf("conf")
	r.scope = "trusted public refresh_token"
	other := d.userTokens(r, ada).AccessToken
	r.more = url.Values{"resource": {"https://api.example/catalogue"}}
	got := d.userTokens(r, ada)
	token := got.AccessToken
	d.decisions(t)
	for name, a := range map[string]answer{
		"token info":             d.send(t, http.MethodGet, "/oauth/token/info", "", "Authorization", "Bearer "+token),
		"introspection's bearer": d.ask(t, "/oauth/introspect", "token="+other, "Authorization", "Bearer "+token),
		"tokens for members":     d.ask(t, mintPath+"u-grace"+mintPathEnd, reference("u-grace"), "Authorization", "Bearer "+token, "Content-Type", documentMedia),
	} {
		if a.status != http.StatusUnauthorized || !strings.Contains(a.header.Get("Www-Authenticate"), `error="invalid_token"`) {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	for _, line := range d.decisions(t) {
		if line["reason"] != "audience_wrong" {
			t.Errorf("audited as %v", line)
		}
	}
	a := d.ask(t, "/oauth/introspect", asConf+"&token="+got.RefreshToken)
	if !strings.Contains(a.body, `"aud":"https://api.example/catalogue"`) {
		t.Errorf("introspection of the refresh token: %s", a.body)
	}
	d.ask(t, "/oauth/revoke", asConf+"&token="+token).is(t, http.StatusOK, "revocation")
	if a := d.ask(t, "/oauth/introspect", asConf+"&token="+token); !strings.Contains(a.body, `"active":false`) {
		t.Errorf("after its revocation: %s", a.body)
	}
}

// TestT152UserInfoForAResource: userinfo accepts a token for a resource, because the scope openid is useful nowhere
// else. The audience of the ID token is the client as usual.
func TestT152UserInfoForAResource(t *testing.T) {
	g := startOpenID(t, "	handle {\n		respond 404\n", strings.Replace(resourceRoutes, "{env.GATE_TEST_RESOURCE}", "https://slash.example/", 1))
	r := openIDRequestOf("conf", "openid email public", "resource", "https://api.example/catalogue")
	b := g.browser()
	got := b.redeem(t, b.authorize(r, ada), r)
	if claims(t, got.AccessToken)["aud"] != "https://api.example/catalogue" || g.told(t, got.AccessToken)["email"] != ada {
		t.Errorf("claims %v", claims(t, got.AccessToken))
	}
	if _, identity := g.identity(t, got.IDToken); identity["aud"] != "conf" || identity["azp"] != nil {
		t.Errorf("ID token %v", identity)
	}
}

// TestT153HowResourcesAreWritten: `resource` repeated, or as a JSON array, null or empty → read alike; 40 of them, another type, a
// control character → 400.
func TestT153HowResourcesAreWritten(t *testing.T) {
	setClock(t)
	d := openResources(t)
	orders := d.url + "/orders"
	const catalogue = "https://api.example/catalogue"
	for _, e := range encodings {
		d.sub(e.name, func(d resourceDoor) {
			body, contentType := e.body("grant_type", "client_credentials", "client_id", "conf", "client_secret", confSecret, "resource", catalogue)
			a := d.ask(d.t, "/oauth/token", body, "Content-Type", contentType)
			d.aud(member(d.t, a.body, "access_token"), catalogue)
		})
	}
	inJSON := func(resource string) string {
		return `{"grant_type":"client_credentials","client_id":"conf","client_secret":"` + confSecret + `","resource":` + resource + `}`
	}
	for name, test := range map[string]struct {
		json string
		aud  []string
	}{
		"null": {`null`, []string{d.url}}, "an empty array": {`[]`, []string{d.url}}, "an empty string": {`""`, []string{d.url}},
		"two":      {`["` + orders + `","` + catalogue + `"]`, []string{orders, catalogue}},
		"a number": {`1`, nil}, "a number in an array": {`["` + orders + `",1]`, nil}, "twice": {`"` + orders + `","resource":"` + orders + `"`, nil},
		"too many": {`["` + strings.Repeat(orders+`","`, 40) + orders + `"]`, nil},
	} {
		d.sub("JSON, "+name, func(d resourceDoor) {
			a := d.ask(d.t, "/oauth/token", inJSON(test.json), "Content-Type", "application/json")
			if test.aud == nil {
				d.isMalformed(a)
				return
			}
			d.aud(member(d.t, a.body, "access_token"), test.aud...)
		})
	}
	for name, form := range map[string]string{
		"another parameter": asConf + "&" + ccGrant + "&scope=public&scope=public", "too many": asConf + "&" + ccGrant + strings.Repeat("&resource="+url.QueryEscape(catalogue), 40),
		"a control character": asConf + "&" + ccGrant + "&resource=https://api.example/catalogue%0a", "an array as frameworks write it": asConf + "&" + ccGrant + "&resource[]=x",
	} {
		d.sub(name, func(d resourceDoor) { d.isMalformed(d.ask(d.t, "/oauth/token", form)) })
	}
	r := requestOf("conf")
	r.more = url.Values{"resource": {""}}
	d.aud(d.userTokens(r, ada).AccessToken, d.url)
}

func (d resourceDoor) isMalformed(a answer) {
	d.t.Helper()
	if a.status != http.StatusBadRequest || member(d.t, a.body, "error") != "invalid_request" {
		d.t.Errorf("%d %s", a.status, a.body)
	}
}

// TestT154ResourceOfATokenForAMember: `data.attributes.resource` of a member's token → its aud; unknown → 400 invalid_target; of another
// type → 400 invalid_member, no family.
func TestT154ResourceOfATokenForAMember(t *testing.T) {
	d := openAdmin(t, "	handle {\n		respond 404\n", strings.Replace(resourceRoutes, "{env.GATE_TEST_RESOURCE}", "https://slash.example/", 1))
	const catalogue, slash = "https://api.example/catalogue", "https://slash.example/"
	document := func(attributes string) string {
		return `{"data":{"id":"u-grace","type":"users","attributes":` + attributes + `}}`
	}
	for name, test := range map[string]struct {
		attributes string
		aud        []string
	}{
		"none": {`{}`, []string{d.url}}, "of another kind": {`[1]`, []string{d.url}}, "null": {`{"resource":null}`, []string{d.url}},
		"one": {`{"resource":"HTTPS://api.example/catalogue/"}`, []string{catalogue}}, "an array of two": {`{"resource":["` + catalogue + `","` + slash + `"],"x":1}`, []string{catalogue, slash}},
		"an empty array": {`{"resource":[]}`, []string{d.url}},
	} {
		d.sub(name, func(d *adminDoor) {
			got := d.created(d.admin, mintRequest{id: "u-grace", body: document(test.attributes)})
			rd := resourceDoor{d.userDoor}
			rd.aud(got.AccessToken, test.aud...)
			if len(test.aud) > 1 {
				r := request{clientID: "conf", secret: confSecret}
				rd.denied(forResources(r.refresh(got.RefreshToken), d.url), badTarget("resource_not_granted"))
				rd.aud(rd.gives(forResources(r.refresh(got.RefreshToken), slash)).AccessToken, slash)
			}
		})
	}
	for name, test := range map[string]struct{ attributes, code string }{
		"unknown": {`{"resource":"https://evil.example"}`, "invalid_target"}, "a fragment": {`{"resource":["` + catalogue + `#x"]}`, "invalid_target"},
		"a number": {`{"resource":1}`, "invalid_member"}, "empty": {`{"resource":""}`, "invalid_member"}, "null in an array": {`{"resource":[null]}`, "invalid_member"},
		"an object": {`{"resource":{}}`, "invalid_member"}, "another case": {`{"Resource":"` + catalogue + `"}`, "invalid_member"},
	} {
		d.sub(name, func(d *adminDoor) {
			families := d.families()
			a := d.mint(d.admin, mintRequest{id: "u-grace", body: document(test.attributes)})
			if a.status != http.StatusBadRequest || !strings.Contains(a.body, `"code":"`+test.code+`"`) || !strings.Contains(a.body, `"pointer":"/data/attributes/resource"`) {
				d.t.Errorf("%d %s", a.status, a.body)
			}
			if n := d.families(); n != families {
				d.t.Errorf("%d families more", n-families)
			}
		})
	}
}
