package store

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestLifetimes pins the contract's defaults and bounds.
func TestLifetimes(t *testing.T) {
	want := Lifetimes{
		AuthorizationCode: 21600 * time.Second, ClientCredentials: 7200 * time.Second, Password: 2419200 * time.Second, AdminCreated: 2419200 * time.Second,
		Refresh: 90 * Day, RefreshIdle: 30 * Day, RefreshGrace: 30 * time.Second, Code: time.Minute,
	}
	if DefaultLifetimes != want {
		t.Errorf("%+v", DefaultLifetimes)
	}
	durations := 0
	for field := range reflect.TypeFor[Lifetimes]().Fields() {
		if field.Type == reflect.TypeFor[time.Duration]() {
			durations++
		}
	}
	if durations != len(lifetimeBounds) {
		t.Errorf("%d lifetimes and %d bounds", durations, len(lifetimeBounds))
	}
	for grant, want := range map[oauth.GrantType]time.Duration{
		oauth.AuthorizationCode: 6 * time.Hour, BrowserSession: 6 * time.Hour, oauth.PasswordGrant: 28 * Day, AdminCreated: 28 * Day, oauth.ClientCredentials: 2 * time.Hour,
	} {
		if got := DefaultLifetimes.For(grant); got != want {
			t.Errorf("%s: %s", grant, got)
		}
	}
	if got := (Lifetimes{}).Or(DefaultLifetimes); got != DefaultLifetimes {
		t.Errorf("%+v", got)
	}
	for _, bound := range lifetimeBounds {
		var l Lifetimes
		if *bound.For(&l) = 7 * time.Minute; l == (Lifetimes{}) {
			t.Errorf("%s sets nothing", bound.name)
		}
		merged := l.Or(DefaultLifetimes)
		if *bound.For(&merged) != 7*time.Minute {
			t.Errorf("%s: the client's own is lost", bound.name)
		}
		for d, good := range map[time.Duration]bool{0: true, bound.least: true, bound.most: true, bound.most + 1: false, -time.Second: false} {
			if *bound.For(&l) = d; (l.Validate() == nil) != good {
				t.Errorf("%s %s: %v", bound.name, d, l.Validate())
			}
		}
	}
	if err := (Lifetimes{RefreshGrace: 6 * time.Minute}).Validate(); err == nil || !strings.Contains(err.Error(), "refresh_grace 6m0s: use 0 to 5m") {
		t.Errorf("%v", err)
	}
	if err := (Lifetimes{Refresh: 401 * Day}).Validate(); err == nil || !strings.Contains(err.Error(), "use 1s to 400d") {
		t.Errorf("%v", err)
	}
	if DefaultLifetimes.Password > MaxLifetime || DefaultLifetimes.AdminCreated > MaxLifetime {
		t.Error("the gate refuses what we issue")
	}
}
