package caddymodule

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/memstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// TestM28NothingIsBornAfterTheEnd races what ends a target against tokens for that target: whichever token came out of
// the race, it is worth nothing once the end is acknowledged. Nobody waits for anybody, so that each round is cut at
// another place.
func TestM28NothingIsBornAfterTheEnd(t *testing.T) {
	for _, c := range []struct {
		name   string
		change []string
		rounds int
	}{{"memory", nil, 3000}, {"sqlite", onDiskPeople, 300}} {
		t.Run(c.name, func(t *testing.T) {
			d := openAdmin(t, c.change...)
			app := d.app()
			token, err := app.issuer.Verifier.Verify(d.admin, app.issuer.Audience)
			if err != nil {
				t.Fatal(err)
			}
			survived, lost := 0, 0
			for round := range c.rounds {
				minted := d.raceRound(t, round, token)
				survived += len(minted)
				lost += mintersPerRound - len(minted)
			}
			if survived == 0 || lost == 0 {
				t.Errorf("%d tokens came out of the races and %d did not: nothing was raced", survived, lost)
			}
		})
	}
}

const mintersPerRound = 4

// raceRound ends a user beside callers that want tokens for it, and returns those that were given. Every third round
// ends the whole organisation.
func (d *adminDoor) raceRound(t *testing.T, round int, admin *tokenissuer.AccessToken) []tokenissuer.Tokens {
	t.Helper()
	app, ctx := d.app(), t.Context()
	id, organisation := fmt.Sprintf("u-round-%d", round), fmt.Sprintf("organisation-%d", round)
	if _, err := app.registry.AddOrganisation(ctx, tokenissuer.Organisation{ID: organisation}); err != nil {
		t.Fatal(err)
	}
	d.stored(tokenissuer.User{
		ID: id, Organisation: organisation, Role: tokenissuer.RoleGroupManager, PasswordHash: tokenissuer.NewSecret("a hash"),
	})
	end := []func() error{
		func() error { return app.registry.RemoveUser(ctx, id) },
		func() error { return app.registry.SetUserStatus(ctx, id, tokenissuer.UserDisabled) },
		func() error {
			return errors.Join(app.registry.RemoveUser(ctx, id), app.registry.RemoveOrganisation(ctx, organisation))
		},
	}[round%3]

	// The limit is each admin's own, and no part of this.
	who := &tokenissuer.User{ID: "u-admin-of-" + id, Organisation: organisation, Role: tokenissuer.RoleAdmin}
	var minted []tokenissuer.Tokens
	var mu sync.Mutex
	var running sync.WaitGroup
	start, one := make(chan struct{}), make(chan struct{})
	var oneIsThrough sync.Once
	for range mintersPerRound {
		running.Go(func() {
			<-start
			tokens, err := app.issuer.IssueForUser(ctx, who, admin, id)
			oneIsThrough.Do(func() { close(one) })
			if err != nil {
				if code := tokenissuer.AsError(err).Code; code != tokenissuer.UserNotFound && code != tokenissuer.UserInactive {
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
	families, err := app.engine.store.FamiliesOf(ctx, id, time.Time{})
	if err != nil || len(families) > 0 {
		t.Fatalf("round %d: %d families live, %v", round, len(families), err)
	}
	return minted
}

// wantDead wants neither token of a pair to be worth anything.
func (d *adminDoor) wantDead(t *testing.T, round int, tokens tokenissuer.Tokens) {
	t.Helper()
	issuer := d.app().issuer
	d.remember("access token", tokens.AccessToken.Reveal())
	d.remember("refresh token", tokens.RefreshToken.Reveal())
	if _, err := issuer.Verifier.Verify(tokens.AccessToken.Reveal(), issuer.Audience); err == nil || tokenissuer.AsError(err).Code != tokenissuer.InvalidToken {
		t.Errorf("round %d: the access token lives: %v", round, err)
	}
	_, _, err := issuer.Exchange(t.Context(), tokenissuer.TokenRequest{
		GrantType: tokenissuer.RefreshTokenGrant, RefreshToken: tokens.RefreshToken,
		Client: tokenissuer.ClientAuthentication{Readings: []tokenissuer.ClientCredential{{ID: "conf", Secret: tokenissuer.NewSecret(confSecret)}}},
	})
	if err == nil || tokenissuer.AsError(err).Code != tokenissuer.InvalidGrant {
		t.Errorf("round %d: the refresh token lives: %v", round, err)
	}
}

// targets is an issuer whose directory notes what it is asked, with an admin of acme, a user of acme, one of rival, and a
// declared one of rival.
type targets struct {
	tokenissuer.Store
	issuer *tokenissuer.Issuer
	asked  []string
}

func newTargets(tb testing.TB, store tokenissuer.Store) *targets {
	tb.Helper()
	hash := tokenissuer.NewSecret(peopleHash())
	declared, err := tokenissuer.NewStaticDirectory(tokenissuer.Declarations{Users: []*tokenissuer.User{{
		ID: "u-declared", Email: "d@rival.example", Name: "D", Organisation: "rival", Role: tokenissuer.RoleGroupManager,
		Status: tokenissuer.UserActive, PasswordHash: hash,
	}}})
	if err != nil {
		tb.Fatal(err)
	}
	for id, organisation := range map[string]string{"u-member": "acme", "u-stored": "rival"} {
		err := store.AddUser(tb.Context(), &tokenissuer.User{
			ID: id, Email: id + "@x.example", Organisation: organisation, Role: tokenissuer.RoleMember, Status: tokenissuer.UserActive, PasswordHash: hash,
		}, true)
		if err != nil {
			tb.Fatal(err)
		}
	}
	all := &targets{Store: store}
	all.issuer = &tokenissuer.Issuer{
		Directory: tokenissuer.OverlayDirectory{Declared: declared, Stored: all}, Attempts: memstore.NewAttempts(100), Now: time.Now,
	}
	return all
}

// User notes that it was asked, as a store is that another one wraps.
func (all *targets) User(ctx context.Context, id string) (*tokenissuer.User, error) {
	all.asked = append(all.asked, "user")
	return all.Store.User(ctx, id)
}

// Client is what a refused target must not lead to.
func (all *targets) Client(ctx context.Context, id string) (*tokenissuer.Client, error) {
	all.asked = append(all.asked, "client")
	return all.Store.Client(ctx, id)
}

// refuse wants a target to be unknown to the admin of acme.
func (all *targets) refuse(tb testing.TB, id string) {
	tb.Helper()
	_, err := all.issuer.IssueForUser(tb.Context(), &tokenissuer.User{ID: "u-admin", Organisation: "acme"}, &tokenissuer.AccessToken{ClientID: "conf"}, id)
	if e := tokenissuer.AsError(err); err == nil || e.Code != tokenissuer.UserNotFound || e.Reason != "target_unknown" {
		tb.Fatal(err)
	}
}

// unknownTargets are the users that the admin of acme must not tell apart.
var unknownTargets = []struct{ name, id string }{
	{"unknown", "u-nobody"}, {"another organisation", "u-stored"}, {"declared, another organisation", "u-declared"},
}

func openTargetStores(tb testing.TB) map[string]tokenissuer.Store {
	tb.Helper()
	onDisk, err := sqlstore.OpenSQLite(tb.Context(), filepath.Join(tb.TempDir(), "x.db"), sqlstore.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = onDisk.Close() })
	return map[string]tokenissuer.Store{"memory": memstore.New(), "sqlite": onDisk}
}

// TestTM3UnknownTargetsCostTheSame: for a user of another organisation the store is asked what it is asked for one that
// does not exist. BenchmarkTM3UnknownTargets has the times.
func TestTM3UnknownTargetsCostTheSame(t *testing.T) {
	for name, store := range openTargetStores(t) {
		t.Run(name, func(t *testing.T) {
			all := newTargets(t, store)
			for _, target := range unknownTargets {
				all.asked = nil
				all.refuse(t, target.id)
				if !slices.Equal(all.asked, []string{"user"}) {
					t.Errorf("%s: the store was asked for %v", target.name, all.asked)
				}
			}
			// A member of the same organisation is known, so the comparison above says something.
			_, err := all.issuer.IssueForUser(t.Context(), &tokenissuer.User{ID: "u-admin", Organisation: "acme"}, &tokenissuer.AccessToken{ClientID: "conf"}, "u-member")
			if err == nil || tokenissuer.AsError(err).Code != tokenissuer.TargetRoleNotAllowed {
				t.Error(err)
			}
		})
	}
}

// BenchmarkTM3UnknownTargets shows what the time of a refusal tells about a target: unknown, or of another organisation,
// should cost the same. Compare the medians of several runs (-count).
func BenchmarkTM3UnknownTargets(b *testing.B) {
	for name, store := range openTargetStores(b) {
		all := newTargets(b, store)
		for _, target := range unknownTargets {
			b.Run(name+"/"+target.name, func(b *testing.B) {
				for b.Loop() {
					all.asked = all.asked[:0]
					all.refuse(b, target.id)
				}
			})
		}
	}
}
