// Package attempts limits how many attempts, grants and revocations there may be.
package attempts

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Limit allows a number of failures, or of whatever it counts, in a window. The zero value sets no limit.
type Limit struct {
	Failures int
	Window   time.Duration
}

// Limits bound attempts, grants and revocations.
type Limits struct {
	// ClientLimit bounds failed client authentications.
	ClientLimit Limit
	// AccountLimit bounds failed sign-ins to one account, AddressLimit those from one address.
	AccountLimit, AddressLimit Limit
	// GrantLimit bounds how many families one user gets in each way, and how many tokens one admin creates for others.
	GrantLimit Limit
	// RevocationLimit bounds how many of its own tokens a client revokes one by one. Beyond it, revoking one revokes earlier ones as well.
	RevocationLimit Limit
	// Attempts counts; nil: nothing is limited.
	Attempts store.AttemptCounter
}

// Bucket is a counter of attempts, with its limit.
type Bucket struct {
	Name  string
	Limit Limit
}

// Reserve counts an attempt in every bucket before it is made, because concurrent attempts must not exceed the limit. When a bucket is
// full, it refuses the attempt without counting it. Forgive takes back a successful attempt. A bucket that is known to be full causes no
// query to a counting database, and guessing therefore does not keep it busy.
func (l *Limits) Reserve(ctx context.Context, buckets []Bucket, reason string, now time.Time) error {
	if err := l.check(ctx, buckets, reason, now); err != nil {
		return err
	}
	for i, b := range buckets {
		if n, until := l.Attempts.Fail(ctx, b.Name, b.Limit.Window, now); n > b.Limit.Failures {
			l.Forgive(ctx, buckets[:i+1], now)
			return throttled(reason, until, now)
		}
	}
	return nil
}

// ReserveStored is like Reserve for buckets that the store counts even for a single node, so that neither a restart nor a flood of other
// failures allows further attempts. It also fails when the store does. forgive takes the attempt back.
func ReserveStored(ctx context.Context, st store.AttemptStore, buckets []Bucket, reason string, now time.Time) (forgive func(), err error) {
	counted := 0
	forgive = func() {
		for _, b := range buckets[:counted] {
			_, _, _ = st.CountAttempt(context.WithoutCancel(ctx), b.Name, 0, now, -1) // otherwise it counts as a failure
		}
	}
	for _, b := range buckets {
		n, until, err := st.CountAttempt(ctx, b.Name, b.Limit.Window, now, 1)
		if err == nil {
			counted++
		}
		if err == nil && n > b.Limit.Failures {
			err = throttled(reason, until, now)
		}
		if err != nil {
			forgive()
			return nil, err
		}
	}
	return forgive, nil
}

// ReserveGrant counts what is granted to a user or by an admin, for each grant type apart, because each writes records that stay until they
// expire.
func (l *Limits) ReserveGrant(ctx context.Context, origin oauth.GrantType, userID string, now time.Time) error {
	err := l.Reserve(ctx, l.Limited(Bucket{"mint\x00" + string(origin) + "\x00" + userID, l.GrantLimit}), "mint_throttled", now)
	if err != nil {
		return oauth.AsError(err).WithDescription("Too many tokens were created. Try again later.")
	}
	return nil
}

// check returns an error when a bucket is full.
func (l *Limits) check(ctx context.Context, buckets []Bucket, reason string, now time.Time) error {
	for _, b := range buckets {
		if n, until := l.Attempts.Failures(ctx, b.Name, now); n >= b.Limit.Failures {
			return throttled(reason, until, now)
		}
	}
	return nil
}

// Forgive takes back what Reserve has counted.
func (l *Limits) Forgive(ctx context.Context, buckets []Bucket, now time.Time) {
	for _, b := range buckets {
		l.Attempts.Forgive(ctx, b.Name, now)
	}
}

// Limited returns the buckets that have a limit.
func (l *Limits) Limited(buckets ...Bucket) []Bucket {
	if l.Attempts == nil {
		return nil
	}
	kept := buckets[:0]
	for _, b := range buckets {
		if b.Limit.Failures > 0 {
			kept = append(kept, b)
		}
	}
	return kept
}

// throttled returns the refusal of an attempt until a time.
func throttled(reason string, until, now time.Time) *oauth.Error {
	e := oauth.NewError(oauth.RateLimited, reason)
	e.RetryAfter = until.Sub(now)
	return e
}

// addressFactor is the number of failures of an address as a multiple of those of one client.
const addressFactor = 10

// clientBuckets returns the buckets of a failed client authentication, in room. The first is for the address and the client id: a service
// with a stale secret locks out neither other clients at the same address nor the owner of the id elsewhere. The second is for the
// address alone, with a higher limit, and bounds how many ids can be tried. Its name is a prefix of the first one's, because every
// request pays for building them.
func (l *Limits) clientBuckets(id, address string, room *[2]Bucket) []Bucket {
	wide := l.ClientLimit
	wide.Failures *= addressFactor
	name := "client\x00" + address + "\x00" + id
	*room = [2]Bucket{{name, l.ClientLimit}, {name[:len(name)-len("\x00")-len(id)], wide}}
	return l.Limited(room[:]...)
}

// CheckClient returns an error for a client that has failed too often from an address.
func (l *Limits) CheckClient(ctx context.Context, id, address string, now time.Time) error {
	var room [2]Bucket
	return l.check(ctx, l.clientBuckets(id, address, &room), "client_throttled", now)
}

// ReserveClient counts a failure before a secret is verified that takes long to verify. forgive takes it back.
func (l *Limits) ReserveClient(ctx context.Context, id, address string, now time.Time) (forgive func(), err error) {
	buckets := l.clientBuckets(id, address, new([2]Bucket))
	if err := l.Reserve(ctx, buckets, "client_throttled", now); err != nil {
		return nil, err
	}
	return func() { l.Forgive(ctx, buckets, now) }, nil
}

// CountClientFailure counts one failure, whatever the number of readings, and returns the refusal.
func (l *Limits) CountClientFailure(ctx context.Context, id, address string, now time.Time) error {
	var room [2]Bucket
	refusal := oauth.NewError(oauth.InvalidClient, "client_authentication_failed")
	for _, b := range l.clientBuckets(id, address, &room) {
		// Concurrent requests may have passed the check before any was counted, so the count decides again.
		if n, until := l.Attempts.Fail(ctx, b.Name, b.Limit.Window, now); n > b.Limit.Failures {
			refusal = throttled("client_throttled", until, now)
		}
	}
	return refusal
}

// provedLimit bounds how often one account can prove its password, because someone who knows a password could otherwise cause unlimited
// hashing and sessions.
var provedLimit = Limit{Failures: 600, Window: time.Minute}

// ProofBuckets returns the buckets of a proved password: of the account at this address, and of the account at any address.
func (l *Limits) ProofBuckets(email, address string) []Bucket {
	if l.AccountLimit.Failures == 0 {
		return nil
	}
	return l.Limited(Bucket{"proved\x00" + email + "\x00" + address, provedLimit}, Bucket{"proved\x00" + email, provedLimit})
}

// CheckProofs returns an error for an account that has been proved too often, before anything is hashed. It does so only for an address
// that has proved the account itself: to others the error would reveal that the account exists.
func (l *Limits) CheckProofs(ctx context.Context, proofs []Bucket, now time.Time) error {
	if !l.HasProved(ctx, proofs, now) {
		return nil
	}
	return l.check(ctx, proofs, "sign_in_throttled", now)
}

// CountProof counts that the account was proved.
func (l *Limits) CountProof(ctx context.Context, proofs []Bucket, now time.Time) {
	for _, b := range proofs {
		l.Attempts.Fail(ctx, b.Name, b.Limit.Window, now)
	}
}

// HasProved reports whether the address has proved the account's password lately.
func (l *Limits) HasProved(ctx context.Context, proofs []Bucket, now time.Time) bool {
	if len(proofs) == 0 {
		return false
	}
	n, _ := l.Attempts.Failures(ctx, proofs[0].Name, now)
	return n > 0
}

// PersonBuckets returns the buckets of a sign-in for which an external directory has found a person, who may have many names there.
func (l *Limits) PersonBuckets(provider, subject, device string) []Bucket {
	return l.Limited(Bucket{"person\x00" + provider + "\x00" + subject + "\x00" + device, l.AccountLimit})
}

// SignInBuckets returns the buckets of a sign-in, for the account and for the address.
func (l *Limits) SignInBuckets(email, device, from string) (account, address []Bucket) {
	if email != "" {
		name := "account\x00" + email
		if device != "" {
			name += "\x00" + device
		}
		account = l.Limited(Bucket{name, l.AccountLimit})
	}
	return account, l.Limited(Bucket{"sign-in\x00" + from, l.AddressLimit})
}

// The limits of letters that people ask for without being signed in. They hold for an address whether or not it has an account.
var (
	letterLimit  = Limit{Failures: 3, Window: time.Hour}
	lettersLimit = Limit{Failures: 20, Window: time.Hour}
)

// ReserveLetter counts a letter to an address, which was asked for from a network.
func (l *Limits) ReserveLetter(ctx context.Context, email, from string, now time.Time) error {
	return l.Reserve(ctx, l.Limited(Bucket{"letters\x00" + from, lettersLimit}, Bucket{"letter\x00" + email, letterLimit}), "letter_throttled", now)
}
