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

var personalTokenChecks = []check{
	{name: "Q120PersonalTokensReadBack", test: personalTokensReadBack},
	{name: "Q120PersonalTokenOfWhoStands", test: personalTokenOfWhoStands},
	{name: "Q121PersonalTokenTouchedOnceADay", test: personalTokenTouched},
	{name: "Q122PersonalTokensEnd", test: personalTokensEnd},
	{name: "Q123PersonalTokensFollowTheirOwner", test: personalTokensFollowTheirOwner},
	{name: "Q123PersonalTokenBesideAChange", beside: personalTokenBesideAChange},
	{name: "Q124PersonalTokensDropped", test: personalTokensDropped},
	{name: "Q125ServiceAccount", test: serviceAccount},
}

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

// samePersonalToken reads a token by its digest and compares it.
func samePersonalToken(t *testing.T, s store.PersonalTokenStore, want *store.PersonalToken) {
	t.Helper()
	got, err := s.PersonalToken(t.Context(), want.Digest)
	must(t, err)
	for _, times := range [][2]time.Time{{got.CreatedAt, want.CreatedAt}, {got.ExpiresAt, want.ExpiresAt}, {got.LastUsedAt, want.LastUsedAt}, {got.ChangedAt, want.ChangedAt}} {
		if !sameTime(times[0], times[1]) {
			t.Errorf("token %q has %v, want %v", want.ID, times[0], times[1])
		}
	}
	if got.ID != want.ID || got.Digest != want.Digest || got.UserID != want.UserID || got.UserDeclared != want.UserDeclared || got.Name != want.Name ||
		!slices.Equal(got.Scopes, want.Scopes) || !slices.Equal(got.Audience, want.Audience) {
		t.Errorf("token is\n%+v, want\n%+v", got, want)
	}
}

func noPersonalToken(t *testing.T, s store.PersonalTokenStore, id string) {
	t.Helper()
	_, err := s.PersonalToken(t.Context(), digest(id))
	mustBe(t, err, store.ErrNotFound)
}

// tokensOf returns the ids of the tokens of a user, or of all users.
func tokensOf(t *testing.T, s store.PersonalTokenStore, userID string) (ids []string) {
	t.Helper()
	list, err := s.PersonalTokens(t.Context(), userID)
	must(t, err)
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
		{"PersonalToken", func(ctx context.Context) error {
			_, err := s.PersonalTokens.PersonalToken(ctx, digest("t"))
			return err
		}},
		{"PersonalTokens", func(ctx context.Context) error { _, err := s.PersonalTokens.PersonalTokens(ctx, ""); return err }},
		{"TouchPersonalToken", func(ctx context.Context) error { return s.PersonalTokens.TouchPersonalToken(ctx, "t", now) }},
		{"EndPersonalTokens", func(ctx context.Context) error {
			_, err := s.PersonalTokens.EndPersonalTokens(ctx, store.PersonalTokenFilter{UserID: "ada"}, theEnd)
			return err
		}},
	}
}

// personalTokensReadBack (Q120): a personal access token is kept → reads back, newest first; its id or digest a second time, or of a
// changed or disabled owner → refused.
func personalTokensReadBack(t *testing.T, s store.Store) {
	noPersonalToken(t, s.PersonalTokens, "first")
	u := addUser(t, s, user("ada"))
	first, second, other := personalToken("first", "ada"), personalToken("second", "ada"), declaredToken("other", "declared")
	second.CreatedAt = now.Add(time.Hour)
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), first, u.Version))
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), second, u.Version))
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), other, ""))
	for _, want := range []*store.PersonalToken{first, second, other} {
		samePersonalToken(t, s.PersonalTokens, want)
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
	samePersonalToken(t, s.PersonalTokens, first)
}

// personalTokenOfWhoStands (Q120): a token of a user who does not exist, has changed since, or is not active is refused.
func personalTokenOfWhoStands(t *testing.T, s store.Store) {
	u := addUser(t, s, user("ada"))
	idle := user("idle")
	idle.Status = store.UserDisabled
	addUser(t, s, idle)
	mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "nobody"), "1"), store.ErrNotFound)
	mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "ada"), u.Version+"0"), store.ErrNotFound)
	mustBe(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "idle"), readUser(t, s.Users, "idle").Version), store.ErrNotFound)
	noPersonalToken(t, s.PersonalTokens, "t")
}

// personalTokenTouched (Q121): the last use is noted → the day moves on and never back.
func personalTokenTouched(t *testing.T, s store.Store) {
	token := declaredToken("t", "declared")
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), token, ""))
	day := now.Truncate(24 * time.Hour)
	for _, touch := range []time.Time{day, day.AddDate(0, 0, -1), day.AddDate(0, 0, 2), day} {
		must(t, s.PersonalTokens.TouchPersonalToken(t.Context(), "t", touch))
		if touch.After(token.LastUsedAt) {
			token.LastUsedAt = touch
		}
		samePersonalToken(t, s.PersonalTokens, token)
	}
	must(t, s.PersonalTokens.TouchPersonalToken(t.Context(), "unknown", day))
}

// personalTokensEnd (Q122): tokens ended by id or owner → gone, each with a revocation; by an empty filter or another's id → nothing.
func personalTokensEnd(t *testing.T, s store.Store) {
	for _, id := range []string{"a1", "a2", "b1"} {
		must(t, s.PersonalTokens.AddPersonalToken(t.Context(), declaredToken(id, id[:1]), ""))
	}
	end := func(which store.PersonalTokenFilter, want ...string) {
		t.Helper()
		ended, err := s.PersonalTokens.EndPersonalTokens(t.Context(), which, theEnd)
		must(t, err)
		for _, r := range ended {
			sameRevocation(t, r, store.RevocationOfPersonalToken(r.ID, time.Time{}, theEnd))
			sameRevocation(t, recorded(t, s.Revocations)[name(r)], r)
			want = slices.DeleteFunc(want, func(id string) bool { return id == r.ID })
		}
		if len(want) > 0 {
			t.Errorf("%+v has ended %+v, and not %q", which, ended, want)
		}
	}
	end(store.PersonalTokenFilter{})
	end(store.PersonalTokenFilter{ID: "a1", UserID: "b"})
	if got := tokensOf(t, s.PersonalTokens, ""); len(got) != 3 {
		t.Fatalf("left are %q", got)
	}
	end(store.PersonalTokenFilter{ID: "a1", UserID: "a"}, "a1")
	end(store.PersonalTokenFilter{UserID: "b"}, "b1")
	if got := tokensOf(t, s.PersonalTokens, ""); !slices.Equal(got, []string{"a2"}) || len(recorded(t, s.Revocations)) != 2 {
		t.Fatalf("left are %q, recorded %v", got, recorded(t, s.Revocations))
	}
}

// personalTokensFollowTheirOwner (Q123): the owner gets another name → the token stays valid; another role → what was cached is revoked;
// is disabled or removed → the token is deleted.
func personalTokensFollowTheirOwner(t *testing.T, s store.Store) {
	ctx := t.Context()
	add := func(id, owner string) *store.PersonalToken {
		t.Helper()
		token := personalToken(id, owner)
		token.ChangedAt = time.Time{}
		must(t, s.PersonalTokens.AddPersonalToken(ctx, token, readUser(t, s.Users, owner).Version))
		return token
	}
	addUser(t, s, user("ada"))
	addUser(t, s, user("bob"))
	token, other := add("t", "ada"), add("other", "bob")
	called, role, locked := "Ada", store.RoleAdmin, store.UserLocked
	_, err := s.Users.ChangeUser(ctx, "ada", tell(func(u *store.User) { u.Name = called }), theEnd)
	must(t, err)
	samePersonalToken(t, s.PersonalTokens, token)

	changed, err := s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Role = role }), theEnd)
	must(t, err)
	token.ChangedAt = theEnd.At
	samePersonalToken(t, s.PersonalTokens, token)
	want := store.RevocationOfPersonalToken("t", theEnd.At, theEnd)
	if len(changed) != 1 {
		t.Fatalf("the change recorded %+v", changed)
	}
	sameRevocation(t, changed[0], want)
	sameRevocation(t, recorded(t, s.Revocations)[name(want)], want)
	if !token.IssuedAt().After(theEnd.At) {
		t.Errorf("what is read after the change at %v counts as issued at %v", theEnd.At, token.IssuedAt())
	}

	// Again in the same second: what was read in between is revoked too.
	between := token.IssuedAt()
	changed, err = s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Role = role }), theEnd)
	must(t, err)
	token.ChangedAt = theEnd.At.Add(time.Second)
	samePersonalToken(t, s.PersonalTokens, token)
	if len(changed) != 1 || changed[0].IssuedUntil.Before(between) || !token.IssuedAt().After(changed[0].IssuedUntil) {
		t.Errorf("between the changes it was issued at %v, after them at %v, and revoked is %+v", between, token.IssuedAt(), changed)
	}

	_, err = s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Status = locked }), theEnd)
	must(t, err)
	noPersonalToken(t, s.PersonalTokens, "t")
	sameRevocation(t, recorded(t, s.Revocations)[name(want)], store.RevocationOfPersonalToken("t", time.Time{}, theEnd))
	samePersonalToken(t, s.PersonalTokens, other)

	_, err = s.Users.RemoveUser(ctx, "bob", theEnd)
	must(t, err)
	noPersonalToken(t, s.PersonalTokens, "other")
	if r := recorded(t, s.Revocations)["jti other"]; !r.IssuedUntil.IsZero() || r.ID == "" {
		t.Errorf("the removal recorded %+v", r)
	}
	must(t, s.PersonalTokens.AddPersonalToken(ctx, declaredToken("left", "carol"), ""))
	addUser(t, s, user("carol"))
	noPersonalToken(t, s.PersonalTokens, "left")
}

// personalTokenBesideAChange (Q123): a token added concurrently with the end of its owner does not outlive it.
func personalTokenBesideAChange(t *testing.T, s, other store.Store) {
	for i := range 8 {
		id := fmt.Sprintf("user%d", i)
		version := addUser(t, s, user(id)).Version
		disabled := store.UserDisabled
		errs := race(2, func(n int) error {
			if n == 0 {
				return s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("of "+id, id), version)
			}
			_, err := other.Users.ChangeUser(t.Context(), id, edit(func(u *store.User) { u.Status = disabled }), theEnd)
			return err
		})
		must(t, errs[1])
		if errs[0] != nil {
			mustBe(t, errs[0], store.ErrNotFound)
		}
		if left := tokensOf(t, s.PersonalTokens, id); left != nil {
			t.Fatalf("%q is disabled and has %q", id, left)
		}
	}
}

// personalTokensDropped (Q124): an expired token → deleted by housekeeping.
func personalTokensDropped(t *testing.T, s store.Store) {
	early, late := declaredToken("early", "a"), declaredToken("late", "a")
	early.ExpiresAt, late.ExpiresAt = now.Add(-time.Millisecond), now
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), early, ""))
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), late, ""))
	drop(t, s.Housekeeping, now, 2)
	if got := tokensOf(t, s.PersonalTokens, "a"); !slices.Equal(got, []string{"late"}) {
		t.Errorf("left are %q", got)
	}
}

// serviceAccount (Q125): a service account with neither password nor provider → active, and families can be added for it.
func serviceAccount(t *testing.T, s store.Store) {
	robot := external("robot")
	robot.Service = true
	u := addUser(t, s, robot)
	if !u.Service || !u.IsActive() || !reflect.DeepEqual(listUsers(t, s.Users, "")[0].Service, true) {
		t.Errorf("the account is %+v", u)
	}
	must(t, s.PersonalTokens.AddPersonalToken(t.Context(), personalToken("t", "robot"), u.Version))
	f := familyOf(u, "f")
	must(t, Done(s.Families.AddFamily(t.Context(), f)))
}
