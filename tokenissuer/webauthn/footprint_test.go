package webauthn_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/teststore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestW80WhatAPasskeyTakes: 10,000 passkeys as they are stored after they were added → at most 1 KiB of the file for each, indices included, and
// nothing in the process.
func TestW80WhatAPasskeyTakes(t *testing.T) {
	s := newScene(t)
	s.owner("u-ada")
	fs, kept := s.SignIns.Families, s.passkey("u-ada")
	data, err := signin.OpenFactor[json.RawMessage](fs, kept)
	s.must(err)
	file, heap := teststore.Footprint(t, 10_000, func(whole store.Store) func(int) error {
		return func(i int) error {
			f := *kept
			f.ID, f.UserID, f.DeclaredEmail = oauth.NewID(), oauth.NewID(), fmt.Sprintf("person-%d@example.com", i)
			f.Credential = base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%032d", i))
			if err := signin.SealFactor(fs, &f, data, s.at); err != nil {
				return err
			}
			return whole.Factors.AddFactor(t.Context(), &f, "")
		}
	})
	if t.Logf("a passkey takes %.0f bytes of the file and %.1f of the heap", file, heap); file > 1024 || heap > 64 {
		t.Error("that is too much")
	}
}
