package fetch

import (
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
)

// FuzzWhatAProviderSays: metadata, key sets and snapshots of any shape are read without a panic, and what is believed has
// the issuer, the place and the names that it must have.
func FuzzWhatAProviderSays(f *testing.F) {
	const issuer, place = "https://idp.example/realm", "https://idp.example/keys"
	s := &server{source: Source{Issuer: issuer}, client: NewClient(Limits{})}
	set := issuertest.JWKS(issuertest.NewSigner("a").JWK(), issuertest.ECKey("b"))
	for _, seed := range []string{
		set, `{"issuer":"` + issuer + `","jwks_uri":"` + place + `"}`, `{"keys":[]}`, "", "null", strings.Repeat("[", 2000), `{"keys":[{"kty":"RSA","n":"","e":""}]}`,
		`{"issuer":"` + issuer + `","jwks_uri":"` + place + `","fetched_at":"2026-11-21T10:00:00Z","jwks":` + set + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if uri, err := s.readMetadata(data); err == nil && !strings.HasPrefix(strings.ToLower(uri), "https://idp.example") {
			t.Errorf("keys at %q", uri)
		}
		keys, err := s.readKeySet(data, place, issuertest.Start)
		if kept, failed := s.readSnapshot(data, issuertest.Start); failed == nil {
			if kept.fetchedAt.After(issuertest.Start) {
				t.Errorf("fetched at %s", kept.fetchedAt)
			}
			keys, err = kept, nil
		}
		if err != nil {
			return
		}
		if keys.usable.Kids() == 0 {
			t.Error("an empty set")
		}
		for _, published := range keys.published {
			for _, key := range published.Keys {
				if key.ID != published.ID || !key.Equal(key) {
					t.Errorf("key %q as %q", key.ID, published.ID)
				}
				if found, reason := keys.usable.Find(key.ID, key.Algorithm); key.ID != "" && (found == nil || reason != "") {
					t.Errorf("key %q for %s is not found: %s", key.ID, key.Algorithm, reason)
				}
			}
		}
		if report := keys.report(); len(report) != len(keys.published) {
			t.Errorf("%d of %d keys are reported", len(report), len(keys.published))
		}
	})
}
