package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// TestM28NothingIsBornAfterTheEnd: the target or organisation deleted in mid-request, raced → no usable token after the deletion. Nobody
// waits for anybody, so that each round is cut at another place.
func TestM28NothingIsBornAfterTheEnd(t *testing.T) {
	d := openAdmin(t)
	app := d.app()
	token, err := app.issuer.Minter.Verifier.Verify(d.admin, app.issuer.Audience)
	if err != nil {
		t.Fatal(err)
	}
	survived, lost := 0, 0
	for round := range 3000 {
		minted := d.raceRound(t, round, token)
		survived += len(minted)
		lost += mintersPerRound - len(minted)
	}
	if survived == 0 || lost == 0 {
		t.Errorf("%d tokens came out of the races and %d did not: nothing was raced", survived, lost)
	}
}

const mintersPerRound = 4

// raceRound ends a user beside callers that want tokens for it, and returns those that were given. Every third round
// ends the whole organisation.
func (d *adminDoor) raceRound(t *testing.T, round int, admin *token.AccessToken) []issuer.Tokens {
	t.Helper()
	app, ctx := d.app(), t.Context()
	id, organisation := fmt.Sprintf("u-round-%d", round), fmt.Sprintf("organisation-%d", round)
	if _, err := app.registry.People.AddOrganisation(ctx, store.Organisation{ID: organisation}); err != nil {
		t.Fatal(err)
	}
	d.stored(store.User{
		ID: id, Organisation: organisation, Role: store.RoleGroupManager, PasswordHash: oauth.NewSecret("a hash"),
	})
	end := []func() error{
		func() error { return app.registry.People.RemoveUser(ctx, id) },
		func() error { return app.registry.People.SetUserStatus(ctx, id, store.UserDisabled) },
		func() error {
			return errors.Join(app.registry.People.RemoveUser(ctx, id), app.registry.People.RemoveOrganisation(ctx, organisation))
		},
	}[round%3]

	// The limit is each admin's own, and no part of this.
	who := &store.User{ID: "u-admin-of-" + id, Organisation: organisation, Role: store.RoleAdmin}
	var minted []issuer.Tokens
	var mu sync.Mutex
	var running sync.WaitGroup
	start, one := make(chan struct{}), make(chan struct{})
	var oneIsThrough sync.Once
	for range mintersPerRound {
		running.Go(func() {
			<-start
			tokens, err := app.issuer.UserTokens.IssueForUser(ctx, who, admin, id, nil)
			oneIsThrough.Do(func() { close(one) })
			if err != nil {
				if code := oauth.AsError(err).Code; code != oauth.UserNotFound && code != oauth.UserInactive {
					t.Errorf("round %d: %v", round, err)
				}
				return
			}
			mu.Lock()
			defer mu.Unlock()
			minted = append(minted, tokens)
		})
	}
	var ended error
	running.Go(func() {
		<-start
		if round%2 == 1 { // by turns the end comes with the first of them and after it
			<-one
		}
		ended = end()
	})
	close(start)
	running.Wait()
	if ended != nil {
		t.Fatalf("round %d: %v", round, ended)
	}
	for _, tokens := range minted {
		d.wantDead(t, round, tokens)
	}
	families, err := app.node.Store().FamiliesOf(ctx, id, time.Time{})
	if err != nil || len(families) > 0 {
		t.Fatalf("round %d: %d families live, %v", round, len(families), err)
	}
	return minted
}

// wantDead wants neither token of a pair to be worth anything.
func (d *adminDoor) wantDead(t *testing.T, round int, tokens issuer.Tokens) {
	t.Helper()
	parts := d.app().issuer
	d.remember("access token", tokens.AccessToken.Reveal())
	d.remember("refresh token", tokens.RefreshToken.Reveal())
	if _, err := parts.Minter.Verifier.Verify(tokens.AccessToken.Reveal(), parts.Audience); err == nil || oauth.AsError(err).Code != oauth.InvalidToken {
		t.Errorf("round %d: the access token lives: %v", round, err)
	}
	_, _, err := grants.New(parts, grants.Accepted{}).Exchange(t.Context(), grants.Request{
		GrantType: oauth.RefreshTokenGrant, Refresh: grants.RefreshParameters{Token: tokens.RefreshToken},
		Client: clients.Authentication{Readings: []clients.Credential{{ID: "conf", Secret: oauth.NewSecret(confSecret)}}},
	})
	if err == nil || oauth.AsError(err).Code != oauth.InvalidGrant {
		t.Errorf("round %d: the refresh token lives: %v", round, err)
	}
}

// targets is an issuer whose directory notes what it is asked, with an admin of acme, a user of acme, one of rival, and a
// declared one of rival.
type targets struct {
	store.Store
	issuer *issuer.Parts
	asked  []string
}

func newTargets(tb testing.TB) *targets {
	tb.Helper()
	st := teststore.New(tb)
	hash := oauth.NewSecret(peopleHash())
	declared, err := store.NewStaticDirectory(store.Declarations{Users: []*store.User{{
		ID: "u-declared", Email: "d@rival.example", Name: "D", Organisation: "rival", Role: store.RoleGroupManager,
		Status: store.UserActive, PasswordHash: hash,
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	for id, organisation := range map[string]string{"u-member": "acme", "u-stored": "rival"} {
		err := st.AddUser(tb.Context(), &store.User{
			ID: id, Email: id + "@x.example", Organisation: organisation, Role: store.RoleMember, Status: store.UserActive, PasswordHash: hash,
		}, true)
		if err != nil {
			tb.Fatal(err)
		}
	}
	all := &targets{Store: st}
	all.issuer = issuer.New(issuer.Settings{}, issuer.Node{Now: time.Now, Limits: attempts.Limits{Attempts: attempts.NewCounter(100)}})
	all.issuer.Families.Opened.Directory = store.OverlayDirectory{Declared: declared, Stored: all}
	return all
}

// User notes that it was asked, as a store is that another one wraps.
func (all *targets) User(ctx context.Context, id string) (*store.User, error) {
	all.asked = append(all.asked, "user")
	return all.Store.User(ctx, id)
}

// Client is what a refused target must not lead to.
func (all *targets) Client(ctx context.Context, id string) (*store.Client, error) {
	all.asked = append(all.asked, "client")
	return all.Store.Client(ctx, id)
}

// refuse wants a target to be unknown to the admin of acme.
func (all *targets) refuse(tb testing.TB, id string) {
	tb.Helper()
	_, err := all.issuer.UserTokens.IssueForUser(tb.Context(), &store.User{ID: "u-admin", Organisation: "acme"}, &token.AccessToken{ClientID: "conf"}, id, nil)
	if e := oauth.AsError(err); err == nil || e.Code != oauth.UserNotFound || e.Reason != "target_unknown" {
		tb.Fatal(err)
	}
}

// unknownTargets are the users that the admin of acme must not tell apart.
var unknownTargets = []struct{ name, id string }{
	{"unknown", "u-nobody"}, {"another organisation", "u-stored"}, {"declared, another organisation", "u-declared"},
}

// TestTM3UnknownTargetsCostTheSame: a foreign or unknown target → the same questions to the store. BenchmarkTM3UnknownTargets has the
// times.
func TestTM3UnknownTargetsCostTheSame(t *testing.T) {
	all := newTargets(t)
	for _, target := range unknownTargets {
		all.asked = nil
		all.refuse(t, target.id)
		if !slices.Equal(all.asked, []string{"user"}) {
			t.Errorf("%s: the store was asked for %v", target.name, all.asked)
		}
	}
	// A member of the same organisation is known, so the comparison above says something.
	_, err := all.issuer.UserTokens.IssueForUser(t.Context(), &store.User{ID: "u-admin", Organisation: "acme"}, &token.AccessToken{ClientID: "conf"}, "u-member", nil)
	if err == nil || oauth.AsError(err).Code != oauth.TargetRoleNotAllowed {
		t.Error(err)
	}
}

// BenchmarkTM3UnknownTargets shows what the time of a refusal tells about a target: unknown, or of another organisation,
// should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM3UnknownTargets(b *testing.B) {
	all := newTargets(b)
	for _, target := range unknownTargets {
		b.Run(target.name, func(b *testing.B) {
			for b.Loop() {
				all.asked = all.asked[:0]
				all.refuse(b, target.id)
			}
		})
	}
}
