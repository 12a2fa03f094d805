package caddymodule

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"
)

// These tests take devices without a browser through a whole Caddy. What one may and may not do is held in package grants.

// deviceScene is a running OpenID provider with the clients tv, which is public, and set-top, which is confidential.
type deviceScene struct {
	*gatehouse
	secret string
	clock  *testClock
}

// startDevices serves devices, changed by the pairs of old and new text.
func startDevices(t *testing.T, changes ...string) *deviceScene {
	t.Helper()
	const before = "scope orders.read \"Read orders\" {"
	secret := strings.Repeat("s", 43)
	clock := setClock(t)
	return &deviceScene{startGatehouse(t, openIDSite(append(changes, before, `client tv {
			name "Acme television"
			type public
			grants urn:ietf:params:oauth:grant-type:device_code refresh_token
			scopes public trusted openid refresh_token
		}
		client set-top `+secret+` {
			name "Set-top box"
			grants urn:ietf:params:oauth:grant-type:device_code
			scopes public
		}
		`+before)...)), secret, clock}
}

// wait advances the clock.
func (s *deviceScene) wait(d time.Duration) {
	s.t.Helper()
	(&gateway{gatehouse: s.gatehouse}).later(s.clock, d)
}

// config is that of a device that uses golang.org/x/oauth2.
func (s *deviceScene) config(clientID string, scopes ...string) *oauth2.Config {
	return &oauth2.Config{ClientID: clientID, Scopes: scopes, Endpoint: oauth2.Endpoint{
		DeviceAuthURL: s.url + "/oauth/device_authorization", TokenURL: s.url + "/oauth/token", AuthStyle: oauth2.AuthStyleInParams,
	}}
}

func (s *deviceScene) begin(clientID string, scopes ...string) *oauth2.DeviceAuthResponse {
	s.t.Helper()
	d, err := s.config(clientID, scopes...).DeviceAuth(s.t.Context())
	check(s.t, err)
	return d
}

// waits checks that nothing is decided about a device.
func (s *deviceScene) waits(t *testing.T, d *oauth2.DeviceAuthResponse) {
	t.Helper()
	s.wait(5 * time.Second)
	holdAnswer(t, "the device", s.poll(d), http.StatusBadRequest, `"authorization_pending"`)
}

// poll asks for the device's tokens once.
func (s *deviceScene) poll(d *oauth2.DeviceAuthResponse) page {
	s.t.Helper()
	return s.browser().send("/oauth/token", url.Values{
		"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {"tv"}, "device_code": {d.DeviceCode},
	})
}

// enters opens the page for devices, signs in where that is asked for, and submits the form with the code. It returns the consent page.
func (b *browser) enters(t *testing.T, target, code string) page {
	t.Helper()
	p := b.visits(target)
	if strings.Contains(p.body, `name="password"`) {
		p = b.follow(b.signIn(p, "ada@acme.example", peoplePassword))
	}
	action, fields := formIn(t, p)
	if code != "" {
		fields.Set("user_code", code)
	}
	return b.follow(b.send(action, fields))
}

// TestD20D25ADeviceSignsAPersonIn: golang.org/x/oauth2 begins, a browser without a session opens the address with the code, signs in and allows →
// the library has tokens for that person, with which it refreshes; logs hold neither code; another device is denied → its typed error.
func TestD20D25ADeviceSignsAPersonIn(t *testing.T) {
	s := startDevices(t)
	d := s.begin("tv", "public")
	if d.VerificationURI != s.url+"/oauth/device" || d.VerificationURIComplete != d.VerificationURI+"?user_code="+d.UserCode || d.Interval != 5 {
		t.Errorf("%+v", d)
	}
	b := s.browser()
	p := b.enters(t, d.VerificationURIComplete, "")
	holdAnswer(t, "the consent page", p, http.StatusOK, "127.0.0.1", "Allow access?", "If somebody sent you the code")
	holdAnswer(t, "allowed", b.decide(p, "allow"), http.StatusOK, "You can close this page.")
	d.Interval = 1 // the library waits in real time
	token, err := s.config("tv").DeviceAccessToken(t.Context(), d)
	check(t, err)
	if token.Extra("scope") != "public" || token.ExpiresIn != 21600 {
		t.Errorf("scope %v", token.Extra("scope"))
	}
	_, err = s.config("tv").TokenSource(t.Context(), expire(token)).Token()
	check(t, err)
	s.notLogged(t, d.DeviceCode, d.UserCode, strings.ReplaceAll(d.UserCode, "-", ""))
	holdWords(t, "the audit log", s.logs(), `"device authorization begun"`, `"grant_type":"urn:ietf:params:oauth:grant-type:device_code"`, `"device_address":"127.0.0.1"`)
	denied := s.begin("tv", "public")
	b.decide(b.enters(t, "/oauth/device", denied.UserCode), "deny")
	denied.Interval = 1
	_, err = s.config("tv").DeviceAccessToken(t.Context(), denied)
	if refused := (*oauth2.RetrieveError)(nil); !errors.As(err, &refused) || refused.ErrorCode != "access_denied" {
		t.Errorf("%v", err)
	}
}

// TestD21NothingIsAllowedByALink: opening the address with the code, signed in, → the code is filled in and nothing is decided; HEAD, a
// script, a frame → nothing either; a session-less person's code is not judged before the sign-in.
func TestD21NothingIsAllowedByALink(t *testing.T) {
	s := startDevices(t)
	d, b := s.begin("tv", "public"), s.browser()
	b.follow(b.signIn(b.open("/oauth/login"), "ada@acme.example", peoplePassword))
	p := b.visits(d.VerificationURIComplete)
	_, fields := formIn(t, p)
	if p.status != http.StatusOK || fields.Get("user_code") != d.UserCode {
		t.Errorf("%d, the field holds %q", p.status, fields.Get("user_code"))
	}
	b.fetch(http.MethodHead, d.VerificationURIComplete, "")
	b.fetch(http.MethodGet, d.VerificationURIComplete, "", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty").is(t, http.StatusForbidden, "a script")
	b.fetch(http.MethodGet, d.VerificationURIComplete+"&decision=allow", "", navigation...).is(t, http.StatusOK, "a decision in the query")
	s.waits(t, d)
	stranger := s.browser()
	right, wrong := stranger.open("/oauth/device?user_code="+d.UserCode), stranger.open("/oauth/device?user_code=BBBB-BBBB")
	for _, p := range []page{right, wrong} {
		if p.status != http.StatusSeeOther || !strings.HasPrefix(p.header.Get("Location"), "/oauth/login?pending=device") {
			t.Errorf("a stranger: %d %q", p.status, p.header.Get("Location"))
		}
	}
}

// TestD22ForgedForms: the form with the code, or the consent form, without its token, with another form's, from another site or another
// browser → 403, and nothing is decided; a sealed request of another browser → refused.
func TestD22ForgedForms(t *testing.T) {
	s := startDevices(t)
	d, b := s.begin("tv", "public"), s.browser()
	consent := b.enters(t, "/oauth/device", strings.ToLower(d.UserCode))
	action, fields := formIn(t, consent)
	fields.Set("decision", "allow")
	entry, entryFields := formIn(t, b.visits("/oauth/device"))
	entryFields.Set("user_code", d.UserCode)
	other := s.signedIn("grace@acme.example")
	for name, try := range map[string]func(action string, good url.Values) page{
		"no token": func(action string, good url.Values) page { good.Del("form_token"); return b.send(action, good) },
		"another form": func(action string, good url.Values) page {
			good.Set("form_token", fields.Get("form_token")[:22]+entryFields.Get("form_token")[22:])
			return b.send(action, good)
		},
		"another site": func(action string, good url.Values) page {
			return b.post(action, good, "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site")
		},
		"another person": func(action string, good url.Values) page { return other.send(action, good) },
	} {
		for to, good := range map[string]url.Values{action: fields, entry: entryFields} {
			if p := try(to, maps.Clone(good)); p.status != http.StatusForbidden && p.status != http.StatusBadRequest {
				t.Errorf("%s, %s: %d %q", name, to, p.status, p.header.Get("Location"))
			}
		}
	}
	s.waits(t, d)
	b.send(action, fields).is(t, http.StatusOK, "the genuine form")
	b.send(action, fields).is(t, http.StatusForbidden, "the genuine form, twice")
	s.poll(d).is(t, http.StatusOK, "the device got")
}

// TestD26ADevicesRequestStaysInItsBrowser: a provider's answer or a sign-in form of the browser in which a device's code was entered, sent by
// another browser, signed in or not → the page for codes, with none filled in, and nothing is decided; in its own browser it goes on.
func TestD26ADevicesRequestStaysInItsBrowser(t *testing.T) {
	corp := newLyingProvider(t)
	s := startDevices(t, "store memory", "store memory\nsign_in {\n"+atProvider("corp", corp, "link verified_email")+"\n}")
	d, own := s.begin("tv", "public"), s.browser()
	consent := own.enters(t, "/oauth/device", d.UserCode)
	another := own.visits(hrefIn(t, consent, "switch=1"))
	action, form := formIn(t, another)
	answer := corp.follow(own.chooses(t, another, "corp").header.Get("Location"))
	signedIn := func() *browser {
		t.Helper()
		b := s.signedIn("grace@acme.example")
		return b
	}
	for name, try := range map[string]func() page{
		"a provider's answer, signed in": func() page { return signedIn().visits(answer) },
		"a provider's answer": func() page {
			b := s.browser()
			return b.follow(b.signIn(b.visits(answer), "grace@acme.example", peoplePassword))
		},
		"a sign-in form, signed in": func() page {
			b := signedIn()
			return b.follow(b.send(action, form))
		},
		"a sign-in form": func() page {
			b := s.browser()
			return b.follow(b.signIn(b.send(action, form), "grace@acme.example", peoplePassword))
		},
	} {
		p := try()
		_, fields := formIn(t, p)
		if typed, asked := fields["user_code"]; p.status != http.StatusOK || !asked || typed[0] != "" {
			t.Errorf("%s: %d, the form has %v", name, p.status, fields)
		}
	}
	s.waits(t, d)
	holdAnswer(t, "in its own browser", own.decide(own.visits(answer), "allow"), http.StatusOK, "You can close this page.")
}

// TestD23AnswersOnTheWire: each answer to a device → its status, code and headers: JSON, no-store; a client that lacks the grant, a wrong
// secret, GET, two scopes → refused as the token endpoint does.
func TestD23AnswersOnTheWire(t *testing.T) {
	s := startDevices(t)
	d, b := s.begin("tv", "public"), s.browser()
	hold := func(p page, status int, code string) {
		t.Helper()
		if p.status != status || !strings.Contains(p.body, `"`+code+`"`) || p.header.Get("Cache-Control") != "no-store" || !strings.HasPrefix(p.header.Get("Content-Type"), "application/json") {
			t.Errorf("%d %v %s, want %d %s", p.status, p.header, p.body, status, code)
		}
	}
	ask := func(pairs ...string) page {
		form := url.Values{}
		for pair := range slices.Chunk(pairs, 2) {
			form.Add(pair[0], pair[1])
		}
		return b.send("/oauth/device_authorization", form)
	}
	hold(s.poll(d), 400, "authorization_pending")
	hold(s.poll(d), 400, "slow_down")
	hold(ask(), 401, "invalid_client")
	hold(ask("client_id", "set-top", "client_secret", "wrong"), 401, "invalid_client")
	hold(ask("client_id", "set-top", "client_secret", s.secret), 200, "device_code")
	hold(ask("client_id", "pub"), 400, "unauthorized_client")
	hold(ask("client_id", "tv", "scope", "orders.read"), 400, "invalid_scope")
	hold(ask("client_id", "tv", "scope", "public", "scope", "trusted"), 400, "invalid_request")
	hold(ask("client_id", "tv", "resource", "https://unknown.example/"), 400, "invalid_target")
	hold(b.open("/oauth/device_authorization"), 405, "invalid_request")
	hold(ask("client_id", "tv"), 200, "user_code")
	hold(b.send("/oauth/token", url.Values{"grant_type": {"urn:ietf:params:oauth:grant-type:device_code"}, "client_id": {"tv"}}), 400, "invalid_request")
	p := b.enters(t, "/oauth/device", d.UserCode)
	holdAnswer(t, "denied", b.decide(p, "deny"), http.StatusOK, "Access was denied")
	hold(s.poll(d), 400, "access_denied")
	b.enters(t, "/oauth/device", d.UserCode).is(t, http.StatusForbidden, "a decided code")
	late := s.begin("tv", "public")
	consent := b.enters(t, "/oauth/device", late.UserCode)
	s.wait(10*time.Minute + time.Second)
	hold(s.poll(late), 400, "expired_token")
	if p = b.decide(consent, "allow"); p.status == http.StatusOK {
		t.Errorf("allowed after its end: %d", p.status)
	}
	for range 5 {
		holdAnswer(t, "a wrong code", b.enters(t, "/oauth/device", "BBBB-BBBB"), http.StatusOK, `id="notice"`)
	}
	if p = b.enters(t, "/oauth/device", "BBBB-BBBB"); p.status != http.StatusTooManyRequests || p.header.Get("Retry-After") == "" {
		t.Errorf("the sixth wrong code: %d", p.status)
	}
}

// TestInteropNodeD24Devices: openid-client discovers, begins and polls → tokens with an ID token when it is allowed, access_denied when not.
func TestInteropNodeD24Devices(t *testing.T) {
	s := startDevices(t)
	b := s.browser()
	person := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p := b.decide(b.enters(t, "/oauth/device", r.FormValue("code")), r.FormValue("decision")); p.status != http.StatusOK {
			http.Error(w, p.body, p.status)
		}
	}))
	t.Cleanup(person.Close)
	runScript(t, "device.mjs", map[string]any{"issuer": s.url, "decide": person.URL})
}
