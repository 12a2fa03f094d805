package grants

import (
	"context"
	"errors"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// deviceCode is the device authorization grant (RFC 8628 §3.4). The device polls until a person has decided.
type deviceCode struct{ codes }

// Answers to a poll (RFC 8628 §3.5).
var (
	errPending       = oauth.NewError(oauth.AuthorizationPending, "device_undecided")
	errTooSoon       = oauth.NewError(oauth.SlowDown, "device_polls_too_often")
	errDeviceExpired = oauth.NewError(oauth.ExpiredToken, "device_code_expired")
	errDeviceDenied  = oauth.NewError(oauth.Denied, "denied_by_user")
)

// errDecided ends a poll of an authorization that a person has decided.
var errDecided = errors.New("the device authorization is decided")

// exchange answers a poll. The order is a safeguard: nothing is revealed to another client, and a replay is detected even if the request is
// otherwise invalid.
func (g *deviceCode) exchange(ctx context.Context, client *store.Client, r Request) (issuer.Grant, error) {
	// 1. The parameters.
	if r.DeviceCode.IsEmpty() {
		return issuer.Grant{}, oauth.MissingParameter("device_code")
	}
	id, genuine := g.families.Master.ReadDeviceCode(r.DeviceCode)
	if !genuine {
		return issuer.Grant{}, codeRefused(store.Missing)
	}
	// 2. The poll. It is counted in the store, because polls of one device may meet different nodes. The record outlives neither its expiry
	// nor, if it was approved, the family.
	now := g.families.Now()
	err := g.poll(ctx, id, client, now)
	if !errors.Is(err, errDecided) && !errors.Is(err, store.ErrNotFound) {
		return issuer.Grant{}, err
	}
	// 3. The family, which an approval has added. Decided without one, it was denied.
	f, familyErr := g.families.Stored(ctx, id)
	switch {
	case familyErr != nil:
		return issuer.Grant{}, familyErr
	case f == nil && errors.Is(err, errDecided):
		return issuer.Grant{}, errDeviceDenied
	case f == nil:
		return issuer.Grant{}, errDeviceExpired
	case f.ClientID != client.ID, f.Origin != oauth.DeviceCode:
		return issuer.Grant{}, oauth.NewError(oauth.InvalidGrant, "code_of_another_client")
	}
	switch outcome := f.Redeemable(now, maxCodeFailures); outcome {
	case store.Done:
		return g.grant(ctx, client, f, nil, r.Resources)
	case store.Replayed:
		return issuer.Grant{}, g.replayed(ctx, f)
	case store.Expired:
		return issuer.Grant{}, errDeviceExpired
	default:
		return issuer.Grant{}, codeRefused(outcome)
	}
}

// poll records a poll and returns its answer, or errDecided.
func (g *deviceCode) poll(ctx context.Context, id string, client *store.Client, now time.Time) error {
	var answer error
	err := g.families.Devices.ChangeDevice(ctx, id, func(d *store.Device) error {
		switch {
		case d.ClientID != client.ID:
			return oauth.NewError(oauth.InvalidGrant, "code_of_another_client")
		case d.Decided:
			return errDecided
		case now.After(d.ExpiresAt):
			return errDeviceExpired
		}
		answer = errPending
		if !d.PolledAt.IsZero() && now.Before(d.PolledAt.Add(d.Interval)) {
			d.Interval += issuer.PollInterval
			answer = errTooSoon
		}
		d.PolledAt = now
		return nil
	})
	if err != nil {
		return err
	}
	return answer
}
