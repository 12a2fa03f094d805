package token

import (
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// manyRevocations returns count revocations of tokens, all with that expiry.
func manyRevocations(count int, expires time.Time) []store.Revocation {
	list := make([]store.Revocation, count)
	for i := range list {
		list[i] = store.Revocation{Kind: store.RevokeToken, ID: "t" + strconv.Itoa(i), ExpiresAt: expires}
	}
	return list
}

// heapBytes returns the size of the live heap after a collection.
func heapBytes() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestARevocationCosts64Bytes: a hundred thousand revocations must cost little memory.
func TestARevocationCosts64Bytes(t *testing.T) {
	const count = 100_000
	before := heapBytes()
	s := NewRevocationSet()
	s.Add(manyRevocations(count, tokentest.Start.Add(time.Hour))...)
	each := float64(heapBytes()-before) / count
	if s.Len() != count || each > 64 {
		t.Errorf("%d entries of %.1f bytes", s.Len(), each)
	}
}

// TestARevocationSetGivesItsMemoryBack: a burst of revocations frees its memory when all of it has expired.
func TestARevocationSetGivesItsMemoryBack(t *testing.T) {
	s := NewRevocationSet()
	lasting := store.Revocation{Kind: store.RevokeFamily, ID: "f", ExpiresAt: tokentest.Start.Add(2 * time.Hour)}
	s.Add(lasting)
	before := heapBytes()
	s.Add(manyRevocations(200_000, tokentest.Start.Add(time.Hour))...)
	if left := s.Expire(tokentest.Start.Add(time.Hour)); left != 200_001 {
		t.Errorf("%d are left while all live", left)
	}
	if left := s.Expire(tokentest.Start.Add(time.Hour + time.Second)); left != 1 || !s.Revoked(&AccessToken{SignIn: SignIn{FamilyID: "f"}}) {
		t.Errorf("%d are left", left)
	}
	if after := heapBytes(); after > before+1<<20 {
		t.Errorf("%d bytes are kept", after-before)
	}
	runtime.KeepAlive(s)
}

// TestExpiryLosesNoRevocation: a token that is revoked again while its first revocation expires stays revoked.
func TestExpiryLosesNoRevocation(t *testing.T) {
	s := NewRevocationSet()
	const count = 2000
	s.Add(manyRevocations(count, tokentest.Start)...)
	var working sync.WaitGroup
	working.Go(func() { s.Expire(tokentest.Start.Add(time.Minute)) })
	working.Go(func() { s.Add(manyRevocations(count, tokentest.Start.Add(time.Hour))...) })
	working.Wait()
	for i := range count {
		if !s.Revoked(&AccessToken{ID: "t" + strconv.Itoa(i)}) {
			t.Fatalf("token %d is not revoked", i)
		}
	}
}
