package caddymodule

import (
	"net/http"
	"net/url"
	"slices"
	"testing"
	"time"
)

// refreshing is one refresh in a sequence.
type refreshing struct {
	wait    time.Duration // before the refresh
	present int           // the refresh token presented; the first is 1
	gives   int           // the token it yields, an earlier one or the next; 0: it is a reuse
	address string        // the client's address; empty: the usual one
	from    string        // the warning's text; empty: there is none
}

// TestQ170RefreshesAtOnce: an MCP client refreshes for each of its parallel requests within the grace → the same
// token for all, one generation; after the grace → a reuse. Requests that present the new token at once do not use it
// up, so late requests with the previous one are not taken for reuse.
func TestQ170RefreshesAtOnce(t *testing.T) {
	const route = "\thandle /mcp* {\n\t\tprotect {\n\t\t\tmcp\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n" +
		"\thandle /wide* {\n\t\tprotect {\n\t\t\tmcp\n\t\t\taudience http://ADDR\n\t\t}\n\t\treverse_proxy UPSTREAM\n\t}\n"
	option := func(name, text string) []string {
		uri := "redirect_uris https://" + name + ".example/cb"
		return []string{uri, uri + "\n\t\t\t" + text}
	}
	now := setClock(t)
	u := openUsers(t, slices.Concat(behindProxy, []string{"\thandle {\n\t\trespond 404\n", route + "\thandle {\n\t\trespond 404\n"},
		option("other", "tokens {\n\t\t\t\trefresh_grace 0\n\t\t\t}"), option("first", "tokens {\n\t\t\t\trefresh_grace 30s same_address\n\t\t\t}"),
		option("pub", "revoke_previous_access_token"))...)
	const grace = 30 * time.Second
	usedUp := []refreshing{{present: 1, gives: 2}, {present: 2, gives: 3}, {present: 1}}
	for name, test := range map[string]struct {
		client, resource string
		steps            []refreshing
	}{
		"given again, to whoever comes with it and with the one before": {"conf", "/mcp", []refreshing{
			{present: 1, gives: 2}, {present: 2, gives: 2}, {present: 1, gives: 2}, {present: 2, gives: 2}, {wait: grace - time.Second, present: 1, gives: 2}, {present: 2, gives: 2},
		}},
		"used up after the grace, which is not prolonged": {"conf", "/mcp/", []refreshing{
			{present: 1, gives: 2}, {wait: 20 * time.Second, present: 2, gives: 2}, {wait: 11 * time.Second, present: 2, gives: 3}, {present: 2, gives: 3}, {present: 3, gives: 3}, {present: 1},
		}},
		"the one before, after the grace": {"conf", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2}, {wait: grace + time.Second, present: 1}}},
		"from another address":            {"conf", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2, address: "192.0.2.9", from: "another address"}}},
		"for another resource":            {"conf", "/api", usedUp},
		"for none":                        {"conf", "", usedUp},
		"for the audience of all, which an MCP server takes": {"conf", "/", usedUp},
		"no grace":                          {"other", "/mcp", usedUp},
		"same_address, from there":          {"first", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 2}}},
		"same_address, from elsewhere":      {"first", "/mcp", []refreshing{{present: 1, gives: 2}, {present: 2, gives: 3, address: "192.0.2.9"}, {present: 1}}},
		"with revoke_previous_access_token": {"pub", "/mcp", usedUp},
	} {
		u.sub(name, func(u *userDoor) {
			r := requestOf(test.client)
			if test.resource != "" {
				r.more = url.Values{"resource": {u.url + test.resource}}
			}
			all := []tokens{{}, u.userTokens(r, ada)}
			for i, step := range test.steps {
				if step.address == "" {
					step.address = "192.0.2.1"
				}
				u.wait(now, step.wait)
				u.decisions(u.t)
				a := u.ask(u.t, "/oauth/token", r.refresh(all[step.present].RefreshToken).Encode(), "X-Forwarded-For", step.address)
				line := u.audited()
				if step.gives == 0 {
					u.holdUnaudited(u.t, a, badGrant(""))
					if line["reason"] != "refresh_token_reused" {
						u.t.Errorf("step %d: audited %v", i, line)
					}
					u.denied(r.refresh(all[len(all)-1].RefreshToken), badGrant("refresh_token_revoked"))
					return
				}
				if a.status != http.StatusOK {
					u.t.Fatalf("step %d: %d %s, audited %v", i, a.status, a.body, line)
				}
				got := u.tokensIn(a)
				again := step.gives < len(all)
				if !again {
					all = append(all, got)
				}
				if got.RefreshToken != all[step.gives].RefreshToken || (line["repeated"] == true) != again {
					u.t.Errorf("step %d: another token, or audited %v", i, line)
				}
				if from, _ := line["repeated_from"].(string); from != step.from {
					u.t.Errorf("step %d: audited %v", i, line)
				}
				if generation := u.familyOf(got.AccessToken).Refresh.Generation; generation != int64(len(all)-1) {
					u.t.Errorf("step %d: generation %d", i, generation)
				}
			}
		})
	}
}
