package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// imported returns a token of a user with its family, in which every field has a distinct value.
func imported(record, userID string) store.NewImport {
	f := &store.TokenFamily{
		ID: "family of " + record, User: store.FamilyUser{ID: userID},
		Grant:    store.Grant{ClientID: "portal", Origin: oauth.AuthorizationCode, Scopes: oauth.Scopes{"public", "read:<things>'&"}},
		Validity: store.Validity{CreatedAt: now.Add(-time.Hour), ExpiresAt: now.AddDate(0, 3, 0), TokenLifetime: 2 * time.Hour},
		Refresh:  store.RefreshState{Generation: 1, RotatedAt: now},
	}
	return store.NewImport{Family: f, ImportedToken: store.ImportedToken{
		Source: "doorkeeper", Record: record, ID: "token of " + record, Access: digest("access " + record), Refresh: digest("refresh " + record), ClientID: "portal",
		FamilyID: f.ID, Scopes: f.Scopes, CreatedAt: f.CreatedAt, ExpiresAt: now.Add(time.Hour), KeptUntil: f.ExpiresAt,
	}}
}

// importedAlone returns a token of a client.
func importedAlone(record string) store.NewImport {
	t := imported(record, "")
	t.Family, t.FamilyID, t.Refresh = nil, "", digestNone
	return t
}

var digestNone [32]byte

// importAll imports a batch and returns its outcomes.
func importAll(t *testing.T, s store.Store, batch store.ImportBatch) store.ImportOutcome {
	t.Helper()
	batch.Source = "doorkeeper"
	return ok(s.Imports.ImportTokens(t.Context(), batch, theEnd))(t)
}

func wantOutcomes(t *testing.T, got store.ImportOutcome, ended int, want ...store.Outcome) {
	t.Helper()
	if !slices.Equal(got.Tokens, want) || got.Ended != ended {
		t.Errorf("outcomes %v and %d ended, want %v and %d", got.Tokens, got.Ended, want, ended)
	}
}

func importCalls(s store.Store) []call {
	return []call{
		{"ImportTokens", func(ctx context.Context) error {
			return errOf(s.Imports.ImportTokens(ctx, store.ImportBatch{Source: "doorkeeper", Tokens: []store.NewImport{importedAlone("1")}}, theEnd))
		}},
		{"Imported", func(ctx context.Context) error { return errOf(s.Imports.Imported(ctx, digest("t"))) }},
		{"HasImported", func(ctx context.Context) error { return errOf(s.Imports.HasImported(ctx)) }},
		{"ImportStates", func(ctx context.Context) error {
			return errOf(s.Imports.ImportStates(ctx, "doorkeeper", store.ImportedUser, []string{"1"}))
		}},
		{"AddImportedUser", func(ctx context.Context) error {
			return s.Imports.AddImportedUser(ctx, "doorkeeper", "said", user("imported"), true)
		}},
		{"AddImportedClient", func(ctx context.Context) error {
			return s.Imports.AddImportedClient(ctx, "doorkeeper", "said", client("imported"))
		}},
		{"PutImportState", func(ctx context.Context) error {
			return s.Imports.PutImportState(ctx, store.ImportRecord{Source: "doorkeeper", Kind: store.ImportedUser, Key: "1"}, "said")
		}},
	}
}

var importChecks = []check{
	// The same row of a source in several imports at once → each of them succeeds, and one has stored it.
	{name: "DK46ARowThatTwoImportsHave", races: func(t *testing.T, s store.Store) {
		for round := range raceRounds {
			row := importedAlone(fmt.Sprint("row ", round))
			var stored atomic.Int32
			all(t, 4, func(int) error {
				got, err := s.Imports.ImportTokens(t.Context(), store.ImportBatch{Source: fmt.Sprint("source ", round), Tokens: []store.NewImport{row}}, theEnd)
				if err == nil && got.Tokens[0] == store.Done {
					stored.Add(1)
				}
				return err
			})
			if n := stored.Load(); n != 1 {
				t.Fatalf("round %d: stored by %d", round, n)
			}
		}
	}},
	// Tokens of another server are imported → they are found by either digest, each with a family of its user; a user who is absent, not
	// active or not from this source → nothing is stored for that token; the same batch again → nothing changes.
	{name: "DK1ImportedTokensReadBack", test: func(t *testing.T, s store.Store) {
		ada := addImported(t, s, user("ada"))
		locked := user("eve")
		locked.Status = store.UserLocked
		addImported(t, s, locked)
		addUser(t, s, user("bob"))
		if ok(s.Imports.HasImported(t.Context()))(t) {
			t.Error("there are imported tokens")
		}
		first, alone := imported("1", "ada"), importedAlone("2")
		batch := store.ImportBatch{Upto: "5", Tokens: []store.NewImport{first, alone, imported("3", "eve"), imported("4", "nobody"), imported("5", "bob")}}
		dry := batch
		dry.DryRun = true
		wantOutcomes(t, importAll(t, s, dry), 0, store.Done, store.Done, store.Done, store.Done, store.Done)
		mustBe(t, errOf(s.Imports.Imported(t.Context(), first.Access)), store.ErrNotFound)
		wantOutcomes(t, importAll(t, s, batch), 0, store.Done, store.Done, store.UserChanged, store.UserChanged, store.UserChanged)
		for range 2 {
			same(t, ok(s.Imports.Imported(t.Context(), first.Access))(t), &first.ImportedToken)
			same(t, ok(s.Imports.Imported(t.Context(), first.Refresh))(t), &first.ImportedToken)
			same(t, ok(s.Imports.Imported(t.Context(), alone.Access))(t), &alone.ImportedToken)
			for _, none := range [][32]byte{digestNone, digest("other")} {
				mustBe(t, errOf(s.Imports.Imported(t.Context(), none)), store.ErrNotFound)
				mustBe(t, errOf(s.Imports.Imported(t.Context(), none)), store.ErrNotFound)
			}
			want := *first.Family
			want.User.Version = ada.Version
			wantFamilies(t, s.Families, &want)
			noFamily(t, s.Families, "family of 3")
			wantOutcomes(t, importAll(t, s, batch), 0, store.Replayed, store.Replayed, store.UserChanged, store.UserChanged, store.UserChanged)
		}
		if !ok(s.Imports.HasImported(t.Context()))(t) {
			t.Error("there are no imported tokens")
		}
	}},
	// A token that is not valid in its source any more → the next import ends its family, or revokes it, and only in the records that the
	// batch is about; what has ended here stays ended, and a dry run ends nothing.
	{name: "DK2WhatTheSourceEnds", test: func(t *testing.T, s store.Store) {
		addImported(t, s, user("ada"))
		tokens := []store.NewImport{imported("1", "ada"), importedAlone("2"), imported("3", "ada"), imported("4", "ada")}
		expired := importedAlone("5")
		expired.KeptUntil = theEnd.At
		importAll(t, s, store.ImportBatch{Tokens: append(tokens, expired)})
		end(t, s.Families, store.FamilyFilter{ID: "family of 3"})
		wantOutcomes(t, importAll(t, s, store.ImportBatch{After: "1", Upto: "3", Tokens: tokens[2:3], DryRun: true}), 1, store.Replayed)
		outcome := importAll(t, s, store.ImportBatch{Upto: "3", Tokens: tokens[2:3]})
		wantOutcomes(t, outcome, 2, store.Replayed)
		feed := recorded(t, s.Revocations)
		for _, want := range []store.Revocation{
			{Kind: store.RevokeFamily, ID: "family of 1", ExpiresAt: tokens[0].Family.RevokedUntil(theEnd)},
			{Kind: store.RevokeToken, ID: "token of 2", ExpiresAt: tokens[1].ExpiresAt.Add(store.RevocationMargin)},
		} {
			if !slices.Contains(outcome.Revocations, want) {
				t.Errorf("revocations %v, want %v", outcome.Revocations, want)
			}
			same(t, feed[name(want)], want)
		}
		for i, ended := range map[int]bool{0: true, 2: true, 3: false} {
			if f := ok(s.Families.Family(t.Context(), tokens[i].FamilyID))(t); f.RevokedAt.IsZero() == ended {
				t.Errorf("family of %s: ended %t", tokens[i].Record, !ended)
			}
		}
		mustBe(t, errOf(s.Imports.Imported(t.Context(), tokens[0].Access)), store.ErrNotFound)
		// What has ended is known, ends once, and is not brought back; what is kept goes on.
		wantOutcomes(t, importAll(t, s, store.ImportBatch{Upto: "3", Tokens: tokens[:3]}), 0, store.Replayed, store.Replayed, store.Replayed)
		mustBe(t, errOf(s.Imports.Imported(t.Context(), tokens[0].Access)), store.ErrNotFound)
		mustBe(t, errOf(s.Imports.Imported(t.Context(), tokens[0].Refresh)), store.ErrNotFound)
		wantOutcomes(t, importAll(t, s, store.ImportBatch{Upto: "3"}), 1)
		wantOutcomes(t, importAll(t, s, store.ImportBatch{After: "3", Kept: []string{"4"}}), 0)
		ok(s.Imports.Imported(t.Context(), tokens[3].Access))(t)
		wantOutcomes(t, importAll(t, s, store.ImportBatch{After: "3"}), 1) // the expired one is not counted
		drop(t, s.Housekeeping, theEnd.At.Add(time.Second), 10)
		mustBe(t, errOf(s.Imports.Imported(t.Context(), expired.Access)), store.ErrNotFound)
	}},
	// Many tokens were imported and the source has only the last one → steps of bounded length end the others, and the token before which a
	// step stopped is left to the next one.
	{name: "DK32ALongGap", test: func(t *testing.T, s store.Store) {
		addImported(t, s, user("ada"))
		var tokens []store.NewImport
		for i := range 1203 {
			token := importedAlone(fmt.Sprintf("%04d", i))
			if i%100 == 0 {
				token = imported(token.Record, "ada")
			}
			tokens = append(tokens, token)
		}
		after := ""
		for some := range slices.Chunk(tokens, 200) {
			upto := some[len(some)-1].Record
			importAll(t, s, store.ImportBatch{After: after, Upto: upto, Tokens: some})
			after = upto
		}
		batch := store.ImportBatch{Tokens: []store.NewImport{importedAlone("1202"), importedAlone("1203")}}
		ended, revocations := 0, 0
		for steps := 1; ; steps++ {
			outcome := importAll(t, s, batch)
			if ended, revocations = ended+outcome.Ended, revocations+len(outcome.Revocations); outcome.Ended > 600 || steps > 4 {
				t.Fatalf("step %d ends %d", steps, outcome.Ended)
			}
			if batch.After = outcome.DoneUpto; batch.After == "" {
				wantOutcomes(t, outcome, outcome.Ended, store.Replayed, store.Done)
				break
			}
			wantOutcomes(t, outcome, outcome.Ended)
		}
		if ended != 1202 || revocations != 1202 {
			t.Errorf("%d ended with %d revocations", ended, revocations)
		}
		if f := ok(s.Families.Family(t.Context(), "family of 1200"))(t); f.RevokedAt.IsZero() {
			t.Error("a family goes on")
		}
		mustBe(t, errOf(s.Imports.Imported(t.Context(), digest("access 0700"))), store.ErrNotFound)
		ok(s.Imports.Imported(t.Context(), digest("access 1202")))(t)
	}},
	// Two imported tokens have one digest, as in a damaged dump → neither is found.
	{name: "DK3ADigestTwice", test: func(t *testing.T, s store.Store) {
		first, second := importedAlone("1"), importedAlone("2")
		second.Access = first.Access
		importAll(t, s, store.ImportBatch{Tokens: []store.NewImport{first, second}})
		mustBe(t, errOf(s.Imports.Imported(t.Context(), first.Access)), store.ErrNotFound)
	}},
	// A token of the source for a user to whom another person may have come, by a link or an account while the address was unvouched → not imported;
	// for one whose address was verified → it is.
	{name: "DK49TokensOfAnotherPerson", test: func(t *testing.T, s store.Store) {
		for id, c := range map[string]struct {
			by    string
			comes func(id string)
			want  store.Outcome
		}{
			"by a link":     {store.Unvouched, func(id string) { ok(s.Users.ChangeUser(t.Context(), id, store.UserChange{NewHolder: true}, theEnd))(t) }, store.UserChanged},
			"by an account": {store.Unvouched, func(id string) { must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", id, id))) }, store.UserChanged},
			"proved":        {store.VerifiedByOperator, func(id string) { must(t, s.Identities.LinkIdentity(t.Context(), identity("corp", id, id))) }, store.Done},
			"not at all":    {store.Unvouched, func(string) {}, store.Done},
		} {
			addImported(t, s, with(user(id), func(u *store.User) {
				if u.EmailVerifiedBy = c.by; id == "by an account" {
					u.PasswordHash = oauth.Secret{}
				}
			}))
			c.comes(id)
			wantOutcomes(t, importAll(t, s, store.ImportBatch{After: id, Upto: id + "~", Tokens: []store.NewImport{imported(id+" 1", id)}}), 0, c.want)
		}
	}},
	// A user and a client of a source are added with what it said → it reads back with the time at which they were added, by source and kind,
	// also after they were removed; who cannot be added → nothing is kept.
	{name: "DK26WhatASourceSaid", test: func(t *testing.T, s store.Store) {
		ada, portal := addImported(t, s, user("ada")), client("portal")
		must(t, s.Imports.AddImportedClient(t.Context(), "doorkeeper", "of portal", portal))
		twin := user("twin")
		twin.Email = ada.Email
		mustBe(t, s.Imports.AddImportedUser(t.Context(), "doorkeeper", "said", twin, true), store.ErrEmailTaken)
		mustBe(t, s.Imports.AddImportedClient(t.Context(), "doorkeeper", "said", client("portal")), store.ErrTaken)
		must(t, s.Imports.PutImportState(t.Context(), store.ImportRecord{Source: "doorkeeper", Kind: store.ImportedUser, Key: "ada"}, "new\x00"))
		must(t, s.Imports.PutImportState(t.Context(), store.ImportRecord{Source: "doorkeeper", Kind: store.ImportedUser, Key: "nobody"}, "none"))
		must(t, errOf(s.Users.RemoveUser(t.Context(), "ada", theEnd)))
		keys := []string{"ada", "twin", "nobody"}
		for i := range 260 {
			keys = append(keys, fmt.Sprint("none ", i))
		}
		same(t, ok(s.Imports.ImportStates(t.Context(), "doorkeeper", store.ImportedUser, keys))(t), map[string]store.ImportState{"ada": {Said: "new\x00", AddedAt: ada.CreatedAt}})
		same(t, ok(s.Imports.ImportStates(t.Context(), "other", store.ImportedUser, keys))(t), map[string]store.ImportState{})
		same(t, ok(s.Imports.ImportStates(t.Context(), "doorkeeper", store.ImportedClient, []string{"portal"}))(t), map[string]store.ImportState{"portal": {Said: "of portal", AddedAt: portal.CreatedAt}})
		got := ok(s.Clients.Client(t.Context(), "portal"))(t)
		same(t, got, portal)
	}},
}

// addImported adds a user who came from a source.
func addImported(t *testing.T, s store.Store, u *store.User) *store.User {
	t.Helper()
	must(t, s.Imports.AddImportedUser(t.Context(), "doorkeeper", "said", u, true))
	return ok(s.Users.User(t.Context(), u.ID))(t)
}
