package gate

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/accesstoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestChallengeBrowserSparesWhoIsSignedIn: whatever the refusal is about, signing in again would not mend it.
func TestChallengeBrowserSparesWhoIsSignedIn(t *testing.T) {
	p := &Protect{Challenge: challengeBrowser, TokenCookie: sessionTokenCookie}
	r := httptest.NewRequest(http.MethodGet, "/x", nil)
	r.Header.Set("Accept", "text/html")
	refusal := oauth.NewError(oauth.InvalidToken, "identity_too_long")
	for name, d := range map[string]decision{
		"a good token": {token: new(accesstoken.AccessToken), rawToken: oauth.NewSecret("t"), cookie: true}, "a session": {signedIn: true},
	} {
		if p.signIn(nil, r, &d, refusal) {
			t.Errorf("%s: sent to sign in", name)
		}
	}
}
