package endpoint

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
)

// ask sends a request to the handler, with these cookies, and with headers as pairs of name and value.
func (c *counter) ask(method, target, form string, cookies []*http.Cookie, headers ...string) *http.Response {
	r := httptest.NewRequestWithContext(c.tb.Context(), method, costIssuer+target, strings.NewReader(form))
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for _, cookie := range cookies {
		r.AddCookie(cookie)
	}
	w := httptest.NewRecorder()
	c.ServeHTTP(w, r)
	return w.Result()
}

// TestEachPathHasItsFamily: every endpoint works with only what NewHandler gave it, and answers in its own error format.
func TestEachPathHasItsFamily(t *testing.T) {
	c := newCounter(t, oauth.ES256)
	const json, page = "application/json", "text/html"
	try := func(method, target string, status int, form string) {
		t.Helper()
		answer := c.ask(method, target, "", nil)
		if media := answer.Header.Get("Content-Type"); answer.StatusCode != status || !strings.HasPrefix(media, form) {
			t.Errorf("%s %s: %d %s, want %d %s", method, target, answer.StatusCode, media, status, form)
		}
	}
	for _, path := range []string{"/oauth/token", "/oauth/revoke", "/oauth/introspect"} {
		try("POST", path, http.StatusBadRequest, json)
		try("GET", path, http.StatusMethodNotAllowed, json)
	}
	try("GET", "/oauth/token/info", http.StatusUnauthorized, json)
	try("GET", userInfoPath, http.StatusUnauthorized, json)
	for _, path := range []string{wellKnownServer, wellKnownOpenID, WellKnownResource} {
		try("GET", path, http.StatusOK, json)
	}
	try("GET", "/oauth/jwks", http.StatusOK, "application/jwk-set+json")
	try("POST", adminUsers+"u-1"+adminSuffix, http.StatusUnauthorized, "application/vnd.api+json")
	try("GET", authorizePath, http.StatusBadRequest, page)
	try("GET", loginPath, http.StatusOK, page)
	try("GET", consentPath, http.StatusBadRequest, page)
	try("GET", logoutPath, http.StatusOK, page)
	try("DELETE", accountPath, http.StatusMethodNotAllowed, page)
	try("GET", "/oauth/nothing", http.StatusNotFound, json)

	try("POST", registerPath, http.StatusNotFound, json)
	try("GET", registerPath+"/c-1", http.StatusNotFound, json)
	if err := c.MountRegistration(new(clients.Registrar)); err != nil {
		t.Fatal(err)
	}
	try("POST", registerPath, http.StatusUnsupportedMediaType, json)
	try("PATCH", registerPath+"/c-1", http.StatusMethodNotAllowed, json)
}

var formTokenField = regexp.MustCompile(`name="form_token" value="([^"]+)"`)

// TestFormsOfTheAccountPage: without personal access tokens, their form is refused like any other unknown form.
func TestFormsOfTheAccountPage(t *testing.T) {
	c := newCounter(t, oauth.ES256)
	ada, err := c.issuer.Families.Directory.User(t.Context(), "u-ada")
	c.must(err)
	_, session, err := c.issuer.Sessions.OpenSession(t.Context(), signin.SignedIn{User: ada}, "test", "nonce")
	c.must(err)
	names := newCookies(costIssuer)
	cookies := []*http.Cookie{
		{Name: names.session, Value: session.Reveal()}, {Name: names.browser, Value: signin.NewBrowser().Reveal()},
	}
	answer := c.ask("GET", accountPath, "", cookies)
	page, err := io.ReadAll(answer.Body)
	c.must(err)
	token := formTokenField.FindSubmatch(page)
	if answer.StatusCode != http.StatusOK || token == nil {
		t.Fatalf("%d %s", answer.StatusCode, page)
	}
	for name, status := range map[string]int{"make": http.StatusBadRequest, "personal_token": http.StatusBadRequest, "nothing": http.StatusBadRequest, "session": http.StatusSeeOther} {
		form := url.Values{"form_token": {string(token[1])}, name: {"x"}}.Encode()
		if answer := c.ask("POST", accountPath, form, cookies, "Origin", costIssuer); answer.StatusCode != status {
			t.Errorf("%s: %d, want %d", name, answer.StatusCode, status)
		}
		if answer := c.ask("POST", accountPath, form, cookies, "Origin", "https://evil.example"); answer.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another site: %d", name, answer.StatusCode)
		}
	}
}
