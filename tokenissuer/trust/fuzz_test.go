package trust

import (
	"strings"
	"testing"
	"time"
)

// FuzzWhatAProviderSays: metadata, key sets and snapshots of any shape are read without a panic, and what is believed has
// the issuer, the place and the names that it must have.
func FuzzWhatAProviderSays(f *testing.F) {
	const issuer, place = "https://idp.example/realm", "https://idp.example/keys"
	settings := Settings{Issuer: issuer}
	k := newRemoteKeys(settings, newClient(false), Options{Now: func() time.Time { return testStart }})
	set := jwks(newSigner("a").jwk(), ecKey("b"))
	for _, seed := range []string{
		set, `{"issuer":"` + issuer + `","jwks_uri":"` + place + `"}`, `{"keys":[]}`, "", "null", strings.Repeat("[", 2000), `{"keys":[{"kty":"RSA","n":"","e":""}]}`,
		`{"issuer":"` + issuer + `","jwks_uri":"` + place + `","fetched_at":"2026-11-21T10:00:00Z","jwks":` + set + `}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if uri, err := k.readMetadata(data); err == nil && !strings.HasPrefix(strings.ToLower(uri), "https://idp.example") {
			t.Errorf("keys at %q", uri)
		}
		keys, err := k.readKeySet(data, place, testStart)
		if kept, failed := k.readSnapshot(data); failed == nil {
			if kept.fetchedAt.After(testStart) {
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
