package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestT133TheTokenOfBeforeARefreshEndsAlone: revocation of an access token from before the refresh → that token
// alone; of the current access or refresh token → the family; of an expired one → nothing.
func TestT133TheTokenOfBeforeARefreshEndsAlone(t *testing.T) {
	setClock(t) // all within one second: iat does not tell them apart
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	for _, clientID := range []string{"conf", "pub"} {
		u.sub(clientID, func(u *userDoor) {
			r := requestOf(clientID)
			first := u.userTokens(r, ada)
			second := u.gives(r.refresh(first.RefreshToken))
			repeated := u.gives(r.refresh(first.RefreshToken))
			u.revoked(u.t, u.revoke(r, first.AccessToken), true)
			u.gone(first.AccessToken)
			if !u.alive(second.AccessToken) || !u.alive(repeated.AccessToken) {
				u.t.Error("a token of after the refresh died")
			}
			u.revoked(u.t, u.revoke(r, first.AccessToken), false)
			third := u.gives(r.refresh(second.RefreshToken))
			u.revoked(u.t, u.revoke(r, repeated.AccessToken), true)
			u.gone(repeated.AccessToken)
			if !u.alive(second.AccessToken) || !u.alive(third.AccessToken) {
				u.t.Error("another token of before died too")
			}
			u.revoked(u.t, u.revoke(r, third.AccessToken), true)
			u.gone(second.AccessToken, third.AccessToken)
			u.denied(r.refresh(third.RefreshToken), badGrant("refresh_token_revoked"))
		})
	}
	u.sub("a used refresh token ends the family", func(u *userDoor) {
		r := requestOf("conf")
		first := u.userTokens(r, ada)
		second := u.gives(r.refresh(first.RefreshToken))
		u.revoked(u.t, u.revoke(r, first.RefreshToken), true)
		u.gone(first.AccessToken, second.AccessToken)
	})
}

// TestT134ARefreshEndsTheTokenOfBefore: `revoke_previous_access_token` and a refresh → the previous access token is dead at every gate
// within a second, with one revocation for each family.
func TestT134ARefreshEndsTheTokenOfBefore(t *testing.T) {
	now := setClock(t)
	u := openUsers(t, append(append(append([]string{}, onDiskPeople...), behindProxy...), "redirect_uris https://other.example/cb",
		"redirect_uris https://other.example/cb\n\t\t\trevoke_previous_access_token")...)
	u.must(http.StatusCreated, "POST", "/oauth/clients",
		`{"id":"stored","type":"public","scopes":["public","trusted"],"redirect_uris":["https://other.example/cb"],"revoke_previous_access_token":true}`)
	if shown := u.ok("client", "add", "--name", "x", "--id", "by-command", "--revoke-previous-access-token", "--json"); !strings.Contains(shown, `"revoke_previous_access_token":true`) &&
		!strings.Contains(shown, `"revoke_previous_access_token": true`) {
		t.Errorf("added %s", shown)
	}
	stored := requestOf("pub")
	stored.clientID, stored.redirectURI = "stored", "https://other.example/cb"
	for name, r := range map[string]request{"declared": requestOf("other"), "stored": stored} {
		u.sub(name, func(u *userDoor) {
			first, bystander := u.userTokens(r, ada), u.userTokens(r, ada)
			second := u.gives(r.refresh(first.RefreshToken))
			u.gone(first.AccessToken)
			repeated := u.gives(r.refresh(first.RefreshToken))
			if repeated.RefreshToken != second.RefreshToken || !u.alive(second.AccessToken) || !u.alive(repeated.AccessToken) {
				u.t.Error("a repeat, or what came of the refresh, is worth nothing")
			}
			before := u.app().node.Revocations.Len()
			third := u.gives(r.refresh(second.RefreshToken))
			u.gone(second.AccessToken, repeated.AccessToken)
			if !u.alive(third.AccessToken) || !u.alive(bystander.AccessToken) {
				u.t.Error("the newest token, or another family's, died")
			}
			if n := u.app().node.Revocations.Len(); n != before {
				u.t.Errorf("each refresh leaves a revocation: %d became %d", before, n)
			}
			form := with(r.refresh(third.RefreshToken), "refresh_token", third.RefreshToken)
			a := u.ask(u.t, "/oauth/token", form.Encode(), "X-Forwarded-For", "192.0.2.1")
			u.tokensIn(a)
			u.decisions(u.t)
			a = u.ask(u.t, "/oauth/token", form.Encode(), "X-Forwarded-For", "192.0.2.2")
			u.hold(u.t, a, badGrant("refresh_token_repeated_elsewhere"))
		})
	}
	u.sub("not for other clients", func(u *userDoor) {
		r := requestOf("conf")
		first := u.userTokens(r, ada)
		u.wait(now, time.Second)
		u.gives(r.refresh(first.RefreshToken))
		if !u.alive(first.AccessToken) {
			u.t.Error("the access token died")
		}
	})
}
