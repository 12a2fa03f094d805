package storetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// passkey returns a factor in which every field has a distinct value.
func passkey(id, userID string) *store.Factor {
	return &store.Factor{
		ID: id, UserID: userID, DeclaredEmail: "ada@é.example", Kind: store.Passkey, Name: "phone “" + id + "” 🦊", Data: []byte("\x00public " + id),
		Credential: "credential of " + id, CreatedAt: now, LastUsedAt: now.Add(time.Minute),
	}
}

// factorOf returns a factor of a declared user.
func factorOf(kind store.FactorKind, id, userID string) *store.Factor {
	return &store.Factor{ID: id, UserID: userID, DeclaredEmail: "ada@é.example", Kind: kind, Data: []byte(id), CreatedAt: now}
}

func factorIDs(t *testing.T, s store.FactorStore, userID string) (ids []string) {
	t.Helper()
	for _, f := range ok(s.Factors(t.Context(), userID))(t) {
		ids = append(ids, f.ID)
	}
	return ids
}

func factorCalls(s store.Store) []call {
	return []call{
		{"Factors", func(ctx context.Context) error { return errOf(s.Factors.Factors(ctx, "declared")) }},
		{"FactorByCredential", func(ctx context.Context) error { return errOf(s.Factors.FactorByCredential(ctx, "c")) }},
		{"AddFactor", func(ctx context.Context) error {
			return s.Factors.AddFactor(ctx, factorOf(store.TOTP, "t", "declared"), "")
		}},
		{"ChangeFactor", func(ctx context.Context) error {
			return s.Factors.ChangeFactor(ctx, "t", func(*store.Factor) error { return nil })
		}},
		{"RemoveFactors", func(ctx context.Context) error {
			return s.Factors.RemoveFactors(ctx, store.FactorFilter{UserID: "declared"})
		}},
	}
}

var factorChecks = []check{
	// A factor is kept → reads back, oldest first, also by its credential; an unknown one → ErrNotFound.
	{name: "W11FactorsReadBack", test: func(t *testing.T, s store.Store) {
		first, second := passkey("first", "declared"), passkey("second", "declared")
		second.CreatedAt = now.Add(-time.Hour)
		must(t, s.Factors.AddFactor(t.Context(), first, ""))
		must(t, s.Factors.AddFactor(t.Context(), second, ""))
		same(t, ok(s.Factors.Factors(t.Context(), "declared"))(t), []*store.Factor{second, first})
		same(t, ok(s.Factors.FactorByCredential(t.Context(), first.Credential))(t), first)
		wantSize(t, factorIDs(t, s.Factors, "another"), 0)
		for _, credential := range []string{"", "unknown", "\x00"} {
			mustBe(t, errOf(s.Factors.FactorByCredential(t.Context(), credential)), store.ErrNotFound)
		}
		sameCredential := passkey("third", "another")
		sameCredential.Credential = first.Credential
		mustBe(t, s.Factors.AddFactor(t.Context(), sameCredential, ""), store.ErrTaken)
		wantSize(t, factorIDs(t, s.Factors, "another"), 0)
	}},
	// A first factor and its recovery codes are added in one step → both are kept; one of them is taken → neither is.
	{name: "W82AFactorWithItsCodes", test: func(t *testing.T, s store.Store) {
		first := passkey("first", "declared")
		must(t, s.Factors.AddFactor(t.Context(), first, "", factorOf(store.RecoveryCodes, "r1", "declared")))
		same(t, factorIDs(t, s.Factors, "declared"), []string{"first", "r1"})
		taken := passkey("second", "another")
		taken.Credential = first.Credential
		mustBe(t, s.Factors.AddFactor(t.Context(), factorOf(store.RecoveryCodes, "r2", "another"), "", taken), store.ErrTaken)
		wantSize(t, factorIDs(t, s.Factors, "another"), 0)
	}},
	// A user has one authenticator and one set of recovery codes: a second authenticator → ErrTaken; new codes → the earlier ones are gone.
	{name: "W12OneFactorOfAKind", test: func(t *testing.T, s store.Store) {
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.TOTP, "t1", "declared"), ""))
		mustBe(t, s.Factors.AddFactor(t.Context(), factorOf(store.TOTP, "t2", "declared"), ""), store.ErrTaken)
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.TOTP, "t2", "another"), ""))
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.RecoveryCodes, "r1", "declared"), ""))
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.RecoveryCodes, "r2", "declared"), ""))
		same(t, factorIDs(t, s.Factors, "declared"), []string{"r2", "t1"})
	}},
	// Two tabs add an authenticator at once → one of them does.
	{name: "W12OneAuthenticatorOfSeveral", races: func(t *testing.T, s store.Store) {
		added := make(chan struct{}, racers)
		all(t, racers, func(i int) error {
			err := s.Factors.AddFactor(t.Context(), factorOf(store.TOTP, string(rune('a'+i)), "declared"), "")
			if err == nil {
				added <- struct{}{}
			} else if !errors.Is(err, store.ErrTaken) {
				return err
			}
			return nil
		})
		if len(added) != 1 || len(factorIDs(t, s.Factors, "declared")) != 1 {
			t.Errorf("%d were added", len(added))
		}
	}},
	// A factor of a user who does not exist, has changed since or is not active → refused; removing the user removes the factors; a later
	// user of the id, stored or declared, has none of them.
	{name: "W13FactorsOfWhoStands", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addUser(t, s, with(user("idle"), func(u *store.User) { u.Status = store.UserDisabled }))
		stored := func(userID string) *store.Factor {
			return &store.Factor{ID: "f " + userID, UserID: userID, Kind: store.TOTP, Data: []byte("x"), CreatedAt: now}
		}
		mustBe(t, s.Factors.AddFactor(t.Context(), stored("nobody"), "1"), store.ErrNotFound)
		mustBe(t, s.Factors.AddFactor(t.Context(), stored("ada"), u.Version+"0"), store.ErrNotFound)
		mustBe(t, s.Factors.AddFactor(t.Context(), stored("idle"), readUser(t, s.Users, "idle").Version), store.ErrNotFound)
		must(t, s.Factors.AddFactor(t.Context(), stored("ada"), u.Version))
		must(t, errOf(s.Users.RemoveUser(t.Context(), "ada", theEnd)))
		wantSize(t, factorIDs(t, s.Factors, "ada"), 0)
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.TOTP, "old", "declared"), ""))
		other := factorOf(store.RecoveryCodes, "new", "declared")
		other.DeclaredEmail = "eve@é.example"
		must(t, s.Factors.AddFactor(t.Context(), other, ""))
		same(t, factorIDs(t, s.Factors, "declared"), []string{"new"})
	}},
	// An edit is stored as a whole or, if it fails, not at all; of concurrent edits none is lost.
	{name: "W14FactorsChangeInOneStep", races: func(t *testing.T, s store.Store) {
		must(t, s.Factors.AddFactor(t.Context(), factorOf(store.RecoveryCodes, "f", "declared"), ""))
		failure := errors.New("of the edit")
		if err := s.Factors.ChangeFactor(t.Context(), "f", func(f *store.Factor) error { f.Name = "lost"; return failure }); !errors.Is(err, failure) {
			t.Errorf("the edit failed and ChangeFactor returned %v", err)
		}
		mustBe(t, s.Factors.ChangeFactor(t.Context(), "unknown", func(*store.Factor) error { return nil }), store.ErrNotFound)
		all(t, racers, func(int) error {
			return s.Factors.ChangeFactor(t.Context(), "f", func(f *store.Factor) error {
				f.Data, f.LastUsedAt = append(bytes.Clone(f.Data), '+'), now
				return nil
			})
		})
		want := factorOf(store.RecoveryCodes, "f", "declared")
		want.Data, want.LastUsedAt = append([]byte("f"), bytes.Repeat([]byte{'+'}, racers)...), now
		same(t, ok(s.Factors.Factors(t.Context(), "declared"))(t), []*store.Factor{want})
	}},
	// Factors removed by id or by user → gone; with another's id, or without a user → nothing.
	{name: "W15FactorsAreRemoved", test: func(t *testing.T, s store.Store) {
		for _, f := range []*store.Factor{passkey("a1", "a"), passkey("a2", "a"), passkey("b1", "b")} {
			must(t, s.Factors.AddFactor(t.Context(), f, ""))
		}
		mustBe(t, s.Factors.RemoveFactors(t.Context(), store.FactorFilter{UserID: "b", ID: "a1"}), store.ErrNotFound)
		mustBe(t, s.Factors.RemoveFactors(t.Context(), store.FactorFilter{ID: "a1"}), store.ErrNotFound)
		mustBe(t, s.Factors.RemoveFactors(t.Context(), store.FactorFilter{}), store.ErrNotFound)
		must(t, s.Factors.RemoveFactors(t.Context(), store.FactorFilter{UserID: "a", ID: "a1"}))
		same(t, factorIDs(t, s.Factors, "a"), []string{"a2"})
		must(t, s.Factors.RemoveFactors(t.Context(), store.FactorFilter{UserID: "a"}))
		wantSize(t, factorIDs(t, s.Factors, "a"), 0)
		wantSize(t, factorIDs(t, s.Factors, "b"), 1)
	}},
	// A change of a user that removes the factors, or the passkeys alone → they go with it; one that fails, in its edit or after it, or that is of a declared user
	// → all stay; one that removes none → all stay, and so do those of others.
	{name: "W15AChangeOfTheUserRemovesFactors", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		of := func(id, userID, version string) {
			f := passkey(id, userID)
			f.DeclaredEmail = ""
			must(t, s.Factors.AddFactor(t.Context(), f, version))
		}
		of("a1", "ada", u.Version)
		of("a2", "ada", u.Version)
		of("b1", "bob", readUser(t, s.Users, "bob").Version)
		must(t, s.Factors.AddFactor(t.Context(), passkey("d1", "declared"), ""))
		failure := errors.New("of the edit")
		removing := func(edit func(u *store.User) error) store.UserChange {
			return store.UserChange{RemoveFactors: true, Edit: edit}
		}
		for name, c := range map[string]struct {
			id     string
			change store.UserChange
			want   error
		}{
			"a failed edit":      {"ada", removing(func(*store.User) error { return failure }), failure},
			"a taken address":    {"ada", removing(func(u *store.User) error { u.SetEmail("bob@example.com"); return nil }), store.ErrEmailTaken},
			"an organisation":    {"ada", removing(func(u *store.User) error { u.Organisation = "nowhere"; return nil }), store.ErrNotFound},
			"a declared user":    {"declared", removing(func(*store.User) error { return nil }), store.ErrNotFound},
			"a change of others": {"ada", edit(func(u *store.User) { u.Role = store.RoleMember }), nil},
		} {
			if err := errOf(s.Users.ChangeUser(t.Context(), c.id, c.change, theEnd)); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", name, err, c.want)
			}
			same(t, factorIDs(t, s.Factors, "ada"), []string{"a1", "a2"})
		}
		must(t, s.Factors.AddFactor(t.Context(), &store.Factor{ID: "a3", UserID: "ada", Kind: store.TOTP, Data: []byte("secret"), CreatedAt: now.Add(time.Hour)}, readUser(t, s.Users, "ada").Version))
		ok(s.Users.ChangeUser(t.Context(), "ada", store.UserChange{KeepsTokens: true, RemovePasskeys: true}, theEnd))(t)
		same(t, factorIDs(t, s.Factors, "ada"), []string{"a3"})
		same(t, factorIDs(t, s.Factors, "bob"), []string{"b1"})
		ok(s.Users.ChangeUser(t.Context(), "ada", removing(func(u *store.User) error { u.Role = store.RoleAdmin; return nil }), theEnd))(t)
		wantSize(t, factorIDs(t, s.Factors, "ada"), 0)
		if got := readUser(t, s.Users, "ada").Role; got != store.RoleAdmin {
			t.Errorf("the role is %q", got)
		}
		mustBe(t, errOf(s.Factors.FactorByCredential(t.Context(), "credential of a1")), store.ErrNotFound)
		same(t, factorIDs(t, s.Factors, "bob"), []string{"b1"})
		same(t, factorIDs(t, s.Factors, "declared"), []string{"d1"})
	}},
	// An operator unlinks a user's identities, or the only way in is unlinked → factors and personal access tokens are gone; where there was no identity,
	// they stay. A new holder of an unvouched address → the tokens are gone, the user is apart, and the address is verified unless a factor is left. A
	// new holder of a verified address, or the same person with another password → all stay.
	{name: "W84WhatANewHolderFinds", test: func(t *testing.T, s store.Store) {
		password := func(u *store.User) { u.PasswordHash = hash("m=8,t=1,p=1", "new") }
		mailed := func(u *store.User) error {
			password(u)
			u.EmailVerifiedBy = store.VerifiedByMail
			return nil
		}
		unlink := store.UserChange{UnlinkIdentities: true}
		for id, c := range map[string]struct {
			password, noFactor bool
			by                 string
			changes            []store.UserChange
			factors, tokens    int
			apart              bool
			byThen             string
		}{
			"unlinked":            {true, false, store.VerifiedByOperator, []store.UserChange{unlink}, 0, 0, false, store.VerifiedByOperator},
			"without identities":  {true, false, "", []store.UserChange{unlink}, 1, 1, false, ""},
			"beside an identity":  {false, false, "", []store.UserChange{edit(password)}, 1, 1, false, ""},
			"by mail":             {true, true, store.Unvouched, []store.UserChange{{NewHolder: true, Edit: mailed}}, 0, 0, true, store.VerifiedByMail},
			"by mail, a factor":   {true, false, store.Unvouched, []store.UserChange{{NewHolder: true, Edit: mailed}}, 1, 0, true, store.Unvouched},
			"recovered":           {true, false, store.Unvouched, []store.UserChange{{NewHolder: true, RemoveFactors: true, Edit: mailed}}, 0, 0, true, store.VerifiedByMail},
			"the only way in":     {false, false, store.VerifiedByMail, nil, 0, 0, false, store.VerifiedByMail},
			"the account alone":   {true, false, store.VerifiedByMail, nil, 1, 1, false, store.VerifiedByMail},
			"of a proved address": {true, false, store.VerifiedByMail, []store.UserChange{{NewHolder: true, Edit: mailed}}, 1, 1, false, store.VerifiedByMail},
			"the same person":     {true, false, store.Unvouched, []store.UserChange{edit(password)}, 1, 1, false, store.Unvouched},
		} {
			u := with(user(id), func(u *store.User) {
				if u.EmailVerifiedBy = c.by; !c.password {
					u.PasswordHash = oauth.Secret{}
				}
			})
			identities := []store.Identity{{Provider: "corp", Subject: id, UserID: id}}
			if id == "without identities" {
				identities = nil
			}
			must(t, s.Users.AddUser(t.Context(), u, true, identities...))
			version := readUser(t, s.Users, id).Version
			if !c.noFactor {
				f := passkey("key of "+id, id)
				f.DeclaredEmail = ""
				must(t, s.Factors.AddFactor(t.Context(), f, version))
			}
			must(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken(id, id), version))
			for _, change := range c.changes {
				ok(s.Users.ChangeUser(t.Context(), id, change, theEnd))(t)
			}
			if strings.HasPrefix(id, "the ") {
				ok(s.Identities.UnlinkIdentity(t.Context(), store.Unlinking{Provider: "corp", Subject: id, UserID: id, MayBeLast: true}, theEnd))(t)
			}
			after := readUser(t, s.Users, id)
			if factors, tokens := len(factorIDs(t, s.Factors, id)), len(tokensOf(t, s.PersonalTokens, id)); factors != c.factors || tokens != c.tokens || after.Apart != c.apart || after.EmailVerifiedBy != c.byThen {
				t.Errorf("%s: %d factors, %d tokens, apart %t, verified by %q", id, factors, tokens, after.Apart, after.EmailVerifiedBy)
			}
		}
	}},
	// A change that removes the factors, beside factors that are added → whichever order they take, the user has none in the end.
	{name: "W15FactorsAddedBesideTheirRemoval", beside: func(t *testing.T, a, b store.Store) {
		for round := range raceRounds {
			u := addUser(t, a, user(fmt.Sprint("user ", round)))
			add := func(s store.Store, i int) func() error {
				f := passkey(fmt.Sprint(u.ID, " ", i), u.ID)
				f.DeclaredEmail = ""
				return func() error { return s.Factors.AddFactor(t.Context(), f, u.Version) }
			}
			change := edit(func(u *store.User) { u.PasswordHash = hash("m=8,t=1,p=1", "new") })
			change.RemoveFactors = true
			besideTheEnd(t, store.ErrNotFound, func() ([]store.Revocation, error) {
				return a.Users.ChangeUser(t.Context(), u.ID, change, theEnd)
			}, add(a, 1), add(b, 2), add(b, 3))
			wantSize(t, factorIDs(t, b.Factors, u.ID), 0)
		}
	}},
}
