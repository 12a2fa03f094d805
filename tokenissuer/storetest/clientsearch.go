package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// foundClients returns all clients that a query selects, by id, read in pages of a size. It fails if one is found twice.
func foundClients(t *testing.T, s store.ClientStore, q store.ClientQuery, size int) map[string]*store.Client {
	t.Helper()
	all, pages := map[string]*store.Client{}, 0
	for q.Limit = size; ; {
		page := ok(s.FindClients(t.Context(), q))(t)
		if pages++; pages > 1100 || len(page.Clients) > size {
			t.Fatalf("%+v: page %d has %d clients", q, pages, len(page.Clients))
		}
		for _, c := range page.Clients {
			if all[c.ID] != nil {
				t.Errorf("%+v found %q twice", q, c.ID)
			}
			all[c.ID] = c
		}
		if q.After = page.Next; page.Next == (store.SearchPosition{}) {
			return all
		}
	}
}

// wantFoundClients compares the clients that a query selects with these, in pages of several sizes.
func wantFoundClients(t *testing.T, s store.ClientStore, q store.ClientQuery, want ...string) {
	t.Helper()
	slices.Sort(want)
	for _, size := range []int{1, 2, store.MaxPage} {
		found := foundClients(t, s, q, size)
		var ids []string
		for id, c := range found {
			ids = append(ids, id)
			same(t, c, read(t, s, id))
		}
		if slices.Sort(ids); !slices.Equal(ids, want) {
			t.Errorf("%+v in pages of %d: %q, want %q", q, size, ids, want)
		}
	}
}

var clientSearchChecks = []check{
	// The beginning of an id or a name, an origin, a state, and several of them, before and after changes → exactly the clients that all of them
	// select, in full, with every secret.
	{name: "O20SearchOfClients", test: func(t *testing.T, s store.Store) {
		for _, c := range []struct {
			id, name string
			origin   store.ClientOrigin
			secrets  int
		}{
			{"wiki", "Wiki of Acme", store.FromOperator, 3}, {"Acme.2", "Zoë", store.FromOperator, 0}, {"a_b", "a%", store.FromOperator, 1},
			{"https://app.example/c.json", "Wild", store.FromMetadata, 0}, {"r1", "wiki", store.FromRegistration, 2},
		} {
			added := client(c.id)
			added.Name, added.Origin, added.Secrets = c.name, c.origin, nil
			for i := range c.secrets {
				added.Secrets = append(added.Secrets, secret(fmt.Sprint(c.id, i), now))
			}
			must(t, s.Clients.AddClient(t.Context(), added))
		}
		must(t, s.Clients.ChangeClient(t.Context(), "r1", store.DisableClient(revocation("r1"))))
		operator, metadata, registration := store.FromOperator, store.FromMetadata, store.FromRegistration
		for _, test := range []struct {
			q    store.ClientQuery
			want []string
		}{
			{store.ClientQuery{}, []string{"wiki", "Acme.2", "a_b", "https://app.example/c.json", "r1"}},
			{store.ClientQuery{Search: "WIKI"}, []string{"wiki", "r1"}}, {store.ClientQuery{Search: "acme"}, []string{"Acme.2"}},
			{store.ClientQuery{Search: "a%"}, []string{"a_b"}}, {store.ClientQuery{Search: "a_"}, []string{"a_b"}}, {store.ClientQuery{Search: "zoe\u0308"}, []string{"Acme.2"}},
			{store.ClientQuery{Search: "https://app."}, []string{"https://app.example/c.json"}}, {store.ClientQuery{Search: "of"}, nil}, {store.ClientQuery{Search: "\x00"}, nil},
			{store.ClientQuery{Origin: &operator}, []string{"wiki", "Acme.2", "a_b"}}, {store.ClientQuery{Origin: &metadata}, []string{"https://app.example/c.json"}},
			{store.ClientQuery{Origin: &registration, State: store.ClientEnabled}, nil}, {store.ClientQuery{State: store.ClientDisabled}, []string{"r1"}},
			{store.ClientQuery{State: store.ClientEnabled, Search: "w"}, []string{"wiki", "https://app.example/c.json"}},
			{store.ClientQuery{State: store.ClientDisabled, Search: "w", Origin: &registration}, []string{"r1"}},
		} {
			wantFoundClients(t, s.Clients, test.q, test.want...)
		}
		must(t, s.Clients.ChangeClient(t.Context(), "wiki", store.ClientChange{Edit: func(c *store.Client) error { c.Name = "Notes"; return nil }}))
		must(t, s.Clients.ChangeClient(t.Context(), "r1", store.EnableClient()))
		must(t, s.Clients.RemoveClient(t.Context(), "a_b", revocation("a_b")))
		wantFoundClients(t, s.Clients, store.ClientQuery{Search: "wiki of"})
		wantFoundClients(t, s.Clients, store.ClientQuery{Search: "notes"}, "wiki")
		wantFoundClients(t, s.Clients, store.ClientQuery{State: store.ClientDisabled})
		wantFoundClients(t, s.Clients, store.ClientQuery{Search: "a"}, "Acme.2")
		must(t, errOf(s.Clients.FindClients(t.Context(), store.ClientQuery{Search: "a", Limit: 1, After: store.SearchPosition{Found: "\x00", ID: "\x00"}})))
	}},
	// More clients than a page looks at, of which the last alone is meant → pages without clients, and at last the client.
	{name: "O21PagesOfClientsAreBounded", test: func(t *testing.T, s store.Store) {
		for i := range 1010 {
			c := client(fmt.Sprintf("c%04d", i))
			c.Disabled = i < 1009
			must(t, s.Clients.AddClient(t.Context(), c))
		}
		for _, q := range []store.ClientQuery{{State: store.ClientEnabled}, {State: store.ClientEnabled, Search: "C"}} {
			if found := foundClients(t, s.Clients, q, 1); len(found) != 1 || found["c1009"] == nil {
				t.Errorf("%+v: %d", q, len(found))
			}
			q.Limit = 1
			if page := ok(s.Clients.FindClients(t.Context(), q))(t); len(page.Clients) > 0 || page.Next == (store.SearchPosition{}) {
				t.Errorf("%+v: the first page looks at all clients", q)
			}
		}
	}},
}
