package caddymodule

import (
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// ClientConfig declares a client.
type ClientConfig struct {
	// ID is the client_id.
	ID string `json:"id"`
	// Secret is the client secret as {env.NAME} or {file./path}: Caddy stores what stands here.
	Secret string `json:"secret,omitempty"`
	// SecretSHA256 is the hex SHA-256 of the secret, in place of Secret. A secret that is written out in a Caddyfile
	// arrives here, so that the running configuration does not hold it.
	SecretSHA256 string `json:"secret_sha256,omitempty"`
	// Name is shown to people. Default: the id.
	Name string `json:"name,omitempty"`
	// Type is confidential (default), public or native.
	Type string `json:"type,omitempty"`
	// Grants the client may use. Default: client_credentials for a confidential client, authorization_code and
	// refresh_token for others.
	Grants []string `json:"grants,omitempty"`
	// Scopes are the most that the client can be granted. Default: public.
	Scopes []string `json:"scopes,omitempty"`
	// RedirectURIs are where answers of the authorization endpoint may go, byte for byte.
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	// CORSOrigins are origins whose pages may read answers of the token and revocation endpoints, beside those of a public
	// client's redirect URIs.
	CORSOrigins []string `json:"cors_origins,omitempty"`
	// FirstParty clients need no consent.
	FirstParty bool `json:"first_party,omitempty"`
	// RevokePreviousAccessToken ends the previous access token at each refresh, as Doorkeeper does. A repeat of the refresh must
	// then come from the same address and family of user agents.
	RevokePreviousAccessToken bool `json:"revoke_previous_access_token,omitempty"`
	// PKCE is "required" for a confidential client whose authorization requests need a code_challenge. Public and native
	// clients always need one. Default: a confidential client may leave it out, unless the app says otherwise.
	PKCE string `json:"pkce,omitempty"`
	// Tokens are the client's own lifetimes.
	Tokens *TokensConfig `json:"tokens,omitempty"`
}

func (a *App) readClients(scopes oauth.ScopeCatalogue) ([]*store.Client, error) {
	clients := make([]*store.Client, 0, len(a.Clients))
	for _, c := range a.Clients {
		client, err := c.read()
		for i := 0; err == nil && i < len(client.Scopes); i++ {
			err = a.at(scopes.Check(client.Scopes[i:i+1]), "scope", client.Scopes[i], "of client", c.ID)
		}
		if err != nil {
			return nil, a.at(fmt.Errorf("client %q: %w", c.ID, err), "client", c.ID)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

func (c *ClientConfig) read() (*store.Client, error) {
	client := &store.Client{
		ID: c.ID, Name: c.Name, Type: store.ClientType(c.Type), Scopes: c.Scopes,
		RedirectURIs: c.RedirectURIs, CORSOrigins: c.CORSOrigins, FirstParty: c.FirstParty, RevokePrevious: c.RevokePreviousAccessToken,
	}
	for _, grant := range c.Grants {
		client.Grants = append(client.Grants, oauth.GrantType(grant))
	}
	client.SetDefaults()
	var err error
	if client.PKCERequired, err = readPKCE(c.PKCE); err != nil {
		return nil, err
	}
	if client.Lifetimes, err = c.Tokens.lifetimes(); err != nil {
		return nil, err
	}
	client.Secrets, err = c.secret()
	return client, err
}

// readPKCE reports whether a setting requires PKCE.
func readPKCE(word string) (required bool, err error) {
	if word != "" && word != pkceRequired {
		return false, fmt.Errorf("pkce %q: use required, or leave it out", word)
	}
	return word == pkceRequired, nil
}

// pkceRequired is the one word of `pkce`.
const pkceRequired = "required"

// parsePKCE reads `pkce required`.
func parsePKCE(d *caddyfile.Dispenser, word *string) error {
	if err := text(d, word); err != nil {
		return err
	}
	if _, err := readPKCE(*word); err != nil {
		return d.Errf("%v", err)
	}
	return nil
}

// secret reads the one secret of a declared client.
func (c *ClientConfig) secret() ([]store.ClientSecret, error) {
	var declared store.ClientSecret
	switch {
	case c.Secret != "" && c.SecretSHA256 != "":
		return nil, errors.New("set secret or secret_sha256, not both")
	case c.Secret != "":
		text, err := resolve("secret", c.Secret)
		if err != nil {
			return nil, err
		}
		if strings.Contains(text, "-----BEGIN") {
			return nil, errors.New("secret: this is a PEM file, not a client secret")
		}
		declared.Digest = oauth.NewSecret(text).Digest()
	case c.SecretSHA256 != "":
		digest, err := hex.DecodeString(c.SecretSHA256)
		if err != nil || len(digest) != len(declared.Digest) {
			return nil, errors.New("secret_sha256: use 64 hex digits")
		}
		declared.Digest = [32]byte(digest)
	default:
		return nil, nil
	}
	return []store.ClientSecret{declared}, nil
}
