package store

import "time"

// Outcome is the result of a step of a token family: Done and durable, or the reason why nothing changed. The zero value comes with an
// error: the step failed, or its outcome is unknown.
type Outcome uint8

const (
	// Done means that the step was made.
	Done Outcome = iota + 1
	// Missing means that the family does not exist, never had a code, or never issued a refresh token of that generation.
	Missing
	// Replayed means that the step was made before.
	Replayed
	// Revoked means that the family has been revoked.
	Revoked
	// Expired means that the code or the family has expired.
	Expired
	// TooManyFailures means that too many wrong code verifiers were sent for the code.
	TooManyFailures
	// UserChanged means that the user, or another party that the family depends on, has changed since the family was created.
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

// Redemption is a use of an authorization code.
type Redemption struct {
	// At is the time of the redemption.
	At time.Time
	// Generation and ExpiresAt are the family's new values.
	Generation int64
	ExpiresAt  time.Time
	// MaxFailures is the number of wrong verifiers from which on a code is not redeemed.
	MaxFailures int
}

// Rotation is a use of a refresh token.
type Rotation struct {
	// At is the time of the rotation.
	At time.Time
	// By becomes RefreshState.RotatedBy.
	By string
	// Ended are revocations to record in the same step.
	Ended []Revocation
}

// Redeemable returns the outcome of RedeemCode as far as the family's record determines it. A code that was redeemed before is Replayed
// even when the family has been revoked since. A nil family is Missing.
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

// Rotatable returns the outcome of RotateRefreshToken for the token of that generation as far as the family's record determines it. A nil
// family is Missing.
func (f *TokenFamily) Rotatable(generation int64, at time.Time) Outcome {
	switch {
	case f == nil || generation > f.Refresh.Generation:
		return Missing
	case !f.RevokedAt.IsZero():
		return Revoked
	case !at.Before(f.ExpiresAt):
		return Expired
	case generation < f.Refresh.Generation:
		return Replayed
	}
	return Done
}
