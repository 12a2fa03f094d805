package store

import (
	"context"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Device is a device authorization: the request of a device without a browser, which waits for a person to decide it elsewhere (RFC 8628).
// The record contains no credentials. Approving it adds a family with its ID, whose code is the device code.
type Device struct {
	ID       string
	ClientID string
	// UserCode is a keyed digest of the user code.
	UserCode string
	Scopes   oauth.Scopes
	// Audience lists the requested resources (RFC 8707); empty: the issuer's own audience.
	Audience []string
	// Address is the network address that the device asked from.
	Address   string
	CreatedAt time.Time
	ExpiresAt time.Time
	// Interval is the minimum time between two polls.
	Interval time.Duration
	// PolledAt is when the device last polled; zero: it has not.
	PolledAt time.Time
	// Decided reports that a person has approved or denied it. AddFamily and DecideRequest with its ID set it.
	Decided bool
}

// DeviceStore stores device authorizations until they expire.
type DeviceStore interface {
	// AddDevice stores a device authorization that is not decided, if there are fewer than most others that expire after its CreatedAt.
	// Otherwise it returns false. Concurrent calls may exceed most by their number. It returns ErrTaken when another one has the id or the
	// user code.
	AddDevice(ctx context.Context, d *Device, most int) (added bool, err error)
	// DeviceByUserCode returns the device authorization with that digest, also when it is decided or has expired, or ErrNotFound.
	DeviceByUserCode(ctx context.Context, userCode string) (*Device, error)
	// ChangeDevice reads the device authorization, calls change to edit Interval and PolledAt and stores them, in one step: of concurrent
	// changes each sees the result of the one before. A Decided that change sees was durable before the call returns. When change returns
	// an error, ChangeDevice stores nothing and returns it. It may call change several times. It returns ErrNotFound when there is none.
	ChangeDevice(ctx context.Context, id string, change func(*Device) error) error
}
