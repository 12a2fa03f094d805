package caddymodule

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer"
)

// StoreConfig says where state is kept.
type StoreConfig struct {
	// Type is `sqlite` (default: durable, one node) or `memory` (demos and tests: all is lost at exit).
	Type string `json:"type,omitempty"`
	// Path is the SQLite file. Default: oauth/gatehouse.db in Caddy's data directory. It must be on a local disk.
	Path string `json:"path,omitempty"`
}

const (
	storeSQLite = "sqlite"
	storeMemory = "memory"
)

// KeysConfig says how tokens are signed.
type KeysConfig struct {
	// Algorithm signs new tokens: ES256 (default), RS256 or EdDSA. Tokens signed before with another one stay good.
	Algorithm string `json:"algorithm,omitempty"`
	// EncryptWith is the key-encryption key: 32 bytes as base64 or hex, under which signing keys are stored. Give it as
	// {env.NAME} or {file./path}; Caddy stores what stands here. Without it the store holds signing keys in the clear.
	EncryptWith string `json:"encrypt_with,omitempty"`
}

// TokensConfig holds lifetimes of access tokens, by the grant that they come from: 1s to 35 days.
type TokensConfig struct {
	// AuthorizationCode: default 6h.
	AuthorizationCode caddy.Duration `json:"authorization_code,omitempty"`
	// ClientCredentials: default 2h.
	ClientCredentials caddy.Duration `json:"client_credentials,omitempty"`
	// Password: default 28d.
	Password caddy.Duration `json:"password,omitempty"`
	// AdminCreated: default 28d.
	AdminCreated caddy.Duration `json:"admin_created,omitempty"`
}

func (c *TokensConfig) lifetimes() tokenissuer.Lifetimes {
	if c == nil {
		return tokenissuer.Lifetimes{}
	}
	return tokenissuer.Lifetimes{
		AuthorizationCode: time.Duration(c.AuthorizationCode),
		ClientCredentials: time.Duration(c.ClientCredentials),
		Password:          time.Duration(c.Password),
		AdminCreated:      time.Duration(c.AdminCreated),
	}
}

// ScopeConfig declares a scope.
type ScopeConfig struct {
	// Name as it stands in requests and tokens (RFC 6749 §3.3).
	Name string `json:"name"`
	// Words tell a person what it allows.
	Words string `json:"words,omitempty"`
	// ServerTokens lets tokens that act for no user hold it. Default: only `public` may be held by them.
	ServerTokens bool `json:"server_tokens,omitempty"`
}

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
	// FirstParty clients need no consent.
	FirstParty bool `json:"first_party,omitempty"`
	// Tokens are the client's own lifetimes.
	Tokens *TokensConfig `json:"tokens,omitempty"`
}

// RevocationConfig says how revocations reach the gate.
type RevocationConfig struct {
	// MaxStaleness is how old the gate's knowledge of revocations may become, when the store cannot be read, before it
	// answers 503. Default 5m.
	MaxStaleness caddy.Duration `json:"max_staleness,omitempty"`
}

const (
	defaultStaleness = 5 * time.Minute
	leastStaleness   = 2 * time.Second
)

// LimitsConfig bounds failed attempts.
type LimitsConfig struct {
	// Client bounds failed client authentications from one address as one client. Default 20 a minute.
	Client *LimitConfig `json:"client,omitempty"`
}

// LimitConfig is a number of failures in a time.
type LimitConfig struct {
	// Off sets no limit.
	Off bool `json:"off,omitempty"`
	// Failures in a window before requests are answered with 429.
	Failures int `json:"failures,omitempty"`
	// Window begins with the first failure.
	Window caddy.Duration `json:"window,omitempty"`
}

var defaultClientLimit = tokenissuer.Limit{Failures: 20, Window: time.Minute}

// settings is a configuration that has been read: values of tokenissuer.
type settings struct {
	engine      engineSettings
	sealer      *tokenissuer.KeySealer
	issuer      string
	audience    []string
	lifetimes   tokenissuer.Lifetimes
	scopes      tokenissuer.ScopeCatalogue
	declared    tokenissuer.StaticDirectory
	clientLimit tokenissuer.Limit
	// loopback: the issuer is plain HTTP on a loopback host, where cookies have no prefix.
	loopback bool
}

// read turns the configuration into values, and says what is wrong with it.
func (a *App) read() (settings, error) {
	s := settings{clientLimit: defaultClientLimit}
	steps := []func(*settings) error{
		a.readIssuer, a.readStore, a.readKeys, a.readTokens, a.readScopes, a.readClients, a.readLimits,
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

func (a *App) readIssuer(s *settings) error {
	if a.Issuer == "" {
		return errors.New("issuer is missing: add `issuer https://…` to the oauth block")
	}
	var err error
	if s.issuer, err = resolve("issuer", a.Issuer); err != nil {
		return err
	}
	if s.loopback, err = checkIssuer(s.issuer); err != nil {
		return err
	}
	s.engine.issuer = s.issuer
	for _, configured := range a.Audience {
		audience, err := resolve("audience", configured)
		if err != nil {
			return err
		}
		s.audience = append(s.audience, audience)
	}
	if len(s.audience) == 0 {
		s.audience = []string{s.issuer}
	}
	return nil
}

// checkIssuer holds the issuer to RFC 8414 §2: https, no query, no fragment. Plain http is for loopback only, and the
// result says so.
func checkIssuer(issuer string) (loopback bool, err error) {
	u, err := url.Parse(issuer)
	if err != nil || u.Host == "" || u.Opaque != "" {
		return false, fmt.Errorf("issuer %q is no URL: write it as https://api.example.com", issuer)
	}
	if strings.ContainsAny(issuer, "?#") || u.User != nil || strings.HasSuffix(issuer, "/") {
		return false, fmt.Errorf("issuer %q must have no query, no fragment, no credentials and no trailing slash", issuer)
	}
	switch u.Scheme {
	case "https":
		return false, nil
	case "http":
		ip := net.ParseIP(u.Hostname())
		if u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback()) {
			return true, nil
		}
	}
	return false, fmt.Errorf("issuer %q must be https: plain http is for loopback hosts only", issuer)
}

func (a *App) readStore(s *settings) error {
	s.engine.store = storeSQLite
	path := filepath.Join(caddy.AppDataDir(), "oauth", "gatehouse.db")
	if a.Store != nil {
		if a.Store.Type != "" {
			s.engine.store = a.Store.Type
		}
		if a.Store.Path != "" {
			var err error
			if path, err = resolve("store path", a.Store.Path); err != nil {
				return err
			}
		}
	}
	switch s.engine.store {
	case storeSQLite:
		absolute, err := filepath.Abs(path)
		s.engine.path = absolute
		return err
	case storeMemory:
		if a.Store.Path != "" {
			return errors.New("store memory has no path")
		}
		return nil
	}
	return fmt.Errorf("unknown store %q: use sqlite or memory", s.engine.store)
}

// errLiteralKey: Caddy shows its configuration to its administrators and saves it to disk.
var errLiteralKey = errors.New("encrypt_with must not stand in the configuration: use {env.NAME} or {file./path}")

func (a *App) readKeys(s *settings) error {
	keys := a.Keys
	if keys == nil {
		keys = new(KeysConfig)
	}
	s.engine.algorithm = tokenissuer.ES256
	if keys.Algorithm != "" {
		var err error
		if s.engine.algorithm, err = tokenissuer.ParseAlgorithm(keys.Algorithm); err != nil {
			return fmt.Errorf("keys: %w", err)
		}
	}
	if keys.EncryptWith == "" {
		return nil
	}
	if !isReference(keys.EncryptWith) {
		return errLiteralKey
	}
	secret, err := resolve("encrypt_with", keys.EncryptWith)
	if err != nil {
		return err
	}
	if s.sealer, err = tokenissuer.NewKeySealer(tokenissuer.NewSecret(secret)); err != nil {
		return fmt.Errorf("encrypt_with: %w", err)
	}
	s.engine.sealer = s.sealer.ID
	return nil
}

func (a *App) readTokens(s *settings) error {
	own := a.Tokens.lifetimes()
	if err := own.Validate(); err != nil {
		return err
	}
	s.lifetimes = own.Or(tokenissuer.DefaultLifetimes)
	return nil
}

func (a *App) readScopes(s *settings) error {
	declared := make([]tokenissuer.Scope, 0, len(a.Scopes))
	seen := make(map[string]bool)
	for _, c := range a.Scopes {
		if names, err := tokenissuer.ParseScopes(c.Name); err != nil || len(names) != 1 {
			return fmt.Errorf("scope %q: use one name of visible ASCII without quotes and backslashes", c.Name)
		}
		if seen[c.Name] {
			return fmt.Errorf("scope %q is declared twice", c.Name)
		}
		if c.ServerTokens && tokenissuer.ActsForUser(c.Name) {
			return fmt.Errorf("scope %q acts for a user: a server token cannot hold it", c.Name)
		}
		seen[c.Name] = true
		declared = append(declared, tokenissuer.Scope{Name: c.Name, Words: c.Words, ServerTokens: c.ServerTokens})
	}
	s.scopes = tokenissuer.NewScopeCatalogue(declared...)
	return nil
}

func (a *App) readClients(s *settings) error {
	clients := make([]*tokenissuer.Client, 0, len(a.Clients))
	for _, c := range a.Clients {
		client, err := c.read()
		if err != nil {
			return fmt.Errorf("client %q: %w", c.ID, err)
		}
		if err := s.scopes.Check(client.Scopes); err != nil {
			return fmt.Errorf("client %q: %w", c.ID, err)
		}
		clients = append(clients, client)
	}
	var err error
	s.declared, err = tokenissuer.NewStaticDirectory(clients...)
	return err
}

func (c *ClientConfig) read() (*tokenissuer.Client, error) {
	client := &tokenissuer.Client{
		ID: c.ID, Name: c.Name, Type: tokenissuer.ClientType(c.Type), Scopes: c.Scopes,
		RedirectURIs: c.RedirectURIs, FirstParty: c.FirstParty, Lifetimes: c.Tokens.lifetimes(),
	}
	for _, grant := range c.Grants {
		client.Grants = append(client.Grants, tokenissuer.GrantType(grant))
	}
	client.SetDefaults()
	secret, err := c.secret()
	if err != nil {
		return nil, err
	}
	client.Secrets = secret
	return client, nil
}

// secret reads the one secret of a declared client.
func (c *ClientConfig) secret() ([]tokenissuer.ClientSecret, error) {
	var declared tokenissuer.ClientSecret
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
		declared.Digest = tokenissuer.NewSecret(text).Digest()
	case c.SecretSHA256 != "":
		digest, err := hex.DecodeString(c.SecretSHA256)
		if err != nil || len(digest) != len(declared.Digest) {
			return nil, errors.New("secret_sha256: use 64 hex digits")
		}
		declared.Digest = [32]byte(digest)
	default:
		return nil, nil
	}
	return []tokenissuer.ClientSecret{declared}, nil
}

func (a *App) readLimits(s *settings) error {
	s.engine.staleness = defaultStaleness
	if a.Revocation != nil && a.Revocation.MaxStaleness != 0 {
		s.engine.staleness = time.Duration(a.Revocation.MaxStaleness)
		if s.engine.staleness < leastStaleness {
			return fmt.Errorf("max_staleness: use at least %s, for the store is read once a second", leastStaleness)
		}
	}
	if a.Limits == nil || a.Limits.Client == nil {
		return nil
	}
	limit := a.Limits.Client
	if limit.Off {
		s.clientLimit = tokenissuer.Limit{}
		return nil
	}
	if limit.Failures < 1 || limit.Window < caddy.Duration(time.Second) {
		return errors.New("limits client: use a number of failures and a window of at least 1s, as in 20/1m, or off")
	}
	s.clientLimit = tokenissuer.Limit{Failures: limit.Failures, Window: time.Duration(limit.Window)}
	return nil
}

// resolve replaces {env.*}, {file.*} and the like in a setting. Nothing, and a placeholder that gives nothing, is an
// error; so is one that a request would fill, because then a client could choose the value.
func resolve(name, text string) (string, error) {
	if text == "" {
		return "", fmt.Errorf("%s is missing", name)
	}
	if strings.Contains(text, "{http.") {
		return "", fmt.Errorf("%s: %s comes from the request: use {env.NAME} or {file./path}", name, text)
	}
	value, err := caddy.NewReplacer().ReplaceOrErr(text, true, true)
	if err != nil {
		return "", fmt.Errorf("%s: %w", name, err)
	}
	if value == "" {
		return "", fmt.Errorf("%s: %s gives nothing", name, text)
	}
	return value, nil
}
