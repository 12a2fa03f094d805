package grants_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// rollout is a flow whose nodes load a configuration one after another. All share one store.
type rollout struct {
	*flow
}

// node is a server with its registry.
type node struct {
	*people.Registry
	server *Server
}

func (n node) MintServerToken(ctx context.Context, clientID, scope string, lifetime time.Duration) (issuer.Tokens, error) {
	return operator(n.server, n.Registry).MintServerToken(ctx, clientID, scope, lifetime)
}

// sessionToken returns the token of a session on a server.
func sessionToken(s *Server, session *signin.Session) (issuer.Tokens, error) {
	return s.SessionToken(session, s.BuiltIn(), s.Sessions.Limits)
}

func newRollout(t *testing.T) rollout {
	t.Helper()
	return rollout{newFlow(t)}
}

// node returns a node with a configuration that declares these.
func (r rollout) node(all store.Declarations) node {
	r.tb.Helper()
	declared, err := store.NewStaticDirectory(all)
	r.must(err)
	is := r.flow.node()
	is.Directory = store.OverlayDirectory{Declared: declared, Stored: r.store.Directory()}
	g := registryOf(is, r.store.Store)
	g.Clients.Declared, g.People.Declared = declared, declared
	return node{g, is}
}

// settled returns a node that has reconciled its configuration, some time after the previous one.
func (r rollout) settled(all store.Declarations) node {
	r.tb.Helper()
	r.wait(10 * time.Second)
	g := r.node(all)
	r.must(g.Reconcile(r.tb.Context()))
	r.wait(10 * time.Second)
	return g
}

// verdict fails unless a newly started node accepts the tokens if and only if lives is set.
func (r rollout) verdict(what string, tokens issuer.Tokens, lives bool) {
	r.tb.Helper()
	if _, err := r.flow.node().Minter.Verifier.Verify(tokens.AccessToken.Reveal(), r.Audience); (err == nil) != lives {
		r.tb.Errorf("%s: %v, want that it lives: %t", what, err, lives)
	}
}

// server returns a server token issued by a node.
func (r rollout) server(g node, clientID string) issuer.Tokens {
	r.tb.Helper()
	tokens, err := g.MintServerToken(r.tb.Context(), clientID, "public", 0)
	r.must(err)
	return tokens
}

// signIn opens a session of a user on a node and returns its token.
func (r rollout) signIn(g node, userID string) issuer.Tokens {
	r.tb.Helper()
	user, err := g.server.Directory.User(r.tb.Context(), userID)
	r.must(err)
	s, _, err := g.server.OpenSession(r.tb.Context(), signin.SignedIn{User: user}, "a browser", "")
	r.must(err)
	tokens, err := sessionToken(g.server, s)
	r.must(err)
	return tokens
}

// mintFor returns a token that an admin creates on a node.
func (r rollout) mintFor(g node, adminID, userID string) issuer.Tokens {
	r.tb.Helper()
	own := r.signIn(g, adminID)
	admin, err := g.server.Directory.User(r.tb.Context(), adminID)
	r.must(err)
	tokens, err := g.server.IssueForUser(r.tb.Context(), admin, own.Claims, userID, nil)
	r.must(err)
	return tokens
}

func declaredClient(id string) *store.Client {
	return &store.Client{
		ID: id, Name: id, Type: store.ConfidentialClient, Grants: []oauth.GrantType{oauth.ClientCredentials}, Scopes: oauth.Scopes{oauth.ScopePublic},
		Secrets: []store.ClientSecret{{Digest: oauth.NewSecret("secret of " + id).Digest()}},
	}
}

func declaredUser(id string, role store.Role) *store.User {
	u := &store.User{ID: id, Email: id + "@acme.example", Organisation: "acme", Role: role, PasswordHash: cheapHash()}
	u.SetDefaults(store.RoleCatalogue{})
	return u
}

// TestM25ARollingChangeOfTheConfiguration: tokens that a node still issues by the old configuration end when that node loads the new one,
// although another node has reconciled before. Tokens issued by the new one live.
func TestM25ARollingChangeOfTheConfiguration(t *testing.T) {
	r := newRollout(t)
	before := store.Declarations{
		Clients: []*store.Client{declaredClient("stays"), declaredClient("goes")},
		Users:   []*store.User{declaredUser("changed", store.RoleMember), declaredUser("gone", store.RoleMember), declaredUser("boss", store.RoleAdmin)},
	}
	after := store.Declarations{
		Clients: []*store.Client{declaredClient("stays")},
		Users:   []*store.User{declaredUser("changed", store.RoleGroupManager), declaredUser("boss", store.RoleMember)},
	}
	old := r.settled(before)
	first := r.settled(after)
	dead := map[string]issuer.Tokens{
		"a client that is gone": r.server(old, "goes"), "a user who is gone": r.signIn(old, "gone"),
		"a user who has changed": r.signIn(old, "changed"), "created by an admin who is none": r.mintFor(old, "boss", "u-grace"),
	}
	lives := map[string]issuer.Tokens{
		"a client that stays, of the old node": r.server(old, "stays"), "a client that stays": r.server(first, "stays"),
		"the new version of a user": r.signIn(first, "changed"),
	}
	for name, tokens := range dead {
		r.verdict(name+", before", tokens, true)
	}
	for range 2 { // another reload changes nothing
		r.settled(after)
		for name, tokens := range dead {
			r.verdict(name, tokens, false)
		}
		for name, tokens := range lives {
			r.verdict(name, tokens, true)
		}
	}
}

// TestM25ABirthBesideTheEndOfADeclaredUser: storing a family does not lock a declared user, so tokens of a removed user also end by the
// user's id.
func TestM25ABirthBesideTheEndOfADeclaredUser(t *testing.T) {
	r := newRollout(t)
	old := r.settled(store.Declarations{Users: []*store.User{declaredUser("gone", store.RoleMember)}})
	var late issuer.Tokens
	r.store.meanwhile("User", func() { late = r.signIn(old, "gone") }) // after the families have ended
	r.settled(store.Declarations{})
	r.verdict("born beside the end", late, false)

	old = r.settled(store.Declarations{Users: []*store.User{declaredUser("late", store.RoleMember)}})
	r.must(r.node(store.Declarations{}).Reconcile(t.Context()))
	known, _, err := r.store.Revocations.Revocations(t.Context(), store.FeedPosition{})
	r.must(err)
	old.server.Revocations.Add(known...) // as if the previous configuration still serves in the same process
	r.verdict("born after the end, of the configuration of before", r.signIn(old, "late"), false)
}

// TestM25WhoComesBack: a user who is declared again starts anew, and remembered ends do not apply.
func TestM25WhoComesBack(t *testing.T) {
	r := newRollout(t)
	all := store.Declarations{Clients: []*store.Client{declaredClient("back")}, Users: []*store.User{declaredUser("u-back", store.RoleMember)}}
	r.settled(all)
	r.settled(store.Declarations{})
	again := r.settled(all)
	if _, ended, err := r.store.Declarations.Declarations(t.Context()); err != nil || len(ended) != 0 {
		t.Errorf("remembered is %v (%v)", ended, err)
	}
	client, user := r.server(again, "back"), r.signIn(again, "u-back")
	r.settled(all)
	r.verdict("a client that is back", client, true)
	r.verdict("a user who is back", user, true)

	// A stored user who takes a removed id is spared by later reloads too.
	stored := r.settled(store.Declarations{})
	_, _, err := stored.Clients.AddClient(t.Context(), *declaredClient("back"))
	r.must(err)
	_, err = stored.People.AddUser(t.Context(), *declaredUser("u-back", store.RoleAdmin), oauth.Secret{})
	r.must(err)
	client, user = r.server(stored, "back"), r.signIn(stored, "u-back")
	created := r.mintFor(stored, "u-back", "u-grace")
	r.settled(store.Declarations{})
	r.verdict("a stored client", client, true)
	r.verdict("a stored user", user, true)
	r.verdict("created by a stored admin", created, true)
}

// TestM25WhatIsRememberedLeaves: an end is forgotten when no token can be left. A reload without changes writes only ends of what may have
// been issued since.
func TestM25WhatIsRememberedLeaves(t *testing.T) {
	r := newRollout(t)
	stays := store.Declarations{Clients: []*store.Client{declaredClient("stays")}}
	r.settled(store.Declarations{Clients: []*store.Client{declaredClient("stays"), declaredClient("goes")}})
	r.settled(stays)
	remembered := func(want int) {
		t.Helper()
		declared, ended, err := r.store.Declarations.Declarations(t.Context())
		if err != nil || len(declared) != 1 || len(ended) != want {
			t.Errorf("declared %v, ended %v (%v), want %d ended", declared, ended, err, want)
		}
	}
	remembered(1)
	r.wait(store.MaxLifetime + day - time.Minute)
	r.store.asked()
	r.settled(stays)
	remembered(1)
	if steps := r.store.asked(); !slices.Contains(steps, "Revoke") || slices.Contains(steps, "PutDeclarations") {
		t.Errorf("while it is remembered a reload does %v", steps)
	}
	r.wait(time.Minute)
	r.settled(stays)
	remembered(0)
	r.store.asked()
	r.settled(stays)
	if steps := r.store.asked(); slices.Contains(steps, "Revoke") || slices.Contains(steps, "PutDeclarations") {
		t.Errorf("when it is forgotten a reload does %v", steps)
	}
	r.store.fail("Declarations", false)
	tokentest.WantCode(t, r.node(stays).Reconcile(t.Context()), oauth.TemporarilyUnavailable)
}

// TestM25SettlingThatFails: the next reload repeats a failed one.
func TestM25SettlingThatFails(t *testing.T) {
	for _, step := range []string{"EndFamilies", "Revoke", "User", "PutDeclarations"} {
		t.Run(step, func(t *testing.T) {
			r := newRollout(t)
			old := r.settled(store.Declarations{Clients: []*store.Client{declaredClient("goes")}, Users: []*store.User{declaredUser("gone", store.RoleMember)}})
			client, user := r.server(old, "goes"), r.signIn(old, "gone")
			r.store.fail(step, false)
			tokentest.WantCode(t, r.node(store.Declarations{}).Reconcile(t.Context()), oauth.TemporarilyUnavailable)
			r.store.fail("", false)
			r.settled(store.Declarations{})
			r.verdict("client", client, false)
			r.verdict("user", user, false)
		})
	}
}
