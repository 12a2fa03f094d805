package caddymodule

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// old is what a service with Doorkeeper has, by the names of its rows, as lines of a dump.
type old struct {
	g    *gatehouse
	hash string // of everybody's password
	rows []oldRow
}

type oldRow struct {
	table   string
	id      int
	members map[string]string // in JSON
}

// set adds a row, or changes members of one.
func (o *old) set(table string, id int, members ...string) {
	o.g.t.Helper()
	for i := range o.rows {
		if o.rows[i].table == table && o.rows[i].id == id {
			o.rows[i].merge(members)
			return
		}
	}
	r := oldRow{table, id, make(map[string]string)}
	switch table {
	case "users":
		r.merge([]string{"email", fmt.Sprintf(`"user%d@old.example"`, id), "encrypted_password", `"` + o.hash + `"`, "confirmed_at", `"2026-01-01T00:00:00Z"`, "locked_at", "null", "teams", `["staff"]`, "full_name", `"Old Name"`})
	case "oauth_applications":
		r.merge([]string{"uid", `"portal"`, "name", `"Portal"`, "secret", `"portal-secret-portal-secret"`, "redirect_uri", `"https://portal.example/callback"`, "scopes", `"public orders.read"`, "confidential", "true"})
	default:
		r.merge([]string{"resource_owner_id", "1", "application_id", "1", "token", fmt.Sprintf(`"opaque-token-number-%d"`, id), "refresh_token", fmt.Sprintf(`"refresh-token-number-%d"`, id),
			"expires_in", "7200", "scopes", `"public"`, "created_at", node.Clock().Add(-time.Minute).UTC().Format(`"2006-01-02T15:04:05Z"`), "revoked_at", "null"})
	}
	r.merge(members)
	o.rows = append(o.rows, r)
}

func (r *oldRow) merge(members []string) {
	for i := 0; i+1 < len(members); i += 2 {
		r.members[members[i]] = members[i+1]
	}
}

// drop deletes the rows of a table, all or one.
func (o *old) drop(table string, id int) {
	var kept []oldRow
	for _, r := range o.rows {
		if r.table != table || id != 0 && r.id != id {
			kept = append(kept, r)
		}
	}
	o.rows = kept
}

func (o *old) dump() string { return dumped(o.g.t, o.lines()...) }

func (o *old) lines() (lines []string) {
	for _, r := range o.rows {
		line := fmt.Sprintf(`{"table":"%s","id":%d`, r.table, r.id)
		for name, value := range r.members {
			line += fmt.Sprintf(`,"%s":%s`, name, value)
		}
		lines = append(lines, line+"}")
	}
	return lines
}

// imports imports the rows as they are now.
func (o *old) imports(args ...string) (string, error) {
	o.g.t.Helper()
	return o.g.run("", append([]string{"import", "doorkeeper", "--from", o.dump(), "--devise", "users", "--map", "groups=teams", "--map", "name=full_name", "--tokens", "plain", "--secrets", "plain", "--source", "old"}, args...)...)
}

// moves imports the rows, all of which are brought over.
func (o *old) moves() {
	o.g.t.Helper()
	if out, err := o.imports(); err != nil {
		o.g.t.Fatalf("import: %v\n%s", err, out)
	}
}

// awaitGate waits until the gate answers with a status for a token of the old service: it asks the store again after a while.
func (o *old) awaitGate(token int, want int) {
	o.g.t.Helper()
	o.g.eventually(fmt.Sprintf("the gate answers %d for token %d", want, token), func() bool { return o.gate(token) == want })
}

func (o *old) gate(token int) int { return o.g.gate(fmt.Sprintf("opaque-token-number-%d", token)) }

func newOld(t *testing.T, config string) *old {
	t.Helper()
	o := &old{g: startGatehouse(t, config), hash: bcryptOf(t, adaPassword)}
	o.set("oauth_applications", 1)
	o.set("users", 1)
	return o
}

func (o *old) user(id string) *store.User {
	o.g.t.Helper()
	for _, u := range o.g.storedUsers(o.g.t) {
		if u.ID == id {
			return u
		}
	}
	o.g.t.Fatalf("there is no user %s", id)
	return nil
}

// TestDK14WhatAnOperatorChangedStays: an operator disables a person and renames them, renames an application and mends its redirect URI, and
// the source changes other members of both → the next import takes these alone; the source changes the same member → it is taken.
func TestDK14WhatAnOperatorChangedStays(t *testing.T) {
	o := newOld(t, newHome)
	o.set("oauth_applications", 2, "uid", `"oob"`, "redirect_uri", `"urn:ietf:wg:oauth:2.0:oob\nhttps://oob.example/cb"`)
	o.set("users", 2)
	o.set("users", 3)
	o.moves()
	o.g.ok("user", "update", "1", "--name", "New Name")
	o.g.ok("user", "disable", "1")
	o.g.ok("user", "lock", "2")
	o.g.ok("client", "update", "portal", "--name", "New Portal")
	o.g.ok("client", "enable", "oob")
	o.set("users", 1, "teams", `["staff","night"]`, "encrypted_password", `"`+bcryptOf(t, "another horse")+`"`)
	o.set("users", 2, "full_name", `"Renamed There"`)
	o.set("oauth_applications", 1, "scopes", `"public"`)
	o.set("oauth_applications", 2, "name", `"Oob There"`)
	o.moves()
	if u := o.user("1"); u.Status != store.UserDisabled || u.Name != "New Name" || len(u.Groups) != 2 || u.PasswordHash.IsEmpty() {
		t.Errorf("person 1: %s %q %q", u.Status, u.Name, u.Groups)
	}
	if u := o.user("2"); u.Status != store.UserLocked || u.Name != "Renamed There" {
		t.Errorf("person 2: %s %q", u.Status, u.Name)
	}
	clients := map[string]*store.Client{}
	list, err := o.g.app().node.Store().Clients.Clients(t.Context())
	check(t, err)
	for _, c := range list {
		clients[c.ID] = c
	}
	if c := clients["portal"]; c.Name != "New Portal" || len(c.Scopes) != 1 || c.Disabled {
		t.Errorf("portal: %q %q disabled %t", c.Name, c.Scopes, c.Disabled)
	}
	if c := clients["oob"]; c.Name != "Oob There" || c.Disabled {
		t.Errorf("oob: %q disabled %t", c.Name, c.Disabled)
	}
	// The source decides again as soon as it changes the member, but lets nobody in whom an operator keeps out.
	o.set("users", 1, "locked_at", `"2026-01-03T00:00:00Z"`, "full_name", `"Newer There"`)
	o.set("users", 2, "locked_at", `"2026-01-03T00:00:00Z"`)
	o.set("users", 3, "locked_at", `"2026-01-03T00:00:00Z"`)
	o.moves()
	if u := o.user("1"); u.Status != store.UserDisabled || u.Name != "Newer There" {
		t.Errorf("person 1: %s %q", u.Status, u.Name)
	}
	for id := 1; id <= 3; id++ {
		o.set("users", id, "locked_at", "null")
	}
	o.moves()
	for id, want := range map[string]store.UserStatus{"1": store.UserDisabled, "2": store.UserLocked, "3": store.UserActive} {
		if u := o.user(id); u.Status != want {
			t.Errorf("person %s is %s after being locked and unlocked there", id, u.Status)
		}
	}
}

// TestDK33WhatIsEmptiedThere: role, organisation, groups and password of a person become empty at the source → the defaults here, no password, and
// the operator is told; a column that is not mapped any more → nothing changes.
func TestDK33WhatIsEmptiedThere(t *testing.T) {
	o := newOld(t, newHome)
	o.set("users", 1, "rank", `"admin"`)
	o.set("users", 2, "rank", `"admin"`)
	if out, err := o.imports("--map", "role=rank"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.moves()
	if u := o.user("1"); u.Role != "admin" {
		t.Errorf("a role that is not mapped: %q", u.Role)
	}
	if out, err := o.imports("--map", "role=rank"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	o.set("users", 1, "rank", "null", "teams", "null")
	o.set("users", 2, "encrypted_password", `""`)
	out, err := o.imports("--map", "role=rank")
	if err != nil || !strings.Contains(out, "its role or organisation is empty there") || !strings.Contains(out, "its password is gone there") {
		t.Errorf("%v\n%s", err, out)
	}
	if u := o.user("1"); u.Role == "admin" || len(u.Groups) != 0 || u.PasswordHash.IsEmpty() {
		t.Errorf("person 1: %q %q", u.Role, u.Groups)
	}
	if u := o.user("2"); u.Role != "admin" || !u.PasswordHash.IsEmpty() {
		t.Errorf("person 2: %q, a password: %t", u.Role, !u.PasswordHash.IsEmpty())
	}
}

// TestDK34ARowThatIsRefusedHoldsUpNoPrivilege: a person takes an address that is taken, or a name that is too long or no UTF-8, and is locked and
// loses a group there → both happen here, and the rest is refused until it is mended; an application with a name that is too long changes its secret.
func TestDK34ARowThatIsRefusedHoldsUpNoPrivilege(t *testing.T) {
	o := newOld(t, newHome)
	for id := 2; id <= 4; id++ {
		o.set("users", id)
	}
	o.moves()
	locked := []string{"locked_at", `"2026-01-03T00:00:00Z"`, "teams", "[]"}
	o.set("users", 2, append(locked, "email", `"user1@old.example"`)...)
	o.set("users", 3, append(locked, "full_name", `"`+strings.Repeat("n", 300)+`"`)...)
	o.set("users", 4, append(locked, "full_name", `"`+strings.Repeat("n", 70<<10)+"\xff\"")...)
	o.set("oauth_applications", 1, "name", `"`+strings.Repeat("n", 300)+`"`, "secret", `"another-secret-of-the-portal"`)
	for range 2 {
		out, err := o.imports()
		if err == nil || strings.Count(out, ": refused: ") != 4 {
			t.Errorf("%v\n%.4000s", err, out)
		}
		for _, id := range []string{"2", "3", "4"} {
			if u := o.user(id); u.Status != store.UserLocked || len(u.Groups) != 0 || u.Name != "Old Name" {
				t.Errorf("person %s: %s %q %.32q", id, u.Status, u.Groups, u.Name)
			}
		}
	}
	if status, body := o.g.tokenFor("portal", "another-secret-of-the-portal"); status != http.StatusOK {
		t.Errorf("the new secret: %d %s", status, body)
	}
	o.set("users", 2, "email", `"free@old.example"`)
	o.drop("oauth_applications", 0)
	o.drop("users", 3)
	o.drop("users", 4)
	o.moves()
	if u := o.user("2"); u.Email != "free@old.example" {
		t.Errorf("the address is %s", u.Email)
	}
}

// TestDK35AnElementThatCannotBeSent: an application with more redirect URIs than a request holds → refused with its key, and the import goes on.
func TestDK35AnElementThatCannotBeSent(t *testing.T) {
	o := newOld(t, newHome)
	o.set("oauth_applications", 2, "uid", `"large"`, "redirect_uri", `"`+strings.Repeat(`https://large.example/callback\n`, 4000)+`"`)
	o.set("oauth_access_tokens", 1, "scopes", `"public `+strings.Repeat("s", 70<<10)+`"`)
	o.set("oauth_access_tokens", 2)
	o.set("oauth_access_tokens", 3, "scopes", `"public read\"orders"`)
	o.set("oauth_access_tokens", 4, "created_at", `"0001-02-03T04:05:06Z"`, "expires_in", "null")
	out, err := o.imports()
	if !strings.Contains(out, "tokens 3: refused: its scopes: ") {
		t.Errorf("a malformed scope:\n%.4000s", out)
	}
	if err == nil || !strings.Contains(out, "applications 2 (\"Portal\"): refused: it is larger than") || !strings.Contains(out, "tokens 1: refused: it is larger than") {
		t.Errorf("%v\n%.4000s", err, out)
	}
	o.awaitGate(2, http.StatusOK)
	old, err := o.g.app().node.Store().Imports.Imported(t.Context(), oauth.NewSecret("opaque-token-number-4").Digest())
	check(t, err)
	f, err := o.g.app().node.Store().Families.Family(t.Context(), old.FamilyID)
	check(t, err)
	if f.TokenLifetime <= 0 || f.CreatedAt.Add(f.TokenLifetime).Before(old.ExpiresAt) {
		t.Errorf("a token of the year 1: its family has tokens of %s", f.TokenLifetime)
	}
}

// TestDK42LongKeysOfRowsThatStay: a page of tokens that are refused, whose keys together are more than a request holds, with valid ones between them →
// the import goes on, the valid ones come over, and of those that are refused now and were imported before none ends.
func TestDK42LongKeysOfRowsThatStay(t *testing.T) {
	o := newOld(t, newHome)
	o.moves()
	const rows = 1500
	imports := func(application string) {
		t.Helper()
		var lines []string
		for i := range rows {
			of := application
			if i%100 == 7 {
				of = "1"
			}
			lines = append(lines, fmt.Sprintf(`{"table":"oauth_access_tokens","id":"%0800d","resource_owner_id":null,"application_id":%s,"token":"opaque-token-number-%d","expires_in":null,"scopes":"public","created_at":"2026-01-01T00:00:00Z"}`, i, of, i))
		}
		out, err := o.g.run("", "import", "doorkeeper", "--from", dumped(t, append(lines, o.lines()...)...), "--devise", "users", "--tokens", "plain", "--secrets", "plain", "--source", "old")
		if strings.Count(out, "refused") != map[string]int{"1": 0, "2": rows - rows/100}[application] || err != nil && !strings.Contains(err.Error(), "rows were not brought over") {
			t.Fatalf("%v\n%.2000s", err, out)
		}
	}
	imports("2")
	o.awaitGate(7, http.StatusOK)
	if status := o.gate(8); status != http.StatusUnauthorized {
		t.Errorf("a token of an unknown application: %d", status)
	}
	imports("1")
	o.awaitGate(8, http.StatusOK)
	imports("2")
	if first, last := o.gate(0), o.gate(rows-1); first != http.StatusOK || last != http.StatusOK {
		t.Errorf("tokens that were imported before: %d, %d", first, last)
	}
}

// TestDK38AnApplicationThatAnImportDisables: the only redirect URI of an application becomes one that is refused → the application is disabled, and its
// tokens end.
func TestDK38AnApplicationThatAnImportDisables(t *testing.T) {
	o := newOld(t, newHome)
	o.set("oauth_access_tokens", 1)
	o.moves()
	o.awaitGate(1, http.StatusOK)
	o.set("oauth_applications", 1, "redirect_uri", `"urn:ietf:wg:oauth:2.0:oob"`)
	_, _ = o.imports()
	if status := o.gate(1); status != http.StatusUnauthorized {
		t.Errorf("the gate answers %d", status)
	}
}

// TestDK39ADatabaseWithoutTokens: the table of tokens of a database is emptied → every imported token ends.
func TestDK39ADatabaseWithoutTokens(t *testing.T) {
	g := startGatehouse(t, newHome)
	d := newDoorkeeper(t)
	d.application("portal", "portal-secret-portal-secret", "https://portal.example/callback", "public", true)
	d.user("ada@old.example", bcryptOf(t, adaPassword))
	d.token(1, 1, "opaque-token-number-1", "", 7200)
	imports := func() {
		t.Helper()
		if out, err := g.run("", "import", "doorkeeper", "--from", d.dsn, "--devise", "users", "--tokens", "plain", "--secrets", "plain"); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	imports()
	g.eventually("the gate knows the token", func() bool { return g.gate("opaque-token-number-1") == http.StatusOK })
	d.exec("DELETE FROM oauth_access_tokens")
	imports()
	if status := g.gate("opaque-token-number-1"); status != http.StatusUnauthorized {
		t.Errorf("the gate answers %d", status)
	}
}

// TestDK15WhatEndedStaysEnded: a token that the source has revoked once, and shows as valid again → it stays ended; a file without tokens, or
// with some of them → nothing ends that it does not show; a row that is refused now and was imported before → its token goes on.
func TestDK15WhatEndedStaysEnded(t *testing.T) {
	o := newOld(t, newHome)
	o.set("users", 2)
	for id := 1; id <= 5; id++ {
		o.set("oauth_access_tokens", id)
	}
	o.set("oauth_access_tokens", 5, "resource_owner_id", "2")
	o.moves()
	o.awaitGate(1, http.StatusOK)
	o.set("oauth_access_tokens", 2, "revoked_at", `"2026-01-02T03:04:05Z"`)
	o.moves()
	if o.gate(2) != http.StatusUnauthorized {
		t.Error("a revoked token goes on")
	}
	o.set("oauth_access_tokens", 2, "revoked_at", "null")
	o.moves()
	for range 3 {
		if o.gate(2) != http.StatusUnauthorized {
			t.Fatal("a token that has ended here came back")
		}
	}
	if status, _ := o.g.refreshOf("portal", "portal-secret-portal-secret", "refresh-token-number-2"); status == http.StatusOK {
		t.Error("its refresh token came back")
	}
	all := o.rows
	o.drop("oauth_access_tokens", 0)
	o.moves()
	o.rows = all
	o.drop("oauth_access_tokens", 1)
	o.drop("oauth_access_tokens", 5)
	o.moves()
	o.rows = all
	o.set("users", 2, "email", `"none"`)
	o.set("oauth_access_tokens", 3, "expires_in", `"soon"`)
	if out, err := o.imports(); err == nil || !strings.Contains(out, "tokens 3: refused") || !strings.Contains(out, "tokens 5: refused") {
		t.Errorf("rows that are refused now: %v\n%s", err, out)
	}
	for _, id := range []int{1, 3, 4, 5} {
		if status := o.gate(id); status != http.StatusOK {
			t.Errorf("token %d: the gate answers %d", id, status)
		}
	}
}

// TestDK16OneImportAtATime: an import begins while another of the same source runs → it is refused and brings nothing; of another source → both
// go on; the other has ended → it runs.
func TestDK16OneImportAtATime(t *testing.T) {
	o := newOld(t, newHome)
	for id := range 500 {
		o.set("users", id+1)
	}
	var runs sync.WaitGroup
	var outs, errs [2]string
	for i := range outs {
		runs.Go(func() {
			out, err := o.imports()
			outs[i], errs[i] = out, fmt.Sprint(err)
		})
	}
	runs.Wait()
	if refused := strings.Count(errs[0]+errs[1], "another import of this source is running"); refused != 1 {
		t.Errorf("%d of two imports at once are refused: %q", refused, errs)
	}
	o.moves()
	o.moves()
}

// TestDK17PeopleOfThisSourceAlone: a token whose owner has the id of a person made here, of one who replaced the imported one, or of a person of
// another source → refused, whoever it is.
func TestDK17PeopleOfThisSourceAlone(t *testing.T) {
	o := newOld(t, durableHome)
	o.g.ok("user", "add", "--id", "7", "--email", "seven@acme.example")
	o.set("users", 2)
	o.moves()
	o.g.ok("user", "remove", "2")
	o.g.behind("UPDATE subjects SET free_at = 1 WHERE id = '2'") // as after 35 days
	o.g.ok("user", "add", "--id", "2", "--email", "two@acme.example")
	o.set("oauth_access_tokens", 1)
	o.set("oauth_access_tokens", 2, "resource_owner_id", "7")
	o.set("oauth_access_tokens", 3, "resource_owner_id", "2")
	from := o.dump()
	out, err := o.g.run("", "import", "doorkeeper", "--from", from, "--tokens", "plain", "--secrets", "plain", "--source", "old")
	if err == nil || strings.Count(out, "refused") != 2 || !strings.Contains(out, "tokens 2: refused: its user") || !strings.Contains(out, "tokens 3: refused: its user") {
		t.Errorf("tokens: %v\n%s", err, out)
	}
	o.awaitGate(1, http.StatusOK)
	for _, id := range []int{2, 3} {
		if status := o.gate(id); status != http.StatusUnauthorized {
			t.Errorf("token %d: the gate answers %d", id, status)
		}
	}
	if out, err := o.imports(); err == nil || !strings.Contains(out, "people 2 (\"user2@old.example\"): refused: the id is in use here") {
		t.Errorf("people: %v\n%s", err, out)
	}
	if u := o.user("2"); u.Email != "two@acme.example" {
		t.Errorf("person 2 is %s", u.Email)
	}
	out, err = o.g.run("", "import", "doorkeeper", "--from", from, "--tokens", "plain", "--secrets", "plain", "--source", "second")
	if err == nil || strings.Count(out, ": refused: ") != 3 {
		t.Errorf("another source: %v\n%s", err, out)
	}
}

// TestDK18WhatWasRemovedHereStaysRemoved: a person and an application are removed here, and their ids are free again → no import brings them back;
// a person who was refused once is brought over as soon as nothing is in the way.
func TestDK18WhatWasRemovedHereStaysRemoved(t *testing.T) {
	clock := setClock(t)
	o := newOld(t, newHome)
	o.g.ok("user", "add", "--id", "first", "--email", "user2@old.example")
	o.set("users", 2)
	if out, err := o.imports(); err == nil || !strings.Contains(out, "people 2 (\"user2@old.example\"): refused") {
		t.Fatalf("%v\n%s", err, out)
	}
	o.g.ok("user", "remove", "1")
	o.g.ok("client", "remove", "portal")
	o.g.ok("user", "remove", "first")
	clock.advance(36 * 24 * time.Hour)
	for range 2 {
		out, err := o.imports()
		if err != nil || !strings.Contains(out, "people 1 (\"user1@old.example\"): unchanged: it was removed here") || !strings.Contains(out, "applications 1 (\"Portal\"): unchanged: it was removed here") {
			t.Errorf("%v\n%s", err, out)
		}
	}
	for _, u := range o.g.storedUsers(t) {
		if u.ID == "1" {
			t.Error("a removed person came back")
		}
	}
	if status, _ := o.g.tokenFor("portal", "portal-secret-portal-secret"); status == http.StatusOK {
		t.Error("a removed application came back")
	}
	o.user("2")
}

// TestDK19ImportedTokensEndBeforeTheirRevocations: tokens that never expire there → they expire here within the time for which revocations are kept;
// one is revoked, or replaced by a refresh with `revoke_previous_access_token` → its revocation is kept until it has expired. A refresh token lives
// for the time of `refresh` from the import, however soon its access token expires.
func TestDK19ImportedTokensEndBeforeTheirRevocations(t *testing.T) {
	o := newOld(t, newHome)
	o.set("oauth_access_tokens", 1, "expires_in", "null")
	o.set("oauth_access_tokens", 2, "expires_in", "null", "resource_owner_id", "null", "refresh_token", "null")
	o.set("oauth_access_tokens", 3)
	o.moves()
	o.awaitGate(1, http.StatusOK)
	o.awaitGate(2, http.StatusOK)
	must := func(name string, is bool) {
		t.Helper()
		if !is {
			t.Error(name)
		}
	}
	st := o.g.app().node.Store()
	imported := make(map[int]*store.ImportedToken)
	for id := 1; id <= 2; id++ {
		var err error
		imported[id], err = st.Imports.Imported(t.Context(), oauth.NewSecret(fmt.Sprintf("opaque-token-number-%d", id)).Digest())
		check(t, err)
		must("a token outlives its revocations", !imported[id].ExpiresAt.After(node.Clock().Add(store.MaxLifetime)))
		must("a row is dropped before the token can be imported no more", imported[id].KeptUntil.After(node.Clock().Add(399*24*time.Hour)))
	}
	short, err := st.Imports.Imported(t.Context(), oauth.NewSecret("opaque-token-number-3").Digest())
	check(t, err)
	all, err := st.Families.FamiliesOf(t.Context(), "1", node.Clock())
	check(t, err)
	must("a refresh token expires with its access token", slices.ContainsFunc(all, func(f *store.TokenFamily) bool {
		return f.ID == short.FamilyID && f.ExpiresAt.After(node.Clock().Add(24*time.Hour)) && short.ExpiresAt.Before(node.Clock().Add(2*time.Hour))
	}))
	o.g.must(http.StatusOK, http.MethodPatch, "/oauth/clients/portal", `{"revoke_previous_access_token":true}`)
	if status, body := o.g.refreshOf("portal", "portal-secret-portal-secret", "refresh-token-number-1"); status != http.StatusOK {
		t.Fatalf("refreshing: %d %s", status, body)
	}
	o.g.post("/oauth/revoke", url.Values{"client_id": {"portal"}, "client_secret": {"portal-secret-portal-secret"}, "token": {"opaque-token-number-2"}})
	for id := 1; id <= 2; id++ {
		must(fmt.Sprintf("token %d goes on", id), o.gate(id) == http.StatusUnauthorized)
	}
	revocations, _, err := st.Revocations.Revocations(t.Context(), store.FeedPosition{})
	check(t, err)
	kept := make(map[string]time.Time)
	for _, r := range revocations {
		kept[r.ID] = r.ExpiresAt
	}
	must("the revocation of the first generation is forgotten", kept[imported[1].FamilyID].After(imported[1].ExpiresAt))
	must("the revocation of a token is forgotten", kept[imported[2].ID].After(imported[2].ExpiresAt))
}

// durableHome is newHome with a database that lasts.
var durableHome = strings.Replace(newHome, "store memory", "store sqlite DIR/state/oauth.db", 1)

// TestDK23ALaterAddressIsNotVerified: the address of a confirmed person changes at the source → it is changed here, and nobody vouches for it; an
// unconfirmed person is confirmed there → the address is verified, and the person comes in.
func TestDK23ALaterAddressIsNotVerified(t *testing.T) {
	o := newOld(t, newHome)
	o.set("users", 2, "confirmed_at", "null")
	o.moves()
	if u := o.user("1"); !u.EmailVerified() {
		t.Error("a confirmed address is not verified")
	}
	o.set("users", 1, "email", `"ceo@acme.example"`)
	o.set("users", 2, "confirmed_at", `"2026-01-02T00:00:00Z"`)
	o.moves()
	if u := o.user("1"); u.Email != "ceo@acme.example" || u.EmailVerifiedBy != store.Unvouched {
		t.Errorf("the later address %s is verified by %q", u.Email, u.EmailVerifiedBy)
	}
	if u := o.user("2"); u.Status != store.UserActive || !u.EmailVerified() {
		t.Errorf("person 2 is %s, verified by %q", u.Status, u.EmailVerifiedBy)
	}
	o.set("users", 2, "email", `"cto@acme.example"`, "confirmed_at", `"2026-01-03T00:00:00Z"`)
	o.set("users", 3, "confirmed_at", "null")
	o.moves()
	o.set("users", 3, "email", `"cfo@acme.example"`)
	o.moves()
	o.set("users", 3, "confirmed_at", `"2026-01-03T00:00:00Z"`)
	o.moves()
	for _, id := range []string{"2", "3"} {
		if u := o.user(id); u.EmailVerifiedBy != store.Unvouched {
			t.Errorf("person %s with %s is verified by %q", id, u.Email, u.EmailVerifiedBy)
		}
	}
}

// TestDK47APersonWhoCameBesideTheSource: a person comes to a user whose address was imported unverified, by a link, an account, a table or
// an operator's password, and the account at the source changes password and address → neither is taken, and the operator is told; where the address was verified,
// or the same person has changed the password → both are.
func TestDK47APersonWhoCameBesideTheSource(t *testing.T) {
	g := startGatehouse(t, newHome)
	users, links := g.app().registry.People, g.app().registry.Links
	hashes := []string{bcryptOf(t, adaPassword), bcryptOf(t, "another horse of the source")}
	ids := map[string]string{"link": "", "recovered": "", "account": "", "operator": "", "table": "", "same": "", "none": "", "proved": `,"email_verified":true`}
	imports := func(address, hash string) string {
		var rows []string
		for id, more := range ids {
			rows = append(rows, fmt.Sprintf(`{"id":"%s","email":"%s%s","password_hash":"%s","mapped":["password_hash"]%s}`, id, id, address, hash, more))
		}
		return g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{"source":"old","run":"r","users":[`+strings.Join(rows, ",")+`]}`)
	}
	user := func(id string) *store.User {
		u, err := users.User(t.Context(), id)
		check(t, err)
		return u
	}
	uses := func(made people.MadeLink, err error) {
		check(t, err)
		link, err := url.Parse(made.URL.Reveal())
		check(t, err)
		opened, err := links.Open(t.Context(), oauth.NewSecret(link.Query().Get("pending")))
		check(t, err)
		_, err = links.SetPassword(t.Context(), opened, oauth.NewSecret("a password of this house"), "192.0.2.1")
		check(t, err)
	}
	imports("@acme.example", "")
	for _, id := range []string{"link", "proved"} {
		uses(links.Invite(t.Context(), id))
	}
	check(t, g.app().node.Store().Identities.LinkIdentity(t.Context(), store.Identity{Provider: "corp", Subject: "1", UserID: "account"}))
	g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{"update":true,"users":[{"email":"table@acme.example","password_hash":"`+adaHash+`"}]}`)
	imports("@acme.example", hashes[0]) // which sets that of the others, and of "proved"
	uses(links.Recover(t.Context(), user("recovered"), false))
	check(t, users.SetPassword(t.Context(), "operator", oauth.NewSecret("a password of an operator")))
	_, err := links.ChangePassword(t.Context(), user("same"), oauth.NewSecret("a password of the person"), "192.0.2.1")
	check(t, err)
	follows := []string{"same", "none", "proved"}
	for _, hash := range []string{hashes[1], ""} {
		told := imports("@acme.example", hash)
		for id := range ids {
			has := user(id).PasswordHash.Reveal()
			if is, want := has == hash, slices.Contains(follows, id) || id == "account" && hash == ""; is != want { // which has none
				t.Errorf("the password %.7s of %s was taken: %t", hash, id, is)
			}
		}
		if n := strings.Count(told, "address and password stay as they are here"); n != len(ids)-len(follows) {
			t.Errorf("the operator is told of %d: %s", n, told)
		}
	}
	imports("@thief.example", hashes[1])
	for id := range ids {
		if moved := strings.HasSuffix(user(id).Email, "@thief.example"); moved != slices.Contains(follows, id) {
			t.Errorf("%s: %s", id, user(id).Email)
		}
	}
}

// TestDK48AFirstPasswordOfATable: `user import --update` with a hash for a user without a password: if the user has an account → refused, with what to
// do; if the address is verified or an operator's → refused, unless the row says that it is verified; if no one has vouched for it → the hash is set.
func TestDK48AFirstPasswordOfATable(t *testing.T) {
	g := startGatehouse(t, newHome)
	users := g.app().registry.People
	for id, u := range map[string]struct {
		by             string
		taken, account bool
	}{
		"operator": {"", false, false}, "mail": {store.VerifiedByMail, false, false}, "corp": {store.Unvouched, false, true}, "none": {store.Unvouched, true, false},
	} {
		var accounts []store.Identity
		if u.account {
			accounts = append(accounts, store.Identity{Provider: "corp", Subject: id})
		}
		added, err := users.AddUser(t.Context(), store.User{ID: id, Email: id + "@acme.example", EmailVerifiedBy: u.by}, oauth.Secret{}, accounts...)
		check(t, err)
		row := `"users":[{"email":"` + added.Email + `","password_hash":"` + adaHash + `"`
		if told := g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{`+row+`}]}`); !strings.Contains(told, `"differs"`) {
			t.Errorf("%s without --update: %s", id, told)
		}
		told := g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{"update":true,`+row+`}]}`)
		if refused := strings.Contains(told, "caddy oauth user invite"); refused == u.taken || g.hasPassword(id) != u.taken {
			t.Errorf("%s: %s", id, told)
		}
		if g.must(http.StatusOK, http.MethodPost, "/oauth/imports", `{"update":true,`+row+`,"email_verified":true}]}`); g.hasPassword(id) == u.account {
			t.Errorf("%s: a row with a verified address: has a password: %t", id, g.hasPassword(id))
		}
	}
}

func (g *gatehouse) hasPassword(id string) bool {
	g.t.Helper()
	user, err := g.app().registry.People.User(g.t.Context(), id)
	check(g.t, err)
	return !user.PasswordHash.IsEmpty()
}

// TestDK24GuessesAtABcryptSecret: more guesses at once at an imported bcrypt secret than failures are allowed → only so many wait for a slot to be
// hashed, and the others are refused before; nothing is learnt, and the right secret is accepted afterwards.
func TestDK24GuessesAtABcryptSecret(t *testing.T) {
	o := newOld(t, strings.Replace(newHome, "login off", "login off\n\t\t\tclient 3/1m per ip", 1))
	const secret = "an-older-secret-that-bcrypt-holds"
	o.set("oauth_applications", 1, "secret", `"`+bcryptOf(t, secret)+`"`)
	o.moves()
	hasher := o.g.app().issuer.Clients.Hasher
	hasher.Patience /= 10
	var slots []func()
	for {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		leave, err := hasher.Enter(ctx, passwords.Attempt{})
		if cancel(); err != nil {
			break
		}
		slots = append(slots, leave)
	}
	o.g.eventually("a guess is refused before it is hashed", func() bool {
		var guesses sync.WaitGroup
		var throttled atomic.Int32
		for i := range 20 {
			guesses.Go(func() {
				if status, _ := o.g.tokenFor("portal", fmt.Sprintf("guess-%d", i)); status == http.StatusTooManyRequests {
					throttled.Add(1)
				}
			})
		}
		guesses.Wait()
		return throttled.Load() > 0
	})
	for _, leave := range slots {
		leave()
	}
	client, err := o.g.app().node.Store().Clients.Client(t.Context(), "portal")
	check(t, err)
	if len(client.Secrets) != 1 || client.Secrets[0].Hash.IsEmpty() {
		t.Error("a guess was learnt")
	}
	// A guess that nobody has hashed counts for nothing, and the others for a failure each.
	if status, body := o.g.tokenFor("portal", secret); status != http.StatusOK {
		t.Errorf("the right secret: %d %s", status, body)
	}
	for i, want := range []int{http.StatusUnauthorized, http.StatusUnauthorized, http.StatusUnauthorized, http.StatusTooManyRequests} {
		if status, _ := o.g.tokenFor("portal", "wrong"); status != want {
			t.Errorf("wrong secret %d: %d", i+1, status)
		}
	}
}

// TestDK43ManyRequestsOfABcryptSecret: an application whose secret is a bcrypt hash sends many requests at once for the first time → the hash is
// verified once for all of them, and none is refused because another one is being verified.
func TestDK43ManyRequestsOfABcryptSecret(t *testing.T) {
	o := newOld(t, newHome)
	const secret = "an-older-secret-that-bcrypt-holds"
	hash, err := bcrypt.GenerateFromPassword([]byte(secret), bcrypt.DefaultCost)
	check(t, err)
	o.set("oauth_applications", 1, "secret", `"`+string(hash)+`"`)
	o.moves()
	o.g.app().issuer.Clients.Hasher.Patience = 100 * time.Microsecond // a hundred times as long is less than a hash takes
	var requests sync.WaitGroup
	for range 8 {
		requests.Go(func() {
			if status, body := o.g.tokenFor("portal", secret); status != http.StatusOK {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	requests.Wait()
	client, err := o.g.app().node.Store().Clients.Client(t.Context(), "portal")
	check(t, err)
	if len(client.Secrets) != 1 || !client.Secrets[0].Hash.IsEmpty() {
		t.Error("the secret was not learnt")
	}
}
