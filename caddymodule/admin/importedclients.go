package admin

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
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
	Clients []ClientToImport `json:"clients"`
	ImportRun
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
	if err := asked.begin(r.Context(), t); err != nil {
		return 0, nil, err
	}
	ids := make([]string, len(asked.Clients))
	for i, row := range asked.Clients {
		ids[i] = row.ID
	}
	states, err := t.Node.Store().Imports.ImportStates(r.Context(), asked.Source, store.ImportedClient, ids)
	if err != nil {
		return 0, nil, err
	}
	o := takeover{t, asked.Source, asked.DryRun}
	results := make([]Imported, 0, len(asked.Clients))
	for _, row := range asked.Clients {
		result, err := o.client(sqlstore.WithTimeout(r.Context()), row, states)
		if err != nil {
			return 0, nil, err
		}
		results = append(results, result)
	}
	return http.StatusOK, results, nil
}

// importingClients is a store of clients that adds one with what its source says.
type importingClients struct {
	store.ClientStore
	imports      store.ImportStore
	source, said string
}

func (s importingClients) AddClient(ctx context.Context, c *store.Client) error {
	return s.imports.AddImportedClient(ctx, s.source, s.said, c)
}

// client imports a client. States holds what was imported before.
func (o takeover) client(ctx context.Context, row ClientToImport, states map[string]store.ImportState) (Imported, error) {
	result := Imported{User: row.Name, ID: row.ID}
	wanted, note, err := o.clientOf(row)
	if err != nil {
		return result.becomes(Refused, store.InvalidInput(err))
	}
	now := saidOf(map[string]any{"name": row.Name, "type": wanted.Type, "redirect_uris": row.RedirectURIs, "scopes": row.Scopes, "secret": row.Secret})
	before, known := states[row.ID]
	existing, err := o.t.Registry.Clients.Client(ctx, row.ID)
	switch {
	case errors.Is(err, store.ErrNotFound) && known:
		result.Result, result.Reason = Unchanged, removedHere
		return result, nil
	case errors.Is(err, store.ErrNotFound):
		result.Reason = note
		return o.addClient(ctx, wanted, now, result)
	case err != nil:
		return result.becomes(Refused, err)
	case !known || !before.AddedAt.Equal(existing.CreatedAt):
		result.Result, result.Reason = Unchanged, "it is declared, or was registered here: it stays as it is"
		return result, nil
	case now.text() == before.Said:
		return result.becomes(Unchanged, nil)
	}
	return o.changeClient(ctx, existing, wanted, change{now, before.Said, note}, result)
}

// change is what a source says about a record now, in digests, and said before. note is for the operator.
type change struct {
	now    said
	before string
	note   string
}

func (o takeover) addClient(ctx context.Context, wanted *store.Client, now said, result Imported) (Imported, error) {
	g := *o.t.Registry.Clients
	err := g.CheckImport(wanted)
	if err == nil && !o.dry {
		g.Stored = importingClients{g.Stored, o.t.Node.Store().Imports, o.source, now.text()}
		if err = g.AddPrepared(ctx, wanted); err == nil {
			o.t.record(ctx, "client added", zap.String("client_id", wanted.ID))
		}
	}
	return result.becomes(Added, err)
}

// changeClient changes what the source has changed. If that is refused, it changes the secret alone. A client is disabled, and its tokens end, if a
// redirect URI that the source has just changed is refused.
func (o takeover) changeClient(ctx context.Context, existing, wanted *store.Client, c change, result Imported) (Imported, error) {
	old := readSaid(c.before)
	changed := c.now.since(old)
	err := o.editClient(ctx, existing, wanted, changed)
	if refused, _ := result.becomes(Updated, err); refused.Result == Refused && changed["secret"] {
		secret := changed.only("secret")
		if other := o.editClient(ctx, existing, wanted, secret); other == nil {
			if other = o.put(ctx, store.ImportedClient, existing.ID, old.with(c.now, secret)); other != nil {
				return result.becomes(Refused, other)
			}
			err = store.InvalidInput(fmt.Errorf("%w; its secret changed all the same", err))
		}
	}
	if changed["redirect_uris"] {
		result.Reason = c.note
	}
	if result.Members = changed.names(); err == nil {
		err = o.put(ctx, store.ImportedClient, existing.ID, c.now)
	}
	return result.becomes(Updated, err)
}

// clientMembers are the members of clients that a source has.
var clientMembers = []string{"name", "type", "redirect_uris", "scopes", "secret"}

// names lists the members of a client.
func (c changed) names() (names []string) {
	for _, name := range clientMembers {
		if c[name] {
			names = append(names, name)
		}
	}
	return names
}

// editClient changes some members of a client, or only checks the change.
func (o takeover) editClient(ctx context.Context, existing, wanted *store.Client, changed changed) error {
	disables := changed["redirect_uris"] && wanted.Disabled
	err := o.t.Registry.Clients.ChangeImported(ctx, existing, o.dry, func(c *store.Client) {
		if changed["name"] {
			c.Name = wanted.Name
		}
		if changed["type"] {
			c.Type, c.Grants = wanted.Type, wanted.Grants
		}
		if changed["redirect_uris"] {
			c.RedirectURIs, c.Disabled = wanted.RedirectURIs, c.Disabled || disables
		}
		if changed["scopes"] {
			c.Scopes = wanted.Scopes
		}
		if changed["secret"] {
			c.Secrets = wanted.Secrets
		}
	})
	if err != nil || o.dry {
		return err
	}
	o.t.record(ctx, "client updated", zap.String("client_id", existing.ID), zap.Strings("changed", changed.names()))
	if disables {
		return o.t.Registry.Clients.DisableClient(ctx, existing.ID)
	}
	return nil
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
		c.Grants = []oauth.GrantType{oauth.RefreshTokenGrant} // without a redirect URI there is no sign-in
		if note == "" {
			c.Disabled, note = true, "brought over disabled: it has no redirect URI and is not confidential, so it cannot be used to sign in"
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
		return &secret, passwords.ValidateImported(secret.Hash)
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
	After  string          `json:"after,omitzero"`
	Upto   string          `json:"upto,omitzero"`
	Tokens []TokenToImport `json:"tokens"`
	// Kept are records that are valid there and cannot be imported now.
	Kept []string `json:"kept,omitempty"`
	ImportRun
}

// maxTokensBody bounds a request with tokens.
const maxTokensBody = 1 << 20

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
	// DoneUpto is the last record that was dealt with, if there was too much for one request: the next one goes on after it. Empty: all are.
	DoneUpto string `json:"done_upto,omitzero"`
}

func importTokens(t *Target, r *http.Request, asked TokensToImport) (int, any, error) {
	if err := asked.begin(r.Context(), t); err != nil {
		return 0, nil, err
	}
	o := takeover{t, asked.Source, asked.DryRun}
	clients, err := o.clientsOfTokens(r.Context(), asked.Tokens)
	if err != nil {
		return 0, nil, err
	}
	answer := ImportedTokens{Refused: []Imported{}}
	refuse := func(row TokenToImport, reason string) {
		answer.Refused = append(answer.Refused, Imported{User: row.User, ID: row.Record, Result: Refused, Reason: reason})
	}
	batch := store.ImportBatch{Source: asked.Source, After: asked.After, Upto: asked.Upto, Kept: asked.Kept, DryRun: asked.DryRun}
	var rows []TokenToImport
	prefix := oauth.NewText(8)
	for _, row := range asked.Tokens {
		imported, reason := o.tokenOf(row, clients[row.Client], prefix)
		if reason != "" {
			refuse(row, reason)
			batch.Kept = append(batch.Kept, row.Record)
			continue
		}
		rows, batch.Tokens = append(rows, row), append(batch.Tokens, imported)
	}
	outcome, err := t.Node.Store().Imports.ImportTokens(r.Context(), batch, t.Issuer.Families.Ending())
	if err != nil {
		return 0, nil, err
	}
	t.Issuer.Families.Revocations.Add(outcome.Revocations...)
	if answer.DoneUpto = outcome.DoneUpto; answer.DoneUpto != "" { // the later ones come again
		answer.Refused = slices.DeleteFunc(answer.Refused, func(i Imported) bool { return i.ID > answer.DoneUpto })
	}
	for i, o := range outcome.Tokens {
		switch o {
		case store.Done:
			answer.Added++
		case store.Replayed:
			answer.Unchanged++
		default:
			refuse(rows[i], "its user did not come from this source, cannot sign in, or may be another person here")
		}
	}
	if answer.Ended = outcome.Ended; !asked.DryRun && answer.Added+answer.Ended > 0 {
		t.record(r.Context(), "tokens imported", zap.String("source", asked.Source), zap.Int("added", answer.Added), zap.Int("ended", answer.Ended))
	}
	return http.StatusOK, answer, nil
}

// clientsOfTokens returns the clients of tokens that are declared or came from the source, by id. Others with the same id are not theirs.
func (o takeover) clientsOfTokens(ctx context.Context, rows []TokenToImport) (map[string]*store.Client, error) {
	clients, ids := map[string]*store.Client{"": o.t.Issuer.Clients.BuiltIn()}, []string(nil)
	for _, row := range rows {
		if _, known := clients[row.Client]; !known {
			clients[row.Client], ids = nil, append(ids, row.Client)
		}
	}
	states, err := o.t.Node.Store().Imports.ImportStates(ctx, o.source, store.ImportedClient, ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		client, err := o.t.Registry.Clients.Client(ctx, id)
		state, known := states[id]
		switch {
		case errors.Is(err, store.ErrNotFound) && o.dry && !known:
			clients[id] = &store.Client{ID: id} // it would have been imported before
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			return nil, err
		case client.Declared || known && state.AddedAt.Equal(client.CreatedAt):
			clients[id] = client
		}
	}
	return clients, nil
}

// tokenOf returns the token of a row with its family, or the reason why it is not imported. The ids of a batch's families have one prefix, so
// that they lie together in their index: 300,000 are stored in 62 seconds, and with random ids in 70.
func (o takeover) tokenOf(row TokenToImport, client *store.Client, prefix string) (store.NewImport, string) {
	fs := o.t.Issuer.Families
	now := fs.Now().Truncate(time.Microsecond)
	imported := store.NewImport{ImportedToken: store.ImportedToken{
		Record: row.Record, Scopes: row.Scopes, CreatedAt: time.Unix(row.CreatedAt, 0).UTC(), ExpiresAt: time.Unix(row.ExpiresAt, 0).UTC(),
	}}
	if imported.CreatedAt.After(now) {
		imported.CreatedAt = now
	}
	if first := time.Unix(1, 0).UTC(); imported.CreatedAt.Before(first) { // no Duration lasts from the year 1 until now
		imported.CreatedAt = first
	}
	// No token lives longer than a revocation of it is kept. The record is kept for as long as the source may have the token.
	var err error
	latest, kept := now.Add(store.MaxLifetime), now.Add(store.MaxFamilyLifetime)
	switch {
	case row.Record == "":
		return imported, "it has no record"
	case client == nil:
		return imported, "its client is not here, or did not come from this source"
	case client.Disabled:
		return imported, "its client is disabled here"
	case row.Client == "" && row.User == "":
		return imported, "it has neither client nor user"
	}
	if imported.Scopes, err = oauth.ParseScopes(strings.Join(row.Scopes, " ")); err != nil {
		return imported, "its scopes: " + err.Error()
	}
	if row.ExpiresAt != 0 && row.Refresh == "" && imported.ExpiresAt.Before(kept) {
		kept = imported.ExpiresAt
	}
	if imported.KeptUntil = kept; row.ExpiresAt == 0 || imported.ExpiresAt.After(latest) {
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
	imported.ClientID = client.ID
	t := token.AccessToken{Issuer: o.t.Issuer.URL, ClientID: client.ID, Subject: cmp.Or(row.User, client.ID), IssuedAt: imported.CreatedAt}
	if fs.Revocations.Revoked(&t) {
		return imported, "it was revoked here, with others of its client or user"
	}
	if row.User == "" {
		imported.ID, imported.Refresh = token.NewID(0), [sha256.Size]byte{}
		return imported, ""
	}
	imported.Family = familyOf(fs, &imported, client, row.User)
	imported.Family.ID = prefix + imported.Family.ID[len(prefix):]
	imported.FamilyID, imported.ID = imported.Family.ID, token.NewID(imported.Family.Refresh.Generation)
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
	f.TokenLifetime = max(f.TokenLifetime, imported.ExpiresAt.Sub(imported.CreatedAt)) // a revocation is kept until the old token has expired
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
