package storetest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// found returns the ids of all users that a query selects, sorted, read in pages of a size. It fails if one is found twice.
func found(t *testing.T, s store.UserStore, q store.UserQuery, size int) []string {
	t.Helper()
	ids, pages := []string{}, 0
	for q.Limit = size; ; {
		page := ok(s.FindUsers(t.Context(), q))(t)
		if pages++; pages > 1000 || len(page.Users) > size {
			t.Fatalf("%+v: page %d has %d users", q, pages, len(page.Users))
		}
		for _, u := range page.Users {
			ids = append(ids, u.ID)
		}
		if q.After = page.Next; page.Next == (store.SearchPosition{}) {
			break
		}
	}
	slices.Sort(ids)
	if len(slices.Compact(slices.Clone(ids))) != len(ids) {
		t.Errorf("%+v found %q", q, ids)
	}
	return ids
}

// wantFound compares the users that a query selects with these, in pages of several sizes.
func wantFound(t *testing.T, s store.UserStore, q store.UserQuery, want ...string) {
	t.Helper()
	slices.Sort(want)
	for _, size := range []int{1, 2, store.MaxPage} {
		if got := found(t, s, q, size); !slices.Equal(got, want) {
			t.Errorf("%+v in pages of %d: %q, want %q", q, size, got, want)
		}
	}
}

// person is a bare user with a password, whose name is not the address.
func person(id, name string, edit func(*store.User)) *store.User {
	u := &store.User{ID: id, Email: id + "@example.com", Name: name, Status: store.UserActive, Role: store.RoleMember, PasswordHash: hash("m=8,t=1,p=1", id)}
	if edit != nil {
		edit(u)
	}
	return u
}

// editUser changes a user.
func editUser(t *testing.T, s store.Store, id string, edit func(*store.User)) {
	t.Helper()
	must(t, errOf(s.Users.ChangeUser(t.Context(), id, store.UserChange{Edit: func(u *store.User) error { edit(u); return nil }}, theEnd)))
}

var userSearchChecks = []check{
	// The beginning of a name, an address or a username, in any case and normal form → each user whose text begins so, once; characters that
	// mean something in patterns mean themselves.
	{name: "X52SearchByBeginnings", test: func(t *testing.T, s store.Store) {
		addUser(t, s, person("ada", "Ada Lovelace", nil))
		addUser(t, s, person("adam", "Zoë", func(u *store.User) { u.Profile = &store.Profile{PreferredUsername: "ADALBERT"} }))
		addUser(t, s, person("eve", "a_a%", nil))
		addUser(t, s, person("bob", "ÄDA", nil))
		for search, want := range map[string][]string{
			"ada": {"ada", "adam"}, " ADA": {"ada", "adam"}, "ada l": {"ada"}, "ada@": {"ada"}, "lovelace": nil, "a_": {"eve"}, "a%": nil, "%": nil, "zoe\u0308": {"adam"},
			"ä": {"bob"}, "a\u0308d": {"bob"}, "adalbert": {"adam"}, "adalberta": nil, "\x00": nil, "\xff": nil, "": {"ada", "adam", "bob", "eve"},
		} {
			wantFound(t, s.Users, store.UserQuery{Search: search}, want...)
		}
	}},
	// Each filter, and several → exactly the users that all of them select; no page has another user.
	{name: "X53FiltersOfUsers", test: func(t *testing.T, s store.Store) {
		addUser(t, s, person("plain", "Plain", nil))
		addUser(t, s, person("acme", "Acme", func(u *store.User) { u.Organisation, u.Role = "acme", store.RoleAdmin }))
		addUser(t, s, person("grouped", "Grouped", func(u *store.User) { u.Organisation, u.Groups = "acme", []string{"staff"} }))
		addUser(t, s, person("corp", "Corp", func(u *store.User) { u.ProviderGroups, u.GroupsBy = []string{"staff"}, "corp" }))
		addUser(t, s, person("off", "Off", func(u *store.User) { u.Status = store.UserDisabled }))
		addUser(t, s, person("locked", "Locked", func(u *store.User) { u.Status = store.UserLocked }))
		addUser(t, s, person("invited", "Invited", func(u *store.User) { u.PasswordHash = oauth.Secret{} }))
		addUser(t, s, person("machine", "Machine", func(u *store.User) { u.PasswordHash, u.Service = oauth.Secret{}, true }))
		linked := person("linked", "Linked", func(u *store.User) { u.PasswordHash = oauth.Secret{} })
		must(t, s.Users.AddUser(t.Context(), linked, true, store.Identity{Provider: "corp", Subject: "1", UserID: "linked", LinkedAt: now, LastUsedAt: now}))
		must(t, s.Factors.AddFactor(t.Context(), &store.Factor{ID: "f", UserID: "plain", Kind: store.TOTP, Data: []byte("x"), CreatedAt: now}, readUser(t, s.Users, "plain").Version))
		must(t, s.Factors.AddFactor(t.Context(), &store.Factor{ID: "r", UserID: "acme", Kind: store.RecoveryCodes, Data: []byte("x"), CreatedAt: now}, readUser(t, s.Users, "acme").Version))
		all := []string{"plain", "acme", "grouped", "corp", "off", "locked", "invited", "machine", "linked"}
		for _, test := range []struct {
			q    store.UserQuery
			want []string
		}{
			{store.UserQuery{}, all},
			{store.UserQuery{Organisation: "acme"}, []string{"acme", "grouped"}},
			{store.UserQuery{Organisation: "nobody's"}, nil},
			{store.UserQuery{Group: "staff"}, []string{"grouped", "corp"}},
			{store.UserQuery{Role: store.RoleAdmin}, []string{"acme"}},
			{store.UserQuery{Provider: "corp"}, []string{"linked"}},
			{store.UserQuery{State: "active"}, []string{"plain", "acme", "grouped", "corp", "machine", "linked"}},
			{store.UserQuery{State: "disabled"}, []string{"off"}},
			{store.UserQuery{State: "locked"}, []string{"locked"}},
			{store.UserQuery{State: store.UserInvited}, []string{"invited"}},
			{store.UserQuery{WithoutFactor: true}, slices.DeleteFunc(slices.Clone(all), func(id string) bool { return id == "plain" })},
			{store.UserQuery{Organisation: "acme", Group: "staff"}, []string{"grouped"}},
			{store.UserQuery{Group: "staff", Role: store.RoleMember, State: "active", WithoutFactor: true}, []string{"grouped", "corp"}},
			{store.UserQuery{Search: "l", Provider: "corp", WithoutFactor: true}, []string{"linked"}},
			{store.UserQuery{Search: "i", State: store.UserInvited}, []string{"invited"}},
			{store.UserQuery{Search: "o", State: "active"}, nil},
			{store.UserQuery{Organisation: "\x00"}, nil},
		} {
			wantFound(t, s.Users, test.q, test.want...)
		}
		for _, odd := range []store.UserQuery{{}, {Search: "a"}, {Group: "staff"}} {
			odd.Limit, odd.After = 1, store.SearchPosition{Found: "\x00", ID: "\x00"}
			must(t, errOf(s.Users.FindUsers(t.Context(), odd)))
		}
	}},
	// A user who is changed, unlinked or removed → found by what the user is now, and by nothing of before.
	{name: "X54ChangedUsersAreFoundAsTheyAre", test: func(t *testing.T, s store.Store) {
		addUser(t, s, person("ada", "Ada", func(u *store.User) {
			u.Organisation, u.Groups, u.ProviderGroups, u.GroupsBy = "acme", []string{"staff"}, []string{"team", "staff"}, "corp"
		}))
		must(t, s.Identities.LinkIdentity(t.Context(), store.Identity{Provider: "corp", Subject: "1", UserID: "ada", LinkedAt: now, LastUsedAt: now}))
		wantFound(t, s.Users, store.UserQuery{Group: "team"}, "ada")
		must(t, errOf(s.Identities.UnlinkIdentity(t.Context(), store.Unlinking{UserID: "ada", Provider: "corp", Subject: "1", MayBeLast: true}, theEnd)))
		wantFound(t, s.Users, store.UserQuery{Group: "team"})
		wantFound(t, s.Users, store.UserQuery{Group: "staff"}, "ada")
		editUser(t, s, "ada", func(u *store.User) {
			u.Name, u.Groups, u.Role, u.Status, u.Organisation = "Grace", []string{"board"}, store.RoleAdmin, store.UserDisabled, ""
			u.SetEmail("grace@example.com")
		})
		for _, gone := range []store.UserQuery{{Search: "ada"}, {Group: "staff"}, {Role: store.RoleMember}, {State: "active"}, {Organisation: "acme"}} {
			wantFound(t, s.Users, gone)
		}
		for _, is := range []store.UserQuery{{Search: "grace"}, {Group: "board"}, {Role: store.RoleAdmin}, {State: "disabled"}} {
			wantFound(t, s.Users, is, "ada")
		}
		must(t, errOf(s.Users.RemoveUser(t.Context(), "ada", theEnd)))
		wantFound(t, s.Users, store.UserQuery{Search: "grace"})
	}},
	// More users than a page looks at, of whom the last alone is meant → pages without users, and at last the user.
	{name: "X55PagesAreBounded", test: func(t *testing.T, s store.Store) {
		for i := range 1010 {
			must(t, s.Users.AddUser(t.Context(), &store.User{ID: fmt.Sprintf("u%04d", i), Email: fmt.Sprintf("u%04d@example.com", i), Status: store.UserActive, Role: store.RoleMember}, true))
		}
		editUser(t, s, "u1009", func(u *store.User) { u.PasswordHash = hash("m=8,t=1,p=1", "x") })
		for _, q := range []store.UserQuery{{State: "active"}, {State: "active", Search: "U"}, {State: "active", Role: store.RoleMember}} {
			if got := found(t, s.Users, q, 1); !slices.Equal(got, []string{"u1009"}) {
				t.Errorf("%+v: %q", q, got)
			}
		}
	}},
	// Families of everybody by user, client and host, some of them ended or over → those that live, each once, in pages of any size.
	{name: "X58FamiliesOfEverybody", test: func(t *testing.T, s store.Store) {
		ids := []string{}
		for i, edit := range []func(*store.TokenFamily){
			func(*store.TokenFamily) {},
			func(f *store.TokenFamily) { f.User.ID = "bob" },
			func(f *store.TokenFamily) { f.ClientID = "wiki" },
			func(f *store.TokenFamily) {
				f.Origin, f.Code.RedirectURI = store.HostSession, "https://app.example.com:8443/oauth/callback"
			},
			func(f *store.TokenFamily) { f.ExpiresAt = now },
			func(f *store.TokenFamily) { f.User.ID, f.ClientID = "bob", "wiki" },
		} {
			f := family(fmt.Sprint("f", i))
			f.User.Declared = true
			edit(f)
			must(t, Done(s.Families.AddFamily(t.Context(), f)))
			ids = append(ids, f.ID)
		}
		must(t, errOf(s.Families.EndFamilies(t.Context(), store.FamilyFilter{ID: ids[5]}, theEnd)))
		usual := family("x")
		must(t, errOf(s.Families.FindFamilies(t.Context(), store.FamilyQuery{After: "\x00", Limit: 1})))
		for _, test := range []struct {
			q    store.FamilyQuery
			want []string
		}{
			{store.FamilyQuery{}, ids[:4]},
			{store.FamilyQuery{UserID: usual.User.ID}, []string{ids[0], ids[2], ids[3]}},
			{store.FamilyQuery{UserID: "bob"}, ids[1:2]},
			{store.FamilyQuery{ClientID: "wiki"}, ids[2:3]},
			{store.FamilyQuery{UserID: "bob", ClientID: "wiki"}, nil},
			{store.FamilyQuery{Host: "app.example.com:8443"}, ids[3:4]},
			{store.FamilyQuery{Host: "app.example.com"}, nil},
			{store.FamilyQuery{UserID: "\x00"}, nil},
		} {
			test.q.ExpireAfter = now
			for _, test.q.Limit = range []int{1, 3, store.MaxPage} {
				var got []string
				for pages := 0; pages < 10; pages++ {
					page := ok(s.Families.FindFamilies(t.Context(), test.q))(t)
					for _, f := range page.Families {
						got = append(got, f.ID)
					}
					if test.q.After = page.Next; page.Next == "" {
						break
					}
				}
				if !slices.Equal(got, test.want) {
					t.Errorf("%+v: %q, want %q", test.q, got, test.want)
				}
			}
		}
	}},
}
