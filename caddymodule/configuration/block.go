// Package configuration is the `oauth` block: its JSON, its lines of a Caddyfile, and the settings that come of them.
//
// block.go is the block as a whole. Each block and line within it has a file, which holds its struct, whose comments are its
// documentation, its parser and its checks: an error names file and line.
package configuration

import (
	"errors"
	"fmt"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/personaltoken"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Block is the `oauth` block: who the issuer is, which clients and people it knows, where it keeps its state.
type Block struct {
	// Issuer is the issuer identifier (RFC 8414 §2): the URL under which clients reach the `oauth_server`. It must be
	// https, or http on a loopback host. Without it nothing is issued: there is Trust, or SignIn with providers, or both, and
	// what these need. Changing it invalidates every token.
	Issuer string `json:"issuer,omitempty"`
	// Audience is what access tokens are meant for (RFC 9068 §3). Default: the issuer.
	Audience []string `json:"audience,omitempty"`
	// Store is where clients, people, sign-ins, keys and revocations are kept. Default: SQLite in Caddy's data directory.
	Store *Store `json:"store,omitempty"`
	// Keys are the signing keys' settings.
	Keys *Keys `json:"keys,omitempty"`
	// Tokens are the lifetimes of tokens and codes.
	Tokens *store.Lifetimes `json:"tokens,omitempty"`
	// PKCE is "required" when confidential clients need a code_challenge too (RFC 9700 §2.1.1). Default: each of them as
	// its own setting says.
	PKCE string `json:"pkce,omitempty"`
	// PasswordGrant turns the password grant on. Default: it is off.
	PasswordGrant *issuer.PasswordRules `json:"password_grant,omitempty"`
	// PersonalTokens turns personal access tokens on. Default: there are none.
	PersonalTokens *PersonalTokens `json:"personal_tokens,omitempty"`
	// OpenID makes the issuer an OpenID provider (OpenID Connect Core). Default: it is none.
	OpenID *OpenID `json:"openid,omitempty"`
	// Sessions are the lifetimes of the sessions of browsers.
	Sessions *Sessions `json:"sessions,omitempty"`
	// SessionScopes are held by the tokens of browser sessions, and of the password grant without a client, beside trusted
	// and public. Default: none.
	SessionScopes []string `json:"session_scopes,omitempty"`
	// Scopes declares scopes beyond public, trusted and refresh_token, or gives those other words.
	Scopes []oauth.Scope `json:"scopes,omitempty"`
	// Clients declares clients. They cannot be changed at run time; those added at run time are in the store.
	Clients []Client `json:"clients,omitempty"`
	// ClientMetadata admits clients that describe themselves. Default: they come where a route says `mcp`.
	ClientMetadata *ClientMetadata `json:"client_metadata,omitempty"`
	// Registration lets clients register themselves. Default: none can.
	Registration *Registration `json:"registration,omitempty"`
	// ClientKeys says where the keys of clients may be.
	ClientKeys *ClientKeys `json:"client_keys,omitempty"`
	// StrictAssertions refuses assertions of clients whose aud is the token endpoint and not the issuer. Default: both are taken.
	StrictAssertions bool `json:"strict_assertions,omitempty"`
	// Roles declares the roles that users can have. Default: admin, who manages group_manager and business_manager, those two,
	// and member.
	Roles []store.RoleDeclaration `json:"roles,omitempty"`
	// Organisations declares organisations, likewise.
	Organisations []Organisation `json:"organisations,omitempty"`
	// Users declares users, likewise.
	Users []User `json:"users,omitempty"`
	// SignIn says where people sign in. Default: here, with a password.
	SignIn *SignIn `json:"sign_in,omitempty"`
	// Trust lists other issuers, whose tokens `protect` can take. Without an Issuer of our own the app does nothing else.
	Trust []Trust `json:"trust,omitempty"`
	// Accept are the rules by which tokens of those issuers become tokens of ours, in the order in which they are tried.
	Accept []Accept `json:"accept,omitempty"`
	// Revocation says how revocations reach the gate.
	Revocation *Revocation `json:"revocation,omitempty"`
	// Limits bound failed attempts.
	Limits *Limits `json:"limits,omitempty"`
	// Brand is whose name the pages show.
	Brand *Brand `json:"brand,omitempty"`
	// Sources are where in a Caddyfile settings stand, as file:line, by their names. They are for errors alone.
	Sources map[string]string `json:"sources,omitempty"`
}

// UnmarshalCaddyfile reads one block.
func (b *Block) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	b.note(d, "oauth")
	return options{
		"issuer": b.parseIssuer, "audience": b.parseAudience, "store": b.parseStore, "keys": b.parseKeys, "tokens": func(d *caddyfile.Dispenser) error { return parseLifetimes(d, orNew(&b.Tokens)) },
		"password_grant": b.parsePasswordGrant, "pkce": checkedText(&b.PKCE, oauth.CheckPKCE), "sessions": b.parseSessions, "session_scopes": b.parseSessionScopes, "openid": b.parseOpenID, "personal_tokens": b.parsePersonalTokens,
		"scope": b.parseScope, "client": b.parseClient, "client_metadata": b.parseClientMetadata, "registration": b.parseRegistration, "client_keys": b.parseClientKeys, "strict_assertions": flag(&b.StrictAssertions), "role": b.parseRole, "organisation": b.parseOrganisation, "user": b.parseUser, "sign_in": b.parseSignIn,
		"trust": b.parseTrust, "accept": b.parseAccept, "revocation": b.parseRevocation, "limits": b.parseLimits, "brand": b.parseBrand,
	}.parse(d, "unknown oauth option %q")
}

// Settings is a configuration that has been read.
type Settings struct {
	issuer.Settings // of our own issuer; without a URL there is none
	attempts.Limits // likewise; the node counts
	Node            node.Settings
	Sealer          *keys.Sealer
	Brand           pages.Brand
	Trusted         []TrustedIssuer
	Open            OpenClients
	SignIn          SignInSettings
	// PersonalTokens are the rules of personal access tokens; nil: there are none.
	PersonalTokens *personaltoken.Rules
	// SessionsOnly: there is no issuer for others. People sign in at providers, and get sessions of the hosts that they visit.
	SessionsOnly bool
}

// Read turns the configuration into values, and says what is wrong with it.
func (b *Block) Read() (Settings, error) {
	s := Settings{Settings: issuer.Settings{
		Policy:        clients.Policy{SessionScopes: b.SessionScopes, OpenID: b.OpenID != nil, StrictAssertions: b.StrictAssertions},
		PasswordGrant: b.PasswordGrant, PKCERequired: b.PKCE == oauth.PKCERequired,
	}}
	if b.Issuer == "" {
		s.SessionsOnly = b.hasProvider()
		switch {
		case s.SessionsOnly:
			if err := b.checkSessionsOnly(); err != nil {
				return s, err
			}
		case len(b.Trust) > 0:
			return s, errors.Join(b.checkGateOnly(), b.readTrust(&s), b.readLimits(&s), b.readRoles(&s))
		}
	}
	steps := []func(*Settings) error{
		b.readIssuer, b.readTrust, b.readStore, b.readKeys, b.readTokens, b.readSessions, b.readScopes, b.readAccept, b.readClientMetadata, b.readRegistration, b.readRoles, b.readPersonalTokens, b.readDirectory, b.readSignIn, b.readRevocation, b.readLimits, b.readBrand,
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Warn says of an issuer's configuration what could be better.
func (b *Block) Warn(logger *zap.Logger, s Settings) {
	if b.Store != nil && b.Store.tellsPassword() {
		logger.Warn("the password of the database stands in the configuration, which Caddy keeps in the clear and shows at its " +
			"admin endpoint: give the connection string as {env.NAME} or {file./path}")
	}
	for _, client := range b.Clients {
		if secret, err := setting.Resolve("secret", client.Secret); err == nil {
			warnGuessable(logger, b.Sources["client "+client.ID], client.ID, secret)
		}
	}
	for _, client := range s.Declared.Clients() {
		if err := client.CheckRedirects(); err != nil {
			logger.Warn(b.at(fmt.Errorf("client %q: %w", client.ID, err), "client", client.ID).Error())
		}
		if client.PKCE == oauth.PKCEOptional {
			logger.Warn(b.before(fmt.Sprintf("client %s has `pkce optional`: whoever steals its code can put it into a sign-in of their own, which nobody but "+
				"the client could notice: take the line away once the client sends a code_challenge", client.ID), "client", client.ID))
		}
	}
	b.warnOfSubjects(logger)
	b.warnOfProviders(logger, s)
}

// warnOfSubjects says which users applications may not know again.
func (b *Block) warnOfSubjects(logger *zap.Logger) {
	if b.OpenID == nil {
		return
	}
	for _, user := range b.Users {
		if err := store.CheckSubject(user.ID); err != nil {
			logger.Warn(b.before(err.Error(), "user", user.ID))
		}
	}
}

// presence is whether a setting is there.
type presence struct {
	name string
	is   bool
}

// settingsOfTokens are those that only an issuer has.
func (b *Block) settingsOfTokens() []presence {
	return []presence{
		{"audience", len(b.Audience) > 0}, {"tokens", b.Tokens != nil}, {"password_grant", b.PasswordGrant != nil}, {"pkce", b.PKCE != ""},
		{"openid", b.OpenID != nil}, {"personal_tokens", b.PersonalTokens != nil}, {"session_scopes", len(b.SessionScopes) > 0}, {"scope", len(b.Scopes) > 0}, {"client", len(b.Clients) > 0},
		{"client_metadata", b.ClientMetadata != nil}, {"registration", b.Registration != nil},
		{"client_keys", b.ClientKeys != nil}, {"strict_assertions", b.StrictAssertions}, {"accept", len(b.Accept) > 0},
	}
}

// checkGateOnly refuses settings that a gate for tokens of others does not have.
func (b *Block) checkGateOnly() error {
	return b.refuseSettings(append(b.settingsOfTokens(), []presence{
		{"sessions", b.Sessions != nil}, {"store", b.Store != nil}, {"keys", b.Keys != nil}, {"organisation", len(b.Organisations) > 0}, {"user", len(b.Users) > 0}, {"sign_in", b.SignIn != nil},
		{"limits", b.Limits != nil}, {"brand", b.Brand != nil}, {"revocation", b.Revocation != nil},
	}...))
}

// checkSessionsOnly refuses settings that need an issuer where people sign in at providers alone.
func (b *Block) checkSessionsOnly() error {
	return b.refuseSettings(append(b.settingsOfTokens(), []presence{
		{"ldap, for whose passwords our own page asks,", b.hasDirectory()}, {"password, for which our own page asks,", b.SignIn.Password}, {"the password of a user, for which our own page asks,", b.hasPasswords()},
	}...))
}

// refuseSettings returns an error for the first setting that is there: it needs an issuer.
func (b *Block) refuseSettings(settings []presence) error {
	for _, set := range settings {
		if set.is {
			return b.at(fmt.Errorf("%s needs an issuer: add `issuer https://…` to the oauth block", set.name), "oauth")
		}
	}
	return nil
}

// note keeps where a setting stands, of which more is known when all blocks have been read or the server starts. The words
// name the setting; of several places the first counts.
func (b *Block) note(d *caddyfile.Dispenser, words ...string) {
	name, source := strings.Join(words, " "), setting.Source(d)
	if _, noted := b.Sources[name]; noted || source == "" {
		return
	}
	if b.Sources == nil {
		b.Sources = make(map[string]string)
	}
	b.Sources[name] = source
}

// at adds to an error where a setting stands that was noted.
func (b *Block) at(err error, words ...string) error {
	return setting.At(err, b.Sources[strings.Join(words, " ")])
}

// before puts where a setting stands that was noted before a warning about it.
func (b *Block) before(warning string, words ...string) string {
	if source := b.Sources[strings.Join(words, " ")]; source != "" {
		return source + ": " + warning
	}
	return warning
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*Block)(nil)
