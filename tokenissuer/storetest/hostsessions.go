package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var hostSessionChecks = []check{
	{name: "S60HostSessionsEndWithTheirSignIn", test: hostSessionsEndWithTheirSignIn},
	{name: "S60HostSessionEndsAlone", test: hostSessionEndsAlone},
	{name: "S61HostSessionBornBesideTheEnd", beside: hostSessionBornBesideTheEnd},
	{name: "S62HostSessionAfterTheEnd", test: hostSessionAfterTheEnd},
	{name: "S62HostSessionUsedBesideTheEnd", beside: hostSessionUsedBesideTheEnd},
	{name: "S63SignInAndHostSessionsEndInOneStep", test: hostSessionsEndInOneStep},
	{name: "S64EndFamiliesBySignIn", test: endFamiliesBySignIn},
	{name: "S65HostSessionsAreDropped", test: hostSessionsAreDropped},
}

// hostSession returns a redeemed host session of the declared user "ada" that belongs to a sign-in.
func hostSession(signInID, id string) *store.TokenFamily {
	f := approvedIn(signInID, id)
	f.Origin, f.ClientID, f.SignIn.SessionID, f.Actor = store.HostSession, "gatehouse", signInID, store.Actor{}
	f.Code.RedirectURI = "https://app.example/oauth/callback"
	return f
}

// hostSessionsEndWithTheirSignIn (S60): a sign-in ends by its id, with its user or by a change of the user → its host sessions end in the
// same step, in every state, each with a revocation; those of other sign-ins stay. Applications that were approved in the sign-in stay
// unless the filter matches them too.
func hostSessionsEndWithTheirSignIn(t *testing.T, s store.Store) {
	ends := map[string]func(u *store.User, signIn string) ([]store.Revocation, error){
		"by id": func(_ *store.User, signIn string) ([]store.Revocation, error) {
			return s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: signIn}, theEnd)
		},
		"by id and user": func(u *store.User, signIn string) ([]store.Revocation, error) {
			return s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: signIn, UserID: u.ID}, theEnd)
		},
		"sign-ins of the user": func(u *store.User, _ string) ([]store.Revocation, error) {
			return s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: u.ID, Origins: []oauth.GrantType{store.BrowserSession}}, theEnd)
		},
		"by user": func(u *store.User, _ string) ([]store.Revocation, error) {
			return s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: u.ID}, theEnd)
		},
		"change": func(u *store.User, _ string) ([]store.Revocation, error) {
			return s.Users.ChangeUser(t.Context(), u.ID, edit(func(u *store.User) { u.Groups = nil }), theEnd)
		},
		"removal": func(u *store.User, _ string) ([]store.Revocation, error) {
			return s.Users.RemoveUser(t.Context(), u.ID, theEnd)
		},
	}
	for _, way := range slices.Sorted(maps.Keys(ends)) {
		u := addUser(t, s, user("user "+way))
		own := func(f *store.TokenFamily) *store.TokenFamily {
			f.User.ID, f.User.Version, f.User.Declared = u.ID, u.Version, false
			return f
		}
		signIn, other := "sign-in "+way, "other "+way
		hosts := []*store.TokenFamily{own(hostSession(signIn, "unspent "+way)), own(hostSession(signIn, "spent "+way)), own(hostSession(signIn, "seen "+way))}
		foreign, application := own(hostSession(other, "foreign "+way)), own(approvedIn(signIn, "application "+way))
		application.SignIn.SessionID = signIn
		addFamilies(t, s.Families, own(session(signIn)), own(session(other)), foreign, application, own(telling(signIn, "told "+way)))
		addFamilies(t, s.Families, hosts...)
		must(t, redeem(t, s.Families, "spent "+way, 0))
		must(t, redeem(t, s.Families, "seen "+way, 0))
		must(t, Done(s.Families.TouchFamily(t.Context(), "seen "+way, now.Add(time.Hour))))

		ended, err := ends[way](u, signIn)
		must(t, err)
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
				sameFamily(t, readFamily(t, s.Families, f.ID), kept(f))
			}
		}
		if told := fmt.Sprintf("%s told %s of %s", signIn, way, u.ID); !slices.Contains(due(t, s), told) {
			t.Errorf("%s: due are %q, want %q among them", way, due(t, s), told)
		}
	}
}

// hostSessionEndsAlone (S60): the end of a host session ends neither its sign-in nor the others that belong to it, and makes no logout
// due.
func hostSessionEndsAlone(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, session("sign-in"), hostSession("sign-in", "app"), hostSession("sign-in", "wiki"), telling("sign-in", "told"))
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "app"}), "app")
	sameFamily(t, readFamily(t, s.Families, "sign-in"), session("sign-in"))
	sameFamily(t, readFamily(t, s.Families, "wiki"), kept(hostSession("sign-in", "wiki")))
	if got := due(t, s); len(got) > 0 {
		t.Errorf("due are %q", got)
	}
	// An earlier end does not matter, nor does recording its revocation again.
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "sign-in"}), "sign-in", "wiki")
}

// hostSessionBornBesideTheEnd (S61): a host session approved while its sign-in ends, on one node or two → refused, or ended with it.
// Stores are two on one place, or one twice.
func hostSessionBornBesideTheEnd(t *testing.T, ending, adding store.Store) {
	for round := range standingRounds {
		id := fmt.Sprint("sign-in ", round)
		addFamilies(t, ending.Families, session(id))
		which := []store.FamilyFilter{{ID: id}, {ID: id, UserID: "ada"}, {UserID: "ada", Origins: []oauth.GrantType{store.BrowserSession}}}[round%3]
		bornBesideTheEnd(t, adding, fmt.Sprint("round ", round), store.Revoked,
			func(name string) *store.TokenFamily { return hostSession(id, name) },
			func() ([]store.Revocation, error) { return ending.Families.EndFamilies(t.Context(), which, theEnd) })
	}
}

// hostSessionAfterTheEnd (S62): a host session approved, redeemed or seen after its sign-in has ended → refused, and not revived.
func hostSessionAfterTheEnd(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, session("sign-in"), hostSession("sign-in", "unspent"), hostSession("sign-in", "spent"))
	must(t, redeem(t, s.Families, "spent", 0))
	end(t, s.Families, store.FamilyFilter{ID: "sign-in"})
	mustBe(t, Done(s.Families.AddFamily(t.Context(), hostSession("sign-in", "late"))), Refused(store.Revoked))
	mustBe(t, redeem(t, s.Families, "unspent", 0), Refused(store.Revoked))
	mustBe(t, redeem(t, s.Families, "spent", 0), Refused(store.Replayed))
	for _, id := range []string{"unspent", "spent", "late"} {
		mustBe(t, Done(s.Families.TouchFamily(t.Context(), id, now.Add(time.Hour))), Refused(store.Revoked))
	}
	list, err := s.Families.FamiliesOf(t.Context(), "ada", time.Time{})
	must(t, err)
	if len(list) != 0 {
		t.Errorf("family %q lives", list[0].ID)
	}
}

// hostSessionUsedBesideTheEnd (S62): a host session is redeemed or touched while its sign-in ends. In either order it has ended, and its
// revocation is kept as long as the use allows tokens to live. Stores are two on one place, or one twice.
func hostSessionUsedBesideTheEnd(t *testing.T, ending, using store.Store) {
	for round := range races(t, 60) {
		signIn := fmt.Sprint("sign-in ", round)
		fresh, rested := hostSession(signIn, signIn+" fresh"), hostSession(signIn, signIn+" rested")
		rested.TokenLifetime, rested.CreatedAt, rested.Refresh.RotatedAt = time.Hour, now.Add(-48*time.Hour), now.Add(-48*time.Hour)
		addFamilies(t, ending.Families, session(signIn), fresh, rested)
		var ended []store.Revocation
		errs := race(3, func(i int) (err error) {
			switch i {
			case 0:
				ended, err = ending.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: signIn}, theEnd)
			case 1:
				err = use(t.Context(), using.Families, fresh.ID, store.Redemption{At: now, ExpiresAt: now.Add(time.Hour), MaxFailures: maxFailures})
			default:
				err = Done(using.Families.TouchFamily(t.Context(), rested.ID, now))
			}
			return err
		})
		must(t, errs[0])
		for _, err := range errs[1:] {
			if err != nil && !errors.Is(err, Refused(store.Revoked)) {
				t.Fatalf("round %d: %v", round, err)
			}
		}
		if len(ended) != 3 {
			t.Fatalf("round %d: the end returned %v", round, ended)
		}
		for _, id := range []string{fresh.ID, rested.ID} {
			f := readFamily(t, using.Families, id)
			if !sameTime(f.RevokedAt, theEnd.At) {
				t.Fatalf("round %d: %q has ended at %v", round, id, f.RevokedAt)
			}
			sameRevocation(t, recorded(t, ending.Revocations)["family "+id], endOf(id, f.RevokedUntil(theEnd)))
		}
		if errs[2] == nil && !sameTime(readFamily(t, using.Families, rested.ID).Refresh.RotatedAt, now) {
			t.Fatalf("round %d: it was seen, and the end knows nothing of it", round)
		}
		mustBe(t, Done(using.Families.TouchFamily(t.Context(), rested.ID, now.Add(time.Hour))), Refused(store.Revoked))
	}
}

// hostSessionsEndInOneStep (S63): a reader that sees the ended sign-in → sees no living host session of it, and each revocation in the
// feed.
func hostSessionsEndInOneStep(t *testing.T, s store.Store) {
	const hosts = 5
	for round := range 20 {
		signIn := fmt.Sprint("sign-in ", round)
		addFamilies(t, s.Families, session(signIn))
		for i := range hosts {
			addFamilies(t, s.Families, hostSession(signIn, fmt.Sprint(signIn, " host ", i)))
		}
		errs := race(3, func(i int) error {
			if i == 0 {
				_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: signIn}, theEnd)
				return err
			}
			for {
				f, err := s.Families.Family(t.Context(), signIn)
				if err != nil {
					return err
				}
				if !f.RevokedAt.IsZero() {
					break
				}
			}
			return endedAt(t.Context(), s, signIn, hosts)
		})
		must(t, errors.Join(errs...))
	}
}

// endedAt returns an error unless the host sessions of a sign-in have ended, and their revocations are in the feed.
func endedAt(ctx context.Context, s store.Store, signIn string, hosts int) error {
	revoked, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{})
	if err != nil {
		return err
	}
	for i := range hosts {
		id := fmt.Sprint(signIn, " host ", i)
		f, err := s.Families.Family(ctx, id)
		if err != nil {
			return err
		}
		if f.RevokedAt.IsZero() || !slices.ContainsFunc(revoked, func(r store.Revocation) bool { return name(r) == "family "+id }) {
			return fmt.Errorf("%q has ended, and %q lives or is not in the feed", signIn, id)
		}
	}
	return nil
}

// endFamiliesBySignIn (S64): the host sessions of a sign-in are ended alone → no other family of that sign-in ends.
func endFamiliesBySignIn(t *testing.T, s store.Store) {
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
		application := approvedIn(in("a"), in("application"))
		application.SignIn.SessionID = in("a")
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
}

// hostSessionsAreDropped (S65): host sessions that expire before their sign-in → dropped, the sign-in stays and no application is told.
func hostSessionsAreDropped(t *testing.T, s store.Store) {
	long := session("sign-in")
	long.ExpiresAt = now.AddDate(0, 1, 0)
	short, lasting := hostSession("sign-in", "short"), hostSession("sign-in", "lasting")
	lasting.ExpiresAt = long.ExpiresAt
	addFamilies(t, s.Families, long, short, lasting, telling("sign-in", "told"))
	for more := true; more; {
		var err error
		more, err = s.Housekeeping.Drop(t.Context(), store.ExpiringFamilies, now.AddDate(0, 0, 7))
		must(t, err)
	}
	noFamily(t, s.Families, "short")
	sameFamily(t, readFamily(t, s.Families, "lasting"), kept(lasting))
	if got := due(t, s); len(got) > 0 {
		t.Errorf("due are %q", got)
	}
	sameEndings(t, s, end(t, s.Families, store.FamilyFilter{ID: "sign-in"}), "sign-in", "lasting")
}
