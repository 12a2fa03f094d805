package answers

import (
	"cmp"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestAStepUpChallengeSaysWhatSignInIsWanted checks the challenge against RFC 9470 §3: a client can do what it requests.
func TestAStepUpChallengeSaysWhatSignInIsWanted(t *testing.T) {
	challenge := Challenge{Realm: "https://api.example", ResourceMetadata: "https://api.example/.well-known/oauth-protected-resource", Scope: "orders.read"}
	const end = `, resource_metadata="https://api.example/.well-known/oauth-protected-resource", scope="orders.read"`
	both := oauth.InsufficientACR([]string{"gold"})
	both.MaxAge = 90*time.Second + 999*time.Millisecond
	for _, v := range []struct {
		name string
		err  *oauth.Error
		want string
	}{
		{"max_age", oauth.SignInTooOld(5 * time.Minute), `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="More recent authentication is required."` + end + `, max_age="300"`},
		{"acr_values", oauth.InsufficientACR([]string{"urn:gold", "silver"}), `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="A different authentication level is required."` + end + `, acr_values="urn:gold silver"`},
		{"both", both, `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="A different authentication level is required."` + end + `, acr_values="gold", max_age="90"`},
		{"what could end the string", oauth.InsufficientACR([]string{`a"b\c`, "d\r\nX-Evil: 1"}), `Bearer realm="https://api.example", ` +
			`error="insufficient_user_authentication", error_description="A different authentication level is required."` + end + `, acr_values="a\"b\\c dX-Evil: 1"`},
	} {
		t.Run(v.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			if status := challenge.SetHeaders(w, v.err); status != 401 {
				t.Errorf("status %d, want 401", status)
			}
			if got := w.Header().Values("Www-Authenticate"); len(got) != 1 || got[0] != v.want {
				t.Errorf("challenge %q\nwant %q", got, v.want)
			}
		})
	}
}

// TestOtherChallengesAskForNoSignIn: max_age in a challenge makes a client start a sign-in, which would not help here.
func TestOtherChallengesAskForNoSignIn(t *testing.T) {
	for _, err := range []*oauth.Error{
		oauth.NewError(oauth.Unauthorized, "token_missing"), oauth.NewError(oauth.InvalidToken, "expired"), oauth.MissingScope("a"),
	} {
		w := httptest.NewRecorder()
		Challenge{Realm: "r"}.SetHeaders(w, err)
		if got := w.Header().Get("Www-Authenticate"); got == "" || strings.Contains(got, "max_age") || strings.Contains(got, "acr_values") {
			t.Errorf("%s: challenge %q", err.Code, got)
		}
	}
}

func TestAChallengeKeepsWhatTheAnswerVariesBy(t *testing.T) {
	w := httptest.NewRecorder()
	w.Header().Set("Vary", "Origin")
	setChallenge(w, "Bearer")
	if got := w.Header().Values("Vary"); !slices.Equal(got, []string{"Origin", "Accept"}) {
		t.Errorf("Vary: %q", got)
	}
}

// TestPreparedRefusalsAreNotMixedUp: each prepared refusal belongs to its own challenge, and changing the header of one response does not
// change later ones.
func TestPreparedRefusalsAreNotMixedUp(t *testing.T) {
	challenges := make(map[Challenge]*PreparedChallenge)
	expired := oauth.NewError(oauth.InvalidToken, "token_expired").WithDescription("The access token expired")
	scoped := oauth.NewError(oauth.InvalidToken, "x")
	scoped.Scope = "orders.read"
	needs := ""
	answer := func(c Challenge, err error) (challenge, body string) {
		t.Helper()
		if challenges[c] == nil {
			challenges[c] = c.Prepare()
		}
		w := httptest.NewRecorder()
		status := challenges[c].SetHeaders(w, err, needs)
		WriteRefusal(w, httptest.NewRequest("GET", "/", nil), status, err)
		challenge, body = w.Header().Get("Www-Authenticate"), w.Body.String()
		for name, want := range map[string]string{"Cache-Control": "no-store", "Content-Type": "application/json; charset=utf-8", "Vary": "Accept"} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s", name, got)
			}
		}
		for _, lines := range w.Header() { // as another handler may do
			for i := range lines {
				lines[i] = "spoiled"
			}
		}
		return challenge, body
	}
	for range 2 {
		for _, needs = range []string{"orders.read orders.write", "orders.read", ""} {
			if challenge, _ := answer(Challenge{Realm: "a", Scope: "orders.list"}, expired); !strings.Contains(challenge, `scope="`+cmp.Or(needs, "orders.list")+`"`) {
				t.Errorf("the request needs %q: %s", needs, challenge)
			}
		}
		for _, v := range []struct {
			name            string
			challenge       Challenge
			err             error
			want, wantsBody string
		}{
			{"bad token", Challenge{Realm: "a"}, oauth.NewError(oauth.InvalidToken, "x"), `Bearer realm="a", error="invalid_token"`, `"invalid_token"`},
			{"another realm", Challenge{Realm: "b"}, oauth.NewError(oauth.InvalidToken, "x"), `Bearer realm="b", error="invalid_token"`, `"invalid_token"`},
			{"another sentence", Challenge{Realm: "a"}, expired, `error_description="The access token expired"`, "The access token expired"},
			{"metadata", Challenge{Realm: "a", ResourceMetadata: "https://a"}, expired, `resource_metadata="https://a"`, "expired"},
			{"the scope of the route", Challenge{Realm: "a", Scope: "orders.write"}, expired, `scope="orders.write"`, "expired"},
			{"the scope of the error", Challenge{Realm: "a"}, scoped, `scope="orders.read"`, "invalid_token"},
			{"no token", Challenge{Realm: "a"}, oauth.NewError(oauth.Unauthorized, "x"), `Bearer realm="a"`, `"unauthorized"`},
		} {
			if challenge, body := answer(v.challenge, v.err); !strings.Contains(challenge, v.want) || !strings.Contains(body, v.wantsBody) {
				t.Errorf("%s: %s %s", v.name, challenge, body)
			}
		}
	}
}

// TestPreparedPartsAreFew: at most maxPrepared values are kept, whatever is requested.
func TestPreparedPartsAreFew(t *testing.T) {
	var p prepared[int]
	for i := range 10 * maxPrepared {
		key := refusalKey{oauth.InvalidToken, strconv.Itoa(i), ""}
		if got := p.get(key, func() int { return -i }); got != -i {
			t.Fatalf("%d for %d", got, i)
		}
		if kept := len(*p.kept.Load()); kept > maxPrepared {
			t.Fatalf("%d are kept", kept)
		}
	}
}

// TestManyRoutesPrepareTheirOwnChallenges: each of many challenges is prepared once, and only those that were requested are kept.
func TestManyRoutesPrepareTheirOwnChallenges(t *testing.T) {
	common := []*oauth.Error{
		oauth.NewError(oauth.Unauthorized, "token_missing"), oauth.NewError(oauth.InvalidToken, "token_malformed"),
		oauth.NewError(oauth.InvalidToken, "token_expired").WithDescription("The access token expired"),
		oauth.NewError(oauth.InvalidToken, "token_revoked").WithDescription("The access token was revoked"),
	}
	routes := make([]*PreparedChallenge, 300)
	for i := range routes {
		routes[i] = Challenge{Realm: "https://api.example", Scope: "orders." + strconv.Itoa(i)}.Prepare()
	}
	refuse := func(c *PreparedChallenge) {
		for _, err := range append(common, oauth.MissingScope("a"), oauth.SignInTooOld(time.Minute)) {
			c.SetHeaders(httptest.NewRecorder(), err, "")
		}
	}
	kept := make([]*map[refusalKey]string, len(routes))
	for i, c := range routes {
		refuse(c)
		if kept[i] = c.lines.kept.Load(); len(*kept[i]) != len(common) {
			t.Fatalf("route %d keeps %d challenges of %d", i, len(*kept[i]), len(common))
		}
	}
	for i, c := range routes {
		if refuse(c); c.lines.kept.Load() != kept[i] {
			t.Fatalf("route %d has made its challenges once more", i)
		}
	}
}

func BenchmarkRefusal(b *testing.B) {
	c := Challenge{Realm: "https://api.example", ResourceMetadata: "https://api.example/.well-known/oauth-protected-resource"}.Prepare()
	w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil)
	w.Body = nil
	err := oauth.NewError(oauth.InvalidToken, "token_malformed")
	b.ReportAllocs()
	for b.Loop() {
		clear(w.Header())
		WriteRefusal(w, r, c.SetHeaders(w, err, ""), err)
	}
}
