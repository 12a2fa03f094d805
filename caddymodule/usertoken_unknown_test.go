package caddymodule

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// targets is an issuer whose directory records its calls, with an admin of acme, a user of acme, a user of rival, and
// a declared user of rival.
type targets struct {
	store.Directory
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
		err := st.Users.AddUser(tb.Context(), &store.User{
			ID: id, Email: id + "@x.example", Organisation: organisation, Role: store.RoleMember, Status: store.UserActive, PasswordHash: hash,
		}, true)
		if err != nil {
			tb.Fatal(err)
		}
	}
	all := &targets{Directory: st.Directory()}
	all.issuer = issuer.New(issuer.Settings{}, issuer.Node{Now: time.Now, Limits: attempts.Limits{Attempts: attempts.NewCounter(100)}})
	all.issuer.Families.Opened.Directory = store.OverlayDirectory{Declared: declared, Stored: all}
	return all
}

// User records the call, like a store that wraps another one.
func (all *targets) User(ctx context.Context, id string) (*store.User, error) {
	all.asked = append(all.asked, "user")
	return all.Directory.User(ctx, id)
}

// Client must not be called for a refused target.
func (all *targets) Client(ctx context.Context, id string) (*store.Client, error) {
	all.asked = append(all.asked, "client")
	return all.Directory.Client(ctx, id)
}

// refuse checks that a target is unknown to the admin of acme.
func (all *targets) refuse(tb testing.TB, id string) {
	tb.Helper()
	_, err := all.issuer.UserTokens.IssueForUser(tb.Context(), &store.User{ID: "u-admin", Organisation: "acme"}, &token.AccessToken{ClientID: "conf"}, id, nil)
	if e := oauth.AsError(err); err == nil || e.Code != oauth.UserNotFound || e.Reason != "target_unknown" {
		tb.Fatal(err)
	}
}

// unknownTargets are users that the admin of acme must not be able to tell apart.
var unknownTargets = []struct{ name, id string }{
	{"unknown", "u-nobody"}, {"another organisation", "u-stored"}, {"declared, another organisation", "u-declared"},
}

// TestTM3UnknownTargetsCostTheSame: a foreign or unknown target → the same questions to the store.
func TestTM3UnknownTargetsCostTheSame(t *testing.T) {
	all := newTargets(t)
	for _, target := range unknownTargets {
		all.asked = nil
		all.refuse(t, target.id)
		if !slices.Equal(all.asked, []string{"user"}) {
			t.Errorf("%s: the store was asked for %v", target.name, all.asked)
		}
	}
	// A member of the same organisation is found, so the comparison above is meaningful.
	_, err := all.issuer.UserTokens.IssueForUser(t.Context(), &store.User{ID: "u-admin", Organisation: "acme"}, &token.AccessToken{ClientID: "conf"}, "u-member", nil)
	if err == nil || oauth.AsError(err).Code != oauth.TargetRoleNotAllowed {
		t.Error(err)
	}
}
