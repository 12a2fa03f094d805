package issuer

import (
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Repeatable reports whether a used refresh token of that generation returns its successor again.
func Repeatable(f *store.TokenFamily, generation int64, grace time.Duration, now time.Time) bool {
	return generation == f.Refresh.Generation-1 && InGrace(f, grace, now)
}

// InGrace reports whether the newest refresh token of a family was issued within the grace period.
func InGrace(f *store.TokenFamily, grace time.Duration, now time.Time) bool {
	return grace > 0 && !now.After(f.Refresh.RotatedAt.Add(grace))
}
