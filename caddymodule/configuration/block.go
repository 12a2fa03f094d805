// Package configuration reads the `oauth` block: from JSON and from a Caddyfile, into the values that the rest of the module uses.
//
// block.go is the block as a whole. Each setting has a file with its struct, whose comments are its documentation, its parser and its
// checks. sources.go keeps the positions that errors name, options.go the parsers of common forms of lines.
package configuration

import (
	"errors"
	"fmt"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"
	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/caddymodule/node"
	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/attempts"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/issuer"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/keys"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/mail/smtp"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Block is the `oauth` block: who the issuer is, which clients and people it knows, where it keeps its state.
type Block struct {
	// Issuer is the issuer identifier (RFC 8414 §2): the URL under which clients reach the `oauth_server`. It must be
	// https, or http on a loopback host. Without it nothing is issued: the block then has Trust, or SignIn with providers, or both.
	// Changing it invalidates every token.
	Issuer string `json:"issuer,omitempty"`
	// Audience is what access tokens are meant for (RFC 9068 §3). Default: the issuer.
	Audience []string `json:"audience,omitempty"`
	// Store is where clients, people, sign-ins, keys and revocations are kept. Default: SQLite in Caddy's data directory.
	Store *Store `json:"store,omitempty"`
	// Keys are the signing keys' settings.
	Keys *Keys `json:"keys,omitempty"`
	// Tokens are the lifetimes of tokens and codes.
	Tokens *store.Lifetimes `json:"tokens,omitempty"`
	// PKCE is "required" if confidential clients need a code_challenge too (RFC 9700 §2.1.1). Default: the setting of each client.
	PKCE string `json:"pkce,omitempty"`
	// PasswordGrant turns the password grant on. Default: it is off.
	PasswordGrant *issuer.PasswordRules `json:"password_grant,omitempty"`
	// PersonalTokens turns personal access tokens on. Default: there are none.
	PersonalTokens *PersonalTokens `json:"personal_tokens,omitempty"`
	// OpenID makes the issuer an OpenID provider (OpenID Connect Core). Default: it is not one.
	OpenID *OpenID `json:"openid,omitempty"`
	// Sessions are the lifetimes of the sessions of browsers.
	Sessions *Sessions `json:"sessions,omitempty"`
	// SessionScopes are held by the tokens of browser sessions, and of the password grant without a client, beside trusted
	// and public. Default: none.
	SessionScopes []string `json:"session_scopes,omitempty"`
	// Scopes declares scopes in addition to public, trusted and refresh_token, or gives those another description.
	Scopes []oauth.Scope `json:"scopes,omitempty"`
	// Clients declares clients. They cannot be changed at run time; those added at run time are in the store.
	Clients []Client `json:"clients,omitempty"`
	// ClientMetadata admits clients with a metadata document. Default: they are admitted if a route has `mcp`.
	ClientMetadata *ClientMetadata `json:"client_metadata,omitempty"`
	// Registration lets clients register themselves. Default: off.
	Registration *Registration `json:"registration,omitempty"`
	// ClientKeys restricts the URLs of clients' keys.
	ClientKeys *ClientKeys `json:"client_keys,omitempty"`
	// StrictAssertions refuses client assertions whose aud is the token endpoint and not the issuer. Default: both are accepted.
	StrictAssertions bool `json:"strict_assertions,omitempty"`
	// Roles declares the roles that users can have. Default: admin, who manages group_manager and business_manager, those two,
	// and member.
	Roles []store.RoleDeclaration `json:"roles,omitempty"`
	// Organisations declares organisations. They cannot be changed at run time either.
	Organisations []store.Organisation `json:"organisations,omitempty"`
	// Users declares users. They cannot be changed at run time either.
	Users []User `json:"users,omitempty"`
	// SignIn lists the ways to sign in. Default: with a password of ours.
	SignIn *SignIn `json:"sign_in,omitempty"`
	// Passkeys are the settings of passkeys (WebAuthn). Default: people sign in with them where they sign in with a password of ours or a
	// directory's, and the issuer is https or on localhost, and no IP address.
	Passkeys *Passkeys `json:"passkeys,omitempty"`
	// TOTP lets people add authenticators for one-time passwords (RFC 6238) as a second factor. Default: they cannot.
	TOTP bool `json:"totp,omitempty"`
	// SecondFactor says who needs a second factor. Default: those who have added one.
	SecondFactor *SecondFactor `json:"second_factor,omitempty"`
	// Mail says how letters to people are sent. Default: there are none.
	Mail *Mail `json:"mail,omitempty"`
	// RegistrationOfPeople lets people make accounts. Default: they cannot.
	RegistrationOfPeople []PeopleRegistration `json:"registration_of_people,omitempty"`
	// Trust lists other issuers, whose tokens `protect` can accept.
	Trust []Trust `json:"trust,omitempty"`
	// Accept are the rules by which the token endpoint exchanges tokens of those issuers for ours, in the order in which they are tried.
	Accept []Accept `json:"accept,omitempty"`
	// Revocation bounds the age of the known revocations.
	Revocation *Revocation `json:"revocation,omitempty"`
	// Limits bound failed attempts.
	Limits *Limits `json:"limits,omitempty"`
	// Audit keeps the events of the audit log in the store. Default: they are only logged.
	Audit *Audit `json:"audit,omitempty"`
	// Console lets people operate the configuration in a browser. Default: they cannot.
	Console *Console `json:"console,omitempty"`
	// Pages are the operator's name, colours, links and words on the pages.
	Pages *Pages `json:"pages,omitempty"`
	// Sources are the positions of settings in a Caddyfile.
	Sources Sources `json:"sources,omitempty"`
}

// UnmarshalCaddyfile reads one block.
func (b *Block) UnmarshalCaddyfile(d *caddyfile.Dispenser) error {
	d.Next() // the name of the option
	if d.NextArg() {
		return d.ArgErr()
	}
	at := &b.Sources
	at.note(d, "oauth")
	return options{
		"accept":            with(&b.Accept, at, parseAccept),
		"audit":             with(&b.Audit, at, parseAudit),
		"audience":          with(&b.Audience, at, parseAudience),
		"client":            b.parseClient,
		"client_keys":       with(&b.ClientKeys, at, parseClientKeys),
		"client_metadata":   with(&b.ClientMetadata, at, parseClientMetadata),
		"console":           with(&b.Console, at, parseConsole),
		"issuer":            with(&b.Issuer, at, parseIssuer),
		"keys":              with(&b.Keys, at, parseKeys),
		"limits":            with(&b.Limits, at, parseLimits),
		"mail":              with(&b.Mail, at, parseMail),
		"openid":            with(&b.OpenID, at, parseOpenID),
		"organisation":      b.parseOrganisation,
		"pages":             with(&b.Pages, at, parsePages),
		"passkeys":          with(&b.Passkeys, at, parsePasskeys),
		"password_grant":    with(&b.PasswordGrant, at, parsePasswordGrant),
		"personal_tokens":   with(&b.PersonalTokens, at, parsePersonalTokens),
		"pkce":              checkedText(&b.PKCE, oauth.CheckPKCE),
		peopleRegistration:  with(&b.RegistrationOfPeople, at, parsePeopleRegistration),
		"registration":      with(&b.Registration, at, parseRegistration),
		"revocation":        with(&b.Revocation, at, parseRevocation),
		"role":              with(&b.Roles, at, parseRole),
		"scope":             with(&b.Scopes, at, parseScope),
		"second_factor":     with(&b.SecondFactor, at, parseSecondFactor),
		"session_scopes":    at.scopes(&b.SessionScopes, "session_scopes"),
		"sessions":          with(&b.Sessions, at, parseSessions),
		"sign_in":           with(&b.SignIn, at, parseSignIn),
		"store":             with(&b.Store, at, parseStore),
		"strict_assertions": flag(&b.StrictAssertions),
		"tokens":            func(d *caddyfile.Dispenser) error { return parseLifetimes(d, orNew(&b.Tokens)) },
		"totp":              flag(&b.TOTP),
		"trust":             with(&b.Trust, at, parseTrust),
		"user":              b.parseUser,
	}.parse(d, "unknown oauth option %q")
}

// Settings are the values of a configuration.
type Settings struct {
	// Issuer and Limits are those of our own issuer. Without a URL there is none. The node counts for the limits.
	Issuer issuer.Settings
	Limits attempts.Limits
	Node   node.Settings
	// Sealer encrypts the signing keys; nil: they are stored in the clear.
	Sealer *keys.Sealer
	// Pages are the pages for people; nil without a store.
	Pages   *pages.Pages
	Trusted []TrustedIssuer
	Open    OpenClients
	SignIn  SignInSettings
	// PersonalTokens are the rules of personal access tokens; nil: there are none.
	PersonalTokens *people.TokenRules
	// Mail sends letters to people; nil: there is no mail.
	Mail *smtp.Sender
	// Operators are the roles with which people operate the configuration in the console; nil: there is none.
	Operators *Operators
	// LogoutsToPrivate allows logout tokens to applications at private addresses.
	LogoutsToPrivate bool
}

// KeepsState reports whether there is a store: of an issuer, or of the sessions of browsers that sign in at providers. Without one there
// is only a gate for tokens of other issuers.
func (s *Settings) KeepsState() bool { return s.Issuer.URL != "" }

// Issues reports whether there is an issuer of our own for applications and people.
func (s *Settings) Issues() bool { return s.KeepsState() && !s.SignIn.Only }

// Read resolves placeholders, checks the configuration and returns its values.
func (b *Block) Read() (Settings, error) {
	s := Settings{LogoutsToPrivate: b.OpenID != nil && b.OpenID.AllowPrivateNetwork, Issuer: issuer.Settings{
		Policy:        clients.Policy{SessionScopes: b.SessionScopes, OpenID: b.OpenID != nil, StrictAssertions: b.StrictAssertions},
		PasswordGrant: b.PasswordGrant, PKCERequired: b.PKCE == oauth.PKCERequired,
	}}
	at := &b.Sources
	trusted := func() error { return readTrust(b.Trust, b.Accept, &s, at) }
	roles := func() error { return readRoles(b.Roles, &s, at) }
	limits := func() error { return b.Limits.read(&s.Limits) }
	switch {
	case b.Issuer != "":
	case b.SignIn.hasProvider():
		s.SignIn.Only = true
		if err := b.checkSessionsOnly(); err != nil {
			return s, err
		}
	case len(b.Trust) > 0:
		return s, errors.Join(b.checkGateOnly(), trusted(), limits(), roles())
	}
	for _, read := range []func() error{ // later steps use the results of earlier ones
		func() error { return readIssuer(b.Issuer, b.Audience, &s, at) },
		trusted,
		func() error { return at.At(b.Store.read(&s.Node), "store") },
		func() error { return b.Keys.read(&s, at) },
		func() (err error) { s.Issuer.Lifetimes, err = readLifetimes(b.Tokens); return err },
		func() error { return b.Sessions.read(&s, at) },
		func() error { return readScopes(b.Scopes, b.SessionScopes, &s, at) },
		func() error { return readAccept(b.Accept, &s, at) },
		func() error { return b.ClientMetadata.read(&s, at) },
		func() error { return b.Registration.read(&s, at) },
		roles,
		func() error { return b.PersonalTokens.read(&s, at) },
		func() error { return b.readDirectory(&s) },
		func() error { return b.SignIn.read(b.Users, &s, at) },
		func() error { return b.Revocation.read(&s) },
		limits,
		func() error { return b.Pages.read(&s, at) },
		func() error { return readFactors(b, &s, at) },
		func() error { return b.Mail.read(&s, at) },
		func() error { return readPeopleRegistration(b.RegistrationOfPeople, &s, at) },
		func() error { return b.Audit.read(&s, at) },
		func() error { return b.Console.read(&s, at) },
	} {
		if err := read(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Warn logs what works in an issuer's configuration and is probably not meant.
func (b *Block) Warn(logger *zap.Logger, s *Settings) {
	if b.Store != nil && b.Store.tellsPassword() {
		logger.Warn("the password of the database stands in the configuration, which Caddy keeps in the clear and shows at its " +
			"admin endpoint: give the connection string as {env.NAME} or {file./path}")
	}
	for _, client := range b.Clients {
		if secret, err := setting.Resolve("secret", client.Secret); err == nil {
			warnGuessable(logger, b.Sources["client "+client.ID], client.ID, secret)
		}
	}
	for _, client := range s.Issuer.Declared.Clients() {
		if err := client.CheckRedirects(); err != nil {
			logger.Warn(b.Sources.At(fmt.Errorf("client %q: %w", client.ID, err), "client", client.ID).Error())
		}
		if client.PKCE == oauth.PKCEOptional {
			logger.Warn(b.Sources.before(fmt.Sprintf("client %s has `pkce optional`: whoever steals its code can put it into a sign-in of their own, which nobody but "+
				"the client could notice: take the line away once the client sends a code_challenge", client.ID), "client", client.ID))
		}
	}
	for _, user := range b.Users {
		if err := store.CheckSubject(user.ID); err != nil && b.OpenID != nil {
			logger.Warn(b.Sources.before(err.Error(), "user", user.ID))
		}
	}
	if b.PasswordGrant != nil && s.Issuer.PasswordGrant == nil {
		logger.Warn(b.Sources.before("password_grant is off, because nobody signs in with a password: add `password` to sign_in, or take password_grant away", "sign_in"))
	}
	s.SignIn.warn(logger, &b.Sources)
	b.Mail.warn(logger, &b.Sources)
}

// need is a setting that needs an issuer, and whether the block has it.
type need struct {
	name string
	is   bool
}

// needsIssuer lists the settings that only an issuer for applications has.
func needsIssuer(b *Block) []need {
	return []need{
		{"audience", len(b.Audience) > 0}, {"tokens", b.Tokens != nil}, {"password_grant", b.PasswordGrant != nil}, {"pkce", b.PKCE != ""},
		{"openid", b.OpenID != nil}, {"personal_tokens", b.PersonalTokens != nil}, {"session_scopes", len(b.SessionScopes) > 0}, {"scope", len(b.Scopes) > 0}, {"client", len(b.Clients) > 0},
		{"client_metadata", b.ClientMetadata != nil}, {"registration", b.Registration != nil},
		{"passkeys", b.Passkeys != nil}, {"totp", b.TOTP}, {"second_factor", b.SecondFactor != nil}, {"mail", b.Mail != nil},
		{peopleRegistration, len(b.RegistrationOfPeople) > 0}, {"console", b.Console != nil},
		{"client_keys", b.ClientKeys != nil}, {"strict_assertions", b.StrictAssertions}, {"accept", len(b.Accept) > 0},
	}
}

// checkGateOnly refuses settings that a gate for tokens of other issuers does not have.
func (b *Block) checkGateOnly() error {
	return refuse(&b.Sources, append(needsIssuer(b), []need{
		{"sessions", b.Sessions != nil}, {"store", b.Store != nil}, {"keys", b.Keys != nil}, {"organisation", len(b.Organisations) > 0}, {"user", len(b.Users) > 0}, {"sign_in", b.SignIn != nil},
		{"limits", b.Limits != nil}, {"pages", b.Pages != nil}, {"audit", b.Audit != nil}, {"revocation", b.Revocation != nil},
	}...))
}

// checkSessionsOnly refuses settings that need an issuer where people sign in only at providers.
func (b *Block) checkSessionsOnly() error {
	return refuse(&b.Sources, append(needsIssuer(b), []need{
		{"ldap, for whose passwords our own page asks,", b.SignIn.hasDirectory()}, {"password, for which our own page asks,", b.SignIn.Password},
		{"the password of a user, for which our own page asks,", havePasswords(b.Users)},
	}...))
}

// refuse returns an error for the first of the settings that the block has.
func refuse(at *Sources, settings []need) error {
	for _, set := range settings {
		if set.is {
			return at.At(fmt.Errorf("%s needs an issuer: add `issuer https://…` to the oauth block", set.name), "oauth")
		}
	}
	return nil
}

// Interface guard.
var _ caddyfile.Unmarshaler = (*Block)(nil)
