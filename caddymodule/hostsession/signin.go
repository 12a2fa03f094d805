package hostsession

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/hosts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
)

// Ask is what a sign-in is to be.
type Ask struct {
	// Return is where the browser goes afterwards, as it stands in a request line.
	Return string
	// MaxAge is how old the sign-in may be; zero: any age will do.
	MaxAge time.Duration
	// Prompt is that of OpenID Connect; empty: nobody is asked who is signed in.
	Prompt string
	// Provider is the identity provider at which the user signs in; empty: the default one or, with an issuer, what its page says.
	Provider string
	// again: an attempt has come back to another browser.
	again bool
}

// Begin sends a browser to sign in. It fails when the way there cannot be made.
func (h *Handler) Begin(w http.ResponseWriter, r *http.Request, host routes.Host, ask Ask) error {
	secret := browser(r, host)
	if secret.IsEmpty() {
		secret = tokenissuer.NewBrowser()
		set(w, host, cookiesOf(host).browser, secret)
	}
	attempt := hosts.NewAttempt(host.Origin(), returnPath(ask.Return), secret)
	attempt.Again, attempt.Provider = ask.again, ask.Provider
	if h.Direct {
		return h.beginAt(w, r, attempt, host, ask)
	}
	state, err := h.Sessions.Seal(attempt)
	if err != nil {
		return err
	}
	query := url.Values{
		"client_id": {tokenissuer.HostClientID}, "response_type": {"code"}, "redirect_uri": {host.Callback()}, "state": {state.Reveal()},
		"nonce": {attempt.Nonce}, "code_challenge": {attempt.Challenge()}, "code_challenge_method": {oauth.ChallengeMethodS256},
	}
	if ask.MaxAge > 0 {
		query.Set("max_age", strconv.FormatInt(int64(ask.MaxAge/time.Second), 10))
	}
	for name, value := range map[string]string{"prompt": ask.Prompt, "provider": ask.Provider} {
		if value != "" {
			query.Set(name, value)
		}
	}
	seeOther(w, h.Issuer.URL+"/oauth/authorize?"+query.Encode())
	return nil
}

func seeOther(w http.ResponseWriter, location string) {
	header := w.Header()
	header.Set("Location", location)
	header.Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusSeeOther)
}

// maxReturn bounds a path in bytes: it travels in the state.
const maxReturn = 3 << 10

// returnPath returns where a browser comes back to: a path on its host. What is too long loses its query, and anything else than a
// path, as it can stand in a request line, is the host's first page.
func returnPath(text string) string {
	if len(text) > maxReturn {
		text, _, _ = strings.Cut(text, "?")
	}
	if !strings.HasPrefix(text, "/") || len(text) > maxReturn || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "/"
	}
	return text
}

// goOn sends a browser to a page of the host. The URL is absolute: a path that begins with two slashes would name another host.
func goOn(w http.ResponseWriter, host routes.Host, path string) {
	seeOther(w, host.Origin()+returnPath(path))
}

// prompts are those that a link may ask for.
var prompts = map[string]bool{"login": true, "select_account": true}

// signIn serves /oauth/sign_in: `return` is the path to go to afterwards, and `prompt=login` asks also who is signed in.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request, host routes.Host) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return oauth.NewError(oauth.InvalidRequest, "query_malformed")
	}
	ask := Ask{Return: query.Get("return"), Provider: query.Get("provider")}
	if h.provider(ask.Provider) == nil {
		ask.Provider = ""
	}
	if prompts[query.Get("prompt")] {
		ask.Prompt = query.Get("prompt")
	}
	if ask.Prompt == "" {
		_, err := h.Session(r, host)
		switch {
		case err == nil && ask.Return == "":
			h.show(w, r, http.StatusOK, pages.AtHost{Code: pages.SignedIn, URL: "/"})
			return nil
		case err == nil:
			goOn(w, host, ask.Return)
			return nil
		case !isNone(err):
			return err
		}
	}
	if ask.Return == "" {
		ask.Return = signInPath
	}
	return h.Begin(w, r, host, ask)
}

// ServeInterrupted answers a form that was sent without a session: nothing was done with it, and it can be sent again from a browser
// that has signed in meanwhile.
func (h *Handler) ServeInterrupted(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Cache-Control", "no-store")
	h.show(w, r, status, pages.AtHost{Code: pages.Interrupted, URL: signInPath, NewTab: true})
}
