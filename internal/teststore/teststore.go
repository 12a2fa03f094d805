// Package teststore opens stores for tests.
package teststore

import (
	"context"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
)

// New returns an empty store in memory for this test alone. A warning fails the test. The end of the test closes the store.
func New(tb testing.TB) *sqlstore.Store {
	tb.Helper()
	s, err := sqlstore.OpenMemory(context.Background(), sqlstore.Options{Warn: func(message string) { tb.Errorf("warning: %s", message) }})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	})
	return s
}
