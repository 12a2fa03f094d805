package storetest

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// oddIDs are ids that patterns, case folding, trimming or normalisation would confuse with each other.
var oddIDs = []string{
	"app", "App", "APP", "app ", " app", "app  ", "a_p", "a%p", "%", "_", "%%", "*", "?",
	"' OR 1=1--", `'; DROP TABLE clients; --`, `"`, `\`, "$1", "?1", ":id", "NULL", "null",
	"caf\u00e9", "cafe\u0301", "CAF\u00c9", "stra\u00dfe", "strasse", "\u212b", "\u00c5", "\u0131", "i", "I",
	"1", "01", "1.0", "1e0", "0x1", "\u00a0", "\u200b", "\ufeffapp",
}

// strangers are ids that resemble oddIDs and are none of them.
var strangers = []string{"aPP", "a", "ap", "app\t", "a-p", "' or 1=1--", "Cafe\u0301", "STRASSE", "\u0130", "+1", "1.", " "}

// outsideTheRules are ids that the core rejects.
var outsideTheRules = []string{"", "\x00", "app\x00", "app\x00x", "\xff\xfe", string(make([]byte, 10<<10))}

// takenUntil fails unless the error says until when an id is taken.
func takenUntil(t *testing.T, err error, want time.Time) {
	t.Helper()
	var removed store.RemovedError
	if mustBe(t, err, store.ErrTaken); !errors.As(err, &removed) || !removed.FreeAt.Equal(want) {
		t.Errorf("%v, want it taken until %v", err, want)
	}
}

var clientChecks = []check{
	// An unknown id finds no client, and a step on it leaves nothing behind.
	{name: "ClientUnknown", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		mustBe(t, errOf(s.Clients.Client(ctx, "nobody")), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(ctx, "nobody", store.RotateSecret(store.ClientSecret{CreatedAt: now}, now)), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(ctx, "nobody", store.DisableClient(revocation("nobody"))), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(ctx, "nobody", store.EnableClient()), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(ctx, "nobody", store.TouchClient(now)), store.ErrNotFound)
		mustBe(t, s.Clients.RemoveClient(ctx, "nobody", revocation("nobody")), store.ErrNotFound)
		nothingRevoked(t, s.Revocations)
		wantSize(t, ok(s.Clients.Clients(ctx))(t), 0)
		must(t, s.Clients.AddClient(ctx, client("nobody"))) // the queries did not take the id
	}},
	// Every field comes back, times to the millisecond and zero times as zero.
	{name: "ClientReadsBack", test: func(t *testing.T, s store.Store) {
		full := client("full")
		bare := &store.Client{ID: "bare", Type: store.PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}
		native := client("native")
		native.Type, native.Secrets, native.FirstParty, native.PKCE, native.RevokePrevious, native.Disabled = store.NativeClient, nil, false, "", false, true
		epoch := client("epoch") // 1970 is a time like any other, not the zero time
		epoch.CreatedAt, epoch.Secrets[0].ExpiresAt = time.Unix(0, 0), time.Unix(0, 0)
		registered := client("registered")
		registered.Origin, registered.LastUsedAt = store.FromRegistration, now
		document := client("https://app.example/client.json")
		document.Origin = store.FromMetadata
		for _, want := range []*store.Client{full, bare, native, epoch, registered, document} {
			must(t, s.Clients.AddClient(t.Context(), want))
			wantClients(t, s.Clients, want)
		}
		declared := client("declared")
		declared.Declared = true
		must(t, s.Clients.AddClient(t.Context(), declared))
		if read(t, s.Clients, "declared").Declared {
			t.Error("a stored client says that the configuration declares it")
		}
	}},
	// The list has every client in full, disabled ones too, sorted by the bytes of the ids.
	{name: "ClientsListed", test: func(t *testing.T, s store.Store) {
		ids := []string{"b", "a", "É", "B", "_", "a b", "a\U0001f4e6", "aé", "Z", "~"}
		for _, id := range ids {
			must(t, s.Clients.AddClient(t.Context(), client(id)))
		}
		must(t, s.Clients.ChangeClient(t.Context(), "a", store.DisableClient(revocation("a"))))
		list := ok(s.Clients.Clients(t.Context()))(t)
		slices.Sort(ids)
		wantSize(t, list, len(ids))
		for i, got := range list {
			want := client(ids[i])
			want.Disabled = want.ID == "a"
			same(t, got, want)
		}
	}},
	// T15: an id is what its bytes are. No pattern, no folding, no trimming, no normal form.
	{name: "ClientIDsAreBytes", test: func(t *testing.T, s store.Store) {
		namesAreBytes(t, func(id string) { must(t, s.Clients.AddClient(t.Context(), client(id))) },
			func(id string) { wantClients(t, s.Clients, client(id)) }, func(id string) error { return errOf(s.Clients.Client(t.Context(), id)) })
		// A step changes the client that it names and no other.
		must(t, s.Clients.ChangeClient(t.Context(), "%", store.DisableClient(revocation("%"))))
		must(t, s.Clients.RemoveClient(t.Context(), "a_p", revocation("a_p")))
		for _, id := range oddIDs {
			if id == "a_p" {
				continue
			}
			if got := read(t, s.Clients, id); got.Disabled != (id == "%") {
				t.Errorf("client %q: disabled is %v", id, got.Disabled)
			}
		}
	}},
	// Adding a second client with an id changes nothing.
	{name: "ClientIDTaken", test: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		second := client("app")
		second.Name, second.Secrets = "another", nil
		mustBe(t, s.Clients.AddClient(t.Context(), second), store.ErrTaken)
		wantClients(t, s.Clients, client("app"))
	}},
	// Of concurrent calls with one id exactly one succeeds, and its client is stored completely.
	{name: "ClientIDTakenInARace", races: func(t *testing.T, s store.Store) {
		names := make([]*store.Client, racers)
		errs := race(racers, func(i int) error {
			names[i] = client("app")
			names[i].Name = fmt.Sprint("racer ", i)
			names[i].Secrets = []store.ClientSecret{{Digest: digest(names[i].Name), CreatedAt: now}}
			return s.Clients.AddClient(t.Context(), names[i])
		})
		oneWinner(t, errs, store.ErrTaken)
		wantClients(t, s.Clients, names[slices.Index(errs, nil)])
	}},
	// A removed client's id is not given to a new owner while its tokens may live, and the error says until when. Then it is free, for a
	// client or a user, and the new one has no consents.
	{name: "ClientIDTakenAfterRemoval", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		must(t, s.Clients.AddClient(ctx, client("app")))
		must(t, s.Families.PutConsent(ctx, "ada", "app", oauth.Scopes{"public"}, now))
		must(t, s.Families.PutConsent(ctx, "ada", "other", oauth.Scopes{"public"}, now))
		tokens := revocation("app")
		must(t, s.Clients.RemoveClient(ctx, "app", tokens))
		at := func(created time.Time) *store.Client {
			c := client("app")
			c.CreatedAt = created
			return c
		}
		early := tokens.FreeAt().Add(-time.Millisecond)
		takenUntil(t, s.Clients.AddClient(ctx, at(now)), tokens.FreeAt())
		takenUntil(t, s.Clients.AddClient(ctx, at(early)), tokens.FreeAt())
		u := user("app")
		u.CreatedAt = early
		takenUntil(t, s.Users.AddUser(ctx, u, true), tokens.FreeAt())
		mustBe(t, errOf(s.Clients.Client(ctx, "app")), store.ErrNotFound)

		must(t, s.Clients.AddClient(ctx, at(tokens.FreeAt())))
		wantClients(t, s.Clients, at(tokens.FreeAt()))
		mustBe(t, errOf(s.Families.Consent(ctx, "ada", "app")), store.ErrNotFound)
		ok(s.Families.Consent(ctx, "ada", "other"))(t)
		err := s.Clients.AddClient(ctx, at(tokens.FreeAt().AddDate(9, 0, 0)))
		if mustBe(t, err, store.ErrTaken); errors.As(err, new(store.RemovedError)) {
			t.Errorf("an id that is in use: %v", err)
		}
	}},
	// Ids of declared clients and users are not recorded as removed, and consents of their former owners do not apply to their next owners.
	{name: "NewIDsHaveNoConsents", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		for user, client := range map[string]string{"ada": "declared", "declared-user": "other", "ben": "other"} {
			must(t, s.Families.PutConsent(ctx, user, client, oauth.Scopes{"public"}, now))
		}
		must(t, s.Clients.AddClient(ctx, client("declared")))
		must(t, s.Users.AddUser(ctx, user("declared-user"), true))
		mustBe(t, errOf(s.Families.Consent(ctx, "ada", "declared")), store.ErrNotFound)
		mustBe(t, errOf(s.Families.Consent(ctx, "declared-user", "other")), store.ErrNotFound)
		ok(s.Families.Consent(ctx, "ben", "other"))(t)
	}},
	// Members change as edited and the rest does not, and nothing changes if the edit is refused.
	{name: "ClientChanged", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		must(t, s.Clients.AddClient(ctx, client("app")))
		must(t, s.Clients.AddClient(ctx, client("neighbour")))
		must(t, s.Clients.ChangeClient(ctx, "app", store.DisableClient(revocation("app"))))
		want := client("app")
		want.Disabled = true
		grants := []oauth.GrantType{oauth.PasswordGrant}
		for _, change := range []func(*store.Client){
			func(*store.Client) {},
			func(c *store.Client) {
				c.Name, c.Type, c.FirstParty, c.PKCE = "renamed", store.PublicClient, !c.FirstParty, oauth.PKCERequired
			},
			func(c *store.Client) { c.Grants, c.Scopes, c.RedirectURIs = grants, oauth.Scopes{"a", "b"}, []string{} },
			func(c *store.Client) {
				c.CORSOrigins, c.RevokePrevious = []string{"https://o.example"}, !c.RevokePrevious
			},
			func(c *store.Client) { c.Lifetimes = store.Lifetimes{Code: time.Second, RefreshGrace: store.NoGrace} },
			func(c *store.Client) { c.Exchange = []store.ExchangeRule{{Audiences: []string{"only"}}} },
			func(c *store.Client) { c.Exchange, c.ClientKeys = nil, store.ClientKeys{JWKS: "{}"} },
			func(c *store.Client) {
				c.ClientKeys, c.ClientOpenID, c.Lifetimes = store.ClientKeys{}, store.ClientOpenID{}, store.Lifetimes{}
			},
			func(c *store.Client) { c.Name, c.FirstParty, c.Type = "", false, "" },
		} {
			must(t, s.Clients.ChangeClient(ctx, "app", store.ClientChange{Edit: func(c *store.Client) error { change(c); return nil }}))
			change(want)
			wantClients(t, s.Clients, want)
		}
		grants[0] = "scribble" // the change belongs to the caller
		if got := read(t, s.Clients, "app"); got.Grants[0] != oauth.PasswordGrant {
			t.Errorf("a change reaches the store after the step: %+v", got)
		}
		want.Grants = []oauth.GrantType{oauth.PasswordGrant}
		refused := errors.New("refused")
		mustBe(t, s.Clients.ChangeClient(ctx, "app", store.ClientChange{Edit: func(c *store.Client) error { c.Name = "refused"; return refused }}), refused)
		wantClients(t, s.Clients, want, client("neighbour"))
		mustBe(t, s.Clients.ChangeClient(ctx, "nobody", store.ClientChange{Edit: func(*store.Client) error { return nil }}), store.ErrNotFound)
		mustBe(t, s.Clients.ChangeClient(ctx, "\x00", store.ClientChange{Edit: func(*store.Client) error { return nil }}), store.ErrNotFound)
	}},
	// Of concurrent changes of different members none is lost.
	{name: "ClientChangedInARace", races: func(t *testing.T, s store.Store) {
		must(t, s.Clients.AddClient(t.Context(), client("app")))
		want := client("app")
		changes := []func(*store.Client){
			func(c *store.Client) { c.Name = "renamed" }, func(c *store.Client) { c.FirstParty = false }, func(c *store.Client) { c.CORSOrigins = nil },
		}
		all(t, racers, func(i int) error {
			return s.Clients.ChangeClient(t.Context(), "app", store.ClientChange{Edit: func(c *store.Client) error { changes[i%len(changes)](c); return nil }})
		})
		for _, change := range changes {
			change(want)
		}
		wantClients(t, s.Clients, want)
	}},
	// The time of the last use advances, and never goes back.
	{name: "ClientTouched", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		want := client("app")
		must(t, s.Clients.AddClient(ctx, want))
		must(t, s.Clients.AddClient(ctx, client("neighbour")))
		for _, at := range []time.Time{now, now.Add(-time.Hour), now.Add(time.Hour)} {
			must(t, s.Clients.ChangeClient(ctx, "app", store.TouchClient(at)))
			if at.After(want.LastUsedAt) {
				want.LastUsedAt = at
			}
			wantClients(t, s.Clients, want)
		}
		wantClients(t, s.Clients, client("neighbour"))
	}},
	// Clients are counted by their origin, including disabled ones and without removed ones.
	{name: "ClientsCounted", test: func(t *testing.T, s store.Store) {
		ctx := t.Context()
		count := func(origin store.ClientOrigin, want int) {
			t.Helper()
			n := ok(s.Clients.CountClients(ctx, origin))(t)
			if n != want {
				t.Errorf("%d clients of origin %q, want %d", n, origin, want)
			}
		}
		count(store.FromOperator, 0)
		for id, origin := range map[string]store.ClientOrigin{"a": store.FromOperator, "b": store.FromRegistration, "c": store.FromRegistration, "d": store.FromRegistration} {
			c := client(id)
			c.Origin = origin
			must(t, s.Clients.AddClient(ctx, c))
		}
		must(t, s.Clients.ChangeClient(ctx, "b", store.DisableClient(revocation("b"))))
		must(t, s.Clients.RemoveClient(ctx, "c", revocation("c")))
		count(store.FromOperator, 1)
		count(store.FromRegistration, 2)
		count(store.FromMetadata, 0)
	}},
}
