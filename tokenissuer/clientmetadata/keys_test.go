package clientmetadata

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// publishes has the host answer with keys of these kids, and members beside them.
func (h *host) publishes(members string, kids ...string) {
	var list []string
	for i, kid := range kids {
		key := make([]byte, ed25519.PublicKeySize)
		key[0] = byte(i + 1)
		list = append(list, fmt.Sprintf(`{"kty":"OKP","crv":"Ed25519","kid":%q,"x":%q%s}`, kid, base64.RawURLEncoding.EncodeToString(key), members))
	}
	h.does(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/jwk-set+json")
		_, _ = io.WriteString(w, `{"keys":[`+strings.Join(list, ",")+`]}`)
	})
}

// findKey returns the kid that was found at a place, or the reason why there is none.
func findKey(t *testing.T, d *Documents, uri, kid string) string {
	t.Helper()
	key, err := d.Key(t.Context(), &store.Client{Origin: store.FromRegistration, ClientKeys: store.ClientKeys{JWKSURI: uri}}, "192.0.2.1", kid, oauth.EdDSA)
	if err != nil {
		return oauth.AsError(err).Reason
	}
	return key.ID
}

// TestQ202KeysAtAPlace: they are fetched as documents are, and again when an assertion names another.
func TestQ202KeysAtAPlace(t *testing.T) {
	h, c := newHost(t), newClock()
	d, uri := open(t, c, Settings{}), h.URL+"/keys"
	want := func(what, kid, want string, asked int64) {
		t.Helper()
		if got := findKey(t, d, uri, kid); got != want || h.asked.Load() != asked {
			t.Fatalf("%s: %s after %d questions, want %s after %d", what, got, h.asked.Load(), want, asked)
		}
	}
	h.publishes("", "one")
	for range 3 {
		want("used", "one", "one", 1)
	}
	want("unknown", "two", "key_unknown", 1)
	h.publishes("", "one", "two")
	c.pass(30 * time.Second)
	want("unknown later", "two", "two", 2)
	want("the first", "one", "one", 2)
	h.does(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) })
	c.pass(freshness.Least)
	want("away", "two", "two", 3)
	want("away, another", "three", "keys_stale", 3)
	c.pass(staleFor)
	want("away for a day", "two", "keys_stale", 4)
	c.pass(awayFor)
	h.publishes("", "two")
	want("back", "two", "two", 5)
	// The same URL as a client's is another document.
	if got := ask(t, d, uri); got != "client_document_invalid" || h.asked.Load() != 6 {
		t.Errorf("as a document: %s after %d questions", got, h.asked.Load())
	}
	want("still", "two", "two", 6)
	c.pass(freshness.Least)
	h.publishes(`,"d":"AAAA"`, "two")
	want("a private key", "two", "client_keys_unusable", 7)
	want("just asked", "two", "client_keys_unusable", 7)
}

// TestQ202KeysAreFetchedAsDocumentsAre: its `jwks_uri` that redirects, is private, too large or slow → refused, with every bound of
// documents.
func TestQ202KeysAreFetchedAsDocumentsAre(t *testing.T) {
	elsewhere := newHost(t)
	for name, test := range map[string]struct {
		answer http.HandlerFunc
		want   string
	}{
		"redirect": {func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) }, "client_keys_unusable"},
		"html":     {func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "<html>") }, "client_keys_unusable"},
		"large": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"keys":[],"pad":"`+strings.Repeat("x", maxDocument)+`"}`)
		}, "client_keys_unusable"},
		"down": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }, "keys_not_loaded"},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHost(t)
			h.does(test.answer)
			d := open(t, newClock(), Settings{})
			if got := findKey(t, d, h.URL+"/keys", "k"); got != test.want || h.asked.Load() != 1 || elsewhere.asked.Load() != 0 {
				t.Errorf("%s after %d questions, and %d elsewhere", got, h.asked.Load(), elsewhere.asked.Load())
			}
		})
	}
	strict := New(Settings{Now: newClock().now})
	defer strict.Close()
	for uri, want := range map[string]string{
		elsewhere.URL + "/keys": "jwks_uri_refused", strings.Replace(elsewhere.URL, "http", "https", 1) + "/keys": "keys_not_loaded",
		"https://169.254.169.254/keys": "keys_not_loaded", "https://10.0.0.1/keys": "keys_not_loaded",
	} {
		if got := findKey(t, strict, uri, "k"); got != want || elsewhere.asked.Load() != 0 {
			t.Errorf("%s: %s", uri, got)
		}
	}
	h := newHost(t)
	h.publishes("", "k")
	d := open(t, newClock(), Settings{})
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if got := findKey(t, d, h.URL+"/keys", "k"); got != "k" {
				t.Error(got)
			}
		})
	}
	group.Wait()
	if h.asked.Load() != 1 {
		t.Errorf("%d fetches", h.asked.Load())
	}
}

// TestQ202StrangersKeepNobodyFromTheirKeys: a client that a user has let in gets its keys fetched beside a flood.
func TestQ202StrangersKeepNobodyFromTheirKeys(t *testing.T) {
	h := newHost(t)
	h.publishes("", "k")
	d := open(t, newClock(), Settings{})
	key := func(origin store.ClientOrigin, place, source string) error {
		_, err := d.Key(t.Context(), &store.Client{Origin: origin, ClientKeys: store.ClientKeys{JWKSURI: h.URL + place}}, source, "k", oauth.EdDSA)
		return err
	}
	for i := range mostForOne {
		if err := key(store.FromRegistration, fmt.Sprintf("/%d", i), fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := key(store.FromRegistration, "/more", "another"); oauth.AsError(err).Reason != "client_document_throttled" {
		t.Errorf("one more: %v", err)
	}
	if err := key(store.FromMetadata, "/known", "another"); err != nil {
		t.Errorf("a known client: %v", err)
	}
}
