package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"

	"golang.org/x/net/html"
)

// codeVerifier is the PKCE verifier of every authorization request. Here all requests share it; an application needs
// a new one for each.
const codeVerifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"

// authorizePath returns the authorization request of the portal. Its nonce has a meaning only with openid among the
// scopes.
func authorizePath(scope string) string {
	digest := sha256.Sum256([]byte(codeVerifier))
	return "/oauth/authorize?" + url.Values{
		"response_type": {"code"}, "client_id": {portalID}, "redirect_uri": {callback}, "scope": {scope}, "state": {"bench"}, "nonce": {codeVerifier},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(digest[:])}, "code_challenge_method": {"S256"},
	}.Encode()
}

// person is a signed-in browser.
type person struct{ cookies string }

// signIn signs in on the sign-in page, as a browser does.
func signIn(ctx context.Context, s *server) (person, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return person{}, err
	}
	walk := http.Client{Jar: jar, CheckRedirect: func(next *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(next.URL.String(), callback) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	at := "http://" + s.Issuer + authorizePath("public")
	page, action, err := open(ctx, &walk, http.MethodGet, at, nil)
	if err != nil {
		return person{}, fmt.Errorf("the sign-in page: %w", err)
	}
	page.Set("email", quickEmail)
	page.Set("password", userPassword)
	if _, _, err := open(ctx, &walk, http.MethodPost, action, page); !errors.Is(err, errSignedIn) {
		return person{}, fmt.Errorf("signing in: %w", err)
	}
	home, err := url.Parse(at)
	if err != nil {
		return person{}, err
	}
	var pairs []string
	for _, cookie := range jar.Cookies(home) {
		pairs = append(pairs, cookie.Name+"="+cookie.Value)
	}
	return person{strings.Join(pairs, "; ")}, nil
}

// errSignedIn means that there was no form because the redirects have ended at the application.
var errSignedIn = errors.New("the application was reached")

// open requests a page and returns its form and the form's action.
func open(ctx context.Context, walk *http.Client, method, address string, form url.Values) (url.Values, string, error) {
	request, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, "", err
	}
	if method == http.MethodPost {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Origin", "null")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	response, err := walk.Do(request)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = response.Body.Close() }()
	if strings.HasPrefix(response.Header.Get("Location"), callback) {
		return nil, "", errSignedIn
	}
	fields, action, err := formIn(response.Body)
	if err != nil {
		return nil, "", fmt.Errorf("%s of %s: %w", response.Status, response.Request.URL.Path, err)
	}
	target, err := response.Request.URL.Parse(action)
	if err != nil {
		return nil, "", err
	}
	return fields, target.String(), nil
}

// formIn returns the fields of the form of a page, and its action.
func formIn(page io.Reader) (fields url.Values, action string, err error) {
	root, err := html.Parse(page)
	if err != nil {
		return nil, "", err
	}
	fields, found := make(url.Values), false
	for n := range root.Descendants() {
		switch name := attribute(n, "name"); {
		case n.Data == "form" && !found:
			action, found = attribute(n, "action"), true
		case n.Data == "input" && name != "" && attribute(n, "type") != "checkbox":
			fields.Set(name, attribute(n, "value"))
		}
	}
	if !found {
		return nil, "", errors.New("the page has no form")
	}
	return fields, action, nil
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
