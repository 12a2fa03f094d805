package grants_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

const tvAddress = "198.51.100.7"

// begin begins the authorization of a device.
func (f *flow) begin(clientID, scope string) issuer.DeviceAuthorization {
	f.tb.Helper()
	d, err := f.BeginDevice(f.tb.Context(), f.client(clientID), scope, nil, tvAddress)
	f.must(err)
	return d
}

// poll asks the token endpoint for the device's tokens.
func (f *flow) poll(s *Server, clientID string, d issuer.DeviceAuthorization) (issuer.Tokens, error) {
	f.tb.Helper()
	tokens, _, err := s.Exchange(f.tb.Context(), Request{GrantType: oauth.DeviceCode, Client: f.credentials(clientID), DeviceCode: d.DeviceCode})
	return tokens, err
}

// found returns the request of a device whose code ada has typed.
func (f *flow) found(d issuer.DeviceAuthorization) issuer.AuthorizationRequest {
	f.tb.Helper()
	r, _, err := f.FindDevice(f.tb.Context(), d.UserCode, "u-ada", "192.0.2.1")
	f.must(err)
	return r
}

// allow approves a device in a session, as the consent page does.
func (f *flow) allow(d issuer.DeviceAuthorization, s *signin.Session) error {
	f.tb.Helper()
	r := f.found(d)
	_, err := f.Approve(f.tb.Context(), &r, f.client(r.ClientID), s, r.Scopes)
	return err
}

// TestD1ADeviceGetsTokensOnceItIsAllowed: a device asks, a person types its code and allows it → authorization_pending until then, and then
// tokens for that person with the scopes, and a refresh token for a client that may have one.
func TestD1ADeviceGetsTokensOnceItIsAllowed(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "public trusted")
	if d.ExpiresIn != 10*time.Minute || d.Interval != 5*time.Second || len(d.UserCode.Reveal()) != 9 {
		t.Errorf("expires in %v, interval %v, user code %q", d.ExpiresIn, d.Interval, d.UserCode.Reveal())
	}
	_, err := f.poll(f.Server, "tv", d)
	wantReason(t, err, oauth.AuthorizationPending, "device_undecided")
	r := f.found(d)
	if r.Device == nil || r.Device.Address != tvAddress || !r.Device.AskedAt.Equal(f.clock()) {
		t.Errorf("the page would tell of %+v", r.Device)
	}
	f.must(f.allow(d, f.session("ada")))
	f.wait(5 * time.Second)
	tokens, err := f.poll(f.Server, "tv", d)
	f.must(err)
	sameScopes(t, tokens.Scopes, "public", "trusted")
	f.alive(tokens)
	if tokens.Claims.Subject != "u-ada" || tokens.Claims.ClientID != "tv" || tokens.RefreshToken.IsEmpty() || tokens.ExpiresIn != 6*time.Hour {
		t.Errorf("subject %s, client %s, expires in %v, refresh token %t", tokens.Claims.Subject, tokens.Claims.ClientID, tokens.ExpiresIn, !tokens.RefreshToken.IsEmpty())
	}
	again, err := f.refresh("tv", tokens.RefreshToken)
	f.must(err)
	f.alive(again)
	f.ended(people.Accounts{Sessions: f.Server.Sessions}.RevokeApplication(t.Context(), f.user("ada"), "tv"))
	f.dead(again)
}

// TestD2AUserCodeIsReadAsPeopleTypeIt: a user code in any case, with or without dash and spaces → the device; letters that no code has, too
// few or too many → no device, and no guess is counted.
func TestD2AUserCodeIsReadAsPeopleTypeIt(t *testing.T) {
	f := newFlow(t)
	code := f.begin("tv", "").UserCode.Reveal()
	if left, right, ok := strings.Cut(code, "-"); !ok || len(left) != 4 || len(right) != 4 || strings.Trim(left+right, "BCDFGHJKLMNPQRSTVWXZ") != "" {
		t.Errorf("user code %q", code)
	}
	for _, typed := range []string{code, strings.ToLower(code), strings.ReplaceAll(code, "-", ""), " " + strings.ReplaceAll(code, "-", " ") + " ", code[:2] + "-" + code[2:]} {
		if _, _, err := f.FindDevice(t.Context(), oauth.NewSecret(typed), "u-ada", "192.0.2.1"); err != nil {
			t.Errorf("%q: %v", typed, err)
		}
	}
	for range 10 {
		for _, typed := range []string{"", "AEIO-UAEI", code[:8], code + "B", "0000-0000", "BCDF_GHJK", "\x00"} {
			_, _, err := f.FindDevice(t.Context(), oauth.NewSecret(typed), "u-ada", "192.0.2.1")
			if !errors.Is(err, issuer.ErrUserCodeWrong) {
				t.Errorf("%q: %v", typed, err)
			}
		}
	}
}

// TestD3GuessesArePerPersonPerAddressAndInAll: wrong codes by one person, from one address, or by many people at many addresses → refused
// after 5, 20 and 200 in ten minutes, on every node, for the right code too; after the window → judged again. A right code costs no guess.
func TestD3GuessesArePerPersonPerAddressAndInAll(t *testing.T) {
	for _, row := range []struct {
		name string
		most int
		who  func(i int) (person, address string)
	}{
		{"person", 5, func(i int) (string, string) { return "u-eve", fmt.Sprint("192.0.2.", i) }},
		{"address", 20, func(i int) (string, string) { return fmt.Sprint("u-", i), "192.0.2.1" }},
		{"in all", 200, func(i int) (string, string) { return fmt.Sprint("u-", i), fmt.Sprint("192.0.2.", i) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			f := newFlow(t)
			d := f.begin("tv", "")
			other := f.node()
			try := func(i int, code oauth.Secret) error {
				person, address := row.who(i)
				s := []*Server{f.Server, other}[i%2]
				_, _, err := s.FindDevice(t.Context(), code, person, address)
				return err
			}
			for i := range row.most {
				if i%5 == 0 {
					f.must(try(i, d.UserCode))
				}
				if err := try(i, oauth.NewSecret("BBBB-BBBB")); !errors.Is(err, issuer.ErrUserCodeWrong) {
					t.Fatalf("guess %d: %v", i, err)
				}
			}
			for i := range 4 {
				wantReason(t, try(row.most+i, d.UserCode), oauth.RateLimited, "user_code_throttled")
			}
			f.wait(10*time.Minute + time.Second)
			d = f.begin("tv", "")
			f.must(try(0, d.UserCode))
		})
	}
}

// TestD4PollingTooFast: a poll sooner than the interval → slow_down, and the interval is 5 s longer, on every node; a poll after it →
// authorization_pending.
func TestD4PollingTooFast(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "")
	nodes := []*Server{f.Server, f.node()}
	for i, row := range []struct {
		wait time.Duration
		code oauth.ErrorCode
	}{
		{0, oauth.AuthorizationPending}, {5 * time.Second, oauth.AuthorizationPending}, {4 * time.Second, oauth.SlowDown},
		{9 * time.Second, oauth.SlowDown}, {15 * time.Second, oauth.AuthorizationPending}, {0, oauth.SlowDown}, {20 * time.Second, oauth.AuthorizationPending},
	} {
		f.wait(row.wait)
		if _, err := f.poll(nodes[i%2], "tv", d); oauth.AsError(err).Code != row.code {
			t.Errorf("poll %d: %v, want %s", i, err, row.code)
		}
	}
}

// TestD5AnotherClientsDeviceCode: a device code with another client, forged, or as another credential → invalid_grant whatever its state, and
// nothing else happens; an authorization code for the device code's grant, or the reverse → invalid_grant.
func TestD5AnotherClientsDeviceCode(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "")
	_, err := f.poll(f.Server, "set-top", d)
	wantReason(t, err, oauth.InvalidGrant, "code_of_another_client")
	f.must(f.allow(d, f.session("ada")))
	_, err = f.poll(f.Server, "set-top", d)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	text := d.DeviceCode.Reveal()
	for _, forged := range []string{text[:len(text)-1], text + "0", strings.Repeat("A", len(text)), f.Families.Master.Code(d.ID).Reveal(), d.UserCode.Reveal()} {
		_, err = f.poll(f.Server, "tv", issuer.DeviceAuthorization{DeviceCode: oauth.NewSecret(forged)})
		wantReason(t, err, oauth.InvalidGrant, "code_unknown")
	}
	for _, code := range []oauth.Secret{d.DeviceCode, f.Families.Master.Code(d.ID)} {
		_, err = f.redeem("conf", code)
		tokentest.WantCode(t, err, oauth.InvalidGrant)
	}
	tokens, err := f.poll(f.Server, "tv", d)
	f.must(err)
	f.alive(tokens)
	_, err = f.poll(f.Server, "set-top", d) // after the redemption, too
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	f.alive(tokens)
}

// TestD6ADeviceCodeUsedTwice: a device code redeemed again, also after its record is gone → invalid_grant, and the family ends; redeemed at
// two nodes at once → one gets tokens.
func TestD6ADeviceCodeUsedTwice(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "")
	f.must(f.allow(d, f.session("ada")))
	tokens, err := f.poll(f.Server, "tv", d)
	f.must(err)
	f.wait(time.Hour)
	_, err = f.store.Housekeeping.Drop(t.Context(), store.ExpiringAttempts, f.clock())
	f.must(err)
	_, err = f.poll(f.Server, "tv", d)
	wantReason(t, err, oauth.InvalidGrant, oauth.ErrCodeReplayed.Reason)
	f.dead(tokens)

	d = f.begin("tv", "")
	f.must(f.allow(d, f.session("ada")))
	nodes := []*Server{f.Server, f.node()}
	errs := tokentest.Together(2, func(i int) error {
		_, err := f.poll(nodes[i], "tv", d)
		return err
	})
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("redeemed at two nodes: %v", errs)
	}
}

// TestD7ADeniedDevice: a person denies → access_denied at every poll, and no family; denied or allowed before → the second decision is
// refused, in whichever tab.
func TestD7ADeniedDevice(t *testing.T) {
	f := newFlow(t)
	d, session := f.begin("tv", ""), f.session("ada")
	r := f.found(d)
	tokentest.WantCode(t, f.Deny(t.Context(), &r, session), oauth.Denied)
	for range 2 {
		_, err := f.poll(f.Server, "tv", d)
		wantReason(t, err, oauth.DeviceDenied, "denied_by_user")
	}
	_, err := f.Approve(t.Context(), &r, f.client("tv"), session, r.Scopes)
	wantReason(t, err, oauth.InvalidRequest, oauth.ErrDecided.Reason)
	_, _, err = f.FindDevice(t.Context(), d.UserCode, "u-ada", "192.0.2.1")
	wantReason(t, err, oauth.InvalidRequest, oauth.ErrDecided.Reason)

	d = f.begin("tv", "")
	r = f.found(d)
	f.must(f.allow(d, session))
	wantReason(t, f.Deny(t.Context(), &r, session), oauth.InvalidRequest, oauth.ErrDecided.Reason)
	_, err = f.poll(f.Server, "tv", d)
	f.must(err)
}

// TestD8TwoTabsDecideAtOnce: one tab allows and another denies, at two nodes → exactly one decides, and the device gets that answer.
func TestD8TwoTabsDecideAtOnce(t *testing.T) {
	f := newFlow(t)
	other, session := f.node(), f.session("ada")
	for range 20 {
		d := f.begin("tv", "")
		allowed, denied := f.found(d), f.found(d)
		errs := tokentest.Together(2, func(i int) error {
			if i == 0 {
				_, err := f.Approve(t.Context(), &allowed, f.client("tv"), session, allowed.Scopes)
				return err
			}
			return other.Deny(t.Context(), &denied, session)
		})
		_, err := f.poll(other, "tv", d)
		switch {
		case errs[0] == nil && errors.Is(errs[1], oauth.ErrDecided) && err == nil:
		case errors.Is(errs[0], oauth.ErrDecided) && oauth.AsError(errs[1]).Code == oauth.Denied && oauth.AsError(err).Code == oauth.DeviceDenied:
		default:
			t.Fatalf("allow: %v, deny: %v, the device: %v", errs[0], errs[1], err)
		}
	}
}

// TestD9ADeviceExpires: no decision in ten minutes, or the device is gone → expired_token, also once the record is dropped; in the middle of
// consent → the approval is refused; allowed and not redeemed in time → expired_token.
func TestD9ADeviceExpires(t *testing.T) {
	f := newFlow(t)
	d, late := f.begin("tv", ""), f.begin("tv", "")
	r := f.found(d)
	f.must(f.allow(late, f.session("ada")))
	f.wait(10*time.Minute + time.Microsecond)
	for _, expired := range []issuer.DeviceAuthorization{d, late} {
		_, err := f.poll(f.Server, "tv", expired)
		wantReason(t, err, oauth.ExpiredToken, "device_code_expired")
	}
	_, err := f.Approve(t.Context(), &r, f.client("tv"), f.session("ada"), r.Scopes)
	wantReason(t, err, oauth.InvalidRequest, "device_expired")
	_, _, err = f.FindDevice(t.Context(), d.UserCode, "u-ada", "192.0.2.1")
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	_, err = f.store.Housekeeping.Drop(t.Context(), store.ExpiringAttempts, f.clock())
	f.must(err)
	_, err = f.poll(f.Server, "tv", d)
	wantReason(t, err, oauth.ExpiredToken, "device_code_expired")
}

// TestD10OnlyClientsWithTheGrant: a client without the grant → unauthorized_client at both endpoints; one that loses it or is disabled
// meanwhile → nobody can allow its device, and it gets nothing.
func TestD10OnlyClientsWithTheGrant(t *testing.T) {
	f := newFlow(t)
	_, err := f.BeginDevice(t.Context(), f.client("conf"), "", nil, tvAddress)
	wantReason(t, err, oauth.UnauthorizedClient, "grant_not_allowed")
	d := f.begin("tv", "")
	_, err = f.poll(f.Server, "conf", d)
	wantReason(t, err, oauth.UnauthorizedClient, "grant_not_allowed")
	f.must(f.store.Clients.ChangeClient(t.Context(), "tv", store.ClientChange{Edit: func(c *store.Client) error { c.Disabled = true; return nil }}))
	_, _, err = f.FindDevice(t.Context(), d.UserCode, "u-ada", "192.0.2.1")
	wantReason(t, err, oauth.InvalidRequest, "client_unknown")
	_, err = f.poll(f.node(), "tv", d)
	tokentest.WantCode(t, err, oauth.InvalidClient)
}

// TestD11ScopesOfADevice: a scope that the client may not have, or none knows → invalid_scope; no scope → public; the person declines one →
// it is not granted.
func TestD11ScopesOfADevice(t *testing.T) {
	f := newFlow(t)
	for _, wide := range []string{"reports", "nonsense", "public%2Btrusted"} {
		_, err := f.BeginDevice(t.Context(), f.client("tv"), wide, nil, tvAddress)
		tokentest.WantCode(t, err, oauth.InvalidScope)
	}
	sameScopes(t, f.begin("tv", "").Scopes, "public")
	d := f.begin("tv", "public trusted")
	r := f.found(d)
	_, err := f.Approve(t.Context(), &r, f.client("tv"), f.session("ada"), oauth.Scopes{"public", "refresh_token"})
	f.must(err)
	tokens, err := f.poll(f.Server, "tv", d)
	f.must(err)
	sameScopes(t, tokens.Scopes, "public")
}

// TestD12EveryDeviceIsAskedAbout: a first-party application, or one that the person has allowed before → the person is asked, with the
// device's address; nobody's earlier consent grants a device's request.
func TestD12EveryDeviceIsAskedAbout(t *testing.T) {
	f := newFlow(t)
	session := f.session("ada")
	for range 2 {
		d := f.begin("set-top", "")
		r := f.found(d)
		step, err := f.NextStep(t.Context(), &r, f.client("set-top"), session)
		if f.must(err); step != issuer.AskConsent {
			t.Fatalf("step %d", step)
		}
		f.must(f.allow(d, session))
	}
	if _, err := f.store.Families.Consent(t.Context(), "u-ada", "set-top"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a consent is kept: %v", err)
	}
}

// TestD13TheUserChangesMeanwhile: the user is disabled, or the session has ended, between the decision and the poll, or before the decision →
// invalid_grant, and no tokens.
func TestD13TheUserChangesMeanwhile(t *testing.T) {
	f := newFlow(t)
	d, before := f.begin("tv", ""), f.begin("tv", "")
	session := f.session("mia")
	f.must(f.allow(d, session))
	_, err := f.store.Users.ChangeUser(t.Context(), "u-mia", store.UserChange{Edit: func(u *store.User) error { u.Status = store.UserDisabled; return nil }}, f.Families.Ending())
	f.must(err)
	_, err = f.poll(f.Server, "tv", d)
	tokentest.WantCode(t, err, oauth.InvalidGrant)
	tokentest.WantCode(t, f.allow(before, session), oauth.InvalidGrant)
	_, err = f.poll(f.Server, "tv", before)
	tokentest.WantCode(t, err, oauth.AuthorizationPending)
}

// TestD14TheStoreIsAway: the store fails in any step of a device's authorization → temporarily_unavailable, never a grant or a denial; the next
// attempt goes on where the last one stopped.
func TestD14TheStoreIsAway(t *testing.T) {
	f := newFlow(t)
	session := f.session("ada")
	away := func(step string, do func() error) {
		t.Helper()
		f.store.fail(step, false)
		tokentest.WantCode(t, do(), oauth.TemporarilyUnavailable)
		f.store.fail("", false)
	}
	away("AddDevice", func() error { _, err := f.BeginDevice(t.Context(), f.client("tv"), "", nil, tvAddress); return err })
	d := f.begin("tv", "")
	poll := func() error { _, err := f.poll(f.Server, "tv", d); return err }
	away("ChangeDevice", poll)
	tokentest.WantCode(t, poll(), oauth.AuthorizationPending)
	for range 10 { // it costs no guess
		away("DeviceByUserCode", func() error { _, _, err := f.FindDevice(t.Context(), d.UserCode, "u-ada", "192.0.2.1"); return err })
	}
	r := f.found(d)
	away("AddFamily", func() error {
		_, err := f.Approve(t.Context(), &r, f.client("tv"), session, r.Scopes)
		return err
	})
	away("DecideRequest", func() error { return f.Deny(t.Context(), &r, session) })
	f.must(f.allow(d, session))
	away("Family", poll)
	away("RedeemCode", poll)
	f.must(poll())
}

// TestD15DevicesAreBounded: more than 60 devices from one address in ten minutes → rate_limited there, and not elsewhere.
func TestD15DevicesAreBounded(t *testing.T) {
	f := newFlow(t)
	for range 60 {
		f.begin("tv", "")
	}
	_, err := f.BeginDevice(t.Context(), f.client("tv"), "", nil, tvAddress)
	wantReason(t, err, oauth.RateLimited, "device_throttled")
	_, err = f.BeginDevice(t.Context(), f.client("tv"), "", nil, "203.0.113.5")
	f.must(err)
	f.wait(10*time.Minute + time.Second)
	f.begin("tv", "")
}

// TestD16NoCredentialIsStored: a device authorization in the store → neither the device code nor the user code is in its record, and its user
// code's digest is keyed.
func TestD16NoCredentialIsStored(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "")
	code := strings.ReplaceAll(d.UserCode.Reveal(), "-", "")
	row, err := f.store.Devices.DeviceByUserCode(t.Context(), f.Families.Master.UserCodeDigest(code))
	f.must(err)
	text := fmt.Sprintf("%+v", *row)
	for _, secret := range []string{d.DeviceCode.Reveal(), code, d.UserCode.Reveal()} {
		if strings.Contains(text, secret) {
			t.Errorf("%q is in %s", secret, text)
		}
	}
	if other := newFlow(t); other.Families.Master.UserCodeDigest(code) == row.UserCode {
		t.Error("another issuer's digest is the same")
	}
}

// TestD17AReopenedRequestIsOfNoDevice: the sealed request of a device, opened for any browser and approved there → the device stays undecided.
func TestD17AReopenedRequestIsOfNoDevice(t *testing.T) {
	f := newFlow(t)
	d := f.begin("tv", "public")
	r, browser := f.found(d), signin.NewBrowser()
	sealed, err := f.SealRequest(&r, signin.NewBrowser())
	f.must(err)
	reopened, _, _, err := f.ReopenRequest(t.Context(), sealed)
	f.must(err)
	sealed, err = f.SealRequest(&reopened, browser)
	f.must(err)
	reopened, client, _, err := f.OpenRequest(t.Context(), sealed, browser)
	f.must(err)
	_, _ = f.Approve(t.Context(), &reopened, client, f.session("ada"), reopened.Scopes)
	_, err = f.poll(f.Server, "tv", d)
	wantReason(t, err, oauth.AuthorizationPending, "device_undecided")
}
