package browser

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Ask describes a sign-in.
type Ask struct {
	// Return is where the browser goes afterwards, as it stands in a request line.
	Return string
	// MaxAge is how old the sign-in may be; zero: any age will do.
	MaxAge time.Duration
	// TwoFactors asks for a sign-in with two factors.
	TwoFactors bool
	// Prompt is OpenID Connect's parameter prompt; empty: there is none.
	Prompt string
	// Provider is the identity provider at which the user signs in; empty: the default one or, with an issuer, what its page says.
	Provider string
	// again: an attempt has come back to another browser. Shortened: Return is not all of the address.
	again, shortened bool
}

// Begin sends a browser to sign in. It fails if the redirect cannot be built.
func (h *Handler) Begin(w http.ResponseWriter, r *http.Request, host oauth.Host, ask Ask) error {
	secret := browser(r, host)
	if secret.IsEmpty() {
		secret = signin.NewBrowser()
		set(w, host, cookiesOf(host).browser, secret)
	}
	attempt := signin.NewHostAttempt(host.Origin(), returnPath(ask.Return), secret)
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
	if ask.TwoFactors {
		query.Set("acr_values", oauth.TwoFactorACR)
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

// maxLink bounds a link in bytes.
const maxLink = 12 << 10

// seal returns an attempt as a state. It shortens a return path that is too long, first to the path without its query, then to
// "/", and marks the attempt as shortened.
func (h *Handler) seal(attempt *signin.HostAttempt) (oauth.Secret, error) {
	state, err := h.Sessions.Seal(*attempt)
	if err != nil || len(state.Reveal()) <= h.at.maxState() || attempt.Return == "/" {
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

// signInLink returns the link with which a browser signs in and comes back to a path. It shortens a path that does not fit, and
// marks the link as shortened.
func signInLink(path string, query url.Values) string {
	query.Set("return", path)
	link := signInPath + "?" + query.Encode()
	if len(link) <= maxLink || path == "/" {
		return link
	}
	query.Set("shortened", "yes")
	return signInLink(shortened(path), query)
}

// returnPath returns the path on its host to which a browser comes back. It replaces a text that is not a valid request target
// by "/".
func returnPath(text string) string {
	if !strings.HasPrefix(text, "/") || strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
		return "/"
	}
	return text
}

// arrive sends a browser that is signed in to the page at which it began to sign in. If the path was shortened, a page says so.
func (h *Handler) arrive(w http.ResponseWriter, r *http.Request, host oauth.Host, attempt signin.HostAttempt) {
	if attempt.Shortened {
		h.Pages.explain(w, r, host, explanation{http.StatusOK, pages.Shortened, attempt})
		return
	}
	goOn(w, host, attempt.Return)
}

// goOn sends a browser to a page of the host. The URL is absolute: a path that begins with two slashes would name another host.
func goOn(w http.ResponseWriter, host oauth.Host, path string) {
	seeOther(w, host.Origin()+returnPath(path))
}

// prompts are the values of prompt that a link may have.
var prompts = map[string]bool{"login": true, "select_account": true}

// signIn serves /oauth/sign_in: `return` is the path to go to afterwards, and `prompt=login` asks also who is signed in.
func (h *Handler) signIn(w http.ResponseWriter, r *http.Request, host oauth.Host) error {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return oauth.NewError(oauth.InvalidRequest, "query_malformed")
	}
	ask := Ask{Return: query.Get("return"), Provider: query.Get("provider"), shortened: query.Get("shortened") == "yes"}
	if h.at.provider(ask.Provider) == nil {
		ask.Provider = ""
	}
	if prompts[query.Get("prompt")] {
		ask.Prompt = query.Get("prompt")
	}
	if ask.Prompt == "" {
		_, err := h.Session(r, host)
		switch {
		case err == nil && ask.Return == "":
			h.Pages.show(w, r, http.StatusOK, pages.AtHost{Code: pages.SignedIn, URL: "/"})
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
