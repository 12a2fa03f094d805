package storetest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// sentinels are the errors that are answers.
var sentinels = []error{store.ErrNotFound, store.ErrTaken, store.ErrInUse}

// isAnswer reports whether an error is a sentinel or a refusal.
func isAnswer(err error) bool {
	return errors.As(err, new(Refused)) || slices.ContainsFunc(sentinels, func(sentinel error) bool { return errors.Is(err, sentinel) })
}

// populated is what populate has stored, as it was read back.
type populated struct {
	client              *store.Client
	user                *store.User
	organisation, empty *store.Organisation
	coded, refreshed    *store.TokenFamily
	key                 store.StoredKey
	consent             oauth.Scopes
}

// populate adds a record of every kind to an empty store.
func populate(t *testing.T, s store.Store) populated {
	t.Helper()
	p := populated{
		client: client("app"), organisation: organisation("acme"), empty: organisation("empty"),
		key: key("k", oauth.ES256, now), consent: oauth.Scopes{"public", "trusted"},
	}
	must(t, s.Clients.AddClient(t.Context(), p.client))
	must(t, s.Users.AddOrganisation(t.Context(), p.organisation))
	must(t, s.Users.AddOrganisation(t.Context(), p.empty))
	must(t, s.Users.AddUser(t.Context(), user("ada"), false))
	p.user = readUser(t, s.Users, "ada")
	p.coded, p.refreshed = familyOf(p.user, "coded"), refreshed("refreshed")
	addFamilies(t, s.Families, p.coded, p.refreshed)
	must(t, s.Families.PutConsent(t.Context(), "ada", "app", p.consent, now))
	must(t, s.Keys.ChangeKeys(t.Context(), store.AddFirstKey(p.key)))
	return p
}

// stands ends the test unless the store holds exactly what populate stored.
func (p populated) stands(t *testing.T, s store.Store) {
	t.Helper()
	clients := ok(s.Clients.Clients(t.Context()))(t)
	users := listUsers(t, s.Users, "")
	if len(clients) != 1 || len(users) != 1 {
		t.Fatalf("%d clients and %d users are stored, want one of each", len(clients), len(users))
	}
	same(t, clients[0], p.client)
	sameUser(t, users[0], p.user)
	if users[0].Version != p.user.Version {
		t.Errorf("the user's version moved from %q to %q", p.user.Version, users[0].Version)
	}
	sameOrganisations(t, s.Users, p.organisation, p.empty)
	wantFamilies(t, s.Families, p.coded, p.refreshed)
	wantSize(t, ok(s.Families.FamiliesOf(t.Context(), "ada", time.Time{}))(t), 2)
	sameConsent(t, s.Families, "ada", "app", p.consent...)
	sameConsent(t, s.Families, "ada", "new")
	sameKeys(t, storedKeys(t, s.Keys), p.key)
	nothingRevoked(t, s.Revocations)
}

// call is one method of the store with valid arguments, on a populated store.
type call struct {
	name string
	do   func(ctx context.Context) error
}

// calls returns a call of every method. Each would change a populated store, if the method changes anything.
func (p populated) calls(s store.Store) []call {
	return slices.Concat(p.clientCalls(s), p.userCalls(s), p.familyCalls(s), []call{
		{"Ping", s.Ping},
		{"SigningKeys", func(ctx context.Context) error { return errOf(s.Keys.SigningKeys(ctx)) }},
		{"ChangeKeys, first", func(ctx context.Context) error {
			return s.Keys.ChangeKeys(ctx, store.AddFirstKey(key("rs", oauth.RS256, now)))
		}},
		{"ChangeKeys, replaced", func(ctx context.Context) error {
			sealed := p.key
			sealed.SealedWith = "kek"
			return s.Keys.ChangeKeys(ctx, store.ReplaceKeys(change(p.key, sealed)))
		}},
		{"KeysVersion", func(ctx context.Context) error { return errOf(s.Keys.KeysVersion(ctx)) }},
		{"ChangeKeys, added", func(ctx context.Context) error {
			return s.Keys.ChangeKeys(ctx, store.AddKey(key(oauth.NewID(), oauth.ES256, now)))
		}},
		{"ChangeKeys, revoked", func(ctx context.Context) error {
			return s.Keys.ChangeKeys(ctx, store.EndKey(p.key.ID, now, keyRevocation(p.key.ID)))
		}},
		{"ChangeKeys, dropped", func(ctx context.Context) error { return s.Keys.ChangeKeys(ctx, store.DropKey(p.key.ID)) }},
		{"Revoke", func(ctx context.Context) error { return s.Revocations.Revoke(ctx, revocation("revoked")) }},
		{"Revocations", func(ctx context.Context) error {
			_, _, err := s.Revocations.Revocations(ctx, store.FeedPosition{})
			return err
		}},
		{"Drop, revocations", func(ctx context.Context) error {
			return errOf(s.Housekeeping.Drop(ctx, store.ExpiringRevocations, now.AddDate(0, 0, 2)))
		}},
	}, nodeCalls(s), logoutCalls(s), identityCalls(s), personalTokenCalls(s), importCalls(s), factorCalls(s), mailCalls(s), deviceCalls(s), auditCalls(s))
}

func nodeCalls(s store.Store) []call {
	return []call{
		{"Lease", func(ctx context.Context) error {
			return errOf(s.Housekeeping.Lease(ctx, "sweeping", oauth.NewID(), now.Add(time.Minute), now))
		}},
		{"CountAttempt", func(ctx context.Context) error {
			_, _, err := s.Attempts.CountAttempt(ctx, "guessed", time.Minute, now, 1)
			return err
		}},
		{"Drop, attempts", func(ctx context.Context) error {
			return errOf(s.Housekeeping.Drop(ctx, store.ExpiringAttempts, now.AddDate(0, 0, 2)))
		}},
		{"Sizes", func(ctx context.Context) error { return errOf(s.Housekeeping.Sizes(ctx)) }},
	}
}

func (p populated) clientCalls(s store.Store) []call {
	return []call{
		{"Client", func(ctx context.Context) error { return errOf(s.Clients.Client(ctx, "app")) }},
		{"Clients", func(ctx context.Context) error { return errOf(s.Clients.Clients(ctx)) }},
		{"Names", func(ctx context.Context) error { return errOf(s.Clients.Names(ctx, []string{"app 1", "ada"})) }},
		{"FindClients", func(ctx context.Context) error {
			return errOf(s.Clients.FindClients(ctx, store.ClientQuery{Search: "a", Limit: 10}))
		}},
		{"AddClient", func(ctx context.Context) error { return s.Clients.AddClient(ctx, client("new client")) }},
		{"ChangeClient", func(ctx context.Context) error {
			return s.Clients.ChangeClient(ctx, "app", store.ClientChange{Edit: func(c *store.Client) error { c.FirstParty = false; return nil }})
		}},
		{"ChangeClient, secret", func(ctx context.Context) error {
			return s.Clients.ChangeClient(ctx, "app", store.RotateSecret(secret("new", now), now))
		}},
		{"ChangeClient, disabled", func(ctx context.Context) error {
			return s.Clients.ChangeClient(ctx, "app", store.DisableClient(revocation("app")))
		}},
		{"ChangeClient, enabled", func(ctx context.Context) error { return s.Clients.ChangeClient(ctx, "app", store.EnableClient()) }},
		{"ChangeClient, used", func(ctx context.Context) error { return s.Clients.ChangeClient(ctx, "app", store.TouchClient(now)) }},
		{"CountClients", func(ctx context.Context) error { return errOf(s.Clients.CountClients(ctx, store.FromOperator)) }},
		{"RemoveClient", func(ctx context.Context) error { return s.Clients.RemoveClient(ctx, "app", revocation("app")) }},
	}
}

func (p populated) userCalls(s store.Store) []call {
	return []call{
		{"User", func(ctx context.Context) error { return errOf(s.Users.User(ctx, "ada")) }},
		{"UserByEmail", func(ctx context.Context) error { return errOf(s.Users.UserByEmail(ctx, "ada@example.com")) }},
		{"Users", func(ctx context.Context) error { return errOf(s.Users.Users(ctx, "acme")) }},
		{"FindUsers", func(ctx context.Context) error {
			return errOf(s.Users.FindUsers(ctx, store.UserQuery{Search: "a", Limit: 10}))
		}},
		{"AddUser", func(ctx context.Context) error { return s.Users.AddUser(ctx, user("new user"), false) }},
		{"ChangeUser", func(ctx context.Context) error {
			return errOf(s.Users.ChangeUser(ctx, "ada", edit(func(u *store.User) { u.Role = store.RoleAdmin }), theEnd))
		}},
		{"RehashPassword", func(ctx context.Context) error {
			return s.Users.RehashPassword(ctx, "ada", p.user.PasswordHash, hash("m=8,t=1,p=1", "new"))
		}},
		{"RemoveUser", func(ctx context.Context) error { return errOf(s.Users.RemoveUser(ctx, "ada", theEnd)) }},
		{"HadUser", func(ctx context.Context) error { return errOf(s.Users.HadUser(ctx, "ada")) }},
		{"PasswordSchemes", func(ctx context.Context) error { return errOf(s.Users.PasswordSchemes(ctx)) }},
		{"Organisation", func(ctx context.Context) error { return errOf(s.Users.Organisation(ctx, "acme")) }},
		{"Organisations", func(ctx context.Context) error { return errOf(s.Users.Organisations(ctx)) }},
		{"AddOrganisation", func(ctx context.Context) error { return s.Users.AddOrganisation(ctx, organisation("new organisation")) }},
		{"RemoveOrganisation", func(ctx context.Context) error { return s.Users.RemoveOrganisation(ctx, "empty") }},
	}
}

// approved returns a family that was not stored before, with the same request for all.
func (p populated) approved() *store.TokenFamily {
	return with(familyOf(p.user, oauth.NewID()), func(f *store.TokenFamily) { f.Code.RequestID = "approved" })
}

func (p populated) familyCalls(s store.Store) []call {
	return []call{
		{"AddFamily", func(ctx context.Context) error { return Done(s.Families.AddFamily(ctx, p.approved())) }},
		{"Family", func(ctx context.Context) error { return errOf(s.Families.Family(ctx, "coded")) }},
		{"RedeemCode", func(ctx context.Context) error {
			return Used(s.Families.RedeemCode(ctx, "coded", store.Redemption{At: now, Generation: 1, ExpiresAt: now.AddDate(0, 1, 0), MaxFailures: maxFailures}))
		}},
		{"CountCodeFailure", func(ctx context.Context) error { return s.Families.CountCodeFailure(ctx, "coded") }},
		{"RotateRefreshToken", func(ctx context.Context) error {
			return Used(s.Families.RotateRefreshToken(ctx, "refreshed", 1, store.Rotation{At: now}))
		}},
		{"TouchFamily", func(ctx context.Context) error { return Done(s.Families.TouchFamily(ctx, "refreshed", now)) }},
		{"EndFamilies", func(ctx context.Context) error {
			return errOf(s.Families.EndFamilies(ctx, store.FamilyFilter{ClientID: "app"}, theEnd))
		}},
		{"FindFamilies", func(ctx context.Context) error {
			return errOf(s.Families.FindFamilies(ctx, store.FamilyQuery{Limit: 10}))
		}},
		{"FamiliesOf", func(ctx context.Context) error { return errOf(s.Families.FamiliesOf(ctx, "ada", now)) }},
		{"Declarations", func(ctx context.Context) error { _, _, err := s.Declarations.Declarations(ctx); return err }},
		{"PutDeclarations", func(ctx context.Context) error { return s.Declarations.PutDeclarations(ctx, nil, nil) }},
		{"DecideRequest", func(ctx context.Context) error {
			return Done(s.Families.DecideRequest(ctx, "refused", now.AddDate(0, 0, 1)))
		}},
		{"Consent", func(ctx context.Context) error { return errOf(s.Families.Consent(ctx, "ada", "app")) }},
		{"PutConsent", func(ctx context.Context) error {
			return errors.Join(s.Families.PutConsent(ctx, "ada", "app", nil, now), s.Families.PutConsent(ctx, "ada", "new", p.consent, now))
		}},
		{"PutConsent, none", func(ctx context.Context) error { return s.Families.PutConsent(ctx, "ada", "app", nil, time.Time{}) }},
		{"Drop, families", func(ctx context.Context) error {
			return errOf(s.Housekeeping.Drop(ctx, store.ExpiringFamilies, now.AddDate(1, 0, 0)))
		}},
	}
}

// isUnavailable reports whether an error is the temporarily_unavailable of a store, and not an answer.
func isUnavailable(err error) bool {
	e, ok := errors.AsType[*oauth.Error](err)
	return ok && e.Code == oauth.TemporarilyUnavailable && e.Reason == "store_unavailable" && !isAnswer(err)
}

var lifeChecks = []check{
	{name: "Ping", test: func(t *testing.T, s store.Store) { must(t, s.Ping(t.Context())) }},
	// A caller that has given up gets a temporarily_unavailable that wraps context.Canceled, and nothing has happened: a code can still be
	// redeemed, a request still be decided.
	{name: "T64CancelledCallsDoNothing", test: func(t *testing.T, s store.Store) {
		p := populate(t, s)
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for _, c := range p.calls(s) {
			if err := c.do(cancelled); !errors.Is(err, context.Canceled) || !isUnavailable(err) {
				t.Errorf("%s returned %v, want the context's error", c.name, err)
			}
		}
		p.stands(t, s)
		// The cancelled calls took no id, address, request or code.
		must(t, s.Clients.AddClient(t.Context(), client("new client")))
		must(t, s.Users.AddUser(t.Context(), user("new user"), false))
		must(t, s.Users.AddOrganisation(t.Context(), organisation("new organisation")))
		must(t, Done(s.Families.DecideRequest(t.Context(), "refused", now.AddDate(0, 0, 1))))
		addFamilies(t, s.Families, p.approved())
		must(t, redeem(t, s.Families, "coded", 1))
		must(t, rotate(t, s.Families, "refreshed", 1, store.Rotation{At: now}))
	}},
	// Callers that give up midway do not affect the others, and their failed calls have happened completely or not at all.
	{name: "T64CancelledCallersBesideOthers", test: func(t *testing.T, s store.Store) {
		for round := range 6 {
			id := fmt.Sprint("f", round)
			addFamilies(t, s.Families, family(id))
			ctx, cancel := context.WithCancel(t.Context())
			given := func(i int) context.Context {
				if i%2 == 0 {
					return ctx
				}
				return t.Context()
			}
			errs := race(racers, func(i int) error {
				switch {
				case i == racers/2:
					cancel()
					return nil
				case i%4 < 2:
					return s.Families.CountCodeFailure(given(i), id)
				default:
					return Done(s.Families.AddFamily(given(i), family(fmt.Sprint(id, " ", i))))
				}
			})
			cancel()
			counted, uncertain := 0, 0
			for i, err := range errs {
				if err != nil && (i%2 != 0 || !errors.Is(err, context.Canceled)) {
					t.Fatalf("round %d: caller %d got %v", round, i, err)
				}
				switch {
				case i == racers/2:
				case i%4 < 2 && err == nil:
					counted++
				case i%4 < 2:
					uncertain++
				default:
					f, readErr := s.Families.Family(t.Context(), fmt.Sprint(id, " ", i))
					if readErr == nil {
						same(t, f, family(f.ID))
					} else if err == nil || !errors.Is(readErr, store.ErrNotFound) {
						t.Fatalf("round %d: the family of caller %d, who got %v, is there with %v", round, i, err, readErr)
					}
				}
			}
			if n := readFamily(t, s.Families, id).Code.Failures; n < counted || n > counted+uncertain {
				t.Fatalf("round %d: %d failures are counted, want %d, or %d more", round, n, counted, uncertain)
			}
		}
	}},
	// Records that were read are snapshots: no step changes them.
	{name: "RecordsHandedOutStayAsTheyWere", test: func(t *testing.T, s store.Store) {
		p := populate(t, s)
		clients := append(ok(s.Clients.Clients(t.Context()))(t), read(t, s.Clients, "app"))
		users := append(listUsers(t, s.Users, ""), readUser(t, s.Users, "ada"), ok(s.Users.UserByEmail(t.Context(), p.user.Email))(t))
		families := append(ok(s.Families.FamiliesOf(t.Context(), "ada", now))(t), readFamily(t, s.Families, "coded"), readFamily(t, s.Families, "refreshed"))
		for _, c := range p.calls(s) {
			if err := c.do(t.Context()); err != nil && !isAnswer(err) {
				t.Fatalf("%s: %v", c.name, err)
			}
		}
		for _, c := range clients {
			same(t, c, p.client)
		}
		for _, u := range users {
			if sameUser(t, u, p.user); u.Version != p.user.Version {
				t.Errorf("the version became %q, want %q", u.Version, p.user.Version)
			}
		}
		for _, f := range families {
			same(t, f, map[string]*store.TokenFamily{"coded": p.coded, "refreshed": p.refreshed}[f.ID])
		}
	}},
	// After Close every call returns a temporarily_unavailable, and not a sentinel.
	{name: "ClosedStoreFails", test: func(t *testing.T, s store.Store) {
		p := populate(t, s)
		must(t, s.Close())
		for _, c := range p.calls(s) {
			if err := c.do(t.Context()); !isUnavailable(err) {
				t.Errorf("%s on a closed store returned %v", c.name, err)
			}
		}
	}},
	// Runs every method concurrently with every other, for the race detector.
	{name: "EverythingAtOnce", test: func(t *testing.T, s store.Store) {
		const each = 4
		for i := range each {
			must(t, s.Clients.AddClient(t.Context(), client(fmt.Sprint("app ", i))))
		}
		methods := populate(t, s).calls(s)
		parts := slices.Collect(reflect.TypeFor[store.Store]().Fields())
		for _, several := range []reflect.Type{reflect.TypeFor[store.People](), reflect.TypeFor[store.Outgoing]()} {
			parts = slices.AppendSeq(parts, several.Fields())
		}
		for _, part := range parts {
			for method := range part.Type.Methods() {
				isCall := func(c call) bool { return strings.HasPrefix(c.name+",", method.Name+",") }
				if method.Name != "Close" && method.Name != "BindKeys" && !slices.ContainsFunc(methods, isCall) {
					t.Errorf("%s is not among the calls of this test", method.Name)
				}
			}
		}
		all(t, each*len(methods), func(i int) error {
			c, id := methods[i%len(methods)], fmt.Sprint("app ", i%each)
			if err := c.do(t.Context()); err != nil && !isAnswer(err) {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			err := errors.Join(
				s.Clients.ChangeClient(t.Context(), id, store.RotateSecret(secret(fmt.Sprint(i), now), now)),
				s.Clients.ChangeClient(t.Context(), id, store.DisableClient(revocation(id))),
				s.Clients.ChangeClient(t.Context(), id, store.EnableClient()),
			)
			if err != nil {
				return err
			}
			got, err := s.Clients.Client(t.Context(), id)
			if err == nil && len(got.Secrets) != 1 {
				return fmt.Errorf("client %q was seen in the middle of a rotation, with %d secrets", id, len(got.Secrets))
			}
			return err
		})
	}},
}
