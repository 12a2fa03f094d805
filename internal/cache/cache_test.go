package cache

import (
	"crypto/sha256"
	"fmt"
	"sync"
	"testing"
	"time"
)

// TestBounds: a cache never exceeds its maximum weight, and does not store a value that is too heavy.
func TestBounds(t *testing.T) {
	c := New[int](1000)
	for i := range 10_000 {
		c.Put(fmt.Sprint(i), i, 10)
		if n := c.Len(); n > 100 {
			t.Fatalf("%d entries", n)
		}
	}
	if value, ok := c.Get("9999"); !ok || value != 9999 {
		t.Errorf("the last one: %d, %t", value, ok)
	}
	c.Put("9999", 1, 501)
	if _, ok := c.Get("9999"); ok {
		t.Error("a value heavier than half of the cache is kept")
	}
	for i := range 10_000 { // the same key again and again takes the room of one
		c.Put("same", i, 400)
	}
	if n := c.Len(); n < 2 {
		t.Errorf("replacing a value has evicted the others: %d are left", n)
	}
}

// TestAFloodEvictsNothingInUse: keys that are used once do not evict one that is in use.
func TestAFloodEvictsNothingInUse(t *testing.T) {
	c := New[int](1000)
	c.Put("used", 1, 1)
	for i := range 10_000 {
		c.Put(fmt.Sprint(i), i, 1)
		if i%400 == 0 {
			if _, ok := c.Get("used"); !ok {
				t.Fatalf("forgotten after %d others", i)
			}
		}
	}
	for i := range 2000 {
		c.Put(fmt.Sprint("more", i), i, 1)
	}
	if _, ok := c.Get("used"); ok {
		t.Error("what is not used stays")
	}
}

// TestTimes: a value is valid from one time until another, and not before, as after the clock was set back.
func TestTimes(t *testing.T) {
	c, at := New[string](1000), time.Unix(1000, 0)
	c.PutFor("k", "v", 1, at, at.Add(time.Minute))
	for after, good := range map[time.Duration]bool{-1: false, 0: true, time.Minute - 1: true, time.Minute: false} {
		if _, ok := c.GetAt("k", at.Add(after)); ok != good {
			t.Errorf("%v later: %t", after, ok)
		}
	}
}

// TestForget: a key is removed from both generations, and a concurrent Get does not bring it back.
func TestForget(t *testing.T) {
	c := New[int](100)
	c.Put("old", 1, 40)
	c.Put("young", 2, 40)
	for _, key := range []string{"old", "young"} {
		var readers sync.WaitGroup
		for range 8 {
			readers.Go(func() { c.Get(key) })
		}
		c.Forget(key)
		readers.Wait()
		if _, ok := c.Get(key); ok {
			t.Errorf("%s is there", key)
		}
	}
	if got := c.PutIfAbsent("k", 1, 1); got != 1 {
		t.Errorf("the first is %d", got)
	}
	if got := c.PutIfAbsent("k", 2, 1); got != 1 {
		t.Errorf("the second is %d", got)
	}
}

// BenchmarkGet looks up a digest, which does not allocate.
func BenchmarkGet(b *testing.B) {
	c, digest := New[*int](1<<20), sha256.Sum256([]byte("token"))
	c.Put(string(digest[:]), new(int), 1)
	b.ReportAllocs()
	for b.Loop() {
		if _, ok := c.Get(string(digest[:])); !ok {
			b.Fatal("not found")
		}
	}
}
