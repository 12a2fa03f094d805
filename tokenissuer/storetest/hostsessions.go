package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// hostSession returns a redeemed host session of the declared user "ada" that belongs to a sign-in.
func hostSession(signInID, id string) *store.TokenFamily {
	f := approvedIn(signInID, id)
	f.Origin, f.ClientID, f.SignIn.SessionID, f.Actor = store.HostSession, "gatehouse", signInID, store.Actor{}
	f.Code.RedirectURI = "https://app.example/oauth/callback"
	return f
}

var hostSessionChecks = []check{
	// A sign-in ends by its id, with its user or by a change of the user → its host sessions end in the same step, in every state, each with
	// a revocation; those of other sign-ins stay. Applications that were approved in the sign-in stay unless the filter matches them too.
	{name: "S60HostSessionsEndWithTheirSignIn", test: func(t *testing.T, s store.Store) {
		filters := map[string]func(u *store.User, signIn string) store.FamilyFilter{
			"by id": func(_ *store.User, signIn string) store.FamilyFilter { return store.FamilyFilter{ID: signIn} },
			"by id and user": func(u *store.User, signIn string) store.FamilyFilter {
				return store.FamilyFilter{ID: signIn, UserID: u.ID}
			},
			"sign-ins of the user": func(u *store.User, _ string) store.FamilyFilter {
				return store.FamilyFilter{UserID: u.ID, Origins: []oauth.GrantType{store.BrowserSession}}
			},
			"by user": func(u *store.User, _ string) store.FamilyFilter { return store.FamilyFilter{UserID: u.ID} },
		}
		for _, way := range []string{"by id", "by id and user", "sign-ins of the user", "by user", "change", "removal"} {
			u := addUser(t, s, user("user "+way))
			own := func(f *store.TokenFamily) *store.TokenFamily { return ownedBy(u, f) }
			signIn, other := "sign-in "+way, "other "+way
			hosts := []*store.TokenFamily{own(hostSession(signIn, "unspent "+way)), own(hostSession(signIn, "spent "+way)), own(hostSession(signIn, "seen "+way))}
			foreign, application := own(hostSession(other, "foreign "+way)), own(approvedIn(signIn, "application "+way))
			application.SignIn.SessionID = signIn
			addFamilies(t, s.Families, own(session(signIn)), own(session(other)), foreign, application, own(telling(signIn, "told "+way)))
			addFamilies(t, s.Families, hosts...)
			must(t, redeem(t, s.Families, "spent "+way, 0))
			must(t, redeem(t, s.Families, "seen "+way, 0))
			must(t, Done(s.Families.TouchFamily(t.Context(), "seen "+way, now.Add(time.Hour))))

			var ended []store.Revocation
			switch way {
			case "change":
				ended = ok(s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.Groups = nil }), theEnd))(t)
			case "removal":
				ended = ok(s.Users.RemoveUser(t.Context(), u.ID, theEnd))(t)
			default:
				ended = end(t, s.Families, filters[way](u, signIn))
			}
			want := []string{signIn, "unspent " + way, "spent " + way, "seen " + way}
			switch way {
			case "sign-ins of the user":
				want = append(want, other, foreign.ID)
			case "by user", "change", "removal":
				want = append(want, other, foreign.ID, application.ID, telling(signIn, "told "+way).ID)
			}
			sameEndings(t, s, ended, want...)
			for _, f := range []*store.TokenFamily{foreign, application} {
				if !slices.Contains(want, f.ID) {
					wantFamilies(t, s.Families, kept(f))
				}
			}
			if told := fmt.Sprintf("%s told %s of %s", signIn, way, u.ID); !slices.Contains(due(t, s), told) {
				t.Errorf("%s: due are %q, want %q among them", way, due(t, s), told)
			}
		}
	}},
	// The end of a host session ends neither its sign-in nor the others that belong to it, and makes no logout due.
	{name: "S60HostSessionEndsAlone", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, session("sign-in"), hostSession("sign-in", "app"), hostSession("sign-in", "wiki"), telling("sign-in", "told"))
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "app"}), "app")
		wantFamilies(t, s.Families, session("sign-in"), kept(hostSession("sign-in", "wiki")))
		noneDue(t, s)
		// An earlier end does not matter, nor does recording its revocation again.
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "sign-in"}), "sign-in", "wiki")
	}},
	// A host session approved while its sign-in ends, on one node or two → refused, or ended with it.
	{name: "S61HostSessionBornBesideTheEnd", beside: func(t *testing.T, ending, adding store.Store) {
		for round := range raceRounds {
			id := fmt.Sprint("sign-in ", round)
			addFamilies(t, ending.Families, session(id))
			which := []store.FamilyFilter{{ID: id}, {ID: id, UserID: "ada"}, {UserID: "ada", Origins: []oauth.GrantType{store.BrowserSession}}}[round%3]
			bornBeside(t, ending, adding, store.Revoked,
				func(name string) *store.TokenFamily { return hostSession(id, name) },
				func() ([]store.Revocation, error) { return ending.Families.EndFamilies(t.Context(), which, theEnd) })
		}
	}},
	// A host session approved, redeemed or seen after its sign-in has ended → refused, and not revived.
	{name: "S62HostSessionAfterTheEnd", test: func(t *testing.T, s store.Store) {
		addFamilies(t, s.Families, session("sign-in"), hostSession("sign-in", "unspent"), hostSession("sign-in", "spent"))
		must(t, redeem(t, s.Families, "spent", 0))
		end(t, s.Families, store.FamilyFilter{ID: "sign-in"})
		mustBe(t, Done(s.Families.AddFamily(t.Context(), hostSession("sign-in", "late"))), Refused(store.Revoked))
		mustBe(t, redeem(t, s.Families, "unspent", 0), Refused(store.Revoked))
		mustBe(t, redeem(t, s.Families, "spent", 0), Refused(store.Replayed))
		for _, id := range []string{"unspent", "spent", "late"} {
			mustBe(t, Done(s.Families.TouchFamily(t.Context(), id, now.Add(time.Hour))), Refused(store.Revoked))
		}
		wantSize(t, ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t), 0)
	}},
	// A host session is redeemed or touched while its sign-in ends. In either order it has ended, and its revocation is kept as long as the
	// use allows tokens to live.
	{name: "S62HostSessionUsedBesideTheEnd", beside: func(t *testing.T, ending, using store.Store) {
		for round := range raceRounds {
			signIn := fmt.Sprint("sign-in ", round)
			fresh, rested := hostSession(signIn, signIn+" fresh"), hostSession(signIn, signIn+" rested")
			rested.TokenLifetime, rested.CreatedAt, rested.Refresh.RotatedAt = time.Hour, now.Add(-48*time.Hour), now.Add(-48*time.Hour)
			addFamilies(t, ending.Families, session(signIn), fresh, rested)
			ended, done := besideTheEnd(t, Refused(store.Revoked), func() ([]store.Revocation, error) {
				return ending.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: signIn}, theEnd)
			}, func() error {
				return use(t.Context(), using.Families, fresh.ID, store.Redemption{At: now, ExpiresAt: now.Add(time.Hour), MaxFailures: maxFailures})
			}, func() error { return Done(using.Families.TouchFamily(t.Context(), rested.ID, now)) })
			wantSize(t, ended, 3)
			for _, id := range []string{fresh.ID, rested.ID} {
				f := readFamily(t, using.Families, id)
				if !sameTime(f.RevokedAt, theEnd.At) {
					t.Fatalf("round %d: %q has ended at %v", round, id, f.RevokedAt)
				}
				same(t, recorded(t, ending.Revocations)["family "+id], endOf(id, f.RevokedUntil(theEnd)))
			}
			if done[1] && !sameTime(readFamily(t, using.Families, rested.ID).Refresh.RotatedAt, now) {
				t.Fatalf("round %d: it was seen, and the end knows nothing of it", round)
			}
			mustBe(t, Done(using.Families.TouchFamily(t.Context(), rested.ID, now.Add(time.Hour))), Refused(store.Revoked))
		}
	}},
	// The host sessions of a sign-in are ended alone → no other family of that sign-in ends.
	{name: "S64EndFamiliesBySignIn", test: func(t *testing.T, s store.Store) {
		for _, c := range []struct {
			which store.FamilyFilter
			want  []string
		}{
			{store.FamilyFilter{SessionID: "a"}, []string{"a app", "a wiki"}},
			{store.FamilyFilter{SessionID: "a", UserID: "ada"}, []string{"a app", "a wiki"}},
			{store.FamilyFilter{SessionID: "a", ID: "a app"}, []string{"a app"}},
			{store.FamilyFilter{SessionID: "a", Origins: []oauth.GrantType{store.HostSession}}, []string{"a app", "a wiki"}},
			{store.FamilyFilter{SessionID: "a", Origins: []oauth.GrantType{oauth.AuthorizationCode}}, nil},
			{store.FamilyFilter{SessionID: "a", UserID: "bob"}, nil},
			{store.FamilyFilter{SessionID: "a", ID: "b app"}, nil},
			{store.FamilyFilter{SessionID: "a app"}, nil},
			{store.FamilyFilter{SessionID: "nobody"}, nil},
			{store.FamilyFilter{Origins: []oauth.GrantType{store.HostSession}}, nil},
		} {
			prefix := fmt.Sprintf("%+v ", c.which)
			in := func(name string) string {
				if name == "" || name == "nobody" {
					return name
				}
				return prefix + name
			}
			application := with(approvedIn(in("a"), in("application")), func(f *store.TokenFamily) { f.SignIn.SessionID = in("a") })
			addFamilies(t, s.Families, session(in("a")), session(in("b")), application,
				hostSession(in("a"), in("a app")), hostSession(in("a"), in("a wiki")), hostSession(in("b"), in("b app")))
			which, want := c.which, make([]string, len(c.want))
			which.ID, which.SessionID = in(which.ID), in(which.SessionID)
			for i, id := range c.want {
				want[i] = in(id)
			}
			sameEndings(t, s, end(t, s.Families, which), want...)
			for _, id := range []string{"a", "b", "application", "a app", "a wiki", "b app"} {
				if ended := !readFamily(t, s.Families, in(id)).RevokedAt.IsZero(); ended != slices.Contains(want, in(id)) {
					t.Errorf("%+v: %q has ended: %t", c.which, id, ended)
				}
			}
		}
	}},
	// Host sessions that expire before their sign-in → dropped, the sign-in stays and no application is told.
	{name: "S65HostSessionsAreDropped", test: func(t *testing.T, s store.Store) {
		long := with(session("sign-in"), func(f *store.TokenFamily) { f.ExpiresAt = now.AddDate(0, 1, 0) })
		short, lasting := hostSession("sign-in", "short"), hostSession("sign-in", "lasting")
		lasting.ExpiresAt = long.ExpiresAt
		addFamilies(t, s.Families, long, short, lasting, telling("sign-in", "told"))
		drop(t, s.Housekeeping, now.AddDate(0, 0, 7), 10)
		noFamily(t, s.Families, "short")
		wantFamilies(t, s.Families, kept(lasting))
		noneDue(t, s)
		sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "sign-in"}), "sign-in", "lasting")
	}},
}
