package caddymodule

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// These tests cover client authentication at the token endpoint: rows T1 to T22.

// TestT06T07TheQueryIsNeverRead: client credentials, a code or a refresh token in the query alone → as if missing;
// beside a complete body → ignored, and logged nowhere. Servers, proxies and browsers keep URLs for years.
func TestT06T07TheQueryIsNeverRead(t *testing.T) {
	d := openDoor(t, patient)
	ask := func(query, body string, want outcome) {
		t.Helper()
		d.decisions(t)
		a := d.ask(t, "/oauth/token?"+query, body)
		d.hold(t, a, want)
	}
	ask(asConf, ccGrant, badClient("client_credentials_missing"))
	ask(asConf+"&"+ccGrant, "", outcome{status: 400, code: "invalid_request", reason: "content_type_missing"})
	ask(ccGrant, asConf, missing("grant_type"))
	ask("code=query-code-1", "grant_type=authorization_code&"+asConf, missing("code"))
	ask("refresh_token=query-refresh-1", "grant_type=refresh_token&"+asConf, missing("refresh_token"))
	ask("client_secret=query-secret-2&code=query-code-2&refresh_token=query-refresh-2&password=query-password-2&scope=trusted&client_id=other&grant_type=password",
		ccGrant+"&"+asConf, granted())
	ask("%zz;=&&scope[]", ccGrant+"&"+asConf, granted())
	if logs := d.logs(); strings.Contains(logs, "query-") || strings.Contains(logs, confSecret) {
		t.Error("the log holds a value from the query")
	}
}

// TestT11To15T101WhoIsNobody: an empty id or secret, a confidential client's id alone, a wrong or superfluous secret, NUL or invalid UTF-8,
// wildcards, another case or Unicode form → 401, by exact comparison; the right ones → 200, members in the documented order, scope always there,
// absent ones omitted, expires_in in whole seconds. The body of a user's tokens is held by tokensIn, for every grant.
func TestT11To15T101WhoIsNobody(t *testing.T) {
	d := openDoor(t, onDisk)
	secret := d.register(t, store.Client{ID: "caf\u00e9"})
	d.register(t, store.Client{ID: "native", Type: store.NativeClient, RedirectURIs: []string{"http://localhost/cb"}})
	rotated, err := d.app().registry.Clients.RotateSecret(t.Context(), "native", 0, nil)
	check(t, err)
	failed, failedBasic := badClient("client_authentication_failed"), badBasic("client_authentication_failed")
	// A public client at this point is known; whether it may use the grant is checked separately.
	known := outcome{status: 400, code: "unauthorized_client"}
	odd := badClient("client_credentials_malformed")
	body := func(id, secret string) string {
		return ccGrant + "&" + urlEncodedBody("client_id", id, "client_secret", secret)
	}
	d.run(t, []tokenCase{
		{"T1 Basic", ccGrant, append(basic("conf:"+confSecret), "Accept", "text/html"), granted()},
		{"T3 two mechanisms", ccGrant + "&" + asConf, basic("conf:" + confSecret), twoMechanisms()},
		{"T4 another client_id", ccGrant + "&client_id=other", basic("conf:" + confSecret), badBasic("client_id_mismatch")},
		{"T8 form-encoded", ccGrant, basic("caf%C3%A9:" + secret), granted()},
		{"T8 wrong both ways", ccGrant, basic("conf:a%2Bb"), failedBasic},
		{"T9 malformed", ccGrant, basic("conf"), badBasic("basic_malformed")},
		{"T20 Bearer beside the body", ccGrant + "&" + asConf, []string{"Authorization", "Bearer x"}, granted()},
		{"T20 Bearer and a wrong secret", ccGrant + "&client_id=conf&client_secret=x", []string{"Authorization", "Bearer x"}, failedBasic},
		{"T11 no secret", ccGrant, basic("conf:"), failedBasic},
		{"T11 no secret, public client", ccGrant, basic("pub:"), known},
		{"T11 no secret, public client, client_id beside it", ccGrant + "&client_id=pub&client_secret=", basic("pub:"), known},
		{"T11 no secret, unknown client", ccGrant, basic("nobody:"), failedBasic},
		{"T12 client_id only", ccGrant + "&client_id=conf", nil, failed},
		{"T12 stored client", ccGrant + "&client_id=caf%C3%A9", nil, failed},
		{"T13 public client in the body", body("pub", "x"), nil, failed},
		{"T13 public client by Basic", ccGrant, basic("pub:x"), failedBasic},
		{"T13 stored native client", body("native", "x"), nil, failed},
		{"T13 with a secret of its own, wrong", body("keyed", "x"), nil, failed},
		{"T13 with a secret of its own, wrong, by Basic", ccGrant, basic("keyed:x"), failedBasic},
		{"T13 with a secret of its own, right", body("keyed", "keyed-"+confSecret), nil, known},
		{"T13 with a secret of its own, right, by Basic", ccGrant, basic("keyed:keyed-" + confSecret), known},
		{"T13 with a secret of its own, none", ccGrant + "&client_id=keyed", nil, known},
		{"T13 stored native client, rotated, right", body("native", rotated.Reveal()), nil, known},
		{"T14 NUL", body("conf\x00", confSecret), nil, odd},
		{"T15 SQL", body("' OR 1=1--", "x"), nil, failed},
		{"T15 %", body("%", secret), nil, failed},
		{"T15 _", body("caf_", secret), nil, failed},
		{"T15 10 KiB", body(strings.Repeat("A", 10<<10), "x"), nil, failed},
		{"T15 trailing space", body("conf ", confSecret), nil, failed},
		{"T15 other case, stored", body("CAF\u00c9", secret), nil, failed},
		{"T15 NFD", body("cafe\u0301", secret), nil, failed},
		{"T15 secret's other case", body("caf\u00e9", strings.ToUpper(secret)), nil, failed},
		{"T15 the right bytes", body("caf\u00e9", secret), nil, granted()},
		{"T15 the right bytes by Basic", ccGrant, basic("caf\u00e9:" + secret), granted()},
	})
}

// TestT16T17NobodyLearnsWhichClientsExist: a disabled, a deleted and an unknown client, and a wrong secret → the same status, headers,
// body and length.
func TestT16T17NobodyLearnsWhichClientsExist(t *testing.T) {
	d := openDoor(t, onDisk)
	disabled := d.register(t, store.Client{ID: "disabled"})
	removed := d.register(t, store.Client{ID: "removed"})
	public := store.Client{ID: "pubgone", Type: store.PublicClient, RedirectURIs: []string{"https://gone.example/cb"}}
	d.register(t, public)
	for id, secret := range map[string]string{"disabled": disabled, "removed": removed} {
		d.ask(t, "/oauth/token", ccGrant, basic(id+":"+secret)...).is(t, http.StatusOK, id)
	}
	registry := d.app().registry
	check(t, registry.Clients.DisableClient(t.Context(), "disabled"))
	check(t, registry.Clients.RemoveClient(t.Context(), "removed"))
	check(t, registry.Clients.DisableClient(t.Context(), "pubgone"))
	d.decisions(t)
	ask := func(id, secret string, inBody bool) answer {
		t.Helper()
		var a answer
		if inBody {
			a = d.ask(t, "/oauth/token", ccGrant+"&"+urlEncodedBody("client_id", id, "client_secret", secret))
			d.hold(t, a, badClient("client_authentication_failed"))
		} else {
			a = d.ask(t, "/oauth/token", ccGrant, basic(id+":"+secret)...)
			d.hold(t, a, badBasic("client_authentication_failed"))
		}
		return a
	}
	for _, inBody := range []bool{false, true} {
		unknown := ask("nobody", "x", inBody)
		for name, a := range map[string]answer{
			"T16 disabled": ask("disabled", disabled, inBody), "T16 removed": ask("removed", removed, inBody),
			"T16 disabled, wrong secret": ask("disabled", "x", inBody), "T17 wrong secret": ask("conf", "x", inBody),
			"T17 public": ask("pub", "x", inBody), "T17 grant not allowed, wrong secret": ask("legacy", "x", inBody),
		} {
			t.Run(name, func(t *testing.T) { a.looksLike(t, unknown) })
		}
	}
	unknown := ask("nobody", "", true)
	ask("pubgone", "", true).looksLike(t, unknown)
}

// TestT18SecretsRotateWithAnOverlap: the old and the new secret within the overlap → 200; the old one afterwards → 401.
func TestT18SecretsRotateWithAnOverlap(t *testing.T) {
	move := setClock(t).advance
	d := openDoor(t, onDisk)
	before := d.register(t, store.Client{ID: "app"})
	rotated, err := d.app().registry.Clients.RotateSecret(t.Context(), "app", time.Hour, nil)
	check(t, err)
	after := rotated.Reveal()
	ask := func(secret string, want outcome) {
		t.Helper()
		d.decisions(t)
		d.hold(t, d.ask(t, "/oauth/token", ccGrant, basic("app:"+secret)...), want)
	}
	ask(before, granted())
	ask(after, granted())
	move(time.Hour - 2*time.Second)
	ask(before, granted())
	move(2 * time.Second)
	ask(before, badBasic("client_authentication_failed"))
	ask(after, granted())

	// Without an overlap the old secret ends at once, although it has just been used.
	rotated, err = d.app().registry.Clients.RotateSecret(t.Context(), "app", 0, nil)
	check(t, err)
	ask(after, badBasic("client_authentication_failed"))
	ask(rotated.Reveal(), granted())
}

// TestT21T75AnIPv6NetworkIsOneAddress: an IPv6 address counts as its /64, for client secrets and for passwords.
func TestT21T75AnIPv6NetworkIsOneAddress(t *testing.T) {
	setClock(t)
	proxied := []string{"\tadmin ADMIN\n", "\tadmin ADMIN\n\tservers {\n\t\ttrusted_proxies static 127.0.0.1/32\n\t}\n"}
	u := openUsers(t, append(append(loginLimits("\t\t\tlogin 20/1m per ip\n"), "\t\t\tclient off\n", ""), proxied...)...)
	person := requestOf("conf")
	for name, c := range map[string]struct {
		site        string // the first 48 bits of its addresses
		wrong       func(i int) (form string, headers []string)
		right       func() (form string, headers []string)
		refused     int
		isThrottled string
	}{
		"secrets": {"2001:db8:1",
			func(int) (string, []string) { return ccGrant, basic("conf:wrong") },
			func() (string, []string) { return ccGrant, basic("conf:" + confSecret) }, 401, "client_throttled"},
		"passwords": {"2001:db8:2",
			func(i int) (string, []string) {
				return person.asPassword(fmt.Sprintf("nobody-%d@acme.example", i), wrongPassword).Encode(), nil
			},
			func() (string, []string) { return person.asPassword(ada, peoplePassword).Encode(), nil }, 400, "sign_in_throttled"},
	} {
		t.Run(name, func(t *testing.T) {
			site := c.site
			ask := func(address string, form string, headers []string) answer {
				return u.ask(t, "/oauth/token", form, append(headers, "X-Forwarded-For", address)...)
			}
			for i := range 20 {
				form, headers := c.wrong(i)
				ask(fmt.Sprintf("%s:2:%x::%x", site, i, i+1), form, headers).is(t, c.refused, "guess")
			}
			for address, want := range map[string]int{site + ":2:ffff:ffff:ffff:ffff": 429, site + ":3::1": 200, site + ":1:ffff::1": 200} {
				form, headers := c.right()
				ask(address, form, headers).is(t, want, address)
			}
			holdWords(t, "the log", u.logs(), c.isThrottled)
		})
	}
}

// TestT08T21GuessesAreThrottledWhereTheyComeFrom: 200 wrong secrets for a client from one address, with rotating X-Forwarded-For → 429
// with Retry-After after 20, at every endpoint; another address or another client → 200.
func TestT08T21GuessesAreThrottledWhereTheyComeFrom(t *testing.T) {
	move := setClock(t).advance
	d := openDoor(t, site)
	d.decisions(t)
	for i := range 200 {
		want := badBasic("client_authentication_failed")
		if i >= 20 {
			want = outcome{status: 429, code: "temporarily_unavailable", reason: "client_throttled"}
		}
		// T74: only a trusted proxy can choose the bucket.
		forged := []string{"X-Forwarded-For", "198.51.100." + string(rune('0'+i%10)), "X-Real-Ip", "198.51.100.7"}
		d.hold(t, d.ask(t, "/oauth/token", ccGrant, append(basic("conf:a%2Bb"), forged...)...), want)
		if t.Failed() {
			t.Fatalf("guess %d", i)
		}
	}
	throttled := outcome{status: 429, code: "temporarily_unavailable", reason: "client_throttled"}
	right := func(d *door, id, secret string, want outcome) {
		t.Helper()
		d.decisions(t)
		d.hold(t, d.ask(t, "/oauth/token", ccGrant, basic(id+":"+secret)...), want)
	}
	right(d, "conf", confSecret, throttled)
	right(d.from("127.0.0.2"), "conf", confSecret, granted()) // no remote lock-out
	right(d, "other", "other-"+confSecret, granted())         // nor of clients behind the same address
	d.decisions(t)
	d.hold(t, d.ask(t, "/oauth/token", ccGrant+"&"+asConf), throttled)
	for _, path := range []string{"/oauth/revoke", "/oauth/introspect"} { // one bucket for all endpoints
		d.hold(t, d.ask(t, path, "token=x&client_id=conf&client_secret=guess"), throttled)
	}
	move(time.Minute)
	right(d, "conf", confSecret, granted())

	// Success does not reset a guesser's count within the window.
	for range 19 {
		d.ask(t, "/oauth/token", ccGrant, basic("conf:a%2Bb")...)
	}
	right(d, "conf", confSecret, granted())
	d.ask(t, "/oauth/token", ccGrant, basic("conf:a%2Bb")...).is(t, http.StatusUnauthorized, "guess 20")
	d.ask(t, "/oauth/token", ccGrant, basic("conf:a%2Bb")...).is(t, http.StatusTooManyRequests, "guess 21")
}
