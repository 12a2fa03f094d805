package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// What a thief of a refresh token can learn of its owner.

// TestT120NobodySeesARefreshFromOutside: whoever could see that a stolen refresh token was used by its owner would present it
// within the grace, get the same successor, and raise no alarm.
func TestT120NobodySeesARefreshFromOutside(t *testing.T) {
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
		ask := func() string {
			u.t.Helper()
			form := with(r.refresh(""), "token", first.RefreshToken, "grant_type", "", "refresh_token", "")
			a := u.ask(u.t, "/oauth/introspect", form.Encode())
			if a.status != http.StatusOK {
				u.t.Fatalf("%d %s", a.status, a.body)
			}
			return strings.TrimSpace(a.body)
		}
		u.wait(now, time.Hour)
		before, seen := ask(), asked(u, first.RefreshToken, first.AccessToken)
		if !strings.Contains(before, `"active":true`) {
			u.t.Fatalf("before its use: %s", before)
		}
		second := u.gives(r.refresh(first.RefreshToken))
		for range 2 {
			if after := ask(); after != before {
				u.t.Errorf("after its use it answers %s, before it %s", after, before)
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
		if after := ask(); after != inactive {
			u.t.Errorf("its successor was used: %s", after)
		}
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
