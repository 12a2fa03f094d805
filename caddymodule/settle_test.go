package caddymodule

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestM25WhatIsDeclaredNoMoreEnds: an operator who takes a user or a client out of the Caddyfile, or gives a user another
// role there, expects that their tokens stop working with the reload, and not with their own end weeks later. Whoever
// stays as they were notices nothing.
func TestM25WhatIsDeclaredNoMoreEnds(t *testing.T) {
	c := setClock(t)
	g := startPeople(t)
	r := requestOf("conf")
	signedIn := g.browser()
	stays := g.obtain(r.exchange(signedIn.authorize(r, "ada@acme.example").location().Query().Get("code")))
	changed, gone := g.userTokens(r, "grace@acme.example"), g.userTokens(r, "ben@acme.example")
	ofClient := g.userTokens(requestOf("pub"), "max@acme.example")

	text := strings.ReplaceAll(people, "HASH", peopleHash())
	text = strings.Replace(text, "role group_manager", "role member", 1)
	text = cutBlock(t, text, "user u-ben {")
	text = cutBlock(t, text, "client pub {")
	g.reload(text)

	for name, ended := range map[string]tokens{"changed user": changed, "removed user": gone, "removed client": ofClient} {
		if g.alive(ended.AccessToken) {
			t.Errorf("%s: the access token lives on", name)
		}
	}
	g.refused(r.refresh(changed.RefreshToken), http.StatusBadRequest, "invalid_grant")
	g.refused(r.refresh(gone.RefreshToken), http.StatusBadRequest, "invalid_grant")
	if !g.alive(stays.AccessToken) {
		t.Error("the token of a user who stays is dead")
	}
	if got := g.obtain(r.refresh(stays.RefreshToken)); !g.alive(got.AccessToken) {
		t.Error("the refreshed token of a user who stays is dead")
	}
	if p := signedIn.open("/oauth/account"); p.status != http.StatusOK {
		t.Errorf("the session of a user who stays: %d", p.status)
	}

	// A user who comes back starts anew, but not in the same second.
	c.advance(2 * time.Second)
	g.reload(strings.ReplaceAll(people, "HASH", peopleHash()))
	if g.alive(gone.AccessToken) {
		t.Error("the old token of a user who came back lives again")
	}
	if back := g.userTokens(r, "ben@acme.example"); !g.alive(back.AccessToken) {
		t.Error("the new token of a user who came back is dead")
	}
}

// cutBlock takes a block out of a Caddyfile.
func cutBlock(t *testing.T, text, head string) string {
	t.Helper()
	start := strings.Index(text, "\t\t"+head)
	if start < 0 {
		t.Fatalf("no block %q", head)
	}
	length := strings.Index(text[start:], "\n\t\t}\n")
	return text[:start] + text[start+length+len("\n\t\t}\n"):]
}
