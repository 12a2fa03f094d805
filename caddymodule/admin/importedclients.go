package admin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/families"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/passwords"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/sqlstore"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// ClientsToImport are clients of another server.
type ClientsToImport struct {
	Source  string           `json:"source"`
	Clients []ClientToImport `json:"clients"`
	DryRun  bool             `json:"dry_run,omitzero"`
}

// ClientToImport is a client as another server has it.
type ClientToImport struct {
	ID           string   `json:"id"`
	Name         string   `json:"name,omitzero"`
	Confidential bool     `json:"confidential,omitzero"`
	RedirectURIs []string `json:"redirect_uris,omitempty"`
	Scopes       []string `json:"scopes,omitempty"`
	// Secret is the SHA-256 of the secret in hexadecimal, or its bcrypt hash.
	Secret string `json:"secret,omitzero"`
}

func importClients(t *Target, r *http.Request, asked ClientsToImport) (int, any, error) {
	if err := checkSource(asked.Source); err != nil {
		return 0, nil, err
	}
	ids := make([]string, len(asked.Clients))
	for i, row := range asked.Clients {
		ids[i] = row.ID
	}
	states, err := t.Node.Store().Imports.ImportStates(r.Context(), asked.Source, importedClient, ids)
	if err != nil {
		return 0, nil, err
	}
	o := takeover{t, asked.Source, asked.DryRun}
	results := make([]Imported, 0, len(asked.Clients))
	for _, row := range asked.Clients {
		result, err := o.client(sqlstore.WithTimeout(r.Context()), row, states[row.ID])
		if err != nil {
			return 0, nil, err
		}
		results = append(results, result)
	}
	return http.StatusOK, results, nil
}

// checkSource refuses a name that cannot be part of a key.
func checkSource(name string) error {
	if err := store.ValidateID(name); err != nil {
		return store.InvalidInput(fmt.Errorf("source: %w", err))
	}
	return nil
}

// client imports a client whose state was before when it was imported last; empty: it was not.
func (o takeover) client(ctx context.Context, row ClientToImport, before string) (Imported, error) {
	result := Imported{User: row.Name, ID: row.ID}
	members := row
	members.Secret = ""
	state := stateOf(members, row.Secret)
	put := func() error { return o.put(ctx, importedClient, row.ID, state) }
	t := o.t
	wanted, note, err := o.clientOf(row)
	if err != nil {
		return result.becomes(Refused, store.InvalidInput(err))
	}
	existing, err := t.Registry.Clients.Client(ctx, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound):
		existing, result.Result = nil, Added
	case err != nil:
		return result.becomes(Refused, err)
	case before == state:
		return result.becomes(Unchanged, nil)
	case before == "":
		result.Result, result.Reason = Unchanged, "it is declared, or was registered here: it stays as it is"
		return result, nil
	default:
		result.Result = Updated
	}
	if err := t.Registry.Clients.CheckImport(wanted, existing); err != nil {
		return result.becomes(Refused, err)
	}
	result.Reason = note
	switch {
	case o.dry:
		return result, nil
	case existing == nil:
		// The state comes first: a client without one did not come from the source.
		if err = put(); err == nil {
			err = t.Registry.Clients.AddPrepared(ctx, wanted)
		}
	default:
		if err = t.Registry.Clients.ChangeImported(ctx, wanted, changeOf(before, state).secret); err == nil {
			err = put()
		}
	}
	if err != nil {
		return result.becomes(Refused, err)
	}
	t.record(ctx, map[Outcome]string{Added: "client added", Updated: "client updated"}[result.Result], zap.String("client_id", row.ID))
	return result, nil
}

// clientOf returns the client of a row. A redirect URI that is refused is left out, and the client is then disabled; the note says why.
func (o takeover) clientOf(row ClientToImport) (c *store.Client, note string, err error) {
	c = &store.Client{ID: row.ID, Name: row.Name, Type: store.ConfidentialClient, Scopes: row.Scopes}
	private := false
	for _, uri := range row.RedirectURIs {
		candidate := store.Client{RedirectURIs: []string{uri}}
		err := oauth.ValidateRedirectURI(uri)
		if err == nil {
			err = candidate.CheckPlainHTTP()
		}
		if err != nil {
			c.Disabled, note = true, "brought over disabled: "+err.Error()
			continue
		}
		if u, err := url.Parse(uri); err == nil {
			private = private || u.Scheme != "http" && u.Scheme != "https" || oauth.IsLoopback(u.Hostname())
		}
		c.RedirectURIs = append(c.RedirectURIs, uri)
	}
	switch {
	case row.Confidential:
		c.Grants = []oauth.GrantType{oauth.ClientCredentials, oauth.RefreshTokenGrant}
		if len(row.RedirectURIs) > 0 {
			c.Grants = append(c.Grants, oauth.AuthorizationCode)
		}
		if o.t.Issuer.PasswordGrant != nil {
			c.Grants = append(c.Grants, oauth.PasswordGrant)
		}
	case private:
		c.Type = store.NativeClient
	default:
		c.Type = store.PublicClient
	}
	if len(c.RedirectURIs) == 0 && !row.Confidential {
		c.Grants = []oauth.GrantType{oauth.RefreshTokenGrant} // nobody can sign in to it
		if note == "" {
			c.Disabled, note = true, "brought over disabled: it has no redirect URI and is not confidential, so nobody can use it"
		}
	}
	c.SetDefaults()
	secret, err := secretOf(row.Secret, o.t.Issuer.Families.Now())
	if err == nil && secret != nil {
		c.Secrets = []store.ClientSecret{*secret}
	}
	return c, note, err
}

// secretOf reads a secret as a source has it.
func secretOf(text string, now time.Time) (*store.ClientSecret, error) {
	secret := store.ClientSecret{CreatedAt: now.Truncate(time.Microsecond)}
	if text == "" {
		return nil, nil
	}
	if strings.HasPrefix(text, "$2") {
		secret.Hash = oauth.NewSecret(text)
		return &secret, passwords.ValidateHash(secret.Hash)
	}
	digest, err := hex.DecodeString(text)
	if err != nil || len(digest) != sha256.Size {
		return nil, errors.New("the secret is neither a SHA-256 digest nor a bcrypt hash")
	}
	secret.Digest = [sha256.Size]byte(digest)
	return &secret, nil
}

// TokensToImport are the tokens of a stretch of the table of another server that are valid there; see store.ImportBatch.
type TokensToImport struct {
	Source string          `json:"source"`
	After  string          `json:"after,omitzero"`
	Upto   string          `json:"upto,omitzero"`
	Tokens []TokenToImport `json:"tokens"`
	DryRun bool            `json:"dry_run,omitzero"`
}

// TokenToImport is an access token with its refresh token. Both are SHA-256 digests in base64url; empty: there is none, or it has expired.
type TokenToImport struct {
	Record  string `json:"record"`
	Access  string `json:"access,omitzero"`
	Refresh string `json:"refresh,omitzero"`
	// Client is empty for a token that was issued without one, by the password grant. User is empty for a token of a client alone.
	Client string       `json:"client,omitzero"`
	User   string       `json:"user,omitzero"`
	Scopes oauth.Scopes `json:"scopes,omitempty"`
	// CreatedAt and ExpiresAt are in seconds since 1970; ExpiresAt 0: never.
	CreatedAt int64 `json:"created_at"`
	ExpiresAt int64 `json:"expires_at,omitzero"`
}

// ImportedTokens is what became of a stretch of tokens.
type ImportedTokens struct {
	Added     int `json:"added"`
	Unchanged int `json:"unchanged"`
	// Ended were imported before and have ended in the source since.
	Ended   int        `json:"ended"`
	Refused []Imported `json:"refused"`
}

func importTokens(t *Target, r *http.Request, asked TokensToImport) (int, any, error) {
	if err := checkSource(asked.Source); err != nil {
		return 0, nil, err
	}
	answer := ImportedTokens{Refused: []Imported{}}
	refuse := func(row TokenToImport, reason string) {
		answer.Refused = append(answer.Refused, Imported{User: row.User, ID: row.Record, Result: Refused, Reason: reason})
	}
	batch := store.ImportBatch{Source: asked.Source, After: asked.After, Upto: asked.Upto, DryRun: asked.DryRun}
	o, clients := takeover{t, asked.Source, asked.DryRun}, make(map[string]*store.Client)
	var rows []TokenToImport
	for _, row := range asked.Tokens {
		client, known := clients[row.Client]
		if !known {
			var err error
			if client, err = o.clientOfToken(r.Context(), row); err != nil {
				return 0, nil, err
			}
			clients[row.Client] = client
		}
		imported, reason := o.tokenOf(row, client)
		if reason != "" {
			refuse(row, reason)
			continue
		}
		rows, batch.Tokens = append(rows, row), append(batch.Tokens, imported)
	}
	outcome, err := t.Node.Store().Imports.ImportTokens(r.Context(), batch, t.Issuer.Families.Ending())
	if err != nil {
		return 0, nil, err
	}
	t.Issuer.Families.Revocations.Add(outcome.Revocations...)
	for i, o := range outcome.Tokens {
		switch o {
		case store.Done:
			answer.Added++
		case store.Replayed:
			answer.Unchanged++
		default:
			refuse(rows[i], "its user is not here, or cannot sign in")
		}
	}
	if answer.Ended = outcome.Ended; !asked.DryRun && answer.Added+answer.Ended > 0 {
		t.record(r.Context(), "tokens imported", zap.String("source", asked.Source), zap.Int("added", answer.Added), zap.Int("ended", answer.Ended))
	}
	return http.StatusOK, answer, nil
}

// clientOfToken returns the client of a token, or nil if there is none.
func (o takeover) clientOfToken(ctx context.Context, row TokenToImport) (*store.Client, error) {
	if row.Client == "" {
		return o.t.Issuer.Clients.BuiltIn(), nil
	}
	client, err := o.t.Registry.Clients.Client(ctx, row.Client)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	return client, err
}

// tokenOf returns the token of a row with its family, or the reason why it is not imported.
func (o takeover) tokenOf(row TokenToImport, client *store.Client) (store.NewImport, string) {
	fs := o.t.Issuer.Families
	now := fs.Now().Truncate(time.Microsecond)
	imported := store.NewImport{ImportedToken: store.ImportedToken{
		Record: row.Record, Scopes: row.Scopes, CreatedAt: time.Unix(row.CreatedAt, 0).UTC(), ExpiresAt: time.Unix(row.ExpiresAt, 0).UTC(),
	}}
	if client == nil && o.dry {
		client = &store.Client{ID: row.Client} // it would have been imported before
	}
	var err error
	switch latest := now.Add(store.MaxFamilyLifetime); {
	case row.Record == "":
		return imported, "it has no record"
	case client == nil:
		return imported, "its client is not here"
	case client.Disabled:
		return imported, "its client is disabled here"
	case row.Client == "" && row.User == "":
		return imported, "it has neither client nor user"
	case row.ExpiresAt == 0, imported.ExpiresAt.After(latest):
		imported.ExpiresAt = latest
	}
	if imported.Access, err = digestOf(row.Access); err == nil {
		imported.Refresh, err = digestOf(row.Refresh)
	}
	if err != nil {
		return imported, err.Error()
	}
	if len(imported.Scopes) == 0 {
		imported.Scopes = oauth.Scopes{oauth.ScopePublic}
	}
	imported.ClientID, imported.KeptUntil = client.ID, imported.ExpiresAt
	if row.User == "" {
		imported.ID, imported.Refresh = token.NewID(0), [sha256.Size]byte{}
		return imported, ""
	}
	imported.Family = familyOf(fs, &imported, client, row.User)
	imported.FamilyID, imported.ID, imported.KeptUntil = imported.Family.ID, token.NewID(imported.Family.Refresh.Generation), imported.Family.ExpiresAt
	return imported, ""
}

// familyOf returns the family of a token. Its refresh tokens live as long as those of a sign-in now, because those of the other server may
// live for ever.
func familyOf(fs *families.Families, imported *store.NewImport, client *store.Client, userID string) *store.TokenFamily {
	origin := oauth.AuthorizationCode
	if client.ID == store.BuiltInClientID {
		origin = oauth.PasswordGrant
	}
	f := fs.New(&store.User{ID: userID}, client, origin, time.Time{})
	f.Scopes, f.CreatedAt, f.ExpiresAt = imported.Scopes, imported.CreatedAt, imported.ExpiresAt
	if imported.Refresh != ([sha256.Size]byte{}) {
		f.Refresh.Generation = 1
		if end := fs.Now().Add(fs.LifetimesOf(client).Refresh); end.After(f.ExpiresAt) {
			f.ExpiresAt = end
		}
	}
	return f
}

// digestOf reads a digest; empty: there is none.
func digestOf(text string) (digest [sha256.Size]byte, err error) {
	if text == "" {
		return digest, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != sha256.Size {
		return digest, errors.New("the digest is malformed")
	}
	return [sha256.Size]byte(raw), nil
}
