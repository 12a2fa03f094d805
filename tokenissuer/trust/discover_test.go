package trust

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestDiscoveryLooksInBothPlaces (RFC 8414 §3.1, OpenID Connect Discovery §4.1).
func TestDiscoveryLooksInBothPlaces(t *testing.T) {
	for issuer, want := range map[string][]string{
		"https://a.example":              {"https://a.example" + oauthPath, "https://a.example" + oidcPath},
		"https://a.example/":             {"https://a.example" + oauthPath, "https://a.example" + oidcPath},
		"https://a.example:8443/realm/x": {"https://a.example:8443" + oauthPath + "/realm/x", "https://a.example:8443/realm/x" + oidcPath},
		"https://a.example/realm/":       {"https://a.example" + oauthPath + "/realm", "https://a.example/realm" + oidcPath},
		"https://a.example/a%2Fb":        {"https://a.example" + oauthPath + "/a%2Fb", "https://a.example/a%2Fb" + oidcPath},
	} {
		if got, err := metadataPlaces(issuer); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", issuer, got, err)
		}
	}
	key := newSigner("k")
	for _, path := range []string{oauthPath + "/realm", "/realm" + oidcPath} {
		p := newProvider(t, key)
		p.answer(path, text(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, p.URL+"/realm", p.URL+keysPath)))
		g := newGate(t, p, func(s *Settings) { s.Issuer += "/realm" })
		g.accepts(t, key.token(p.URL+"/realm", nil))
		g.fetchNow()
		if n := p.count(path); n != 1 || p.fetches() != 2 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}

// TestG88Metadata that is not the issuer's own, or that puts the keys anywhere else, is refused; an operator may say where
// they are.
func TestG88Metadata(t *testing.T) {
	key := newSigner("k")
	elsewhere := newProvider(t, key)
	document := func(issuer, uri string) func(*provider) string {
		return func(p *provider) string {
			return strings.ReplaceAll(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, uri), "SELF", p.URL)
		}
	}
	for name, test := range map[string]struct {
		metadata func(*provider) string
		warned   string
	}{
		"another issuer":       {document("https://idp.example", "SELF/keys"), "is that of issuer"},
		"a slash more":         {document("SELF/", "SELF/keys"), "is that of issuer"},
		"another case":         {func(p *provider) string { return document("HTTP"+p.URL[4:], "SELF/keys")(p) }, "is that of issuer"},
		"no issuer":            {func(p *provider) string { return `{"jwks_uri":"` + p.URL + `/keys"}` }, "is that of issuer"},
		"keys on another port": {document("SELF", elsewhere.URL+"/keys"), "set jwks_uri"},
		"keys on another host": {document("SELF", "https://keys.example/keys"), "set jwks_uri"},
		"keys on another name": {func(p *provider) string {
			return document("SELF", strings.Replace(p.URL, "127.0.0.1", "localhost", 1)+"/keys")(p)
		}, "set jwks_uri"},
		"keys by another scheme":   {func(p *provider) string { return document("SELF", "https"+p.URL[4:]+"/keys")(p) }, "set jwks_uri"},
		"keys with a user":         {func(p *provider) string { return document("SELF", "http://u:w@"+p.URL[7:]+"/keys")(p) }, "no URL of an issuer"},
		"keys in a file":           {document("SELF", "file:///etc/passwd"), "no URL of an issuer"},
		"keys in the document":     {document("SELF", "data:application/json,{}"), "no URL of an issuer"},
		"no jwks_uri":              {func(p *provider) string { return `{"issuer":"` + p.URL + `"}` }, "no jwks_uri"},
		"a list of jwks_uri":       {func(p *provider) string { return `{"issuer":"` + p.URL + `","jwks_uri":["` + p.URL + `/keys"]}` }, "malformed"},
		"two issuers":              {func(p *provider) string { return `{"issuer":"x",` + p.metadata()[1:] }, "malformed"},
		"something after":          {func(p *provider) string { return p.metadata() + "{}" }, "malformed"},
		"a page":                   {func(*provider) string { return "<!doctype html>" }, "malformed"},
		"nothing":                  {func(*provider) string { return "" }, "malformed"},
		"another case of a member": {func(p *provider) string { return `{"Issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/keys"}` }, "is that of issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newProvider(t, key)
			p.answer(oauthPath, text(test.metadata(p)))
			g := newGate(t, p)
			g.refuses(t, key.token(p.URL, nil), oauth.TemporarilyUnavailable, reasonNotLoaded)
			if !g.warned(test.warned) || p.fetches() != 0 {
				t.Errorf("%d fetches, warned of %q", p.fetches(), g.warnings)
			}
			newGate(t, p, atKeys).accepts(t, key.token(p.URL, nil)) // who needs no metadata reads none
		})
	}
	if n := elsewhere.fetches(); n != 0 {
		t.Errorf("the foreign jwks_uri was asked %d times", n)
	}
	p := newProvider(t)
	p.answer(oauthPath, http.NotFound)
	newGate(t, p, func(s *Settings) { s.JWKSURI = elsewhere.URL + keysPath }).accepts(t, key.token(p.URL, nil))
}

// TestAMovedKeySetIsFound: metadata that was read before is not gone by when the keys are not there any more.
func TestAMovedKeySetIsFound(t *testing.T) {
	key := newSigner("k")
	p := newProvider(t, key)
	g := newGate(t, p)
	g.fetchNow()
	p.answer(keysPath, http.NotFound)
	p.answer("/new", text(jwks(key.jwk(), newSigner("l").jwk())))
	p.answer(oauthPath, text(strings.Replace(p.metadata(), keysPath, "/new", 1)))
	g.fetchNow()
	g.fetchNow()
	if known := g.keys.known.Load(); !known.current || known.set.usable.Kids() != 2 {
		t.Errorf("%+v", known)
	}
}
