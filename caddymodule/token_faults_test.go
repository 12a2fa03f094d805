package caddymodule

import (
	"database/sql"
	"net/http"
	"testing"
)

// Faults during a grant: a store that fails one step, a client that disconnects.

// beside opens the store's file separately, as another process does.
func (u *userDoor) beside() *sql.DB {
	u.t.Helper()
	return besideAt(u.t, u.database())
}

// unavailable returns the outcome 503 with a reason.
func unavailable(reason string) outcome {
	return outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", reason: reason, text: busy}
}

// TestT64StoreFailsAmidAGrant: the transaction of any step of a grant fails, or the store is closed → 503, no token, and the code or refresh
// token is still good; a replay that could not be recorded is not answered as one.
func TestT64StoreFailsAmidAGrant(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	r := requestOf("conf")
	db := u.beside()
	broken := func(u *userDoor, trigger string, during func()) {
		u.t.Helper()
		if _, err := db.Exec("CREATE TRIGGER broken " + trigger); err != nil {
			u.t.Fatal(err)
		}
		during()
		if _, err := db.Exec("DROP TRIGGER broken"); err != nil {
			u.t.Fatal(err)
		}
	}
	down := unavailable("store_unavailable")
	admin := u.userTokens(r, ada)
	raise := func(on string) string { return on + " BEGIN SELECT RAISE(ROLLBACK, 'broken'); END" }
	u.sub("consume the code", func(u *userDoor) {
		code := u.code(r, ada)
		broken(u, raise("BEFORE UPDATE OF code_spent_at ON families"), func() {
			u.denied(r.exchange(code), down)
			u.denied(r.exchange(code), down)
		})
		u.gives(r.exchange(code))
		u.denied(r.exchange(code), badGrant("code_replayed"))
	})
	u.sub("after the code is consumed", func(u *userDoor) {
		code := u.code(r, ada)
		broken(u, raise("AFTER UPDATE OF code_spent_at ON families"), func() { u.denied(r.exchange(code), down) })
		u.gives(r.exchange(code))
	})
	u.sub("count a wrong verifier", func(u *userDoor) {
		form := r.exchange(u.code(r, ada))
		broken(u, raise("BEFORE UPDATE OF code_failures ON families"), func() {
			u.denied(with(form, "code_verifier", "w"+r.verifier), down)
		})
		u.gives(form)
	})
	u.sub("refresh", func(u *userDoor) {
		first := u.userTokens(r, ada)
		broken(u, raise("AFTER UPDATE OF generation ON families"), func() { u.denied(r.refresh(first.RefreshToken), down) })
		if f := u.familyOf(first.AccessToken); f.Refresh.Generation != 1 {
			u.t.Errorf("generation %d", f.Refresh.Generation)
		}
		u.decisions(u.t)
		u.tokensIn(u.ask(u.t, "/oauth/token", r.refresh(first.RefreshToken).Encode()))
		if line := u.audited(); line["repeated"] != nil {
			u.t.Errorf("the failed refresh counted: %v", line)
		}
	})
	u.sub("insert a family", func(u *userDoor) {
		broken(u, raise("BEFORE INSERT ON families"), func() {
			u.denied(r.asPassword(ada, peoplePassword), down)
			p := u.browserOf(ada).open(r.path())
			if p.status/100 == 2 || p.location().Query().Has("code") {
				u.t.Errorf("authorized: %d %s", p.status, p.header.Get("Location"))
			}
			a := u.send(u.t, http.MethodPost, "/api/v1/organisations/me/users/u-grace/access_tokens", `{"data":{"id":"u-grace","type":"users"}}`,
				"Authorization", "Bearer "+admin.AccessToken, "Content-Type", "application/vnd.api+json")
			if a.status != http.StatusServiceUnavailable {
				u.t.Errorf("admin: %d %s", a.status, a.body)
			}
		})
		u.gives(r.asPassword(ada, peoplePassword))
		u.createdByAdmin(admin.AccessToken, "u-grace")
	})
	u.sub("end a family", func(u *userDoor) {
		form := r.exchange(u.code(r, ada))
		got, other := u.gives(form), u.userTokens(r, ada)
		second := u.gives(r.refresh(other.RefreshToken))
		u.gives(r.refresh(second.RefreshToken))
		broken(u, raise("BEFORE INSERT ON revocations"), func() {
			u.denied(form, down)
			u.denied(r.refresh(other.RefreshToken), down)
			u.decisions(u.t)
			u.hold(u.t, u.ask(u.t, "/oauth/revoke", "token="+got.RefreshToken+"&"+asConf), down)
		})
		if !u.alive(got.AccessToken) || !u.alive(other.AccessToken) {
			u.t.Error("ended here, but not in the store")
		}
		u.denied(form, badGrant("code_replayed"))
		u.denied(r.refresh(other.RefreshToken), badGrant("refresh_token_reused"))
		u.gone(got.AccessToken, other.AccessToken, second.AccessToken)
	})
	u.sub("the store is closed", func(u *userDoor) {
		code, first := u.code(r, ada), u.userTokens(r, ada)
		if err := u.app().node.Store().Close(); err != nil {
			u.t.Fatal(err)
		}
		u.denied(r.exchange(code), down)
		u.denied(r.refresh(first.RefreshToken), down)
		u.denied(r.asPassword(ada, peoplePassword), unavailable(""))
		u.denied(nobodysClient.asPassword(ada, peoplePassword), unavailable(""))
		u.denied(nobodysClient.refresh(first.RefreshToken), down)
		if !u.alive(first.AccessToken) {
			u.t.Error("the gate refuses what was not revoked")
		}
	})
}
