package signin_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/testkeys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// source is a provider that is asked about its accounts.
type source struct {
	accounts map[string]Account
	failures map[string]error
	asked    []string
	tokens   map[string]string
	during   func(subject string)
	beside   oauth.Secret // the next refresh token, beside a failure
}

func (s *source) Recheck(_ context.Context, subject string, token oauth.Secret) (Account, error) {
	s.asked = append(s.asked, subject)
	s.tokens[subject] = token.Reveal()
	if s.during != nil {
		s.during(subject)
	}
	account, ok := s.accounts[subject]
	switch {
	case s.failures[subject] != nil:
		return Account{Provider: "google", Subject: subject, RefreshToken: s.beside}, s.failures[subject]
	case !ok:
		return Account{}, store.ErrNotFound
	}
	return account, nil
}

// rechecked is a provider with people who are signed in from there.
type rechecked struct {
	*providerPeople
	*source
	Recheck
	left map[string]error
}

func newRechecked(t *testing.T, rules Rules, accounts ...Account) *rechecked {
	t.Helper()
	p := newPeople(t)
	p.Families.Master = testkeys.Master(t, 'r', p.at)
	r := &rechecked{p, &source{accounts: make(map[string]Account), failures: make(map[string]error), tokens: make(map[string]string)}, Recheck{}, make(map[string]error)}
	r.Recheck = Recheck{Provider: "google", Source: r.source, Accounts: p.Accounts, Rules: rules, Left: func(id string, why error) { r.left[id] = why }}
	for _, account := range accounts {
		r.accounts[account.Subject] = account
		r.session(p.signsIn(account, rules), "google", "of "+account.Subject)
	}
	return r
}

// session adds a session of a user.
func (r *rechecked) session(user *store.User, provider, id string) {
	r.Helper()
	outcome, err := r.stored.Families.AddFamily(r.Context(), &store.TokenFamily{
		ID: id, User: store.FamilyUser{ID: user.ID, Version: user.Version, Declared: user.Declared}, Grant: store.Grant{Origin: store.BrowserSession},
		SignIn: store.SignIn{Provider: provider}, Validity: store.Validity{CreatedAt: r.at, ExpiresAt: r.at.Add(store.Day)}, Refresh: store.RefreshState{RotatedAt: r.at},
	})
	if err != nil || outcome != store.Done {
		r.Fatal(outcome, err)
	}
}

func (r *rechecked) round() Tally {
	r.Helper()
	r.asked = nil
	t, err := r.Round(r.Context())
	r.must(err)
	return t
}

// living returns the sessions that live.
func (r *rechecked) living(ids ...string) (living []string) {
	r.Helper()
	for _, id := range ids {
		f, err := r.stored.Families.Family(r.Context(), id)
		r.must(err)
		if f.RevokedAt.IsZero() {
			living = append(living, id)
		}
	}
	return living
}

// TestP195PeopleWhoLeft: a person who left the provider, was disabled there, lost a required group or the address's domain → the sessions from
// there end, with what came of them; who has no other way in → everything, personal tokens too; other groups → as at a sign-in; nothing
// changed → nothing is written.
func TestP195PeopleWhoLeft(t *testing.T) {
	rules := both
	rules.AllowGroups, rules.AllowEmailDomains = []string{"staff"}, []string{"acme.example"}
	person := func(subject, name string) Account {
		a := google(subject, name+"@acme.example", true)
		a.Groups = []string{"staff"}
		return a
	}
	r := newRechecked(t, rules, person("1", "ada"), person("2", "bob"), person("3", "cy"), person("4", "dan"), person("5", "flo"))
	ada := r.signsIn(r.accounts["1"], rules)
	r.session(ada, "", "with a password")
	users := make(map[string]string)
	for subject, account := range r.accounts {
		users[subject] = r.signsIn(account, rules).ID
	}
	for _, id := range []string{users["1"], users["2"]} {
		user, err := r.stored.Users.User(t.Context(), id)
		r.must(err)
		r.must(r.stored.PersonalTokens.AddPersonalToken(t.Context(), &store.PersonalToken{
			ID: "pat of " + id, Digest: [32]byte{id[0], id[len(id)-1]}, UserID: id, CreatedAt: r.at, ExpiresAt: r.at.Add(store.Day),
		}, user.Version))
	}
	sessions := []string{"of 1", "of 2", "of 3", "of 4", "of 5", "with a password"}
	writes := r.stored.writes.Load()
	if tally := r.round(); tally != (Tally{Asked: 5}) || len(r.living(sessions...)) != 6 || r.stored.writes.Load() != writes {
		t.Errorf("nothing has changed: %+v, %d writes", tally, r.stored.writes.Load()-writes)
	}

	delete(r.accounts, "1")
	r.failures["2"] = oauth.NewError(oauth.InvalidGrant, "gone")
	guest, elsewhere := r.accounts["3"], r.accounts["4"]
	guest.Groups, elsewhere.Email = []string{"guests"}, "dan@elsewhere.example"
	r.accounts["3"], r.accounts["4"] = guest, elsewhere
	if tally := r.round(); tally != (Tally{Asked: 5, Left: 4}) {
		t.Errorf("%+v", tally)
	}
	if got := r.living(sessions...); !slices.Equal(got, []string{"of 5", "with a password"}) {
		t.Errorf("living: %q", got)
	}
	if got, want := slices.Sorted(maps.Keys(r.left)), slices.Sorted(slices.Values([]string{users["1"], users["2"], users["3"], users["4"]})); !slices.Equal(got, want) {
		t.Errorf("left: %q, want %q", got, want)
	}
	for id, want := range map[string]int{users["1"]: 1, users["2"]: 0} {
		if list, err := r.stored.PersonalTokens.PersonalTokens(t.Context(), id); err != nil || len(list) != want {
			t.Errorf("%d personal tokens of %s, %v", len(list), id, err)
		}
	}
	if tally := r.round(); tally != (Tally{Asked: 2, Left: 1}) { // ada's personal token
		t.Errorf("again: %+v", tally)
	}

	flo := r.accounts["5"]
	flo.Groups = []string{"staff", "ops"}
	r.accounts["5"] = flo
	r.round()
	if user, err := r.stored.Users.User(t.Context(), users["5"]); err != nil || !same(user.AllGroups(), []string{"ops", "staff"}) {
		t.Errorf("groups %q, %v", user.AllGroups(), err)
	}
	if len(r.living("of 5")) > 0 {
		t.Error("other groups have not ended the session")
	}
}

// TestP196AProviderThatCannotBeAsked: a provider or a store that fails → no session ends, the round ends with the fault after three in a row; a
// person who signs in during the question → stays.
func TestP196AProviderThatCannotBeAsked(t *testing.T) {
	var accounts []Account
	var sessions []string
	for i := range 9 {
		account := google(fmt.Sprint(i), fmt.Sprintf("p%d@acme.example", i), true)
		account.RefreshToken = oauth.NewSecret(fmt.Sprint("token ", i))
		accounts, sessions = append(accounts, account), append(sessions, "of "+account.Subject)
	}
	r := newRechecked(t, creates, accounts...)
	down := oauth.NewError(oauth.TemporarilyUnavailable, "down")
	for _, subject := range []string{"1", "3", "4", "6", "7", "8"} {
		r.failures[subject] = down
	}
	tally, err := r.Round(t.Context())
	if !errors.Is(err, down) || tally != (Tally{Asked: 9, Unfinished: true}) || len(r.living(sessions...)) != 9 {
		t.Errorf("%+v, %v", tally, err)
	}
	r.failures["5"], r.asked = down, nil
	if _, err := r.Round(t.Context()); !errors.Is(err, down) || len(r.asked) != 6 {
		t.Errorf("asked about %q, %v", r.asked, err)
	}
	r.failures = make(map[string]error)
	r.stored.away = true
	delete(r.accounts, "0")
	if _, err := r.Round(t.Context()); oauth.AsError(err).Code != oauth.TemporarilyUnavailable || len(r.living(sessions...)) != 9 {
		t.Errorf("the store is away: %v", err)
	}
	r.stored.away = false
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.Round(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("at the end of the configuration: %v", err)
	}
	r.during = func(subject string) {
		if subject == "0" {
			again := accounts[0]
			again.RefreshToken = oauth.NewSecret("of the sign-in meanwhile")
			r.signsIn(again, creates)
		}
	}
	if tally := r.round(); tally.Left != 0 || len(r.living("of 0")) != 1 {
		t.Errorf("signed in meanwhile: %+v", tally)
	}
}

// TestP197RefreshTokensOfProviders: the refresh token of a sign-in → sealed in the store, for this account alone; the next one replaces it; none →
// the person cannot be asked about, and stays.
func TestP197RefreshTokensOfProviders(t *testing.T) {
	first, second := google("1", "a@acme.example", true), google("2", "b@acme.example", true)
	first.RefreshToken = oauth.NewSecret("first token")
	r := newRechecked(t, creates, first, second)
	r.failures["2"] = ErrNoToken
	next := first
	next.RefreshToken = oauth.NewSecret("next token")
	r.accounts["1"] = next
	if tally := r.round(); tally != (Tally{Asked: 1, WithoutToken: 1}) || r.tokens["1"] != "first token" || r.tokens["2"] != "" {
		t.Errorf("%+v, with %q", tally, r.tokens)
	}
	next.RefreshToken = oauth.Secret{}
	r.accounts["1"] = next
	for range 2 {
		if r.round(); r.tokens["1"] != "next token" {
			t.Errorf("with %q", r.tokens)
		}
	}
	one, err := r.stored.Identities.UserByIdentity(t.Context(), "google", "1")
	r.must(err)
	two, err := r.stored.Identities.UserByIdentity(t.Context(), "google", "2")
	r.must(err)
	if text := one.RefreshToken; text == "" || text == "next token" {
		t.Errorf("stored as %q", text)
	}
	two.RefreshToken = one.RefreshToken
	r.must(r.stored.Identities.TouchIdentity(t.Context(), two))
	delete(r.failures, "2")
	if _, err := r.Round(t.Context()); err == nil || r.tokens["2"] != "" {
		t.Errorf("the token of another account was used: %q, %v", r.tokens["2"], err)
	}
	if len(r.living("of 1", "of 2")) != 2 {
		t.Error("somebody was signed out")
	}
}

// TestP199WhenEverybodySeemsToHaveLeft: more than half of at least ten people seem to have left → none is signed out, in this round and in the
// next; half of them → those are.
func TestP199WhenEverybodySeemsToHaveLeft(t *testing.T) {
	var accounts []Account
	var sessions []string
	for i := range 12 {
		account := google(fmt.Sprintf("%02d", i), fmt.Sprintf("p%d@acme.example", i), true)
		accounts, sessions = append(accounts, account), append(sessions, "of "+account.Subject)
	}
	r := newRechecked(t, creates, accounts...)
	for _, account := range accounts[:7] {
		delete(r.accounts, account.Subject)
	}
	for range 3 {
		if tally, err := r.Round(t.Context()); err == nil || tally.Left > 0 || tally.Unfinished || len(r.living(sessions...)) != 12 {
			t.Errorf("%+v, %v, %d sessions", tally, err, len(r.living(sessions...)))
		}
	}
	r.accounts["06"] = accounts[6]
	if tally := r.round(); tally.Left != 6 || len(r.living(sessions...)) != 6 {
		t.Errorf("%+v, %d sessions", tally, len(r.living(sessions...)))
	}
}

// TestP199ANewTokenBesideAFault: a refresh token that was redeemed before a fault → the next one is asked with.
func TestP199ANewTokenBesideAFault(t *testing.T) {
	account := google("1", "a@acme.example", true)
	account.RefreshToken = oauth.NewSecret("first token")
	r := newRechecked(t, creates, account)
	r.beside = oauth.NewSecret("next token")
	r.failures["1"] = oauth.NewError(oauth.TemporarilyUnavailable, "userinfo is away")
	if _, err := r.Round(t.Context()); err == nil {
		t.Error("no fault")
	}
	r.beside = oauth.Secret{}
	if _, err := r.Round(t.Context()); err == nil || r.tokens["1"] != "next token" || len(r.living("of 1")) != 1 {
		t.Errorf("asked with %q, %v", r.tokens["1"], err)
	}
}

// nodes are several nodes with one store, and the people whom a provider was asked about.
type nodes struct {
	*rechecked
	all []*Recheck
	mu  sync.Mutex
	// asked counts the questions by node and person.
	asked map[string]int
	// during is called with each question. It may be nil.
	during func(node int)
}

// newNodes returns nodes with an interval of an hour.
func newNodes(t *testing.T, count, persons int) *nodes {
	t.Helper()
	var accounts []Account
	for i := range persons {
		accounts = append(accounts, google(fmt.Sprintf("%03d", i), fmt.Sprintf("p%d@acme.example", i), true))
	}
	n := &nodes{rechecked: newRechecked(t, creates, accounts...), asked: make(map[string]int)}
	for i := range count {
		n.all = append(n.all, &Recheck{
			Provider: "google", Source: nodeSource{n, i}, Accounts: n.providerPeople.Accounts, Rules: creates, Left: func(string, error) {}, Every: time.Hour,
			Lease: n.stored.Housekeeping.Lease,
		})
	}
	return n
}

// nodeSource is the provider as a node asks it.
type nodeSource struct {
	*nodes
	node int
}

func (s nodeSource) Recheck(_ context.Context, subject string, _ oauth.Secret) (Account, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.nodes.asked[subject]++
	if s.during != nil {
		s.during(s.node)
	}
	return s.accounts[subject], nil
}

// holdAsked checks that each person was asked about so often since the last call.
func (n *nodes) holdAsked(what string, times int) {
	n.Helper()
	for subject := range n.accounts {
		if n.asked[subject] != times {
			n.Errorf("%s: asked %d times about %s, want %d", what, n.asked[subject], subject, times)
		}
	}
	clear(n.asked)
}

// TestP203OneNodeAsksInEachInterval: several nodes look at once whether a round is due, again and again → the provider is asked about each person
// once in an interval, by one of them; within it, after a reload too → by none.
func TestP203OneNodeAsksInEachInterval(t *testing.T) {
	n := newNodes(t, 4, 120)
	for range 3 {
		var ran atomic.Int32
		var group sync.WaitGroup
		for _, node := range n.all {
			group.Go(func() {
				for range 3 {
					if _, did, err := node.RunDue(t.Context()); err != nil {
						t.Error(err)
					} else if did {
						ran.Add(1)
					}
				}
			})
		}
		group.Wait()
		if ran.Load() != 1 {
			t.Errorf("%d rounds", ran.Load())
		}
		n.holdAsked("an interval", 1)
		n.at = n.at.Add(time.Hour - time.Microsecond)
		if _, did, err := reloaded(n).RunDue(t.Context()); did || err != nil {
			t.Errorf("a new configuration within the interval: %t, %v", did, err)
		}
		n.at = n.at.Add(time.Microsecond)
	}
}

// reloaded returns the first node after a reload.
func reloaded(n *nodes) *Recheck {
	first := n.all[0]
	return &Recheck{Provider: first.Provider, Source: first.Source, Accounts: first.Accounts, Rules: first.Rules, Left: first.Left, Every: first.Every, Lease: first.Lease}
}

// TestP204ANodeThatDiesInARoundIsFollowed: the node with the lease dies in the middle of a round → another one asks about everyone when the
// interval is over, and not before; the node that was stopped goes on there later, and asks about nobody twice; a round that outlasts the interval
// keeps the lease from page to page, unless another node has it.
func TestP204ANodeThatDiesInARoundIsFollowed(t *testing.T) {
	n := newNodes(t, 2, 220) // pages of a hundred
	ctx, dies := context.WithCancel(t.Context())
	questions := 0
	n.during = func(int) {
		if questions++; questions == 130 {
			dies()
		}
	}
	if _, did, err := n.all[0].RunDue(ctx); !did || !errors.Is(err, context.Canceled) || questions != 130 {
		t.Fatalf("%t, %v after %d questions", did, err, questions)
	}
	clear(n.asked)
	n.at = n.at.Add(time.Hour - time.Microsecond)
	if _, did, err := n.all[1].RunDue(t.Context()); did || err != nil || len(n.asked) != 0 {
		t.Errorf("before the interval is over: %t, %v", did, err)
	}
	n.at = n.at.Add(time.Microsecond)
	if tally, did, err := n.all[1].RunDue(t.Context()); !did || err != nil || tally.Asked != 220 {
		t.Errorf("after it: %+v, %t, %v", tally, did, err)
	}
	n.holdAsked("the other node", 1)

	n.at = n.at.Add(time.Hour)
	n.during = func(int) { n.at = n.at.Add(time.Minute / 2) } // 110 minutes in all, and 50 for a page
	beside := 0
	lease := n.all[0].Lease
	n.all[0].Lease = func(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
		held, err := lease(ctx, name, holder, until, now)
		if _, did, _ := n.all[1].RunDue(ctx); did {
			beside++
		}
		return held, err
	}
	if tally, did, err := n.all[0].RunDue(t.Context()); !did || err != nil || tally.Asked != 220 || beside != 0 {
		t.Errorf("a slow round: %+v, %t, %v, %d beside it", tally, did, err, beside)
	}
	n.holdAsked("a slow round", 1)

	n.at = n.at.Add(time.Hour)
	n.during = func(node int) {
		if node == 0 {
			n.at = n.at.Add(time.Minute) // 100 minutes for a page
		}
	}
	n.all[0].Lease = func(ctx context.Context, name, holder string, until, now time.Time) (bool, error) {
		if len(n.asked) == 100 { // the lease has expired
			if tally, did, err := n.all[1].RunDue(ctx); !did || err != nil || tally.Asked != 220 {
				t.Errorf("the other node: %+v, %t, %v", tally, did, err)
			}
		}
		return lease(ctx, name, holder, until, now)
	}
	if tally, _, err := n.all[0].RunDue(t.Context()); err != nil || tally.Asked != 100 {
		t.Errorf("a round that was overtaken: %+v, %v", tally, err)
	}
}
