package sqlstore

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// filled returns a store with a thousand clients.
func filled(b *testing.B) *Store {
	s := openAt(b, diskPath(b))
	for i := range 1000 {
		addClient(b, s, fmt.Sprint("app ", i))
	}
	return s
}

func BenchmarkClient(b *testing.B) {
	s := filled(b)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if _, err := s.Clients.Client(b.Context(), fmt.Sprint("app ", i%1000)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientUnknown(b *testing.B) {
	s := filled(b)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Clients.Client(b.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
			b.Fatal(err)
		}
	}
}

func BenchmarkClientParallel(b *testing.B) {
	s := filled(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if _, err := s.Clients.Client(b.Context(), fmt.Sprint("app ", i%1000)); err != nil {
				b.Error(err)
			}
		}
	})
}

func BenchmarkAddClient(b *testing.B) {
	s := openAt(b, diskPath(b))
	for i := 0; b.Loop(); i++ {
		addClient(b, s, fmt.Sprint("app ", i))
	}
}

func BenchmarkRevoke(b *testing.B) {
	s := openAt(b, diskPath(b))
	for i := 0; b.Loop(); i++ {
		must(b, s.Revocations.Revoke(b.Context(), revocation(fmt.Sprint("app ", i))))
	}
}

// BenchmarkRevocationsNothingNew measures the poll of a node that is up to date.
func BenchmarkRevocationsNothingNew(b *testing.B) {
	s := openAt(b, diskPath(b))
	must(b, s.Revocations.Revoke(b.Context(), revocation("app")))
	for b.Loop() {
		if _, _, err := s.Revocations.Revocations(b.Context(), store.FeedPosition{At: 1, End: 1}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkOpen(b *testing.B) {
	path := diskPath(b)
	s := openAt(b, path)
	for i := range 1000 {
		addClient(b, s, fmt.Sprint("app ", i))
	}
	must(b, s.Close())
	for b.Loop() {
		s, err := OpenSQLite(b.Context(), path, Options{})
		must(b, err)
		must(b, s.Close())
	}
}
