package issuer

import (
	"context"
	"crypto/rand"
	"errors"
	"math/big"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// DeviceAuthorization is the response to a device (RFC 8628 §3.2).
type DeviceAuthorization struct {
	// ID is that of the authorization, and later of the family. It is no credential.
	ID         string
	DeviceCode oauth.Secret
	// UserCode is the code as people type it, such as "WDJB-MJHT".
	UserCode  oauth.Secret
	Scopes    oauth.Scopes
	ExpiresIn time.Duration
	Interval  time.Duration
}

// RequestingDevice is the device that an authorization request comes from, as the user is told about it.
type RequestingDevice struct {
	// Address is the network address that it asked from.
	Address string    `json:"address"`
	AskedAt time.Time `json:"asked_at"`
	// ExpiresAt is until when the user can decide.
	ExpiresAt time.Time `json:"expires_at"`
}

const (
	// deviceLifetime is how long a user can decide.
	deviceLifetime = 10 * time.Minute
	// PollInterval is the minimum time between two polls (RFC 8628 §3.2), and what slow_down adds to it (§3.5).
	PollInterval = 5 * time.Second
	// maxDevices bounds the device authorizations that wait for a decision.
	maxDevices = 10_000
	// userCodeLetters are the letters of user codes (RFC 8628 §6.1): no vowels, so that they form no words.
	userCodeLetters = "BCDFGHJKLMNPQRSTVWXZ"
	userCodeLength  = 8
)

// deviceLimit bounds the device authorizations that one address begins.
var deviceLimit = attempts.Limit{Failures: 60, Window: deviceLifetime}

// The wrong user codes of one person, from one address and in all. There are 20^8 codes. With 1,000 of them waiting, the 200 guesses of ten
// minutes, in which all 1,000 expire, hit one with a probability of 200 × 1,000 / 20^8, which is less than one in 100,000.
var (
	personGuesses  = attempts.Limit{Failures: 5, Window: deviceLifetime}
	addressGuesses = attempts.Limit{Failures: 20, Window: deviceLifetime}
	allGuesses     = attempts.Limit{Failures: 200, Window: deviceLifetime}
)

var (
	// ErrUserCodeWrong means that no device waits for the code, or no longer.
	ErrUserCodeWrong = oauth.NewError(oauth.InvalidGrant, "user_code_wrong")
	errDeviceExpired = oauth.NewError(oauth.InvalidRequest, "device_expired")
	errDevicesFull   = oauth.Unavailable("devices_full", nil)
)

// BeginDevice begins the authorization of a device (RFC 8628 §3.1). address is where its request comes from.
func (az *Authorizations) BeginDevice(ctx context.Context, client *store.Client, scope string, resources []string, address string) (DeviceAuthorization, error) {
	if !client.MayUse(oauth.DeviceCode) {
		return DeviceAuthorization{}, oauth.NewError(oauth.UnauthorizedClient, "grant_not_allowed")
	}
	scopes, err := az.Clients.Scopes.Grantable(heeded(scope, client), client.Scopes, oauth.AnyScope)
	if err != nil {
		return DeviceAuthorization{}, err
	}
	audience, err := az.Resources.Audience(resources, nil)
	if err != nil {
		return DeviceAuthorization{}, err
	}
	fs := az.Families
	now := fs.Now()
	if err := fs.Limits.Reserve(ctx, fs.Limits.Limited(attempts.Bucket{Name: "device\x00" + address, Limit: deviceLimit}), "device_throttled", now); err != nil {
		return DeviceAuthorization{}, oauth.AsError(err).WithDescription("Too many devices have asked from this address. Try again later.")
	}
	d := store.Device{
		ID: oauth.NewID(), ClientID: client.ID, Scopes: scopes, Audience: audience, Address: address,
		CreatedAt: now, ExpiresAt: now.Add(deviceLifetime), Interval: PollInterval,
	}
	for {
		code := newUserCode()
		d.UserCode = fs.Master.UserCodeDigest(code)
		added, err := fs.Devices.AddDevice(ctx, &d, maxDevices)
		switch {
		case errors.Is(err, store.ErrTaken): // another device has the code
			continue
		case err != nil:
			return DeviceAuthorization{}, err
		case !added:
			return DeviceAuthorization{}, errDevicesFull.WithRetryAfter(time.Minute)
		}
		return DeviceAuthorization{
			ID: d.ID, DeviceCode: fs.Master.DeviceCode(d.ID), UserCode: oauth.NewSecret(ShowUserCode(code)), Scopes: scopes,
			ExpiresIn: deviceLifetime, Interval: d.Interval,
		}, nil
	}
}

// newUserCode returns a random user code without its dash.
func newUserCode() string {
	code := make([]byte, userCodeLength)
	for i := range code {
		n, _ := rand.Int(rand.Reader, big.NewInt(int64(len(userCodeLetters)))) // never fails
		code[i] = userCodeLetters[n.Int64()]
	}
	return string(code)
}

// ReadUserCode returns the code that a person typed, in any case and with any dashes and spaces. It returns "" if it cannot be one.
func ReadUserCode(typed string) string {
	code := strings.ToUpper(strings.NewReplacer("-", "", " ", "", "\t", "").Replace(typed))
	if len(code) != userCodeLength || strings.Trim(code, userCodeLetters) != "" {
		return ""
	}
	return code
}

// ShowUserCode returns a code with its dash.
func ShowUserCode(code string) string { return code[:userCodeLength/2] + "-" + code[userCodeLength/2:] }

// FindDevice returns the request of the device whose user code a person typed, and its client. The error is ErrUserCodeWrong, rate_limited
// after too many wrong codes, or oauth.ErrDecided. Wrong codes are counted for the person, for the address and in all.
func (az *Authorizations) FindDevice(ctx context.Context, typed oauth.Secret, userID, address string) (AuthorizationRequest, *store.Client, error) {
	code := ReadUserCode(typed.Reveal())
	if code == "" { // no device has it, so nothing was guessed
		return AuthorizationRequest{}, nil, ErrUserCodeWrong
	}
	fs := az.Families
	now := fs.Now()
	forgive, err := attempts.ReserveStored(ctx, fs.Store, []attempts.Bucket{
		{Name: "user code of\x00" + userID, Limit: personGuesses}, {Name: "user code from\x00" + address, Limit: addressGuesses},
		{Name: "user code", Limit: allGuesses},
	}, "user_code_throttled", now)
	if err != nil {
		return AuthorizationRequest{}, nil, err
	}
	d, err := fs.Devices.DeviceByUserCode(ctx, fs.Master.UserCodeDigest(code))
	if errors.Is(err, store.ErrNotFound) {
		return AuthorizationRequest{}, nil, ErrUserCodeWrong
	}
	forgive()
	switch {
	case err != nil:
		return AuthorizationRequest{}, nil, err
	case d.Decided:
		return AuthorizationRequest{}, nil, oauth.ErrDecided
	case now.After(d.ExpiresAt):
		return AuthorizationRequest{}, nil, ErrUserCodeWrong
	}
	client, err := az.deviceClient(ctx, d.ClientID)
	return AuthorizationRequest{
		ID: d.ID, ClientID: d.ClientID, Scopes: d.Scopes, Audience: d.Audience, At: now.Truncate(time.Microsecond),
		Device: &RequestingDevice{Address: d.Address, AskedAt: d.CreatedAt, ExpiresAt: d.ExpiresAt},
	}, client, err
}

// deviceClient returns the client of a device, which may have been removed meanwhile.
func (az *Authorizations) deviceClient(ctx context.Context, id string) (*store.Client, error) {
	client, err := az.Families.Directory.Client(ctx, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && (client.Disabled || !client.MayUse(oauth.DeviceCode)) {
		return nil, oauth.NewError(oauth.InvalidRequest, "client_unknown").WithDescription("The client is unknown.")
	}
	return client, err
}

// hasExpired reports whether it is too late to decide. A nil device never expires.
func (d *RequestingDevice) hasExpired(now time.Time) bool { return d != nil && now.After(d.ExpiresAt) }

// origin returns the grant type of what is approved.
func (r *AuthorizationRequest) origin() oauth.GrantType {
	if r.Device != nil {
		return oauth.DeviceCode
	}
	return oauth.AuthorizationCode
}
