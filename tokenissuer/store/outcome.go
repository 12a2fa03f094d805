package store

import "time"

// Outcome is what a step of a token family comes to: it is done and durable, or the reason why nothing happened. The zero value
// comes with an error: the step failed, or its outcome is unknown.
type Outcome uint8

const (
	// Done says that the step has happened.
	Done Outcome = iota + 1
	// Missing says that there is no such family, it never had a code, or the refresh token of that generation was never issued.
	Missing
	// Replayed says that the step was taken before.
	Replayed
	// Revoked says that the family was ended.
	Revoked
	// Expired says that the code or the family has expired.
	Expired
	// TooManyFailures says that the code has had too many wrong verifiers.
	TooManyFailures
	// UserChanged says that the user, or another party on which the family depends, has changed since the family was granted.
	UserChanged
)

// String returns the outcome in words.
func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Missing:
		return "missing"
	case Replayed:
		return "replayed"
	case Revoked:
		return "revoked"
	case Expired:
		return "expired"
	case TooManyFailures:
		return "too many failures"
	case UserChanged:
		return "user changed"
	}
	return "unknown"
}

// Redemption is the use of an authorization code.
type Redemption struct {
	// At is when it is used.
	At time.Time
	// Generation and ExpiresAt are those that the family has from then on.
	Generation int64
	ExpiresAt  time.Time
	// MaxFailures is how many wrong verifiers a code has at least that is not redeemed.
	MaxFailures int
}

// Rotation is the use of a refresh token.
type Rotation struct {
	// At is when it is used.
	At time.Time
	// By is for TokenFamily.RotatedBy.
	By string
	// Ended is recorded in the same step.
	Ended []Revocation
}

// Redeemable returns what RedeemCode comes to as far as the family's record says: Done unless something speaks against it. That a
// code was redeemed before counts more than what has become of the family since. A nil family is Missing.
func (f *TokenFamily) Redeemable(at time.Time, maxFailures int) Outcome {
	switch {
	case f == nil || f.Code.ExpiresAt.IsZero():
		return Missing
	case !f.Code.SpentAt.IsZero():
		return Replayed
	case !f.RevokedAt.IsZero():
		return Revoked
	case at.After(f.Code.ExpiresAt):
		return Expired
	case f.Code.Failures >= maxFailures:
		return TooManyFailures
	}
	return Done
}

// Rotatable returns what RotateRefreshToken comes to for the token of that generation as far as the family's record says: Done
// unless something speaks against it. A nil family is Missing.
func (f *TokenFamily) Rotatable(generation int64, at time.Time) Outcome {
	switch {
	case f == nil || generation > f.Generation:
		return Missing
	case !f.RevokedAt.IsZero():
		return Revoked
	case !at.Before(f.ExpiresAt):
		return Expired
	case generation < f.Generation:
		return Replayed
	}
	return Done
}
