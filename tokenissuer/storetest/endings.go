package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// theEnd is when families end in these tests. Its Until is later than every family's own end.
var theEnd = store.Ending{At: now.Add(5*time.Minute + 123456*time.Microsecond), Until: now.AddDate(0, 2, 0)}

// endOf returns the revocation that a family's end records: of its tokens whenever they were issued.
func endOf(id string, until time.Time) store.Revocation {
	return store.Revocation{Kind: store.RevokeFamily, ID: id, ExpiresAt: until}
}

// end ends families at theEnd and returns the revocations.
func end(t *testing.T, s store.FamilyStore, which store.FamilyFilter) []store.Revocation {
	t.Helper()
	ended, err := s.EndFamilies(t.Context(), which, theEnd)
	if err != nil {
		t.Fatalf("ending %+v: %v", which, err)
	}
	return ended
}

// sameEndings ends the test unless the revocations are those of exactly these families, each once, all are in the feed, and each of the
// families has ended at theEnd.
func sameEndings(t *testing.T, s store.Store, ended []store.Revocation, ids ...string) {
	t.Helper()
	sameRevocations(t, s, ended, ids...)
	for _, id := range ids {
		if at := readFamily(t, s.Families, id).RevokedAt; !sameTime(at, theEnd.At) {
			t.Errorf("family %q has ended at %v, want %v", id, at, theEnd.At)
		}
	}
}

// sameRevocations is sameEndings without the check of the families themselves.
func sameRevocations(t *testing.T, s store.Store, ended []store.Revocation, ids ...string) {
	t.Helper()
	var got []string
	feed := recorded(t, s.Revocations)
	for _, r := range ended {
		got = append(got, r.ID)
		same(t, r, endOf(r.ID, theEnd.Until))
		same(t, feed[name(r)], endOf(r.ID, theEnd.Until))
	}
	slices.Sort(got)
	if want := slices.Sorted(slices.Values(ids)); !slices.Equal(got, want) {
		t.Fatalf("the revocations returned are those of %q, want %q", got, want)
	}
}

var endingChecks = []check{
	// Each combination of members ends the families that match all of them, and no other. It is tested on as many families as there are
	// combinations of values, which differ in nothing else.
	{name: "EndFamiliesThatMatch", test: func(t *testing.T, s store.Store) {
		origins := []oauth.GrantType{oauth.AuthorizationCode, store.BrowserSession, store.AdminCreated}
		families := func(round string) (list []*store.TokenFamily) {
			for _, user := range []string{"ada", "bob"} {
				for _, client := range []string{"app", "web"} {
					for _, origin := range origins {
						f := refreshed(fmt.Sprint(round, " ", user, " ", client, " ", origin))
						f.User.ID, f.ClientID, f.Origin = round+user, round+client, origin
						list = append(list, f)
					}
				}
			}
			return list
		}
		matches := func(f *store.TokenFamily, which store.FamilyFilter) bool {
			named := which.ID != "" || which.UserID != "" || which.ClientID != ""
			return named && (which.ID == "" || which.ID == f.ID) && (which.UserID == "" || which.UserID == f.User.ID) &&
				(which.ClientID == "" || which.ClientID == f.ClientID) &&
				(len(which.Origins) == 0 || slices.Contains(which.Origins, f.Origin))
		}
		for combination := 1; combination < 32; combination++ {
			round := fmt.Sprint("round ", combination, " ")
			all := families(round)
			addFamilies(t, s.Families, all...)
			var which store.FamilyFilter
			if combination&1 != 0 {
				which.ID = all[0].ID
			}
			if combination&2 != 0 {
				which.UserID = all[0].User.ID
			}
			if combination&4 != 0 {
				which.ClientID = all[0].ClientID
			}
			if combination&8 != 0 {
				which.Origins = append(which.Origins, origins[0])
			}
			if combination&16 != 0 {
				which.Origins = append(which.Origins, origins[2])
			}
			var want []string
			for _, f := range all {
				if matches(f, which) {
					want = append(want, f.ID)
				}
			}
			sameEndings(t, s, end(t, s.Families, which), want...)
			for _, f := range all {
				if !matches(f, which) {
					wantFamilies(t, s.Families, f)
				}
			}
		}
	}},
	// Families of the same user in another version stay, and a version alone matches none.
	{name: "M25EndFamiliesOfAVersion", test: func(t *testing.T, s store.Store) {
		of := func(id, user, version string) *store.TokenFamily {
			return with(refreshed(id), func(f *store.TokenFamily) { f.User.ID, f.User.Version = user, version })
		}
		stay := []*store.TokenFamily{of("new", "ada", "new"), of("none", "ada", ""), of("bob's", "bob", "old")}
		addFamilies(t, s.Families, of("old", "ada", "old"), of("older", "ada", "old"))
		addFamilies(t, s.Families, stay...)
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{UserVersion: "old"}))
		sameRevocations(t, s, end(t, s.Families, store.FamilyFilter{ID: "new", UserVersion: "old"}))
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{UserID: "ada", UserVersion: "old"}), "old", "older")
		wantFamilies(t, s.Families, stay...)
	}},
	// Families that have one of the scopes stay. A similar scope does not count.
	{name: "EndFamiliesWithoutAScope", test: func(t *testing.T, s store.Store) {
		of := func(id string, scopes ...string) *store.TokenFamily {
			return with(refreshed(id), func(f *store.TokenFamily) { f.Scopes = scopes })
		}
		stay := []*store.TokenFamily{of("first", "stay", "public"), of("last", "public", "stay"), of("alone", "stay"), of("other", "go_on")}
		addFamilies(t, s.Families, stay...)
		addFamilies(t, s.Families, of("none"), of("longer", "stay.here", "overstay"), of("capitals", "Stay"), of("underscore", "goXon"), of("two", "st", "ay"))
		which := store.FamilyFilter{UserID: refreshed("").User.ID, ExceptScopes: oauth.Scopes{"stay", "go_on"}}
		sameRevocations(t, s, end(t, s.Families, store.FamilyFilter{ID: "alone", ExceptScopes: which.ExceptScopes}))
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ExceptScopes: which.ExceptScopes}))
		sameEndings(t, s, end(t, s.Families, which), "none", "longer", "capitals", "underscore", "two")
		wantFamilies(t, s.Families, stay...)
	}},
	// The zero filter matches nothing, however it is written, and a filter without matches ends nothing. A user who names another's family
	// ends nothing either: a family that does not match the other members stays, and so do its tokens.
	{name: "EndFamiliesWithoutAMatch", test: func(t *testing.T, s store.Store) {
		bare := &store.TokenFamily{ID: "bare", User: store.FamilyUser{Declared: true}, Validity: store.Validity{ExpiresAt: now.Add(time.Hour)}}
		addFamilies(t, s.Families, family("f"), bare)
		for _, which := range []store.FamilyFilter{
			{}, {Origins: []oauth.GrantType{}}, {UserID: "nobody"}, {ClientID: "nobody"},
			{Origins: []oauth.GrantType{store.BrowserSession, "code"}}, {UserID: "ada", ClientID: "nobody"},
			{UserID: "nobody", ClientID: "app"}, {UserID: "app"}, {ClientID: "ada"}, {UserID: "f"},
			{UserID: "ada", Origins: []oauth.GrantType{oauth.PasswordGrant}},
			{ID: "f", UserID: "bob"}, {ID: "f", ClientID: "web"}, {ID: "f", UserID: "bob", ClientID: "app"},
			{ID: "f", UserID: "ada", Origins: []oauth.GrantType{store.BrowserSession}},
		} {
			sameEndings(t, s, end(t, s.Families, which))
			wantFamilies(t, s.Families, family("f"), bare)
		}
		nothingRevoked(t, s.Revocations)
	}},
	// Unspent, spent, rotated and expired families end, because access tokens of each may live. The rest of the record stays. Families that
	// had ended keep their time and are not included.
	{name: "EndFamiliesWhateverTheirState", test: func(t *testing.T, s store.Store) {
		expired := with(refreshed("expired"), func(f *store.TokenFamily) { f.ExpiresAt = now.Add(-48 * time.Hour) })
		failed := family("failed")
		addFamilies(t, s.Families, family("unspent"), family("spent"), refreshed("rotated"), expired, failed, family("before"))
		must(t, redeem(t, s.Families, "spent", 1))
		must(t, rotate(t, s.Families, "rotated", 1, store.Rotation{At: now}))
		must(t, s.Families.CountCodeFailure(t.Context(), "failed"))
		earlier := store.Ending{At: now.Add(-time.Hour), Until: now.Add(time.Hour)}
		ended := ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "before"}, earlier))(t)
		wantSize(t, ended, 1)
		same(t, ended[0], endOf("before", earlier.Until))

		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{UserID: "ada"}), "unspent", "spent", "rotated", "expired", "failed")
		rotated := with(refreshed("rotated"), func(f *store.TokenFamily) { f.Refresh.Generation, f.Refresh.RotatedAt = 2, now })
		failed.Code.Failures = 1
		for _, want := range []*store.TokenFamily{family("unspent"), redeemed(family("spent"), 1), rotated, expired, failed} {
			want.RevokedAt = theEnd.At
			wantFamilies(t, s.Families, want)
		}
		want := with(family("before"), func(f *store.TokenFamily) { f.RevokedAt = earlier.At })
		wantFamilies(t, s.Families, want)
		same(t, recorded(t, s.Revocations)["family before"], endOf("before", earlier.Until))

		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{UserID: "ada"})) // nothing is left to end
	}},
	// The revocation of a family named by id is prolonged, even if it had ended. It keeps the time of its end.
	{name: "EndFamilyByID", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, family("f"), family("other"))
		first := store.Ending{At: now, Until: now.Add(time.Hour)}
		for _, until := range []store.Ending{first, theEnd} {
			ended := ok(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, until))(t)
			wantSize(t, ended, 1)
			same(t, ended[0], endOf("f", until.Until))
			same(t, recorded(t, s.Revocations)["family f"], endOf("f", until.Until))
			want := with(family("f"), func(f *store.TokenFamily) { f.RevokedAt = first.At })
			wantFamilies(t, s.Families, want)
		}
		// It matches the other members, too, and is the one exception among those that do.
		which := store.FamilyFilter{ID: "f", UserID: "ada", ClientID: "app", Origins: []oauth.GrantType{oauth.AuthorizationCode}}
		sameRevocations(t, s, end(t, s.Families, which), "f")
		wantFamilies(t, s.Families, family("other"))
	}},
	// A revocation is also recorded for a family that was deleted or never existed, because tokens of it may exist.
	{name: "EndFamilyByIDThatIsUnknown", test: func(t *testing.T, s store.Store) {
		sameRevocations(t, s, end(t, s.Families, store.FamilyFilter{ID: "nothing"}), "nothing")
		sameRevocations(t, s, end(t, s.Families, store.FamilyFilter{ID: "nothing"}), "nothing")
		noFamily(t, s.Families, "nothing")
		wantSize(t, recorded(t, s.Revocations), 1)
	}},
	// An earlier revocation, such as a client's revocation of a token, is widened and never narrowed.
	{name: "EndFamiliesWidens", test: func(t *testing.T, s store.Store) {
		longer := theEnd.Until.AddDate(0, 1, 0)
		narrow := endOf("narrow", now.Add(time.Hour))
		narrow.IssuedUntil = now
		must(t, s.Revocations.Revoke(t.Context(), narrow, endOf("wide", longer)))
		addFamilies(t, s.Families, family("narrow"), family("wide"))
		wantSize(t, end(t, s.Families, store.FamilyFilter{UserID: "ada"}), 2)
		feed := recorded(t, s.Revocations)
		same(t, feed["family narrow"], endOf("narrow", theEnd.Until))
		same(t, feed["family wide"], endOf("wide", longer))
	}},
	// A reader of the feed gets what every step that ends families recorded, and nothing if nothing ended.
	{name: "EndFamiliesIsInTheFeed", test: func(t *testing.T, s store.Store) {
		u, gone := addUser(t, s, user("changed")), addUser(t, s, user("removed"))
		addFamilies(t, s.Families, family("a"), family("b"), familyOf(u, "c"), familyOf(gone, "d"))
		_, position := follow(t, s.Revocations, store.FeedPosition{})
		var got map[string]bool
		next := func(want ...string) {
			t.Helper()
			got, position = follow(t, s.Revocations, position)
			sameNames(t, got, want...)
		}
		end(t, s.Families, store.FamilyFilter{ID: "a"})
		next("family a")
		end(t, s.Families, store.FamilyFilter{UserID: "ada"})
		next("family b")
		end(t, s.Families, store.FamilyFilter{UserID: "ada"})
		next()
		end(t, s.Families, store.FamilyFilter{ID: "unknown"})
		next("family unknown")
		ok(s.Users.ChangeUser(t.Context(), "changed", store.UserChange{}, theEnd))(t)
		next("family c")
		ok(s.Users.RemoveUser(t.Context(), "removed", theEnd))(t)
		next("family d")
	}},
	// A store knows when the last access token of a family was issued and how long it lives, and keeps the revocation no longer than that.
	{name: "RevocationsAreKeptAsLongAsTokensLive", test: func(t *testing.T, s store.Store) {
		for _, lifetime := range []time.Duration{time.Second, 6 * time.Hour, 365 * 24 * time.Hour} {
			id := lifetime.String()
			f := with(refreshed(id), func(f *store.TokenFamily) { f.TokenLifetime = lifetime })
			addFamilies(t, s.Families, f)
			wantFamilies(t, s.Families, f)
			must(t, rotate(t, s.Families, id, 1, store.Rotation{At: now.Add(3 * time.Minute)}))
			want := endOf(id, readFamily(t, s.Families, id).RevokedUntil(theEnd))
			ended := end(t, s.Families, store.FamilyFilter{ID: id})
			wantSize(t, ended, 1)
			same(t, ended[0], want)
			same(t, recorded(t, s.Revocations)[name(want)], want)
		}
	}},
}
