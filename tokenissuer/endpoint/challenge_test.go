package endpoint

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// TestAStepUpChallengeSaysWhatSignInIsWanted holds the challenge to RFC 9470 §3: a client can do what it says.
func TestAStepUpChallengeSaysWhatSignInIsWanted(t *testing.T) {
	challenge := Challenge{Realm: "https://api.example", ResourceMetadata: "https://api.example/.well-known/oauth-protected-resource", Scope: "orders.read"}
	const end = `, resource_metadata="https://api.example/.well-known/oauth-protected-resource", scope="orders.read"`
	both := tokenissuer.InsufficientACR([]string{"gold"})
	both.MaxAge = 90*time.Second + 999*time.Millisecond
	for _, v := range []struct {
		name string
		err  *tokenissuer.Error
		want string
	}{
		{"max_age", tokenissuer.SignInTooOld(5 * time.Minute), `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="More recent authentication is required."` + end + `, max_age="300"`},
		{"acr_values", tokenissuer.InsufficientACR([]string{"urn:gold", "silver"}), `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="A different authentication level is required."` + end + `, acr_values="urn:gold silver"`},
		{"both", both, `Bearer realm="https://api.example", error="insufficient_user_authentication", ` +
			`error_description="A different authentication level is required."` + end + `, acr_values="gold", max_age="90"`},
		{"what could end the string", tokenissuer.InsufficientACR([]string{`a"b\c`, "d\r\nX-Evil: 1"}), `Bearer realm="https://api.example", ` +
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

// TestOtherChallengesAskForNoSignIn: a client that is told of max_age starts a sign-in, which would not help here.
func TestOtherChallengesAskForNoSignIn(t *testing.T) {
	for _, err := range []*tokenissuer.Error{
		tokenissuer.NewError(tokenissuer.Unauthorized, "token_missing"), tokenissuer.NewError(tokenissuer.InvalidToken, "expired"), tokenissuer.MissingScope("a"),
	} {
		w := httptest.NewRecorder()
		Challenge{Realm: "r"}.SetHeaders(w, err)
		if got := w.Header().Get("Www-Authenticate"); got == "" || strings.Contains(got, "max_age") || strings.Contains(got, "acr_values") {
			t.Errorf("%s: challenge %q", err.Code, got)
		}
	}
}
