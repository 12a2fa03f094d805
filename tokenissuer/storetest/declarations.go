package storetest

import (
	"cmp"
	"slices"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func wantDeclarations(t *testing.T, s store.Store, declared []store.Declaration, ended []store.EndedDeclaration) {
	t.Helper()
	gotDeclared, gotEnded, err := s.Declarations.Declarations(t.Context())
	must(t, err)
	order := func(a, b store.Declaration) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Version, b.Version))
	}
	got, want := slices.SortedFunc(slices.Values(gotDeclared), order), slices.SortedFunc(slices.Values(declared), order)
	if !slices.Equal(got, want) {
		t.Errorf("declarations: %v, want %v", got, want)
	}
	orderEnded := func(a, b store.EndedDeclaration) int { return order(a.Declaration, b.Declaration) }
	gotEnded, ended = slices.SortedFunc(slices.Values(gotEnded), orderEnded), slices.SortedFunc(slices.Values(ended), orderEnded)
	if !slices.EqualFunc(gotEnded, ended, func(a, b store.EndedDeclaration) bool {
		return a.Declaration == b.Declaration && sameTime(a.At, b.At)
	}) {
		t.Errorf("ended: %v, want %v", gotEnded, ended)
	}
}

var declarationChecks = []check{
	{name: "Declarations", test: func(t *testing.T, s store.Store) {
		wantDeclarations(t, s, nil, nil)
		first := []store.Declaration{
			{Kind: store.RevokeClient, ID: "portal"},
			{Kind: store.RevokeUser, ID: "u-ada", Version: "a"},
			{Kind: store.RevokeUser, ID: "portal", Version: "ü'"},
		}
		ended := []store.EndedDeclaration{
			{Declaration: store.Declaration{Kind: store.RevokeUser, ID: "u-ada", Version: "older"}, At: now},
			{Declaration: store.Declaration{Kind: store.RevokeUser, ID: "u-ada", Version: "oldest"}, At: now.Add(-time.Hour)},
			{Declaration: store.Declaration{Kind: store.RevokeClient, ID: "u-ada"}, At: now.Add(time.Microsecond)},
		}
		for _, lists := range []struct {
			declared []store.Declaration
			ended    []store.EndedDeclaration
		}{
			{first, nil},
			{first, ended},
			{[]store.Declaration{{Kind: store.RevokeUser, ID: "u-ada", Version: "b"}}, ended[1:]},
			{nil, ended},
			{nil, nil},
		} {
			must(t, s.Declarations.PutDeclarations(t.Context(), lists.declared, lists.ended))
			wantDeclarations(t, s, lists.declared, lists.ended)
		}
	}},
}
