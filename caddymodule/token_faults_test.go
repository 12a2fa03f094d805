package caddymodule

import (
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"testing"
)

// Faults amid a grant: a store that refuses one step, a client that leaves.

// beside opens the file of the store beside the store, as a foreign process does.
func (u *userDoor) beside() *sql.DB {
	u.t.Helper()
	return besideAt(u.t, u.database())
}

// unavailable is a 503 for a reason.
func unavailable(reason string) outcome {
	return outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", reason: reason, text: busy}
}

// TestT64StoreFailsAmidAGrant: a grant of which one step failed gave nothing and used nothing up, and a replay that could
// not be punished is not reported as if it had been.
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
	for _, kind := range []string{"ABORT", "FAIL", "ROLLBACK"} { // the statement fails; likewise; the whole transaction is gone
		raise := func(on string) string { return on + " BEGIN SELECT RAISE(" + kind + ", 'broken'); END" }
		u.sub("consume the code, "+kind, func(u *userDoor) {
			code := u.code(r, ada)
			broken(u, raise("BEFORE UPDATE OF code_spent_at ON families"), func() {
				u.denied(r.exchange(code), down)
				u.denied(r.exchange(code), down)
			})
			u.gives(r.exchange(code))
			u.denied(r.exchange(code), badGrant("code_replayed"))
		})
		u.sub("after the code is consumed, "+kind, func(u *userDoor) {
			code := u.code(r, ada)
			broken(u, raise("AFTER UPDATE OF code_spent_at ON families"), func() { u.denied(r.exchange(code), down) })
			u.gives(r.exchange(code))
		})
		u.sub("count a wrong verifier, "+kind, func(u *userDoor) {
			form := r.exchange(u.code(r, ada))
			broken(u, raise("BEFORE UPDATE OF code_failures ON families"), func() {
				u.denied(with(form, "code_verifier", "w"+r.verifier), down)
			})
			u.gives(form)
		})
		u.sub("refresh, "+kind, func(u *userDoor) {
			first := u.userTokens(r, ada)
			broken(u, raise("AFTER UPDATE OF generation ON families"), func() { u.denied(r.refresh(first.RefreshToken), down) })
			if f := u.familyOf(first.AccessToken); f.Generation != 1 {
				u.t.Errorf("generation %d", f.Generation)
			}
			u.decisions(u.t)
			u.tokensIn(u.ask(u.t, "/oauth/token", r.refresh(first.RefreshToken).Encode()))
			if line := u.audited(); line["repeated"] != nil {
				u.t.Errorf("the failed refresh counted: %v", line)
			}
		})
		u.sub("insert a family, "+kind, func(u *userDoor) {
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
		u.sub("end a family, "+kind, func(u *userDoor) {
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
	}
	u.sub("a foreign writer holds the file", func(u *userDoor) {
		code, first := u.code(r, ada), u.userTokens(r, ada)
		foreign, err := db.Conn(u.t.Context())
		if err != nil {
			u.t.Fatal(err)
		}
		defer func() { _ = foreign.Close() }()
		exec := func(statement string) {
			if _, err := foreign.ExecContext(context.Background(), statement); err != nil {
				u.t.Fatal(err)
			}
		}
		exec("BEGIN IMMEDIATE")
		u.denied(r.exchange(code), down)
		exec("ROLLBACK")
		u.gives(r.exchange(code))
		u.gives(r.refresh(first.RefreshToken))
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

// leave sends a form, or the first bytes of it, and closes the connection without waiting for an answer.
func (u *userDoor) leave(form url.Values, bytes int) {
	u.t.Helper()
	body := form.Encode()
	connection, err := net.Dial("tcp", u.addr)
	if err != nil {
		u.t.Fatal(err)
	}
	head := fmt.Sprintf("POST /oauth/token HTTP/1.1\r\nHost: %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n", u.addr, urlEncoded, len(body))
	if _, err := io.WriteString(connection, head+body[:min(bytes, len(body))]); err != nil {
		u.t.Fatal(err)
	}
	if err := connection.Close(); err != nil {
		u.t.Fatal(err)
	}
}

// TestT46ClientLeavesAmidARequest: a client that disconnects in mid-request → its grant is done entirely or not at all, and a repetition
// finds either.
func TestT46ClientLeavesAmidARequest(t *testing.T) {
	u := openUsers(t, onDiskPeople...)
	r := requestOf("conf")
	decided := func(u *userDoor, form url.Values, bytes int) {
		u.t.Helper()
		u.decisions(u.t)
		u.leave(form, bytes)
		audited := false // a line is told once, and it may be there while the request is still about to end
		u.eventually("the request is decided", func() bool {
			audited = len(u.decisions(u.t)) > 0 || audited
			return audited && u.app().node.Life.IsIdle()
		})
	}
	u.sub("amid the body", func(u *userDoor) {
		code, first := u.code(r, ada), u.userTokens(r, ada)
		decided(u, r.exchange(code), 60)
		decided(u, r.refresh(first.RefreshToken), 60)
		u.gives(r.exchange(code))
		if f := u.familyOf(first.AccessToken); f.Generation != 1 {
			u.t.Errorf("generation %d", f.Generation)
		}
		u.gives(r.refresh(first.RefreshToken))
	})
	const everything = 1 << 20
	done := 0
	for range 25 {
		code := u.code(r, ada)
		decided(u, r.exchange(code), everything)
		a := u.ask(t, "/oauth/token", r.exchange(code).Encode())
		if a.status == http.StatusOK {
			u.gives(r.refresh(u.tokensIn(a).RefreshToken))
			continue
		}
		done++
		u.hold(t, a, badGrant("code_replayed"))
		if f := u.family(code[:22]); f.Generation != 1 || f.Code.SpentAt.IsZero() || f.RevokedAt.IsZero() {
			t.Errorf("half done: generation %d, spent %s, revoked %s", f.Generation, f.Code.SpentAt, f.RevokedAt)
		}
	}
	for range 25 {
		first := u.userTokens(r, ada)
		decided(u, r.refresh(first.RefreshToken), everything)
		got := u.tokensIn(u.ask(t, "/oauth/token", r.refresh(first.RefreshToken).Encode()))
		if u.audited()["repeated"] == true {
			done++
		}
		if f := u.familyOf(first.AccessToken); f.Generation != 2 {
			t.Errorf("generation %d, want 2", f.Generation)
		}
		u.gives(r.refresh(got.RefreshToken))
	}
	t.Logf("%d of 50 requests were carried out for a client that had left", done)
}
