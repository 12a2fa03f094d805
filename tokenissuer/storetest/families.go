package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var familyChecks = []check{
	{name: "FamilyUnknown", test: familyUnknown},
	{name: "FamilyReadsBack", test: familyReadsBack},
	{name: "FamilyIDsAreBytes", test: familyIDsAreBytes},
	{name: "FamilyAddedOnce", test: familyAddedOnce},
	{name: "FamilyHandedOutStaysAsItWas", test: familyHandedOutStaysAsItWas},
	{name: "FamilyIsReadAfterItsLastStep", test: familyIsReadAfterItsLastStep},
}

// family returns a family of the declared user "ada" with an authorization code. Every field has a distinct value, except those that only
// later steps set.
func family(id string) *store.TokenFamily {
	return &store.TokenFamily{
		ID:       id,
		User:     store.FamilyUser{ID: "ada", Version: "version of ada", Declared: true},
		Grant:    store.Grant{ClientID: "app", Origin: oauth.AuthorizationCode, Scopes: oauth.Scopes{"trusted", "read:<things>'&"}, Claims: `{"userinfo":{"é'":null}}`, Audience: []string{"https://api.example/é?a='1'", "urn:things"}},
		Actor:    store.Actor{Subject: "boß 🧑‍💼", ClientID: `"back" office`},
		SignIn:   store.SignIn{Provider: "corp é'", SessionID: "session of " + id, Proof: store.Proof{ACR: "1 é'", AMR: []string{"pwd", "otp é'"}}, Time: now.Add(-time.Hour)},
		Note:     "Firefox auf Ünix '\"\\ 🌍",
		Validity: store.Validity{CreatedAt: now.Add(-time.Minute), ExpiresAt: now.Add(time.Hour), TokenLifetime: store.MaxFamilyLifetime},
		Code: store.CodeBinding{
			RequestID: "request of " + id, RedirectURI: "https://app.example/cb?a='1'&b=%22é\"",
			Challenge: "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM", Nonce: "n-0S6_WzA2Mj 'é\"", Refreshable: true, ExpiresAt: now.Add(2 * time.Minute),
		},
	}
}

// familyOf returns a family of a stored user, in the user's version as it was read.
func familyOf(u *store.User, id string) *store.TokenFamily {
	f := family(id)
	f.User.ID, f.User.Version, f.User.Declared = u.ID, u.Version, false
	return f
}

// refreshed returns a family without a code whose newest refresh token is the first.
func refreshed(id string) *store.TokenFamily {
	f := family(id)
	f.Origin, f.Code = oauth.PasswordGrant, store.CodeBinding{}
	f.Refresh.Generation, f.Refresh.RotatedAt = 1, now.Add(-time.Minute)
	return f
}

// addFamilies stores families, which must succeed.
func addFamilies(t *testing.T, s store.FamilyStore, families ...*store.TokenFamily) {
	t.Helper()
	for _, f := range families {
		if err := Done(s.AddFamily(t.Context(), f)); err != nil {
			t.Fatalf("adding family %q: %v", f.ID, err)
		}
	}
}

// readFamily returns a family, which must exist.
func readFamily(t *testing.T, s store.FamilyStore, id string) *store.TokenFamily {
	t.Helper()
	f, err := s.Family(t.Context(), id)
	if err != nil {
		t.Fatalf("reading family %q: %v", id, err)
	}
	return f
}

// noFamily ends the test if the family exists.
func noFamily(t *testing.T, s store.FamilyStore, id string) {
	t.Helper()
	_, err := s.Family(t.Context(), id)
	mustBe(t, err, store.ErrNotFound)
}

// sameFamily compares all fields of two families, times to the millisecond, and treats empty and nil lists alike.
func sameFamily(t *testing.T, got, want *store.TokenFamily) {
	t.Helper()
	g, w := *got, *want
	if len(g.Scopes) == 0 && len(w.Scopes) == 0 {
		g.Scopes = w.Scopes
	}
	for _, times := range [][2]*time.Time{
		{&g.SignIn.Time, &w.SignIn.Time}, {&g.CreatedAt, &w.CreatedAt}, {&g.ExpiresAt, &w.ExpiresAt}, {&g.RevokedAt, &w.RevokedAt},
		{&g.Refresh.RotatedAt, &w.Refresh.RotatedAt}, {&g.Code.ExpiresAt, &w.Code.ExpiresAt}, {&g.Code.SpentAt, &w.Code.SpentAt},
	} {
		if sameTime(*times[0], *times[1]) {
			*times[0] = *times[1]
		}
	}
	if !reflect.DeepEqual(g, w) {
		t.Errorf("family is\n%+v, want\n%+v", g, w)
	}
}

// sameFamilies compares families in order.
func sameFamilies(t *testing.T, got []*store.TokenFamily, want ...*store.TokenFamily) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("there are %d families, want %d", len(got), len(want))
	}
	for i := range want {
		sameFamily(t, got[i], want[i])
	}
}

// familyUnknown: an unknown id finds no family, and a step on it leaves nothing behind.
func familyUnknown(t *testing.T, s store.Store) {
	noFamily(t, s.Families, "f")
	mustBe(t, redeem(t, s.Families, "f", 1), Refused(store.Missing))
	mustBe(t, rotate(t, s.Families, "f", 0, store.Rotation{At: now}), Refused(store.Missing))
	must(t, s.Families.CountCodeFailure(t.Context(), "f"))
	mustBe(t, Done(s.Families.TouchFamily(t.Context(), "f", now)), Refused(store.Revoked))
	list, err := s.Families.FamiliesOf(t.Context(), "ada", time.Time{})
	must(t, err)
	sameFamilies(t, list)
	noFamily(t, s.Families, "f")
	addFamilies(t, s.Families, family("f"))
	sameFamily(t, readFamily(t, s.Families, "f"), family("f"))
}

// familyReadsBack: every field comes back, times to the millisecond and zero times as zero.
func familyReadsBack(t *testing.T, s store.Store) {
	u := addUser(t, s, user("user Ω"))
	bare := &store.TokenFamily{ID: "bare", User: store.FamilyUser{ID: "ada", Declared: true}, Validity: store.Validity{ExpiresAt: now.Add(time.Hour)}}
	session := refreshed("session")
	session.Origin, session.ClientID, session.Refresh.Generation, session.Actor = store.BrowserSession, "", 0, store.Actor{}
	old := refreshed("old")
	old.Refresh.RotatedBy = "somebody"
	old.Origin, old.Refresh.Generation, old.Code.Refreshable = store.AdminCreated, 1<<40, false
	epoch := family("epoch") // 1970 is a time like any other, not the zero time
	epoch.SignIn.Time, epoch.CreatedAt, epoch.Code.ExpiresAt = time.Unix(0, 0), time.Unix(0, 0), time.Unix(0, 0)
	plain := family("plain")
	plain.Code = store.CodeBinding{RedirectURI: "com.example.app:/back", ExpiresAt: now}
	for _, want := range []*store.TokenFamily{family("full"), familyOf(u, "of a stored user"), bare, session, old, epoch, plain} {
		addFamilies(t, s.Families, want)
		sameFamily(t, readFamily(t, s.Families, want.ID), want)
	}
}

// familyIDsAreBytes (T15): ids of families, users and clients are what their bytes are.
func familyIDsAreBytes(t *testing.T, s store.Store) {
	of := func(id string) *store.TokenFamily {
		f := family(id)
		f.User.ID, f.ClientID = id, id
		return f
	}
	for _, id := range oddIDs {
		addFamilies(t, s.Families, of(id))
	}
	for _, id := range oddIDs {
		sameFamily(t, readFamily(t, s.Families, id), of(id))
		list, err := s.Families.FamiliesOf(t.Context(), id, now)
		must(t, err)
		sameFamilies(t, list, of(id))
	}
	for _, id := range append(slices.Clone(strangers), outsideTheRules...) {
		if f, err := s.Families.Family(t.Context(), id); err == nil {
			t.Errorf("asking for %.10q gave family %q", id, f.ID)
		}
	}
	// A step changes the family that it names and no other.
	must(t, Used(s.Families.RedeemCode(t.Context(), "%", store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
	must(t, s.Families.CountCodeFailure(t.Context(), "_"))
	for _, id := range []string{"app", "caf\u00e9", "strasse", "1", "a_p"} {
		for _, which := range []store.FamilyFilter{{ID: id}, {UserID: id}, {ClientID: id}} {
			_, err := s.Families.EndFamilies(t.Context(), which, theEnd)
			must(t, err)
		}
	}
	var revoked, spent, failed []string
	for _, id := range oddIDs {
		f := readFamily(t, s.Families, id)
		if !f.RevokedAt.IsZero() {
			revoked = append(revoked, id)
		}
		if !f.Code.SpentAt.IsZero() {
			spent = append(spent, id)
		}
		if f.Code.Failures > 0 {
			failed = append(failed, id)
		}
	}
	if want := []string{"app", "a_p", "caf\u00e9", "strasse", "1"}; !slices.Equal(revoked, want) {
		t.Errorf("families %q were revoked, want %q", revoked, want)
	}
	if !slices.Equal(spent, []string{"%"}) || !slices.Equal(failed, []string{"_"}) {
		t.Errorf("codes %q were spent and %q failed, want %% and _", spent, failed)
	}
}

// familyAddedOnce: a second family with an id is refused. It would revive a revoked one.
func familyAddedOnce(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"))
	_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: "f"}, theEnd)
	must(t, err)
	second := refreshed("f")
	if err := Done(s.Families.AddFamily(t.Context(), second)); err == nil {
		t.Error("a second family of the id was added")
	}
	want := family("f")
	want.RevokedAt = theEnd.At
	sameFamily(t, readFamily(t, s.Families, "f"), want)
}

// familyHandedOutStaysAsItWas: a family that was read is a snapshot.
func familyHandedOutStaysAsItWas(t *testing.T, s store.Store) {
	addFamilies(t, s.Families, family("f"))
	before := readFamily(t, s.Families, "f")
	list, err := s.Families.FamiliesOf(t.Context(), "ada", now)
	must(t, err)
	must(t, s.Families.CountCodeFailure(t.Context(), "f"))
	must(t, Used(s.Families.RedeemCode(t.Context(), "f", store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5})))
	must(t, rotate(t, s.Families, "f", 1, store.Rotation{At: now.Add(time.Second)}))
	must(t, Done(s.Families.TouchFamily(t.Context(), "f", now.Add(time.Minute))))
	_, err = s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, theEnd)
	must(t, err)
	sameFamily(t, before, family("f"))
	sameFamilies(t, list, family("f"))
}

// familyIsReadAfterItsLastStep: a reader sees the last step that was acknowledged before its query, or a later one, and never a part of
// one.
func familyIsReadAfterItsLastStep(t *testing.T, s store.Store) {
	const steps = 50
	at := func(generation int64) time.Time { return now.Add(time.Duration(generation) * time.Second) }
	after := func(generation int64) *store.TokenFamily {
		f := family("f")
		if generation > 0 {
			f.Code.SpentAt, f.ExpiresAt = at(1), now.AddDate(0, 1, 0)
			f.Refresh.Generation, f.Refresh.RotatedAt = generation, at(generation)
		}
		return f
	}
	addFamilies(t, s.Families, family("f"))
	var acknowledged atomic.Int64
	var over atomic.Bool
	errs := race(4, func(i int) error {
		if i == 0 {
			defer over.Store(true)
			err := Used(s.Families.RedeemCode(t.Context(), "f", store.Redemption{At: at(1), Generation: 1, ExpiresAt: after(1).ExpiresAt, MaxFailures: 5}))
			for generation := int64(1); err == nil && generation < steps; generation++ {
				acknowledged.Store(generation)
				err = rotate(t, s.Families, "f", generation, store.Rotation{At: at(generation + 1)})
			}
			return err
		}
		for !over.Load() {
			least := acknowledged.Load()
			f, err := s.Families.Family(t.Context(), "f")
			if err != nil {
				return err
			}
			if f.Refresh.Generation < least {
				return fmt.Errorf("after generation %d was acknowledged there is %d", least, f.Refresh.Generation)
			}
			sameFamily(t, f, after(f.Refresh.Generation))
		}
		return nil
	})
	must(t, errors.Join(errs...))
	sameFamily(t, readFamily(t, s.Families, "f"), after(steps))
}
