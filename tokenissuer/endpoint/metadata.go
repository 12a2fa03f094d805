package endpoint

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/go-json-experiment/json"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer/grants"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// publicMaxAge lets clients cache metadata and keys for five minutes.
const publicMaxAge = "public, max-age=300"

// ResourceMetadataURL returns the URL of the metadata for a client that was refused (RFC 9728 §3.1): at the audience if that is a URL, or
// else at the issuer.
func ResourceMetadataURL(issuer *clients.Policy) string {
	u, err := url.Parse(issuer.Audience[0])
	if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") {
		if u, err = url.Parse(issuer.URL); err != nil {
			return ""
		}
	}
	return u.Scheme + "://" + u.Host + WellKnownResource + strings.TrimSuffix(u.EscapedPath(), "/")
}

// ResourceMetadata is the metadata of a protected resource (RFC 9728 §2).
type ResourceMetadata struct {
	// Resource is the resource identifier, a URL.
	Resource string
	// Servers are the issuers whose tokens the resource accepts.
	Servers []string
	// Scopes are those that requests may need. It is empty if they are unknown.
	Scopes []string
	// AtRoot also serves the metadata at the well-known path itself, for clients that look only there.
	AtRoot bool
}

func (m ResourceMetadata) document() ([]byte, error) {
	return json.Marshal(struct {
		Resource string   `json:"resource"`
		Servers  []string `json:"authorization_servers"`
		Scopes   []string `json:"scopes_supported,omitzero"`
		Methods  []string `json:"bearer_methods_supported"`
	}{m.Resource, m.Servers, m.Scopes, []string{"header"}})
}

// resourceMetadata returns the metadata of the issuer's audience.
func resourceMetadata(issuer *clients.Policy) ([]byte, error) {
	return ResourceMetadata{Resource: issuer.Audience[0], Servers: []string{issuer.URL}, Scopes: oauth.ResourceScopes(issuer.Scopes.Names())}.document()
}

// documents are the documents that the issuer publishes.
type documents struct {
	policy    *clients.Policy
	open      *clients.Open
	grants    *grants.Grants
	minter    *issuer.Minter
	languages []string
	// authorizations know the classes of sign-ins and the values of prompt.
	authorizations *issuer.Authorizations
	// register is the URL at which clients register. It is empty if they cannot.
	register string
	metadata atomic.Pointer[[]byte]
	resource []byte
}

func (d *documents) serveMetadata(w http.ResponseWriter, r *http.Request) error {
	return writePublic(w, r, "application/json", *d.metadata.Load())
}

func (d *documents) serveResourceMetadata(w http.ResponseWriter, r *http.Request) error {
	return writePublic(w, r, "application/json", d.resource)
}

// jwks serves the public keys (RFC 7517 §5).
func (d *documents) jwks(w http.ResponseWriter, r *http.Request) error {
	keys, err := d.minter.JWKS()
	if err != nil {
		return err
	}
	return writePublic(w, r, "application/jwk-set+json", keys)
}

// writePublic writes a document that clients may cache, or 304 if they have it. Equal documents have equal tags on every node.
func writePublic(w http.ResponseWriter, r *http.Request, mediaType string, body []byte) error {
	digest := sha256.Sum256(body)
	tag := `"` + base64.RawURLEncoding.EncodeToString(digest[:12]) + `"`
	w.Header().Set("ETag", tag)
	w.Header().Set("Cache-Control", publicMaxAge)
	w.Header().Del("Pragma")
	if strings.Contains(r.Header.Get("If-None-Match"), tag) { // a list of quoted tags (RFC 9110 §13.1.2)
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	w.Header().Set("Content-Type", mediaType)
	_, _ = w.Write(body) // an error means that the client has disconnected
	return nil
}
