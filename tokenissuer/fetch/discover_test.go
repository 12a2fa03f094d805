package fetch

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/internal/issuertest"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// TestDiscoveryLooksInBothPlaces (RFC 8414 §3.1, OpenID Connect Discovery §4.1).
func TestDiscoveryLooksInBothPlaces(t *testing.T) {
	for issuer, want := range map[string][]string{
		"https://a.example":              {"https://a.example" + issuertest.OAuthPath, "https://a.example" + issuertest.OpenIDPath},
		"https://a.example/":             {"https://a.example" + issuertest.OAuthPath, "https://a.example" + issuertest.OpenIDPath},
		"https://a.example:8443/realm/x": {"https://a.example:8443" + issuertest.OAuthPath + "/realm/x", "https://a.example:8443/realm/x" + issuertest.OpenIDPath},
		"https://a.example/realm/":       {"https://a.example" + issuertest.OAuthPath + "/realm", "https://a.example/realm" + issuertest.OpenIDPath},
		"https://a.example/a%2Fb":        {"https://a.example" + issuertest.OAuthPath + "/a%2Fb", "https://a.example/a%2Fb" + issuertest.OpenIDPath},
	} {
		if got, err := metadataPlaces(issuer); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v", issuer, got, err)
		}
	}
	key := issuertest.NewSigner("k")
	for _, path := range []string{issuertest.OAuthPath + "/realm", "/realm" + issuertest.OpenIDPath} {
		p := issuertest.NewProvider(t, key)
		p.Answer(path, issuertest.Text(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, p.URL+"/realm", p.URL+issuertest.KeysPath)))
		g := newGate(t, p, func(s *Source) { s.Issuer += "/realm" })
		g.accepts(t, key)
		g.fetchNow()
		if n := p.Count(path); n != 1 || p.Fetches() != 2 {
			t.Errorf("%s was asked for %d times", path, n)
		}
	}
}

// TestG88Metadata that is not the issuer's own, or that puts the keys anywhere else, is refused; an operator may say where
// they are.
func TestG88Metadata(t *testing.T) {
	key := issuertest.NewSigner("k")
	elsewhere := issuertest.NewProvider(t, key)
	document := func(issuer, uri string) func(*issuertest.Provider) string {
		return func(p *issuertest.Provider) string {
			return strings.ReplaceAll(fmt.Sprintf(`{"issuer":%q,"jwks_uri":%q}`, issuer, uri), "SELF", p.URL)
		}
	}
	for name, test := range map[string]struct {
		metadata func(*issuertest.Provider) string
		warned   string
	}{
		"another issuer":       {document("https://idp.example", "SELF/keys"), "is that of issuer"},
		"a slash more":         {document("SELF/", "SELF/keys"), "is that of issuer"},
		"another case":         {func(p *issuertest.Provider) string { return document("HTTP"+p.URL[4:], "SELF/keys")(p) }, "is that of issuer"},
		"no issuer":            {func(p *issuertest.Provider) string { return `{"jwks_uri":"` + p.URL + `/keys"}` }, "is that of issuer"},
		"keys on another port": {document("SELF", elsewhere.URL+"/keys"), "set jwks_uri"},
		"keys on another host": {document("SELF", "https://keys.example/keys"), "set jwks_uri"},
		"keys on another name": {func(p *issuertest.Provider) string {
			return document("SELF", strings.Replace(p.URL, "127.0.0.1", "localhost", 1)+"/keys")(p)
		}, "set jwks_uri"},
		"keys by another scheme": {func(p *issuertest.Provider) string { return document("SELF", "https"+p.URL[4:]+"/keys")(p) }, "set jwks_uri"},
		"keys with a user":       {func(p *issuertest.Provider) string { return document("SELF", "http://u:w@"+p.URL[7:]+"/keys")(p) }, "no URL of a server"},
		"keys in a file":         {document("SELF", "file:///etc/passwd"), "no URL of a server"},
		"keys in the document":   {document("SELF", "data:application/json,{}"), "no URL of a server"},
		"no jwks_uri":            {func(p *issuertest.Provider) string { return `{"issuer":"` + p.URL + `"}` }, "no jwks_uri"},
		"a list of jwks_uri": {func(p *issuertest.Provider) string {
			return `{"issuer":"` + p.URL + `","jwks_uri":["` + p.URL + `/keys"]}`
		}, "malformed"},
		"two issuers":     {func(p *issuertest.Provider) string { return `{"issuer":"x",` + p.Metadata()[1:] }, "malformed"},
		"something after": {func(p *issuertest.Provider) string { return p.Metadata() + "{}" }, "malformed"},
		"a page":          {func(*issuertest.Provider) string { return "<!doctype html>" }, "malformed"},
		"nothing":         {func(*issuertest.Provider) string { return "" }, "malformed"},
		"another case of a member": {func(p *issuertest.Provider) string {
			return `{"Issuer":"` + p.URL + `","jwks_uri":"` + p.URL + `/keys"}`
		}, "is that of issuer"},
	} {
		t.Run(name, func(t *testing.T) {
			p := issuertest.NewProvider(t, key)
			p.Answer(issuertest.OAuthPath, issuertest.Text(test.metadata(p)))
			g := newGate(t, p)
			g.refuses(t, key, oauth.TemporarilyUnavailable, reasonNotLoaded)
			if !g.warned(test.warned) || p.Fetches() != 0 {
				t.Errorf("%d fetches, warned of %q", p.Fetches(), g.warnings)
			}
			newGate(t, p, atKeys).accepts(t, key) // who needs no metadata reads none
		})
	}
	if n := elsewhere.Fetches(); n != 0 {
		t.Errorf("the foreign jwks_uri was asked %d times", n)
	}
	p := issuertest.NewProvider(t)
	p.Answer(issuertest.OAuthPath, http.NotFound)
	newGate(t, p, func(s *Source) { s.JWKSURI = elsewhere.URL + issuertest.KeysPath }).accepts(t, key)
}

// TestAMovedKeySetIsFound: cached metadata is read again when the keys are gone.
func TestAMovedKeySetIsFound(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	g := newGate(t, p)
	g.fetchNow()
	p.Answer(issuertest.KeysPath, http.NotFound)
	p.Answer("/new", issuertest.Text(issuertest.JWKS(key.JWK(), issuertest.NewSigner("l").JWK())))
	p.Answer(issuertest.OAuthPath, issuertest.Text(strings.Replace(p.Metadata(), issuertest.KeysPath, "/new", 1)))
	g.fetchNow()
	g.fetchNow()
	if known := g.known.Load(); !known.current || known.set.usable.Kids() != 2 {
		t.Errorf("%+v", known)
	}
}

// TestG88AnIssuerThatIsFoundLate: where its keys are is found out once, although no time was left to fetch them.
func TestG88AnIssuerThatIsFoundLate(t *testing.T) {
	key := issuertest.NewSigner("k")
	p := issuertest.NewProvider(t, key)
	p.Answer(issuertest.KeysPath, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	g := newGate(t, p)
	for timeout := time.Second; p.Fetches() == 0; timeout *= 2 { // until there is time for the metadata
		if timeout > time.Minute {
			t.Fatal("the issuer is not found")
		}
		g.server.client.limits.Timeout = timeout
		g.fetchNow()
	}
	before := p.Count(issuertest.OAuthPath)
	p.Publish(key)
	g.server.client.limits.Timeout = time.Minute
	g.fetchNow()
	g.accepts(t, key)
	if n := p.Count(issuertest.OAuthPath); n != before {
		t.Errorf("metadata was read %d times more", n-before)
	}
}
