package sqlstore

import (
	"context"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/pgtest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// TestWatchTellsVouchersFromChanges: a voucher makes nobody look for revocations and keys, which takes more questions.
func TestWatchTellsVouchersFromChanges(t *testing.T) {
	dsn := pgtest.Shared(t).Database(t)
	a, b := openPostgres(t, dsn), openPostgres(t, dsn)
	ctx, cancel := context.WithCancel(t.Context())
	changed, vouched, ended := make(chan struct{}, 100), make(chan struct{}, 100), make(chan struct{})
	go func() {
		defer close(ended)
		b.Watch(ctx, func() { changed <- struct{}{} }, func() { vouched <- struct{}{} })
	}()
	await := func(what string, heard <-chan struct{}) {
		t.Helper()
		select {
		case <-heard:
		case <-time.After(time.Minute):
			t.Fatalf("%s: nothing heard", what)
		}
	}
	await("listening began", changed)
	await("listening began", vouched)
	for i := range int64(3) {
		must(t, a.AddVoucher(t.Context(), tokenissuer.Voucher{Node: "a", Number: i + 1, At: time.Now()}, time.Now()))
		await("a voucher", vouched)
	}
	if len(changed) > 0 {
		t.Error("a voucher was told as a change")
	}
	must(t, a.Revoke(t.Context(), revocation("acme")))
	await("a revocation", changed)
	if len(vouched) > 0 {
		t.Error("a revocation was told as a voucher")
	}
	cancel()
	<-ended
}
