package storetest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// device returns a device authorization in which every field has a distinct value.
func device(id string) *store.Device {
	return &store.Device{
		ID: id, ClientID: "app é'", UserCode: "code of " + id, Scopes: oauth.Scopes{"trusted", "read:<things>'&"}, Audience: []string{"https://api.example/é", "urn:things"},
		Address: "2001:db8::1", CreatedAt: now, ExpiresAt: now.Add(10 * time.Minute), Interval: 5 * time.Second,
	}
}

func addDevice(t *testing.T, s store.DeviceStore, d *store.Device) {
	t.Helper()
	if !ok(s.AddDevice(t.Context(), d, 1000))(t) {
		t.Fatalf("there is no room for %s", d.ID)
	}
}

// deviceFamily returns the family of an approved device authorization.
func deviceFamily(id string) *store.TokenFamily {
	f := family(id)
	f.Origin, f.Code.RequestID = oauth.DeviceCode, id
	return f
}

func deviceCalls(s store.Store) []call {
	return []call{
		{"AddDevice", func(ctx context.Context) error { return errOf(s.Devices.AddDevice(ctx, device("d"), 1)) }},
		{"DeviceByUserCode", func(ctx context.Context) error { return errOf(s.Devices.DeviceByUserCode(ctx, "code of d")) }},
		{"ChangeDevice", func(ctx context.Context) error {
			return s.Devices.ChangeDevice(ctx, "d", func(*store.Device) error { return nil })
		}},
	}
}

var deviceChecks = []check{
	// A device authorization is kept → reads back by its user code and in a change; an unknown one → ErrNotFound.
	{name: "D40DevicesReadBack", test: func(t *testing.T, s store.Store) {
		d, plain := device("d"), device("plain")
		plain.Audience = nil
		addDevice(t, s.Devices, d)
		addDevice(t, s.Devices, plain)
		same(t, ok(s.Devices.DeviceByUserCode(t.Context(), d.UserCode))(t), d)
		same(t, ok(s.Devices.DeviceByUserCode(t.Context(), plain.UserCode))(t), plain)
		must(t, s.Devices.ChangeDevice(t.Context(), "d", func(got *store.Device) error { same(t, got, d); return nil }))
		for _, unknown := range []string{"", "d", "code of D", "\x00"} {
			mustBe(t, errOf(s.Devices.DeviceByUserCode(t.Context(), unknown)), store.ErrNotFound)
		}
		mustBe(t, s.Devices.ChangeDevice(t.Context(), "code of d", func(*store.Device) error { return nil }), store.ErrNotFound)
	}},
	// A second one with the id or the user code → ErrTaken; one more than most wait → false; one that has expired takes no room.
	{name: "D41DevicesAreBounded", test: func(t *testing.T, s store.Store) {
		addDevice(t, s.Devices, device("d"))
		again, twin := device("d"), device("twin")
		again.UserCode, twin.UserCode = "another", device("d").UserCode
		for _, taken := range []*store.Device{again, twin} {
			mustBe(t, errOf(s.Devices.AddDevice(t.Context(), taken, 9)), store.ErrTaken)
		}
		if ok(s.Devices.AddDevice(t.Context(), device("full"), 1))(t) {
			t.Error("a second one was added, and there is room for one")
		}
		mustBe(t, errOf(s.Devices.DeviceByUserCode(t.Context(), "code of full")), store.ErrNotFound)
		later := device("later")
		later.CreatedAt = device("d").ExpiresAt
		if !ok(s.Devices.AddDevice(t.Context(), later, 1))(t) {
			t.Error("an expired one takes room")
		}
	}},
	// A change sets interval and time of the poll and nothing else; a change that fails → its error, and nothing is stored.
	{name: "D42ChangeDevice", test: func(t *testing.T, s store.Store) {
		d, refusal := device("d"), errors.New("refused")
		addDevice(t, s.Devices, d)
		mustBe(t, s.Devices.ChangeDevice(t.Context(), "d", func(d *store.Device) error { d.Interval = 0; return refusal }), refusal)
		must(t, s.Devices.ChangeDevice(t.Context(), "d", func(d *store.Device) error {
			d.PolledAt, d.Interval, d.ClientID, d.UserCode = now.Add(time.Second), 10*time.Second, "another", "another"
			return nil
		}))
		d.PolledAt, d.Interval = now.Add(time.Second), 10*time.Second
		same(t, ok(s.Devices.DeviceByUserCode(t.Context(), d.UserCode))(t), d)
	}},
	// Changes at once → each sees the result of the one before.
	{name: "D42ChangeDeviceInARace", beside: func(t *testing.T, a, b store.Store) {
		d := device("d")
		addDevice(t, a.Devices, d)
		all(t, racers, func(i int) error {
			s := []store.Store{a, b}[i%2]
			return s.Devices.ChangeDevice(t.Context(), "d", func(d *store.Device) error { d.Interval += time.Second; return nil })
		})
		d.Interval += racers * time.Second
		same(t, ok(b.Devices.DeviceByUserCode(t.Context(), d.UserCode))(t), d)
	}},
	// Approving or denying it → it is decided, for every reader, and cannot be decided again; a family with its id exists after an approval
	// alone.
	{name: "D43DevicesAreDecidedOnce", test: func(t *testing.T, s store.Store) {
		for id, decide := range map[string]func() error{
			"allowed": func() error { return Done(s.Families.AddFamily(t.Context(), deviceFamily("allowed"))) },
			"denied":  func() error { return Done(s.Families.DecideRequest(t.Context(), "denied", now)) },
		} {
			d := device(id)
			addDevice(t, s.Devices, d)
			must(t, decide())
			d.Decided = true
			same(t, ok(s.Devices.DeviceByUserCode(t.Context(), d.UserCode))(t), d)
			must(t, s.Devices.ChangeDevice(t.Context(), id, func(got *store.Device) error { same(t, got, d); return nil }))
			mustBe(t, Done(s.Families.AddFamily(t.Context(), deviceFamily(id))), Refused(store.Replayed))
			told := deviceFamily(id)
			told.TellsLogout, told.SignIn.SessionID = true, "session"
			mustBe(t, Done(s.Families.AddFamily(t.Context(), told)), Refused(store.Replayed))
			mustBe(t, Done(s.Families.DecideRequest(t.Context(), id, now)), Refused(store.Replayed))
		}
		wantFamilies(t, s.Families, deviceFamily("allowed"))
		noFamily(t, s.Families, "denied")
	}},
	// Approvals and denials at once, on two nodes → exactly one decides; the family exists if and only if that was an approval.
	{name: "D43DevicesAreDecidedOnceInARace", beside: func(t *testing.T, a, b store.Store) {
		for round := range raceRounds {
			id := fmt.Sprint("d", round)
			addDevice(t, a.Devices, device(id))
			errs := race(4, func(i int) error {
				s := []store.Store{a, b}[i/2]
				if i%2 == 0 {
					return Done(s.Families.AddFamily(t.Context(), deviceFamily(id)))
				}
				return Done(s.Families.DecideRequest(t.Context(), id, now))
			})
			winner := -1
			for i, err := range errs {
				switch {
				case err == nil && winner >= 0:
					t.Fatalf("%d and %d have both decided", winner, i)
				case err == nil:
					winner = i
				default:
					mustBe(t, err, Refused(store.Replayed))
				}
			}
			if winner < 0 {
				t.Fatal("nobody has decided")
			}
			if winner%2 == 0 {
				wantFamilies(t, b.Families, deviceFamily(id))
			} else {
				noFamily(t, b.Families, id)
			}
		}
	}},
	// Housekeeping → those that have expired are deleted, with counts of failures; the others stay.
	{name: "D44DropDevices", test: func(t *testing.T, s store.Store) {
		early, late := device("early"), device("late")
		early.ExpiresAt = now
		addDevice(t, s.Devices, early)
		addDevice(t, s.Devices, late)
		ok(s.Housekeeping.Drop(t.Context(), store.ExpiringAttempts, now.Add(time.Minute)))(t)
		mustBe(t, errOf(s.Devices.DeviceByUserCode(t.Context(), early.UserCode)), store.ErrNotFound)
		same(t, ok(s.Devices.DeviceByUserCode(t.Context(), late.UserCode))(t), late)
	}},
}
