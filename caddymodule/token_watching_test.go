package caddymodule

import (
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"
)

// These tests cover what a thief of a refresh token can learn about its owner.

// TestT130NobodySeesARefreshFromOutside: introspection of a used refresh token within the grace → byte for byte as
// before the refresh; another client or user → inactive. A thief who could see that the owner has used the token
// would present it within the grace, get the same successor, and cause no alarm.
func TestT130NobodySeesARefreshFromOutside(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, passwordRefresh...)
	asked := func(u *userDoor, token, bearer string) string {
		u.t.Helper()
		a := u.ask(u.t, "/oauth/introspect", "token="+token, "Authorization", "Bearer "+bearer)
		if a.status != http.StatusOK {
			u.t.Fatalf("%d %s", a.status, a.body)
		}
		return strings.TrimSpace(a.body)
	}
	const inactive = `{"active":false}`

	u.sub("a confidential client, while a repeat would be served", func(u *userDoor) {
		r := requestOf("conf")
		first := u.userTokens(r, ada)
		ask := func() map[string]any { return u.introspected(r, first.RefreshToken) }
		u.wait(now, time.Hour)
		before, seen := ask(), asked(u, first.RefreshToken, first.AccessToken)
		if before["active"] != true {
			u.t.Fatalf("before its use: %v", before)
		}
		second := u.gives(r.refresh(first.RefreshToken))
		for range 2 {
			if after := ask(); !maps.Equal(after, before) {
				u.t.Errorf("after its use it answers %v, before it %v", after, before)
			}
			if after := asked(u, first.RefreshToken, first.AccessToken); after != seen {
				u.t.Errorf("to a bearer it answers %s, before it %s", after, seen)
			}
			u.wait(now, 15*time.Second)
		}
		if again := u.gives(r.refresh(first.RefreshToken)); again.RefreshToken != second.RefreshToken {
			u.t.Fatal("it was active and is not served")
		}
		u.gives(r.refresh(second.RefreshToken))
		u.wantInactive(r, first.RefreshToken)
	})
	u.sub("bearers ask about their own subject alone", func(u *userDoor) {
		r := requestOf("conf")
		her, his := u.userTokens(r, ada), u.userTokens(r, maxim)
		server := u.obtain(with(r.refresh(""), "grant_type", "client_credentials", "refresh_token", "")).AccessToken
		for name, token := range map[string]string{"access token": her.AccessToken, "refresh token": her.RefreshToken} {
			if got := asked(u, token, his.AccessToken); got != inactive {
				u.t.Errorf("another user about her %s: %s", name, got)
			}
			if got := asked(u, token, server); got != inactive {
				u.t.Errorf("a server token about her %s: %s", name, got)
			}
			if got := asked(u, token, u.userTokens(r, ada).AccessToken); !strings.Contains(got, `"active":true`) {
				u.t.Errorf("she about her own %s: %s", name, got)
			}
		}
		if got := asked(u, server, her.AccessToken); got != inactive {
			u.t.Errorf("a user about a server token: %s", got)
		}
	})
	u.sub("public clients learn nothing of refresh tokens", func(u *userDoor) {
		r := requestOf("pub")
		own, another := u.userTokens(r, ada), u.userTokens(r, ada)
		if got := asked(u, own.AccessToken, another.AccessToken); !strings.Contains(got, `"active":true`) {
			u.t.Errorf("about an access token: %s", got)
		}
		if got := asked(u, own.RefreshToken, another.AccessToken); got != inactive {
			u.t.Errorf("of the same user: %s", got)
		}
		u.gives(r.refresh(own.RefreshToken))
		if got := asked(u, own.RefreshToken, another.AccessToken); got != inactive {
			u.t.Errorf("after its use: %s", got)
		}
		u.decisions(u.t)
		form := with(r.refresh(""), "token", another.RefreshToken, "grant_type", "", "refresh_token", "")
		u.hold(u.t, u.ask(u.t, "/oauth/introspect", form.Encode()), badClient("client_is_public"))
		nobodys := u.gives(nobodysClient.asPassword(ada, peoplePassword))
		if got := asked(u, nobodys.RefreshToken, u.gives(nobodysClient.asPassword(ada, peoplePassword)).AccessToken); got != inactive {
			u.t.Errorf("of no client: %s", got)
		}
	})
}

// behindProxy makes every request come from the address in X-Forwarded-For.
var behindProxy = []string{"\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n"}

// TestT131ARepeatFromElsewhere: a refresh repeated within the grace from another network → served with a warning in
// audit log and metrics; under `same_address` → a reuse; no address is stored. A repeat within the grace yields the
// same successor. A thief who is fast enough must at least be noticed, and same_address refuses the repeat.
func TestT131ARepeatFromElsewhere(t *testing.T) {
	const chrome = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/%s Safari/537.36"
	agent := func(version string) string { return strings.Replace(chrome, "%s", version, 1) }
	changes := append(append([]string{}, behindProxy...), "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\ttokens {\n\t\t\t\trefresh_grace 30s same_address\n\t\t\t}")
	u := openUsers(t, changes...)
	for name, test := range map[string]struct {
		address, agent           string // of the refresh
		otherAddress, otherAgent string // of the repeat
		from                     string // what the warning says; empty: there is none
	}{
		"the same":             {"192.0.2.1", agent("120.0"), "192.0.2.1", agent("120.0"), ""},
		"an update in between": {"192.0.2.1", agent("120.0"), "192.0.2.1", agent("121.0.3"), ""},
		"another address":      {"192.0.2.1", agent("120.0"), "192.0.2.2", agent("120.0"), "another address"},
		"nothing alike":        {"192.0.2.1", "okhttp/4.1", "198.51.100.1", "curl/8.1", "another address and user agent"},
		"IPv6, the same /64":   {"2001:db8:1:2::1", "okhttp/4.1", "2001:db8:1:2:ffff::9", "okhttp/5.0", ""},
	} {
		ask := func(u *userDoor, r request, token, address, agent string) answer {
			u.t.Helper()
			u.decisions(u.t)
			return u.ask(u.t, "/oauth/token", r.refresh(token).Encode(), "X-Forwarded-For", address, "User-Agent", agent)
		}
		for result, client := range map[string]string{"served": "conf", "refused": "other"} {
			u.sub(result+", "+name, func(u *userDoor) {
				r := requestOf(client)
				first := u.userTokens(r, ada)
				second := u.tokensIn(ask(u, r, first.RefreshToken, test.address, test.agent))
				before := u.measured()
				a := ask(u, r, first.RefreshToken, test.otherAddress, test.otherAgent)
				line, after := u.audited(), u.measured()
				level, from, counted := "info", any(nil), 0.0
				if test.from != "" {
					level, from, counted = "warn", test.from, 1
				}
				metrics := []string{`gatehouse_refresh_repeats_elsewhere_total{result="` + result + `"}`}
				isRefused := result == "refused" && test.from != ""
				if isRefused {
					metrics, from = append(metrics, "gatehouse_refresh_reuse_total"), nil
				}
				for _, metric := range metrics {
					if after[metric]-before[metric] != counted {
						u.t.Errorf("%s grew by %v", metric, after[metric]-before[metric])
					}
				}
				if line["level"] != level || line["repeated_from"] != from || (line["repeated"] == true) == isRefused {
					u.t.Errorf("audited %v", line)
				}
				if by := u.familyOf(first.AccessToken).Refresh.RotatedBy; len(by) != 16 || strings.Contains(by, ".") {
					u.t.Errorf("the family remembers %q", by)
				}
				if !isRefused {
					if u.tokensIn(a).RefreshToken != second.RefreshToken {
						u.t.Error("another successor")
					}
					return
				}
				u.holdUnaudited(u.t, a, badGrant(""))
				if line["reason"] != "refresh_token_repeated_elsewhere" {
					u.t.Errorf("audited %v", line)
				}
				u.gone(first.AccessToken, second.AccessToken)
				u.denied(r.refresh(second.RefreshToken), badGrant("refresh_token_revoked"))
			})
		}
	}
}
