package caddymodule

import (
	"database/sql"
	"net/http"
	"testing"
)

// Faults during a grant.

// beside opens the store's file separately, as another process does.
func (u *userDoor) beside() *sql.DB {
	u.t.Helper()
	return besideAt(u.t, u.database())
}

// unavailable returns the outcome 503 with a reason.
func unavailable(reason string) outcome {
	return outcome{status: http.StatusServiceUnavailable, code: "temporarily_unavailable", reason: reason, text: busy}
}

// TestT64StoreFailsAmidAGrant: the store is closed during a grant → 503 and no token, and the gate goes on with what it knows. Package grants
// tests every step.
func TestT64StoreFailsAmidAGrant(t *testing.T) {
	u := openUsers(t, append(onDiskPeople, passwordRefresh...)...)
	r := requestOf("conf")
	down := unavailable("store_unavailable")
	code, first := u.code(r, ada), u.userTokens(r, ada)
	if err := u.app().node.Store().Close(); err != nil {
		t.Fatal(err)
	}
	u.denied(r.exchange(code), down)
	u.denied(r.refresh(first.RefreshToken), down)
	u.denied(r.asPassword(ada, peoplePassword), unavailable(""))
	u.denied(nobodysClient.asPassword(ada, peoplePassword), unavailable(""))
	u.denied(nobodysClient.refresh(first.RefreshToken), down)
	if !u.alive(first.AccessToken) {
		t.Error("the gate refuses what was not revoked")
	}
}
