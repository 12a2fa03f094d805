package storetest

import (
	"cmp"
	"slices"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

var declarationChecks = []check{
	{"Declarations", func(t *testing.T, s tokenissuer.Store) {
		wantDeclarations(t, s)
		first := []tokenissuer.Declaration{
			{Kind: tokenissuer.RevokeClient, ID: "portal"},
			{Kind: tokenissuer.RevokeUser, ID: "u-ada", Version: "a"},
			{Kind: tokenissuer.RevokeUser, ID: "portal", Version: "ü'"},
		}
		putDeclarations(t, s, first...)
		wantDeclarations(t, s, first...)
		second := []tokenissuer.Declaration{{Kind: tokenissuer.RevokeUser, ID: "u-ada", Version: "b"}}
		putDeclarations(t, s, second...)
		wantDeclarations(t, s, second...)
		putDeclarations(t, s)
		wantDeclarations(t, s)
	}},
}

func putDeclarations(t *testing.T, s tokenissuer.Store, declared ...tokenissuer.Declaration) {
	t.Helper()
	if err := s.PutDeclarations(t.Context(), declared); err != nil {
		t.Fatal(err)
	}
}

func wantDeclarations(t *testing.T, s tokenissuer.Store, want ...tokenissuer.Declaration) {
	t.Helper()
	got, err := s.Declarations(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	order := func(a, b tokenissuer.Declaration) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.ID, b.ID))
	}
	got, want = slices.SortedFunc(slices.Values(got), order), slices.SortedFunc(slices.Values(want), order)
	if !slices.Equal(got, want) {
		t.Errorf("declarations: %v, want %v", got, want)
	}
}
