package caddymodule

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate/identity"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// grouped declares groups for the users, the scope `groups` for the client conf, and rules for /api/*.
var grouped = []string{
	"scopes public trusted refresh_token offline_access orders.read", "scopes public trusted refresh_token offline_access orders.read groups",
	"\t\t\trole admin\n", "\t\t\trole admin\n\t\t\tgroups engineering \"Web Team\"\n\t\t\tgroups Büro 50%\n",
	"\t\t\trole member\n", "\t\t\trole member\n\t\t\tgroups ops\n",
	"\t\tprotect trusted\n", "\t\tprotect trusted {\n\t\t\trequire /api/ops/* group ops engineering\n\t\t}\n",
}

// granted returns the tokens that a client gets for a user with a scope.
func (d *adminDoor) granted(scope, email string) tokens {
	d.t.Helper()
	r := requestOf("conf")
	r.scope = scope
	got := d.obtain(r.exchange(d.code(r, email)))
	d.remember("access token", got.AccessToken)
	return got
}

// groupsOf returns the claim `groups` as encoded in a token.
func groupsOf(t *testing.T, token string) string {
	t.Helper()
	claim, there := claims(t, token)["groups"]
	if !there {
		return ""
	}
	text, err := json.Marshal(claim)
	check(t, err)
	return string(text)
}

// TestG130GroupsReachTokensAndUpstreams: the scope `groups` granted → groups in token, introspection and X-Auth-Groups; not granted →
// nowhere.
func TestG130GroupsReachTokensAndUpstreams(t *testing.T) {
	d := openAdmin(t, append(slices.Clone(grouped), "\t\treverse_proxy UPSTREAM\n",
		"\t\treverse_proxy UPSTREAM {\n\t\t\theader_up X-Placeholder {http.auth.user.groups}\n\t\t}\n")...)
	const all = `["engineering","Web Team","Büro","50%"]`
	for name, test := range map[string]struct{ scope, email, claim, header, placeholder string }{
		"several groups":    {"trusted groups", "ada@acme.example", all, "engineering,Web%20Team,B%C3%BCro,50%25", "engineering,Web Team,Büro,50%"},
		"one group":         {"groups trusted", "max@acme.example", `["ops"]`, "ops", "ops"},
		"no group":          {"trusted groups", "grace@acme.example", "", "", ""},
		"without the scope": {"trusted public", "ada@acme.example", "", "", ""},
	} {
		d.sub(name, func(d *adminDoor) {
			got := d.granted(test.scope, test.email)
			if claim := groupsOf(d.t, got.AccessToken); claim != test.claim {
				d.t.Errorf("groups %s, want %s", claim, test.claim)
			}
			if status, _, body := d.get("/api/x", got.AccessToken); status != http.StatusOK {
				d.t.Fatalf("%d %s", status, body)
			}
			seen := d.upstream.one(d.t)
			if seen.Header.Get(identity.Groups) != test.header || seen.Header.Get("X-Placeholder") != test.placeholder {
				d.t.Errorf("the upstream is told %q and %q", seen.Header[identity.Groups], seen.Header["X-Placeholder"])
			}
			read := d.app().node.Verifier.Explain(got.AccessToken, []string{d.url}).Claims // bypasses what is cached when a token is issued
			if list := strings.Join(read.Claim("groups"), ","); list != test.placeholder {
				d.t.Errorf("read as %q", list)
			}
			_, _, body := d.post("/oauth/introspect", url.Values{"token": {got.AccessToken}, "client_id": {"conf"}, "client_secret": {confSecret}})
			if want := `"groups":` + test.claim; strings.Contains(body, `"groups"`) != (test.claim != "") || test.claim != "" && !strings.Contains(body, want) {
				d.t.Errorf("introspected as %s", body)
			}
		})
	}
	got := d.granted("trusted groups refresh_token", "ada@acme.example")
	narrow := d.obtain(with(requestOf("conf").refresh(got.RefreshToken), "scope", "trusted"))
	if claim := groupsOf(t, narrow.AccessToken); claim != "" {
		t.Errorf("a narrower token has %s", claim)
	}
	if claim := groupsOf(t, d.obtain(requestOf("conf").refresh(narrow.RefreshToken)).AccessToken); claim != all {
		t.Errorf("a refreshed token has %s", claim)
	}
	admin := d.operatorToken("conf", "u-ada", "trusted public groups")
	if minted := d.created(admin, mintRequest{id: "u-grace"}); groupsOf(t, admin) != all || minted.Scope != "trusted public" || groupsOf(t, minted.AccessToken) != "" {
		t.Errorf("the operator's token has %s, a member's %q %s", groupsOf(t, admin), minted.Scope, groupsOf(t, minted.AccessToken))
	}
}

// TestG131RequireGroup: `require group` → byte for byte one of the token's groups, else 403. Package rule has the names that look alike.
func TestG131RequireGroup(t *testing.T) {
	d := openAdmin(t, grouped...)
	for _, test := range []struct {
		id, scope string
		status    int
	}{{"u-max", "trusted groups", 200}, {"u-ada", "trusted groups", 200}, {"u-max", "trusted", 403}, {"u-grace", "trusted groups", 403}} {
		token := d.operatorToken("conf", test.id, test.scope)
		d.decisions(t)
		status, header, body := d.get("/api/ops/x", token)
		if status != test.status {
			t.Fatalf("%+v: %d %s", test, status, body)
		}
		if status == http.StatusForbidden && (member(t, body, "error") != "access_denied" || header.Get("Www-Authenticate") != "" || d.audited()["reason"] != "group_missing") {
			t.Errorf("%s %v", body, header)
		}
		if status, _, body := d.get("/api/x", token); status != http.StatusOK {
			t.Errorf("elsewhere: %d %s", status, body)
		}
	}
	if _, body := d.adminGet("/oauth/routes"); !strings.Contains(body, "group ops engineering for path /api/ops/*") {
		t.Errorf("routes: %s", body)
	}
}

func (d *adminDoor) adminGet(path string) (int, string) {
	d.t.Helper()
	status, _, body := d.operate("GET", path, "")
	return status, body
}

func numbered(n int, format string) (names []string) {
	for i := range n {
		names = append(names, fmt.Sprintf(format, i))
	}
	return names
}

// TestG132TheGreatestLists checks that the longest accepted lists fit into a token, a header and an assertion.
func TestG132TheGreatestLists(t *testing.T) {
	d := openAdmin(t, append(slices.Clone(grouped[:4]), "\t\tprotect trusted\n", "\t\tprotect trusted {\n\t\t\tforward assertion X-Gate-Token\n\t\t}\n")...)
	for name, groups := range map[string][]string{
		"100 groups": numbered(100, "a%02d"), "2 KiB of ASCII": numbered(31, "%02d"+strings.Repeat("x", 60)),
		"of two bytes each": numbered(22, "%02d"+strings.Repeat("ж", 30)), "escaped in JSON": numbered(15, "%02d"+strings.Repeat(`\`, 62)),
	} {
		d.sub(name, func(d *adminDoor) {
			id := "u-" + strings.ReplaceAll(name, " ", "-")
			list, _ := json.Marshal(groups)
			d.must(http.StatusCreated, "POST", "/oauth/users", fmt.Sprintf(`{"id":%q,"email":"%s@acme.example","groups":%s,"organisation":"acme","role":"member"}`, id, id, list))
			d.must(http.StatusNoContent, "POST", "/oauth/users/"+id+"/password", `{"password":"`+peoplePassword+`"}`)
			tok := d.operatorToken("conf", id, "trusted public groups refresh_token offline_access orders.read")
			if len(tok) > token.MaxTokenBytes/2 {
				d.t.Errorf("a token of %d bytes", len(tok))
			}
			if status, _, body := d.get("/api/x", tok); status != http.StatusOK {
				d.t.Fatalf("%d %s", status, body)
			}
			seen := d.upstream.one(d.t)
			var told []string
			for part := range strings.SplitSeq(seen.Header.Get(identity.Groups), ",") {
				plain, err := url.PathUnescape(part)
				check(d.t, err)
				told = append(told, plain)
			}
			asserted, _ := json.Marshal(claims(d.t, seen.Header.Get("X-Gate-Token"))["groups"])
			var inAssertion []string
			_ = json.Unmarshal(asserted, &inAssertion)
			if !slices.Equal(told, groups) || !slices.Equal(inAssertion, groups) {
				d.t.Errorf("told %q, asserted %s", told, asserted)
			}
		})
	}
}
