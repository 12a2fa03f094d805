package hostsession

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/hosts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/routes"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
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
	// again: an attempt has come back to another browser. Shortened: Return is not all of the address.
	again, shortened bool
}

// Begin sends a browser to sign in. It fails when the way there cannot be made.
func (h *Handler) Begin(w http.ResponseWriter, r *http.Request, host routes.Host, ask Ask) error {
	secret := browser(r, host)
	if secret.IsEmpty() {
		secret = signin.NewBrowser()
		set(w, host, cookiesOf(host).browser, secret)
	}
	attempt := hosts.NewAttempt(host.Origin(), returnPath(ask.Return), secret)
	attempt.Again, attempt.Provider, attempt.Shortened = ask.again, ask.Provider, ask.shortened
	if h.Direct {
		return h.beginAt(w, r, attempt, host, ask)
	}
	state, err := h.seal(&attempt)
	if err != nil {
		return err
	}
	query := url.Values{
		"client_id": {store.BuiltInClientID}, "response_type": {"code"}, "redirect_uri": {host.Callback()}, "state": {state.Reveal()},
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
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusSeeOther)
}

// maxState returns the most bytes of a state, which travels in URLs. With the other headers of a browser they have to fit into the 16 KiB
// that Caddy reads, and where people sign in at providers into the 8 KiB of a URL that other servers take: the issuer puts the state into
// that of the provider.
func (h *Handler) maxState() int {
	switch {
	case len(h.Providers) == 0:
		return maxLink
	case h.Direct:
		return 7 << 10
	}
	return 5632 // which the issuer and the provider bring to 7 KiB
}

// maxLink bounds a link in bytes.
const maxLink = 12 << 10

// seal returns an attempt as a state. If the path to which the browser comes back is too long for that, it loses its query, or all, and
// the attempt says so.
func (h *Handler) seal(attempt *hosts.Attempt) (oauth.Secret, error) {
	state, err := h.Sessions.Seal(*attempt)
	if err != nil || len(state.Reveal()) <= h.maxState() || attempt.Return == "/" {
		return state, err
	}
	attempt.Return, attempt.Shortened = shortened(attempt.Return), true
	return h.seal(attempt)
}

// shortened returns a path without its query or, if it has none, the host's first page.
func shortened(path string) string {
	if path, _, ok := strings.Cut(path, "?"); ok {
		return path
	}
	return "/"
}

// signInLink returns the link with which a browser signs in and comes back to a path. A longer path than fits is shortened, and the link
// says so.
func signInLink(path string, query url.Values) string {
	query.Set("return", path)
	link := signInPath + "?" + query.Encode()
	if len(link) <= maxLink || path == "/" {
		return link
	}
	query.Set("shortened", "yes")
	return signInLink(shortened(path), query)
}

// returnPath returns where a browser comes back to: a path on its host. Anything else than a path, as it can stand in a request line, is
// the host's first page.
func returnPath(text string) string {
	if !strings.HasPrefix(text, "/") || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "/"
	}
	return text
}

// arrive sends a browser that is signed in to the page at which it began to sign in, or says that it can only be led near it.
func (h *Handler) arrive(w http.ResponseWriter, r *http.Request, host routes.Host, attempt hosts.Attempt) {
	if attempt.Shortened {
		h.explain(w, r, host, explanation{http.StatusOK, pages.Shortened, attempt})
		return
	}
	goOn(w, host, attempt.Return)
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
	ask := Ask{Return: query.Get("return"), Provider: query.Get("provider"), shortened: query.Get("shortened") == "yes"}
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
	h.show(w, r, status, pages.AtHost{Code: pages.Interrupted, URL: signInPath, NewTab: true})
}

// ServeForeign answers a form that a page of another site has sent: nothing was done with it.
func (h *Handler) ServeForeign(w http.ResponseWriter, r *http.Request, status int) {
	w.Header().Set("Cache-Control", "no-store")
	h.show(w, r, status, pages.AtHost{Code: pages.Foreign, URL: "/"})
}
