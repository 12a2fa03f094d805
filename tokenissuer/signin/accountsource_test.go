package signin_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// from returns the rules of a provider with that source.
func from(source string, rules Rules, formerly ...string) Rules {
	rules.Source, rules.Formerly = source, formerly
	return rules
}

const (
	oldSource = "openid https://old.example"
	newSource = "openid https://new.example"
)

// TestP151AnotherProviderOfTheNameGetsNobody: an account linked at another provider of that name → without a user, or linked anew by a
// verified address. If the rules link by address, an address that the new provider has verified leads to the former user. Everything that
// resulted from the former account has ended.
func TestP151AnotherProviderOfTheNameGetsNobody(t *testing.T) {
	p := newPeople(t)
	grace := p.signsIn(google("1", "grace@acme.example", true), from(oldSource, both))
	p.session("of before", grace)
	p.at = p.at.Add(time.Hour)
	mallory := google("1", "mallory@evil.example", true)
	p.refuses(mallory, from(newSource, creates), ReasonOtherProvider)
	p.refuses(mallory, from(newSource, both), ReasonOtherProvider)
	p.refuses(mallory, from("github https://old.example", creates, newSource), ReasonOtherProvider)
	p.refuses(google("1", "grace@acme.example", false), from(newSource, both), ReasonOtherProvider)
	if !p.lives("of before") || p.count() != 2 {
		t.Fatal("a refusal has changed something")
	}

	user := p.signsIn(google("1", "grace@acme.example", true), from(newSource, both))
	if user.ID != grace.ID || p.lives("of before") {
		t.Errorf("the owner of the address is %q, not %q; the sign-in of before lives: %t", user.ID, grace.ID, p.lives("of before"))
	}
	if linked := p.identities(grace.ID); len(linked) != 1 || linked[0].Source != newSource || linked[0].Created {
		t.Errorf("linked are %+v", linked)
	}
	p.refuses(google("1", "grace@acme.example", true), from(oldSource, Rules{}), ReasonOtherProvider)

	// Another person there has the address of a user who formerly had another subject.
	ada := p.signsIn(google("2", "ada@acme.example", true), from(oldSource, links))
	if user := p.signsIn(google("3", "ada@acme.example", true), from(newSource, links)); user.ID != ada.ID {
		t.Errorf("the owner of the address is %q, not %q", user.ID, ada.ID)
	}
	p.refuses(google("2", "", false), from(newSource, links), ReasonOtherProvider)
}

// TestP150AProviderMoves: with `formerly`, the same people remain the same users. Each account gets the new source when it is used.
func TestP150AProviderMoves(t *testing.T) {
	p := newPeople(t)
	account := google("1", "grace@acme.example", true)
	grace := p.signsIn(account, from(oldSource, creates))
	moved := from(newSource, creates, "openid https://older.example", oldSource)
	p.must(moved.CheckSource(t.Context(), p.stored.Identities, "google"))
	for range 2 {
		if user := p.signsIn(account, moved); user.ID != grace.ID {
			t.Fatalf("signed in as %q", user.ID)
		}
		if linked := p.identities(grace.ID); len(linked) != 1 || linked[0].Source != newSource || !linked[0].Created {
			t.Fatalf("linked are %+v", linked)
		}
	}
	p.refuses(account, from(oldSource, creates), ReasonOtherProvider)
}

// TestP150TheNameIsRefused: a provider's name is refused while accounts of another provider are stored under it.
func TestP150TheNameIsRefused(t *testing.T) {
	p := newPeople(t)
	check := func(rules Rules) string {
		t.Helper()
		err := rules.CheckSource(t.Context(), p.stored.Identities, "google")
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := check(from(newSource, Rules{})); got != "" {
		t.Fatalf("nobody has the name: %s", got)
	}
	grace := p.signsIn(google("1", "grace@acme.example", true), from(oldSource, creates))
	rules := from(oldSource, Rules{})
	for _, r := range []struct {
		name  string
		rules Rules
		want  string // and the advice; empty: accepted
	}{
		{"the same", rules, ""}, {"moved", from(newSource, Rules{}, "openid https://older.example", oldSource), ""},
		{"another URL", from(newSource, Rules{}), oldSource + ", and whom both call the same would share a user: give it another name, or write `formerly https://old.example` into it"},
		{"the URL with a slash", from(oldSource+"/", Rules{}), "`formerly https://old.example`"},
		{"another kind", from("github https://old.example", Rules{}, "github https://old.example"), "give it another name; `caddy oauth user update"},
	} {
		if got := check(r.rules); (got == "") != (r.want == "") || !strings.Contains(got, r.want) {
			t.Errorf("%s: %q, want %q", r.name, got, r.want)
		}
	}
	if err := p.registry.People.UpdateUser(t.Context(), grace.ID, store.UserChange{UnlinkIdentities: true}); err != nil {
		t.Fatal(err)
	}
	if got := check(from(newSource, Rules{})); got != "" {
		t.Errorf("after the last account was unlinked: %s", got)
	}
	p.must(p.stored.Close())
	err := rules.CheckSource(t.Context(), p.stored.Identities, "google")
	if e, ok := errors.AsType[*oauth.Error](err); !ok || e.Code != oauth.TemporarilyUnavailable {
		t.Errorf("without a store: %v", err)
	}
}
