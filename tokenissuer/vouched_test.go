package tokenissuer

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

// numbered returns a digest for each number.
func numbered(n int) [sha256.Size]byte {
	return sha256.Sum256(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// TestVouchedTokensAreBounded: whatever comes, the oldest leave, nothing else does, and the memory stays as it is.
func TestVouchedTokensAreBounded(t *testing.T) {
	var r digestRing
	if held, bytes := r.size(); held != 0 || bytes != 0 || r.has(numbered(0)) {
		t.Fatalf("an empty one holds %d in %d bytes", held, bytes)
	}
	const first, later = maxVouched, maxVouched/2 + 3
	for i := range first {
		r.add(numbered(i))
	}
	for range 3 { // what is there already pushes nothing out
		for _, n := range []int{5, first - 1, 5} {
			r.add(numbered(n))
		}
	}
	for i := range first {
		if !r.has(numbered(i)) {
			t.Fatalf("%d of %d has left", i, first)
		}
	}
	for i := first; i < first+later; i++ {
		r.add(numbered(i))
	}
	for i := range first + later {
		if got, want := r.has(numbered(i)), i >= later; got != want {
			t.Fatalf("of %d, number %d is there: %v", first+later, i, got)
		}
	}
	if held, bytes := r.size(); held != maxVouched || bytes != 40*maxVouched {
		t.Errorf("it holds %d in %d bytes", held, bytes)
	}
	linked := 0
	for _, place := range r.newest {
		for ; place != 0; place = r.older[place-1] {
			linked++
		}
	}
	if linked != maxVouched {
		t.Errorf("%d digests are in chains", linked)
	}
}

// TestAllThatIsIssuedIsVouchedFor: tokens of every grant, and those for upstreams, whether or not the cache has room.
func TestAllThatIsIssuedIsVouchedFor(t *testing.T) {
	a := assertingAuthority(t)
	tokens := NewVouchedTokens()
	a.verifier.VouchBy(tokens)
	issued := 0
	check := func(name, token string) {
		t.Helper()
		issued++
		if !tokens.ring.has(digestOf(token)) {
			t.Errorf("%s: it is not vouched for", name)
		}
	}
	var last Tokens
	for _, by := range []GrantType{ClientCredentials, AuthorizationCode, RefreshTokenGrant, PasswordGrant, AdminCreated, BrowserSession} {
		g := Grant{Type: by, Client: a.client("conf"), Scopes: Scopes{ScopePublic}}
		if by != ClientCredentials {
			g.User, g.FamilyID, g.AuthTime = &User{ID: "ada"}, "family", a.gate.Now()
		}
		var err error
		if last, err = a.Issue(g); err != nil {
			t.Fatal(err)
		}
		check(string(by), last.AccessToken.Reveal())
	}
	swapped := a.swapFor(t, Swapping{Shown: last.AccessToken, Token: last.Claims, Audience: ordersAudience})
	check("swapped", swapped)
	// What it says is read as ever, and no signature is verified.
	read, err := a.verifier.VerifyAdmitted(swapped, []string{ordersAudience}, func() (func(bool), error) {
		t.Error("a signature of our own is to be verified")
		return func(bool) {}, nil
	})
	if err != nil || !read.IsSwapped() {
		t.Errorf("%+v, %v", read, err)
	}
	if s := tokens.Status(); s.Held != issued || s.Spared != 1 {
		t.Errorf("%+v after %d tokens", s, issued)
	}
}

// TestK14NoTwoVouchersHaveOneMAC, wherever the one part ends and the next begins.
func TestK14NoTwoVouchersHaveOneMAC(t *testing.T) {
	master := testMaster(t)
	d := numbered(1)
	long := slices.Concat(d[:], d[:])
	shifted := Voucher{Issuer: "https://a", Node: "b" + string(make([]byte, 7)) + "\x01" + string(d[:8]), Digests: long[24:]}
	shifted.Number, shifted.At = int64(binary.BigEndian.Uint64(d[8:])), time.UnixMicro(int64(binary.BigEndian.Uint64(d[16:])))
	made := make(map[string]int)
	for i, v := range []Voucher{
		{Issuer: "https://a", Node: "b", Number: 1, At: time.UnixMicro(int64(binary.BigEndian.Uint64(d[:]))), Digests: long[8:]},
		shifted,
		{Issuer: "https://ab", Node: "", Number: 1, Digests: long}, {Issuer: "https://", Node: "ab", Number: 1, Digests: long},
		{Issuer: "https://a", Node: "b", Number: 1, Digests: long}, {Issuer: "https://a", Node: "b", Number: 1, Digests: long[32:]},
	} {
		mac := string(master.vouch(&v))
		if other, there := made[mac]; there {
			t.Errorf("vouchers %d and %d have one MAC", other, i)
		}
		made[mac] = i
	}
}

// BenchmarkFirstSight is what a token of our own issuer costs that the cache does not know.
func BenchmarkFirstSight(b *testing.B) {
	for _, alg := range allAlgorithms {
		for _, vouched := range []bool{false, true} {
			name := string(alg) + "/verified"
			if vouched {
				name = string(alg) + "/vouched"
			}
			b.Run(name, func(b *testing.B) {
				g := newGate(b)
				key := g.signing[alg]
				token := forge(key, header(key), g.claims())
				digest := digestOf(token)
				tokens := NewVouchedTokens()
				for i := range maxVouched {
					tokens.ring.add(numbered(i))
				}
				if vouched {
					tokens.ring.add(digest)
				}
				g.verifier.VouchBy(tokens)
				b.ReportAllocs()
				for b.Loop() {
					g.verifier.cache.drop(digest)
					if _, err := g.verifier.Verify(token, g.audiences); err != nil {
						b.Fatal(err)
					}
				}
				if spared := tokens.Status().Spared; vouched != (spared > 0) {
					b.Errorf("%d signatures were spared", spared)
				}
			})
		}
	}
}

// BenchmarkSigned is what it costs to take note of a token that was signed, alone and with siblings who are told.
func BenchmarkSigned(b *testing.B) {
	for name, open := range map[string]bool{"alone": false, "told": true} {
		b.Run(name, func(b *testing.B) {
			tokens := NewVouchedTokens()
			tokens.outbox.setOpen(open)
			digests := make([][sha256.Size]byte, 2*maxVouched)
			for i := range digests {
				digests[i] = numbered(i)
				tokens.ring.add(digests[i])
			}
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				tokens.signed(digests[i%len(digests)])
				if i++; i%1000 == 0 {
					tokens.outbox.take(maxWaiting)
				}
			}
		})
	}
}

// BenchmarkVoucher is what a thousand tokens cost who tells of them and who hears.
func BenchmarkVoucher(b *testing.B) {
	master, err := newMasterKey(make([]byte, masterKeyBytes))
	if err != nil {
		b.Fatal(err)
	}
	v := Voucher{Node: "a", Issuer: testIssuer, At: testStart, Digests: make([]byte, 1000*sha256.Size)}
	for i := range 1000 {
		d := numbered(i)
		copy(v.Digests[i*sha256.Size:], d[:])
	}
	b.Run("made", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			v.MAC = master.vouch(&v)
		}
	})
	b.Run("taken", func(b *testing.B) {
		s := &Siblings{Master: master, Tokens: NewVouchedTokens(), seen: make(map[string]sibling)}
		b.ReportAllocs()
		for b.Loop() {
			v.Number++
			v.MAC = master.vouch(&v)
			if err := s.take(&v, testStart.Add(time.Second)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
