package caddymodule

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/gatehouse-auth/gatehouse/caddymodule/gate"
	"github.com/gatehouse-auth/gatehouse/caddymodule/hostpaths"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// More forgeries by somebody who can do with our key what he likes, and floods of them.

// TestG29ForgedPadding: PKCS #1 v1.5 padding forgeries → 401.
func TestG29ForgedPadding(t *testing.T) {
	g := startBoth(t, strings.Replace(site, "store memory", "store memory\n\t\tkeys {\n\t\t\talgorithm RS256\n\t\t}", 1))
	f := g.forger()
	key := f.key.(*rsa.PrivateKey)
	input := b64([]byte(f.header(nil))) + "." + b64([]byte(f.claims(nil)))
	digest := sha256.Sum256([]byte(input))
	info, _ := base64.StdEncoding.DecodeString("MDEwDQYJYIZIAWUDBAIBBQAEIA==") // DigestInfo of SHA-256
	size := key.Size()
	padded := func(kind byte, filling []byte, rest ...byte) string {
		message := append(append([]byte{0, kind}, filling...), append([]byte{0}, rest...)...)
		for len(message) < size {
			message = append(message, 0xff)
		}
		return input + "." + b64(new(big.Int).Exp(new(big.Int).SetBytes(message), key.D, key.N).FillBytes(make([]byte, size)))
	}
	ones := func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }
	full := size - 3 - len(info) - len(digest)
	right := append(slices.Clone(info), digest[:]...)
	bare := append([]byte{0x30, 0x2f, 0x30, 0x0b}, append(slices.Clone(info[4:15]), append([]byte{4, 0x20}, digest[:]...)...)...)
	g.passed(t, g.request("GET", "/any/x", bearer(g.watched(padded(1, ones(full), right...))))) // so it is the padding that counts
	g.refuseAll(t, f, map[string]string{
		"garbage behind, 8 of ff":    padded(1, ones(8), right...),
		"garbage behind, none of ff": padded(1, nil, right...),
		"one of ff less, one behind": padded(1, ones(full-1), append(slices.Clone(right), 0)...),
		"type 2":                     padded(2, ones(full), right...),
		"type 0":                     padded(0, bytes.Repeat([]byte{0}, full), right...),
		"other filling":              padded(1, bytes.Repeat([]byte{0xfe}, full), right...),
		"zero in the filling":        padded(1, append(ones(full-2), 0, 0xff), right...),
		"no DigestInfo":              padded(1, ones(size-3-len(digest)), digest[:]...),
		"no NULL in DigestInfo":      padded(1, ones(size-3-len(bare)), bare...),
		"long form of a length":      padded(1, ones(full-1), append([]byte{0x30, 0x81, 0x31}, right[2:]...)...),
		"another digest":             padded(1, ones(full), append(slices.Clone(info), make([]byte, 32)...)...),
		"signature 0":                input + "." + b64(make([]byte, size)),
		"signature 1":                input + "." + b64(append(make([]byte, size-1), 1)),
		"signature n":                input + "." + b64(key.N.FillBytes(make([]byte, size))),
		"signature plus n":           input + "." + b64(new(big.Int).Add(key.N, big.NewInt(7)).FillBytes(make([]byte, size))),
		"a byte too long":            input + "." + b64(append([]byte{0}, signatureOf(f.good())...)),
		"a byte too short":           input + "." + b64(signatureOf(f.good())[1:]),
	})
}

func signatureOf(token string) []byte {
	signature, _ := base64.RawURLEncoding.DecodeString(token[strings.LastIndexByte(token, '.')+1:])
	return signature
}

// TestG30OtherFormsOfAnEd25519Signature: Ed25519 with S + L or small-order points → 401.
func TestG30OtherFormsOfAnEd25519Signature(t *testing.T) {
	g := startBoth(t, strings.Replace(site, "store memory", "store memory\n\t\tkeys {\n\t\t\talgorithm EdDSA\n\t\t}", 1))
	f := g.forger()
	good := g.watched(f.good())
	signature := signatureOf(good)
	with := func(r, s []byte) string {
		return good[:strings.LastIndexByte(good, '.')+1] + b64(append(slices.Clone(r), s...))
	}
	order, _ := new(big.Int).SetString("7237005577332262213973186563042994240857116359379907606001950938285454250989", 10)
	s := slices.Clone(signature[32:])
	slices.Reverse(s) // it is little-endian
	over := new(big.Int).Add(new(big.Int).SetBytes(s), order).FillBytes(make([]byte, 32))
	slices.Reverse(over)
	low := make([]byte, 32)
	one := append([]byte{1}, make([]byte, 31)...)
	g.passed(t, g.request("GET", "/any/x", bearer(good)))
	g.refuseAll(t, f, map[string]string{
		"S plus L": with(signature[:32], over), "S is 0": with(signature[:32], low), "R is the neutral point": with(one, signature[32:]),
		"R and S of nothing": with(one, low), "R is not on the curve": with(bytes.Repeat([]byte{0xff}, 32), signature[32:]),
		"63 bytes": with(signature[:32], signature[32:63]), "65 bytes": with(signature, []byte{0}), "the halves swapped": with(signature[32:], signature[:32]),
		"of the key alone": with(f.key.Public().(ed25519.PublicKey), low),
	})
}

// TestG43PairsWithAKeyAndWithAnEarlierMoment: the strictest of several revocations counts, in whichever order they came.
func TestG43PairsWithAKeyAndWithAnEarlierMoment(t *testing.T) {
	now := setClock(t)
	g := startBoth(t, site)
	issue := func(name string) string {
		return g.watched(g.issue(issuer.Grant{
			Type: oauth.AuthorizationCode, Client: &store.Client{ID: "client-" + name}, Family: &store.TokenFamily{ID: "family-" + name},
			User: &store.User{ID: "user-" + name, Organisation: "org-" + name}, Scopes: oauth.Scopes{"public"},
		}))
	}
	dead := func(what, tok string) {
		t.Helper()
		header, _ := g.refused(t, g.request("GET", "/any/x", bearer(tok)), 401)
		if got := parameters(t, header)["error_description"]; got != "The access token was revoked" {
			t.Errorf("%s: %q", what, got)
		}
	}
	families := g.app().issuer.Families
	// Two moments for one name: the later one counts.
	for _, order := range [][2]time.Duration{{0, time.Minute}, {time.Minute, 0}} {
		name := "moments-" + order[0].String()
		first := issue(name)
		later := families.RevocationOf(store.RevokeUser, "user-"+name)
		for _, moment := range order {
			revocation := later
			revocation.IssuedUntil = later.IssuedUntil.Add(-moment)
			check(t, families.Revoke(context.Background(), revocation))
		}
		dead(name, first)
	}
	// A key with each other kind.
	kinds := map[string]store.RevocationKind{
		"token": store.RevokeToken, "family": store.RevokeFamily, "user": store.RevokeUser,
		"client": store.RevokeClient, "organisation": store.RevokeOrganisation,
	}
	before, after := make(map[string]string), make(map[string]string)
	claims := make(map[string]*token.AccessToken)
	for name, kind := range kinds {
		before[name], after[name] = issue("before-"+name), issue("after-"+name)
		claims[name] = g.claims(t, after[name])
		g.passed(t, g.request("GET", "/any/x", bearer(after[name])))
		g.revoke(t, g.claims(t, before[name]), kind)
		dead(name, before[name])
	}
	g.revoke(t, claims["token"], store.RevokeKey)
	now.advance(time.Second)
	for name, kind := range kinds {
		dead(name+", then the key", before[name])
		dead("the key of "+name, after[name])
		g.revoke(t, claims[name], kind)
		dead("the key, then "+name, after[name])
	}
}

// TestG81BadTokensLeaveNothing: nothing that a client sends without a good token is kept, however often it comes.
func TestG81BadTokensLeaveNothing(t *testing.T) {
	g := &gateway{gatehouse: startGatehouse(t, strings.NewReplacer("output file LOG", "output discard", "level DEBUG", "level ERROR", "\n\tlog\n", "\n").Replace(site))}
	f := g.forger()
	g.passedQuietly(t, f.good())
	p := handlers(t)[0]
	good := f.good()
	dot := strings.LastIndexByte(good, '.')
	kinds := []func(int) string{
		func(i int) string { return fmt.Sprintf("opaque-%d", i) },
		func(i int) string { return fmt.Sprintf("a%d.b.c", i) },
		func(i int) string {
			return b64([]byte(f.header(map[string]any{"kid": fmt.Sprint("k", i)}))) + good[strings.IndexByte(good, '.'):]
		},
		func(i int) string { return b64([]byte(fmt.Sprintf(`{"alg":"none","n":%d}`, i))) + ".e30." },
		func(i int) string { return good[:dot-8] + fmt.Sprintf("%08d", i) + good[dot:] },
		func(i int) string { return good[:dot+1] + fmt.Sprintf("%08d", i) + good[dot+9:] }, // as far as the signature
	}
	flood := func(n int) {
		for i := range n {
			request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, fmt.Sprintf("/any/%d", i), nil)
			request.Header.Set("Authorization", "Bearer "+kinds[i%len(kinds)](i))
			w := httptest.NewRecorder()
			request = caddyhttp.PrepareRequest(request, caddy.NewReplacer(), w, new(caddyhttp.Server))
			err := p.ServeHTTP(w, request, caddyhttp.HandlerFunc(func(http.ResponseWriter, *http.Request) error {
				t.Error("a bad token passed")
				return nil
			}))
			if err != nil || w.Code != http.StatusUnauthorized {
				t.Fatalf("%d %v", w.Code, err)
			}
		}
	}
	inUse := func() int64 {
		var memory runtime.MemStats
		runtime.GC()
		runtime.GC() // the second one takes what pools have given back at the first
		runtime.ReadMemStats(&memory)
		return int64(memory.HeapAlloc)
	}
	flood(2_000) // what is made once is there then
	verifier := g.app().node.Verifier
	remembered, before := verifier.Remembered(), inUse()
	const tokens = 30_000
	flood(tokens)
	if after := inUse(); after-before > 4<<20 {
		t.Errorf("%d bad tokens left %d KiB", tokens, (after-before)>>10)
	}
	if n := verifier.Remembered(); n > remembered {
		t.Errorf("%d tokens are remembered, %d were before", n, remembered)
	}
	g.passedQuietly(t, good)
}

// passedQuietly is passed for a gate that logs nothing.
func (g *gateway) passedQuietly(t *testing.T, token string) {
	t.Helper()
	if status, _, body := g.get("/any/x", token); status != http.StatusOK {
		t.Fatalf("%d %s", status, body)
	}
	g.upstream.one(t)
}

// handlers are the gates of the running configuration.
func handlers(t *testing.T) []*gate.Protect {
	t.Helper()
	app, err := caddy.ActiveContext().App("http")
	check(t, err)
	var found []*gate.Protect
	var walk func(caddyhttp.RouteList)
	walk = func(routes caddyhttp.RouteList) {
		for _, route := range routes {
			for _, handler := range route.Handlers {
				switch h := handler.(type) {
				case *gate.Protect:
					found = append(found, h)
				case *caddyhttp.Subroute:
					walk(h.Routes)
				case *hostpaths.Routes:
					walk(h.Behind())
				}
			}
		}
	}
	for _, server := range app.(*caddyhttp.App).Servers {
		walk(server.Routes)
	}
	if len(found) == 0 {
		t.Fatal("no protect in the running configuration")
	}
	return found
}
