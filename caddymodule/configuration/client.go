package configuration

import (
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Client declares a client.
type Client struct {
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
	// clients always need one. It is "optional" for a confidential client that may leave it out of requests with the scope openid
	// and a nonce, whatever the app says. Default: a confidential client may leave it out, unless the app says otherwise.
	PKCE string `json:"pkce,omitempty"`
	store.ClientOpenID
	// JWKS is a JWK Set with the client's public keys: an object, or a text that is a placeholder for one, as {file./path}. The client
	// then proves who it is with a JWT that it signs (private_key_jwt), and has no secret.
	JWKS jsontext.Value `json:"jwks,omitempty"`
	// JWKSURI is where the client publishes such a set, in place of JWKS.
	JWKSURI string `json:"jwks_uri,omitempty"`
	// MayExchange are the rules by which the client may exchange tokens that were meant for it for tokens for others (RFC 8693). Default: none.
	MayExchange []store.ExchangeRule `json:"may_exchange,omitempty"`
	// Tokens are the client's own lifetimes.
	Tokens *Tokens `json:"tokens,omitempty"`
}

// parseClient reads a client; what can be said of it without starting the server is said here, with its line.
//
//	client <id> [<secret>] {
//		name          <name>
//		type          confidential | public | native
//		grants        <grant>...
//		scopes        <scope>...
//		redirect_uris <uri>...
//		cors_origins  <origin>...
//		first_party
//		pkce          required | optional
//		revoke_previous_access_token
//		id_token_alg  ES256 | RS256 | EdDSA
//		post_logout_redirect_uris <uri>...
//		backchannel_logout_uri    <url>
//		backchannel_logout_session_required
//		jwks          <JSON Web Key Set> | {file.<path>}
//		jwks_uri      <url>
//		may_exchange  <audience>... {
//			from   <audience>...
//			scopes <scope>...
//		}
//		tokens { … }
//	}
func (b *Block) parseClient(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) == 0 || len(args) > 2 {
		return d.ArgErr()
	}
	c, first := Client{ID: args[0]}, *d
	b.note(d, "client", c.ID)
	if err := b.refuseTaken(d, "client", c.ID); err != nil {
		return err
	}
	if len(args) == 2 {
		if err := c.parseSecret(d, args[1]); err != nil {
			return err
		}
	}
	if err := c.options(b).parse(d, "unknown client option %q"); err != nil {
		return err
	}
	client, err := c.read(standIn)
	if err == nil {
		err = client.Validate()
	}
	if err != nil { // of the client as a whole: the line is its first
		return first.Errf("client %s: %v", c.ID, err)
	}
	b.Clients = append(b.Clients, c)
	return nil
}

func (c *Client) options(b *Block) options {
	ours := func(check func(string) error) func(string) error {
		return func(value string) error {
			if err := check(value); err != nil {
				return fmt.Errorf("client %s: %w", c.ID, err)
			}
			return nil
		}
	}
	known := options{
		"name":                         checkedText(&c.Name, nil),
		"type":                         checkedText(&c.Type, ours(func(name string) error { return store.ClientType(name).Validate() })),
		"grants":                       checkedList(&c.Grants, ours(func(name string) error { return oauth.GrantType(name).Validate() })),
		"scopes":                       func(d *caddyfile.Dispenser) error { return c.parseScopes(d, b) },
		"redirect_uris":                checkedList(&c.RedirectURIs, ours(oauth.ValidateRedirectURI)),
		"cors_origins":                 checkedList(&c.CORSOrigins, ours(oauth.ValidateOrigin)),
		"first_party":                  flag(&c.FirstParty),
		"revoke_previous_access_token": flag(&c.RevokePreviousAccessToken),
		"pkce":                         checkedText(&c.PKCE, oauth.CheckClientPKCE),
		"jwks":                         c.parseJWKS,
		"jwks_uri":                     func(d *caddyfile.Dispenser) error { return setting.TextOrPlaceholder(d, &c.JWKSURI) },
		"may_exchange":                 c.parseExchange,
		"tokens":                       tokensOption(&c.Tokens),
	}
	maps.Copy(known, c.openIDOptions(ours))
	return known
}

// parseExchange reads a rule by which the client may exchange tokens.
func (c *Client) parseExchange(d *caddyfile.Dispenser) error {
	var rule store.ExchangeRule
	if err := checkedList(&rule.Audiences, nil)(d); err != nil {
		return err
	}
	err := options{
		"from":   checkedList(&rule.From, nil),
		"scopes": checkedList((*[]string)(&rule.Scopes), nil),
	}.parse(d, "unknown may_exchange option %q")
	c.MayExchange = append(c.MayExchange, rule)
	return err
}

// readExchange reads the rules by which a declared client may exchange tokens.
func (c *Client) readExchange(client *store.Client, lookup lookup) (err error) {
	for _, rule := range c.MayExchange {
		rule.Audiences, rule.From = slices.Clone(rule.Audiences), slices.Clone(rule.From)
		for _, list := range [][]string{rule.Audiences, rule.From} {
			for i, text := range list {
				if list[i], err = lookup("may_exchange", text); err != nil {
					return err
				}
			}
		}
		client.Exchange = append(client.Exchange, rule)
	}
	return nil
}

// parseScopes notes where scopes stand that are not known from the start: which of them are declared is known only when every
// block has been read.
func (c *Client) parseScopes(d *caddyfile.Dispenser, b *Block) error {
	before := len(c.Scopes)
	err := checkedList(&c.Scopes, nil)(d)
	for _, name := range c.Scopes[before:] {
		if _, known := (oauth.ScopeCatalogue{}).Find(name); !known {
			b.note(d, "scope", name, "of client", c.ID)
		}
	}
	return err
}

// errPEM: a key's file in the place of a secret's is a mistake of whoever wrote the configuration.
var errPEM = errors.New("this is a PEM file, not a client secret")

// isPEM reports whether a text holds a key or a certificate.
func isPEM(text string) bool { return strings.Contains(text, "-----BEGIN") }

// parseSecret keeps a placeholder as it is, for Provision to resolve. A secret that is written out is kept as its
// SHA-256: Caddy shows its configuration to its administrators and saves it to disk.
func (c *Client) parseSecret(d *caddyfile.Dispenser, secret string) error {
	owner := "client " + c.ID
	if isPEM(secret) {
		return d.Errf("%s: %v", owner, errPEM)
	}
	if strings.HasPrefix(secret, "$") {
		return setting.LooksLikePlaceholder(d, owner, secret)
	}
	reference, err := setting.Reference(d, owner, "secret", secret)
	switch {
	case err != nil:
		return err
	case reference:
		c.Secret = secret
		return nil
	}
	warnSubstituted(d, "secret of "+owner, secret, 2)
	warnGuessable(caddy.Log().Named("oauth"), setting.Source(d), c.ID, secret)
	digest := oauth.NewSecret(secret).Digest()
	c.SecretSHA256 = hex.EncodeToString(digest[:])
	return nil
}

// readClients reads the declared clients.
func (b *Block) readClients(s *Settings) ([]*store.Client, error) {
	if err := oauth.CheckPKCE(b.PKCE); err != nil {
		return nil, err
	}
	clients := make([]*store.Client, 0, len(b.Clients))
	for _, c := range b.Clients {
		client, err := c.read(setting.Resolve)
		for i := 0; err == nil && i < len(client.Scopes); i++ {
			err = b.at(s.Scopes.Check(client.Scopes[i:i+1]), "scope", client.Scopes[i], "of client", c.ID)
		}
		if err == nil {
			err = s.CheckExchange(client)
		}
		if err == nil && !s.OpenID {
			err = client.CheckWithoutOpenID()
		}
		if err != nil {
			return nil, b.at(fmt.Errorf("client %q: %w", c.ID, err), "client", c.ID)
		}
		clients = append(clients, client)
	}
	return clients, nil
}

func (c *Client) read(lookup lookup) (*store.Client, error) {
	client := &store.Client{
		ID: c.ID, Name: c.Name, Type: store.ClientType(c.Type), Scopes: c.Scopes,
		PKCERequired: c.PKCE == oauth.PKCERequired, PKCEOptional: c.PKCE == oauth.PKCEOptional, OpenID: c.ClientOpenID,
		RedirectURIs: c.RedirectURIs, CORSOrigins: c.CORSOrigins, FirstParty: c.FirstParty, RevokePrevious: c.RevokePreviousAccessToken,
	}
	for _, grant := range c.Grants {
		client.Grants = append(client.Grants, oauth.GrantType(grant))
	}
	if err := c.readKeys(client, lookup); err != nil {
		return nil, err
	}
	if err := c.readExchange(client, lookup); err != nil {
		return nil, err
	}
	client.SetDefaults()
	if err := oauth.CheckClientPKCE(c.PKCE); err != nil {
		return nil, err
	}
	var err error
	if client.Lifetimes, err = c.Tokens.lifetimes(); err != nil {
		return nil, err
	}
	client.Secrets, err = c.readSecret(lookup)
	if err == nil && client.SignsAssertions() && len(client.Secrets) > 0 {
		err = errors.New("a client with keys of its own has no secret: take one of the two away")
	}
	return client, err
}

// readSecret reads the one secret of a declared client.
func (c *Client) readSecret(lookup lookup) ([]store.ClientSecret, error) {
	var declared store.ClientSecret
	switch {
	case c.Secret != "" && c.SecretSHA256 != "":
		return nil, errors.New("set secret or secret_sha256, not both")
	case c.Secret != "":
		text, err := lookup("secret", c.Secret)
		if err != nil {
			return nil, err
		}
		if isPEM(text) {
			return nil, fmt.Errorf("secret: %w", errPEM)
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
