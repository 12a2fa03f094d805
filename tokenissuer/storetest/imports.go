package storetest

import (
	"context"
	"slices"
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
		{"ImportedAccess", func(ctx context.Context) error { return errOf(s.Imports.ImportedAccess(ctx, digest("t"))) }},
		{"ImportedRefresh", func(ctx context.Context) error { return errOf(s.Imports.ImportedRefresh(ctx, digest("t"))) }},
		{"HasImported", func(ctx context.Context) error { return errOf(s.Imports.HasImported(ctx)) }},
		{"ImportStates", func(ctx context.Context) error {
			return errOf(s.Imports.ImportStates(ctx, "doorkeeper", "user", []string{"1"}))
		}},
		{"PutImportState", func(ctx context.Context) error {
			return s.Imports.PutImportState(ctx, "doorkeeper", "user", "1", "state")
		}},
	}
}

var importChecks = []check{
	// Tokens of another server are imported → they are found by either digest, each with a family of its user; a user who is absent or not
	// active → nothing is stored for that token; the same batch again → nothing changes.
	{name: "DK1ImportedTokensReadBack", test: func(t *testing.T, s store.Store) {
		ada := addUser(t, s, user("ada"))
		locked := user("eve")
		locked.Status = store.UserLocked
		addUser(t, s, locked)
		if ok(s.Imports.HasImported(t.Context()))(t) {
			t.Error("there are imported tokens")
		}
		first, alone := imported("1", "ada"), importedAlone("2")
		batch := store.ImportBatch{Upto: "4", Tokens: []store.NewImport{first, alone, imported("3", "eve"), imported("4", "nobody")}}
		dry := batch
		dry.DryRun = true
		wantOutcomes(t, importAll(t, s, dry), 0, store.Done, store.Done, store.Done, store.Done)
		mustBe(t, errOf(s.Imports.ImportedAccess(t.Context(), first.Access)), store.ErrNotFound)
		wantOutcomes(t, importAll(t, s, batch), 0, store.Done, store.Done, store.UserChanged, store.UserChanged)
		for range 2 {
			same(t, ok(s.Imports.ImportedAccess(t.Context(), first.Access))(t), &first.ImportedToken)
			same(t, ok(s.Imports.ImportedRefresh(t.Context(), first.Refresh))(t), &first.ImportedToken)
			same(t, ok(s.Imports.ImportedAccess(t.Context(), alone.Access))(t), &alone.ImportedToken)
			for _, none := range [][32]byte{digestNone, digest("other")} {
				mustBe(t, errOf(s.Imports.ImportedAccess(t.Context(), none)), store.ErrNotFound)
				mustBe(t, errOf(s.Imports.ImportedRefresh(t.Context(), none)), store.ErrNotFound)
			}
			want := *first.Family
			want.User.Version = ada.Version
			wantFamilies(t, s.Families, &want)
			noFamily(t, s.Families, "family of 3")
			wantOutcomes(t, importAll(t, s, batch), 0, store.Replayed, store.Replayed, store.UserChanged, store.UserChanged)
		}
		if !ok(s.Imports.HasImported(t.Context()))(t) {
			t.Error("there are no imported tokens")
		}
	}},
	// A token that is not valid in its source any more → the next import ends its family, or revokes it, and only in the records that the
	// batch is about; what has ended here stays ended, and a dry run ends nothing.
	{name: "DK2WhatTheSourceEnds", test: func(t *testing.T, s store.Store) {
		addUser(t, s, user("ada"))
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
			{Kind: store.RevokeToken, ID: "token of 2", ExpiresAt: tokens[1].KeptUntil.Add(store.RevocationMargin)},
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
		mustBe(t, errOf(s.Imports.ImportedAccess(t.Context(), tokens[0].Access)), store.ErrNotFound)
		wantOutcomes(t, importAll(t, s, store.ImportBatch{After: "3"}), 1) // the expired one is not counted
		drop(t, s.Housekeeping, theEnd.At.Add(time.Second), 10)
		mustBe(t, errOf(s.Imports.ImportedAccess(t.Context(), expired.Access)), store.ErrNotFound)
		ok(s.Imports.ImportedAccess(t.Context(), tokens[2].Access))(t)
	}},
	// Two imported tokens have one digest, as in a damaged dump → neither is found.
	{name: "DK3ADigestTwice", test: func(t *testing.T, s store.Store) {
		first, second := importedAlone("1"), importedAlone("2")
		second.Access = first.Access
		importAll(t, s, store.ImportBatch{Tokens: []store.NewImport{first, second}})
		mustBe(t, errOf(s.Imports.ImportedAccess(t.Context(), first.Access)), store.ErrNotFound)
	}},
	// The state of a record is kept, by source and kind.
	{name: "ImportStates", test: func(t *testing.T, s store.Store) {
		must(t, s.Imports.PutImportState(t.Context(), "doorkeeper", "user", "1", "old"))
		must(t, s.Imports.PutImportState(t.Context(), "doorkeeper", "user", "1", "new\x00"))
		must(t, s.Imports.PutImportState(t.Context(), "doorkeeper", "application", "1", "other"))
		records := []string{"1"}
		for i := range 60 {
			records = append(records, "none"+string(rune('a'+i%26)))
		}
		same(t, ok(s.Imports.ImportStates(t.Context(), "doorkeeper", "user", records))(t), map[string]string{"1": "new\x00"})
		same(t, ok(s.Imports.ImportStates(t.Context(), "other", "user", records))(t), map[string]string{})
	}},
}
