package hostsession

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// ServeDenied answers a navigation that the rules of a route refuse to the user who is signed in. The page offers to come back to
// the address with another account. It does not say what the rules require.
func (h *Handler) ServeDenied(w http.ResponseWriter, r *http.Request, t *token.AccessToken, address string) {
	page := pages.Denied{
		SignOutURL: signOutPath,
		SwitchURL:  signInLink(returnPath(address), url.Values{"prompt": {"select_account"}}),
	}
	page.Email, _ = t.Email()
	page.User = cmp.Or(strings.Join(t.Claim("name"), " "), page.Email, t.Subject)
	w.Header().Add("Vary", "Accept, Cookie, Sec-Fetch-Mode, Sec-Fetch-Dest")
	h.show(w, r, http.StatusForbidden, page)
}
