package people

import (
	"context"
	"crypto/sha256"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestQ102Checksum checks the form of a token: its prefix, its length, and a checksum by a portable algorithm.
func TestQ102Checksum(t *testing.T) {
	const known = "gh_pat_" + "000000000000000000000000000000"
	if got := checksum(known); !isWellFormed(known + got) {
		t.Errorf("the checksum of %s is %s", known, got)
	}
	token := newToken().Reveal()
	if !isWellFormed(token) || len(token) != 43 {
		t.Fatalf("a new token is %q", token)
	}
	for i := range len(token) {
		other := token[:i] + map[bool]string{true: "x", false: "y"}[token[i] != 'x'] + token[i+1:]
		if isWellFormed(other) {
			t.Errorf("with another character at %d it is well-formed: %s", i, other)
		}
	}
	for _, text := range []string{"", TokenPrefix, token + "0", token[1:], strings.ToUpper(token), token[:42]} {
		if isWellFormed(text) {
			t.Errorf("%q is well-formed", text)
		}
	}
}

// askedStore counts look-ups of tokens.
type askedStore struct {
	store.PersonalTokenStore
	asked int
	away  bool
}

func (s *askedStore) PersonalToken(ctx context.Context, digest [sha256.Size]byte) (*store.PersonalToken, error) {
	if s.asked++; s.away {
		return nil, store.Unavailable(errors.New("the database is away"))
	}
	return s.PersonalTokenStore.PersonalToken(ctx, digest)
}

// TestQ113QuestionsToTheStore: a malformed token → no look-up; an unknown one → one in ten seconds; a good one → one a minute, and it goes
// on while the store is away.
func TestQ113QuestionsToTheStore(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	clock := func() time.Time { return now }
	st := teststore.New(t).Store
	kept := &askedStore{PersonalTokenStore: st.PersonalTokens}
	st.PersonalTokens = kept
	revocations := token.NewRevocationSet()
	fs := &families.Families{
		Opened: families.Opened{Directory: st.Directory()}, Revocations: revocations, Now: clock, NodeNow: clock, Limits: new(attempts.Limits),
	}
	issuer := TokenIssuer{
		Families: fs, Resources: new(oauth.Resources),
		Clients: &clients.Clients{Families: fs, Policy: clients.Policy{URL: tokentest.Issuer, Audience: []string{tokentest.Issuer}}},
	}
	issuer.Verifier = token.NewVerifier(tokentest.Issuer, new(keys.Set), revocations, time.Hour, clock)
	revocations.MarkFresh(now)
	enter := func(ctx context.Context) (context.Context, func(), error) { return ctx, func() {}, nil }
	tokens := NewPersonalTokens(issuer, TokenRules{Lifetime: time.Hour, Longest: time.Hour}, func() TokenStore { return TokenStoreOf(st) }, enter)
	robot := &store.User{ID: "robot", Email: store.ServiceEmail("robot"), Status: store.UserActive, Service: true, CreatedAt: now}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(st.Users.AddUser(t.Context(), robot, true))
	owner, err := st.Users.User(t.Context(), "robot")
	must(err)
	_, good, err := tokens.Create(t.Context(), owner, TokenRequest{Name: "x", Scopes: oauth.Scopes{oauth.ScopePublic}})
	must(err)
	if _, _, err := tokens.Create(t.Context(), owner, TokenRequest{Name: "y", Scopes: oauth.Scopes{oauth.ScopePublic}, Resources: []string{"https://unknown.example"}}); err == nil {
		t.Error("there is a token for an unknown resource")
	}
	admitted := 0
	ask := func(text string, passes bool, questions, admissions int) {
		t.Helper()
		asked, before := kept.asked, admitted
		_, err := tokens.Token(t.Context(), text, issuer.Clients.Audience, func() (func(), error) { admitted++; return func() {}, nil })
		if (err == nil) != passes || kept.asked-asked != questions || admitted-before != admissions {
			t.Fatalf("%v, %d questions, %d admitted; want passes %t, %d, %d", err, kept.asked-asked, admitted-before, passes, questions, admissions)
		}
	}
	unknown := newToken().Reveal()
	ask(unknown[:42]+"_", false, 0, 0)
	ask(unknown, false, 1, 1)
	ask(unknown, false, 0, 0)
	now = now.Add(refusedFor)
	ask(unknown, false, 1, 1)
	ask(good.Reveal(), true, 1, 1)
	ask(good.Reveal(), true, 0, 0)
	now = now.Add(time.Minute)
	ask(good.Reveal(), true, 1, 0)
	now, kept.away = now.Add(time.Minute), true
	ask(good.Reveal(), true, 1, 0)
	ask(good.Reveal(), true, 0, 0)
	now = now.Add(30 * time.Minute)
	kept.away = false
	_, err = tokens.End(t.Context(), store.PersonalTokenFilter{UserID: "robot"})
	must(err)
	ask(good.Reveal(), false, 1, 1)
}
