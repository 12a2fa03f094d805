package grants_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/tokentest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// pendingRequest returns a request with every member, sealed for a browser.
func (f *flow) pendingRequest() (r issuer.AuthorizationRequest, pending, browser oauth.Secret) {
	f.tb.Helper()
	p := parameters("public trusted")
	p.OpenID.Prompt, p.OpenID.MaxAge, p.OpenID.LoginHint, p.OpenID.UILocales, p.State = "login consent", "0", "ada@acme.example", "de en", "\x00🚪\r\n"
	r, err := f.read("conf", p)
	f.must(err)
	browser = signin.NewBrowser()
	pending, err = f.SealRequest(&r, browser)
	f.must(err)
	return r, pending, browser
}

func (f *flow) opens(pending, browser oauth.Secret) error {
	_, _, _, err := f.OpenRequest(f.tb.Context(), pending, browser)
	return err
}

func TestA64A89ASealedRequestComesBackAsItWas(t *testing.T) {
	f := newFlow(t)
	want, pending, browser := f.pendingRequest()
	f.wait(10 * time.Minute)
	for name, node := range map[string]*Server{"same node": f.Server, "another node": f.node()} {
		got, client, target, err := node.OpenRequest(t.Context(), pending, browser)
		f.must(err)
		if !got.At.Equal(want.At) {
			t.Errorf("%s: at %s, was %s", name, got.At, want.At)
		}
		got.At = want.At
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v\nwas %+v", name, got, want)
		}
		if client.ID != "conf" || !strings.HasPrefix(target.Code(oauth.NewSecret("c")).Location, callback+"&code=c&state=%00") {
			t.Errorf("%s: %v, %v", name, client.ID, target.Code(oauth.NewSecret("c")).Location)
		}
	}
}

func TestASealFromTheFutureDoesNotOpen(t *testing.T) {
	f := newFlow(t)
	_, pending, browser := f.pendingRequest()
	f.wait(-5 * time.Second) // the tolerated difference between our nodes' clocks
	f.must(f.opens(pending, browser))
	f.wait(-time.Second)
	tokentest.WantCode(t, f.opens(pending, browser), oauth.InvalidRequest)
}

func TestA83TheUserHasGoneMeanwhile(t *testing.T) {
	f := newFlow(t)
	s := f.session("ada")
	r, err := f.read("conf", parameters("public"))
	f.must(err)
	f.must(f.registry.People.SetUserStatus(t.Context(), "u-ada", store.UserDisabled))
	_, err = f.Approve(t.Context(), &r, f.client("conf"), s, r.Scopes)
	wantReason(t, err, oauth.InvalidGrant, "user_changed")
	if _, err := f.store.Families.Consent(t.Context(), "u-ada", "conf"); err == nil {
		t.Error("what was not granted is remembered as consent")
	}
	// It was not decided either: another user may still decide it.
	_, err = f.Approve(t.Context(), &r, f.client("conf"), f.session("eve"), r.Scopes)
	f.must(err)
}

func TestA60A63FormTokensBelongToABrowserAndAForm(t *testing.T) {
	f := newFlow(t)
	browser := signin.NewBrowser()
	names := []string{"/oauth/consent", "session", "pending"}
	token := f.FormToken(browser, names...)
	form, genuine := f.OpenFormToken(token, browser, names...)
	if again, also := f.node().OpenFormToken(token, browser, names...); !genuine || !also || form == "" || again != form {
		t.Fatal("a good token is refused, or names another form on another node")
	}
	if other, _ := f.OpenFormToken(f.FormToken(browser, names...), browser, names...); other == form {
		t.Error("two forms have one name")
	}
	text := token.Reveal()
	for name, v := range map[string]struct {
		token, browser oauth.Secret
		names          []string
	}{
		"another browser": {token, signin.NewBrowser(), names}, "no browser": {f.FormToken(oauth.Secret{}, "x"), oauth.Secret{}, []string{"x"}},
		"another page": {token, browser, []string{"/oauth/login", "session", "pending"}}, "another session": {token, browser, []string{"/oauth/consent", "other", "pending"}},
		"another request": {token, browser, []string{"/oauth/consent", "session", "other"}}, "names run together": {token, browser, []string{"/oauth/consent", "sessionpending"}},
		"one name less": {token, browser, names[:2]}, "empty": {oauth.Secret{}, browser, names}, "cut": {oauth.NewSecret(text[:64]), browser, names}, "longer": {oauth.NewSecret(text + "0"), browser, names},
		"another nonce": {oauth.NewSecret(f.FormToken(browser, names...).Reveal()[:22] + text[22:]), browser, names}, "browser as token": {browser, browser, names},
	} {
		if _, genuine := f.OpenFormToken(v.token, v.browser, v.names...); genuine {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestA60AFormOpensOneSession: submitting the same form again is a replay.
func TestA60AFormOpensOneSession(t *testing.T) {
	f := newFlow(t)
	browser := signin.NewBrowser()
	form, genuine := f.OpenFormToken(f.FormToken(browser, "x"), browser, "x")
	if !genuine {
		t.Fatal("a good token is refused")
	}
	errs := tokentest.Together(racers, func(int) error {
		_, _, err := f.OpenSession(t.Context(), signin.SignedIn{User: f.user("ada")}, "", form)
		return err
	})
	if n := wins(t, errs, oauth.InvalidRequest); n != 1 {
		t.Errorf("%d sessions of one form", n)
	}
}

// TestS111AReopenedRequestIsNew: a reopened request has no id under which it was decided, and earlier sign-ins do not satisfy it.
func TestS111AReopenedRequestIsNew(t *testing.T) {
	f := newFlow(t)
	want, pending, browser := f.pendingRequest()
	f.wait(9 * time.Minute)
	session := f.session("ada")
	f.wait(time.Second)
	got, client, target, err := f.ReopenRequest(t.Context(), pending)
	f.must(err)
	if got.ID != "" || !got.At.Equal(f.clock().Truncate(time.Microsecond)) || client.ID != "conf" || target.Host() == "" {
		t.Errorf("%+v, %s", got, client.ID)
	}
	if step, err := f.NextStep(t.Context(), &got, client, session); err != nil || step != issuer.AskSignIn {
		t.Errorf("who signed in before: %v, %v", step, err)
	}
	got.ID, got.At = want.ID, want.At
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwas %+v", got, want)
	}
	if f.opens(pending, signin.NewBrowser()) == nil || f.opens(pending, oauth.Secret{}) == nil {
		t.Error("it opens for another browser")
	}
	f.must(f.opens(pending, browser))
	f.wait(time.Minute)
	for name, value := range map[string]oauth.Secret{"too old": pending, "made up": oauth.NewSecret("x"), "none": {}} {
		if _, _, _, err := f.ReopenRequest(t.Context(), value); oauth.AsError(err).Reason != "seal_broken" {
			t.Errorf("%s: %v", name, err)
		}
	}
}
