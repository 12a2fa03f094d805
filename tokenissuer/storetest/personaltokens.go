package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// personalToken returns a token in which every field has a distinct value.
func personalToken(id, userID string) *store.PersonalToken {
	return &store.PersonalToken{
		ID: id, Digest: digest(id), UserID: userID, Name: "backup “" + id + "” 🦊", Scopes: oauth.Scopes{"public", "read:<things>'&"},
		Audience: []string{"https://api.example/é?a='1'"}, CreatedAt: now, ExpiresAt: now.AddDate(0, 3, 0),
		LastUsedAt: now.Truncate(24 * time.Hour), ChangedAt: now.Add(-time.Minute),
	}
}

// declaredToken returns a minimal token of a declared user.
func declaredToken(id, userID string) *store.PersonalToken {
	return &store.PersonalToken{ID: id, Digest: digest(id), UserID: userID, UserDeclared: true, CreatedAt: now, ExpiresAt: now.Add(time.Hour)}
}

// wantPersonalToken compares the token that is stored under its digest with this one.
func wantPersonalToken(t *testing.T, s store.PersonalTokenStore, want *store.PersonalToken) {
	t.Helper()
	same(t, ok(s.PersonalToken(t.Context(), want.Digest))(t), want)
}

func noPersonalToken(t *testing.T, s store.PersonalTokenStore, id string) {
	t.Helper()
	mustBe(t, errOf(s.PersonalToken(t.Context(), digest(id))), store.ErrNotFound)
}

// tokensOf returns the ids of the tokens of a user, or of all users.
func tokensOf(t *testing.T, s store.PersonalTokenStore, userID string) (ids []string) {
	t.Helper()
	list := ok(s.PersonalTokens(t.Context(), userID))(t)
	for _, token := range list {
		ids = append(ids, token.ID)
	}
	return ids
}

func personalTokenCalls(s store.Store) []call {
	return []call{
		{"AddPersonalToken", func(ctx context.Context) error {
			return s.PersonalTokens.AddPersonalToken(ctx, declaredToken("new", "declared"), "")
		}},
		{"PersonalToken", func(ctx context.Context) error { return errOf(s.PersonalTokens.PersonalToken(ctx, digest("t"))) }},
		{"PersonalTokens", func(ctx context.Context) error { return errOf(s.PersonalTokens.PersonalTokens(ctx, "")) }},
		{"TouchPersonalToken", func(ctx context.Context) error { return s.PersonalTokens.TouchPersonalToken(ctx, "t", now) }},
		{"EndPersonalTokens", func(ctx context.Context) error {
			return errOf(s.PersonalTokens.EndPersonalTokens(ctx, store.PersonalTokenFilter{UserID: "ada"}, theEnd))
		}},
	}
}

var personalTokenChecks = []check{
	// A personal access token is kept → reads back, newest first; its id or digest a second time, or of a changed or disabled owner →
	// refused.
	{name: "Q120PersonalTokensReadBack", test: func(t *testing.T, s store.Store) {
		noPersonalToken(t, s.PersonalTokens, "first")
		u := addUser(t, s, user("ada"))
		first, second, other := personalToken("first", "ada"), personalToken("second", "ada"), declaredToken("other", "declared")
		second.CreatedAt = now.Add(time.Hour)
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), first, u.Version))
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), second, u.Version))
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), other, ""))
		for _, want := range []*store.PersonalToken{first, second, other} {
			wantPersonalToken(t, s.PersonalTokens, want)
		}
		if got := tokensOf(t, s.PersonalTokens, "ada"); !slices.Equal(got, []string{"second", "first"}) {
			t.Errorf("ada has %q", got)
		}
		if got := tokensOf(t, s.PersonalTokens, ""); !slices.Equal(got, []string{"second", "first", "other"}) {
			t.Errorf("all are %q", got)
		}
		if got := tokensOf(t, s.PersonalTokens, "nobody"); got != nil {
			t.Errorf("nobody has %q", got)
		}
		sameID, sameDigest := personalToken("first", "ada"), personalToken("third", "ada")
		sameID.Digest, sameDigest.Digest = digest("third"), first.Digest
		mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), sameID, u.Version), store.ErrTaken)
		mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), sameDigest, u.Version), store.ErrTaken)
		wantPersonalToken(t, s.PersonalTokens, first)
	}},
	// A token of a user who does not exist, has changed since, or is not active is refused.
	{name: "Q120PersonalTokenOfWhoStands", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, user("ada"))
		addUser(t, s, with(user("idle"), func(u *store.User) { u.Status = store.UserDisabled }))
		mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "nobody"), "1"), store.ErrNotFound)
		mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "ada"), u.Version+"0"), store.ErrNotFound)
		mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "idle"), readUser(t, s.Users, "idle").Version), store.ErrNotFound)
		noPersonalToken(t, s.PersonalTokens, "t")
	}},
	// The last use is noted → the day moves on and never back.
	{name: "Q121PersonalTokenTouchedOnceADay", test: func(t *testing.T, s store.Store) {
		token := declaredToken("t", "declared")
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), token, ""))
		day := now.Truncate(24 * time.Hour)
		for _, touch := range []time.Time{day, day.AddDate(0, 0, -1), day.AddDate(0, 0, 2), day} {
			must(t, s.PersonalTokens.TouchPersonalToken(t.Context(), "t", touch))
			if touch.After(token.LastUsedAt) {
				token.LastUsedAt = touch
			}
			wantPersonalToken(t, s.PersonalTokens, token)
		}
		must(t, s.PersonalTokens.TouchPersonalToken(t.Context(), "unknown", day))
	}},
	// Tokens ended by id or owner → gone, each with a revocation; by an empty filter or another's id → nothing.
	{name: "Q122PersonalTokensEnd", test: func(t *testing.T, s store.Store) {
		for _, id := range []string{"a1", "a2", "b1"} {
			must(t, s.PersonalTokens.AddPersonalToken(t.Context(), declaredToken(id, id[:1]), ""))
		}
		end := func(which store.PersonalTokenFilter, want ...string) {
			t.Helper()
			ended := ok(s.PersonalTokens.EndPersonalTokens(t.Context(), which, theEnd))(t)
			for _, r := range ended {
				same(t, r, store.RevocationOfPersonalToken(r.ID, time.Time{}, theEnd))
				same(t, recorded(t, s.Revocations)[name(r)], r)
				want = slices.DeleteFunc(want, func(id string) bool { return id == r.ID })
			}
			if len(want) > 0 {
				t.Errorf("%+v has ended %+v, and not %q", which, ended, want)
			}
		}
		end(store.PersonalTokenFilter{})
		end(store.PersonalTokenFilter{ID: "a1", UserID: "b"})
		wantSize(t, tokensOf(t, s.PersonalTokens, ""), 3)
		end(store.PersonalTokenFilter{ID: "a1", UserID: "a"}, "a1")
		end(store.PersonalTokenFilter{UserID: "b"}, "b1")
		if got := tokensOf(t, s.PersonalTokens, ""); !slices.Equal(got, []string{"a2"}) || len(recorded(t, s.Revocations)) != 2 {
			t.Fatalf("left are %q, recorded %v", got, recorded(t, s.Revocations))
		}
	}},
	// The owner gets another name → the token stays valid; another role → what was cached is revoked; is disabled or removed → the token is
	// deleted.
	{name: "Q123PersonalTokensFollowTheirOwner", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		add := func(id, owner string) *store.PersonalToken {
			t.Helper()
			token := with(personalToken(id, owner), func(token *store.PersonalToken) { token.ChangedAt = time.Time{} })
			must(t, s.PersonalTokens.AddPersonalToken(ctx, token, readUser(t, s.Users, owner).Version))
			return token
		}
		addUser(t, s, user("ada"))
		addUser(t, s, user("bob"))
		token, other := add("t", "ada"), add("other", "bob")
		ok(s.Users.ChangeUser(ctx, "ada", tell(func(u *store.User) { u.Name = "Ada" }), theEnd))(t)
		wantPersonalToken(t, s.PersonalTokens, token)

		changed := ok(s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Role = store.RoleAdmin }), theEnd))(t)
		token.ChangedAt = theEnd.At
		wantPersonalToken(t, s.PersonalTokens, token)
		want := store.RevocationOfPersonalToken("t", theEnd.At, theEnd)
		wantSize(t, changed, 1)
		same(t, changed[0], want)
		same(t, recorded(t, s.Revocations)[name(want)], want)
		if !token.IssuedAt().After(theEnd.At) {
			t.Errorf("what is read after the change at %v counts as issued at %v", theEnd.At, token.IssuedAt())
		}

		// Again in the same second: what was read in between is revoked too.
		between := token.IssuedAt()
		changed = ok(s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Role = store.RoleAdmin }), theEnd))(t)
		token.ChangedAt = theEnd.At.Add(time.Second)
		wantPersonalToken(t, s.PersonalTokens, token)
		if len(changed) != 1 || changed[0].IssuedUntil.Before(between) || !token.IssuedAt().After(changed[0].IssuedUntil) {
			t.Errorf("between the changes it was issued at %v, after them at %v, and revoked is %+v", between, token.IssuedAt(), changed)
		}

		ok(s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Status = store.UserLocked }), theEnd))(t)
		noPersonalToken(t, s.PersonalTokens, "t")
		same(t, recorded(t, s.Revocations)[name(want)], store.RevocationOfPersonalToken("t", time.Time{}, theEnd))
		wantPersonalToken(t, s.PersonalTokens, other)

		ok(s.Users.RemoveUser(ctx, "bob", theEnd))(t)
		noPersonalToken(t, s.PersonalTokens, "other")
		if r := recorded(t, s.Revocations)["jti other"]; !r.IssuedUntil.IsZero() || r.ID == "" {
			t.Errorf("the removal recorded %+v", r)
		}
		must(t, s.PersonalTokens.AddPersonalToken(ctx, declaredToken("left", "carol"), ""))
		addUser(t, s, user("carol"))
		noPersonalToken(t, s.PersonalTokens, "left")
	}},
	// A token added concurrently with the end of its owner does not outlive it.
	{name: "Q123PersonalTokenBesideAChange", beside: func(t *testing.T, s, other store.Store) {
		for i := range raceRounds {
			id := fmt.Sprintf("user%d", i)
			version := addUser(t, s, user(id)).Version
			besideTheEnd(t, store.ErrNotFound, func() ([]store.Revocation, error) {
				return other.Users.ChangeUser(t.Context(), id, edit(func(u *store.User) { u.Status = store.UserDisabled }), theEnd)
			}, func() error {
				return s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("of "+id, id), version)
			})
			if left := tokensOf(t, s.PersonalTokens, id); left != nil {
				t.Fatalf("%q is disabled and has %q", id, left)
			}
		}
	}},
	// An expired token → deleted by housekeeping.
	{name: "Q124PersonalTokensDropped", test: func(t *testing.T, s store.Store) {
		early, late := declaredToken("early", "a"), declaredToken("late", "a")
		early.ExpiresAt, late.ExpiresAt = now.Add(-time.Millisecond), now
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), early, ""))
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), late, ""))
		drop(t, s.Housekeeping, now, 2)
		if got := tokensOf(t, s.PersonalTokens, "a"); !slices.Equal(got, []string{"late"}) {
			t.Errorf("left are %q", got)
		}
	}},
	// A service account with neither password nor provider → active, and families can be added for it.
	{name: "Q125ServiceAccount", test: func(t *testing.T, s store.Store) {
		u := addUser(t, s, with(external("robot"), func(u *store.User) { u.Service = true }))
		if !u.Service || !u.IsActive() || !reflect.DeepEqual(listUsers(t, s.Users, "")[0].Service, true) {
			t.Errorf("the account is %+v", u)
		}
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "robot"), u.Version))
		must(t, Done(s.Families.AddFamily(t.Context(), familyOf(u, "f"))))
	}},
}
