package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// decidedRequestRetention is how much longer than its family a decided request is kept.
const decidedRequestRetention = time.Hour

// familyColumns are in the order of familyValues and scanFamily.
const familyColumns = `id, user_id, user_version, user_declared, client_id, origin, scopes, actor_subject,
	actor_client_id, note, auth_time, created_at, expires_at, revoked_at, code_request_id, code_redirect_uri,
	code_challenge, code_refreshable, code_expires_at, code_spent_at, code_failures, generation,
	rotated_at, has_code, token_lifetime, rotated_by, session_id, code_nonce, claims, audience, provider, proof`

const selectFamily = `SELECT ` + familyColumns + ` FROM families WHERE id = $1`

// insertFamily stores a family if its user is declared, or is stored, active and in version $3. If given, the session $25 and the stored
// actor in version $26 must not have ended, and the identity $34 of the provider $33 must be the user's. The %s is the lock on the rows
// that it reads. PostgreSQL, where steps run concurrently, must hold it until the commit: otherwise a step could change the user between
// the query and the insert without seeing the family.
const insertFamily = `INSERT INTO families (` + familyColumns + `)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $27, $28, $29, $30, $31, $32, $33, $35
	WHERE ($4 OR EXISTS (SELECT 1 FROM users WHERE id = $2 AND CAST(version AS TEXT) = $3
		AND ` + isActive + `%[1]s))
	AND ($25 = '' OR EXISTS (SELECT 1 FROM families WHERE id = $25 AND revoked_at IS NULL%[1]s))
	AND ($26 = '' OR EXISTS (SELECT 1 FROM users WHERE id = $8 AND CAST(version AS TEXT) = $26
		AND ` + isActive + `%[1]s))
	AND ($34 = '' OR EXISTS (SELECT 1 FROM identities WHERE provider = $33 AND subject = $34 AND user_id = $2%[1]s))`

// isActive is User.IsActive as a condition of a row of users.
const isActive = `status = 'active' AND (password_hash <> '' OR external OR service)`

// insertDecided stores a family as the %s does, and decides the request $36 with it. If the request was decided before, the statement
// fails and the family is not stored.
const insertDecided = `WITH born AS (%s RETURNING id)
	INSERT INTO decided_requests (id, expires_at) SELECT $36, $37 FROM born`

// isDecided reports whether insertDecided found that the request was decided before. Then the family of a device authorization, whose id is
// the request's, may exist already.
func isDecided(err error) bool {
	var refusal *pgconn.PgError
	return errors.As(err, &refusal) && refusal.Code == "23505" && (refusal.TableName == "decided_requests" || refusal.TableName == "families")
}

// AddFamily stores a family and decides its request.
func (s families) AddFamily(ctx context.Context, family *store.TokenFamily) (store.Outcome, error) {
	values, err := familyValues(family)
	if err != nil {
		return 0, fmt.Errorf("adding family: %w", err)
	}
	request, remember := family.Code.RequestID, micros(family.ExpiresAt.Add(decidedRequestRetention))
	approvedIn := family.Preconditions.SessionID
	tells := []any{family.SignIn.SessionID, family.ClientID}
	add := func(ctx context.Context, tx querier, statement *sql.Stmt, values []any) error {
		err := mustHit(statement.ExecContext(ctx, values...))
		if errors.Is(err, store.ErrNotFound) {
			return whyUnborn(ctx, tx, approvedIn)
		}
		return err
	}
	steps := []work{
		func(ctx context.Context, tx session) error {
			return add(ctx, tx, tx.prepared(ctx, s.db.prepared[insertFamily]), values)
		},
		func(ctx context.Context, tx session) error {
			if request == "" {
				return nil
			}
			return mustBeFirst(tx.prepared(ctx, s.db.prepared[decideRequest]).ExecContext(ctx, request, remember))
		},
	}
	if family.ID == request { // if it was decided before, its family may exist
		slices.Reverse(steps)
	}
	const name = "adding family"
	if family.TellsLogout {
		return outcomeOf(s.db.step(ctx, name, func(ctx context.Context, tx session) error {
			if err := inOrder(ctx, tx, steps); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, insertSessionClient, tells...)
			return err
		}))
	}
	if request == "" {
		return outcomeOf(s.db.statement(ctx, name, func(ctx context.Context, tx session) error {
			return add(ctx, tx, tx.prepared(ctx, s.db.prepared[insertFamily]), values)
		}))
	}
	if decided := s.db.prepared[insertDecided]; decided != nil { // otherwise it takes two statements
		values = append(values, request, remember)
		return outcomeOf(s.db.statement(ctx, name, func(ctx context.Context, tx session) error {
			err := add(ctx, tx, tx.prepared(ctx, decided), values)
			if isDecided(err) {
				return refusal{outcome: store.Replayed}
			}
			return err
		}))
	}
	return outcomeOf(s.db.step(ctx, name, func(ctx context.Context, tx session) error {
		return inOrder(ctx, tx, steps)
	}))
}

// inOrder does steps until one fails.
func inOrder(ctx context.Context, tx session, steps []work) error {
	for _, do := range steps {
		if err := do(ctx, tx); err != nil {
			return err
		}
	}
	return nil
}

// whyUnborn returns the reason why a family was not stored, as whyRefused does for other steps.
func whyUnborn(ctx context.Context, tx querier, approvedIn string) error {
	if approvedIn == "" {
		return refusal{outcome: store.UserChanged}
	}
	var lives bool
	err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM families WHERE id = $1 AND revoked_at IS NULL)`, possible(approvedIn)).Scan(&lives)
	switch {
	case err != nil:
		return err
	case lives:
		return refusal{outcome: store.UserChanged}
	}
	return refusal{outcome: store.Revoked}
}

func familyValues(f *store.TokenFamily) ([]any, error) {
	scopes, err := json.Marshal(f.Scopes)
	if err != nil {
		return nil, err
	}
	audience, err := audienceText(f.Audience)
	if err != nil {
		return nil, err
	}
	proof, err := proofText(f.SignIn.Proof)
	if err != nil {
		return nil, err
	}
	return []any{
		f.ID, f.User.ID, f.User.Version, f.User.Declared, f.ClientID, string(f.Origin), string(scopes), f.Actor.Subject,
		f.Actor.ClientID, f.Note, micros(f.SignIn.Time), micros(f.CreatedAt), micros(f.ExpiresAt), micros(f.RevokedAt),
		f.Code.RequestID, f.Code.RedirectURI, f.Code.Challenge, f.Code.Refreshable,
		micros(f.Code.ExpiresAt), micros(f.Code.SpentAt), f.Code.Failures, f.Refresh.Generation, micros(f.Refresh.RotatedAt), hasCode(f),
		f.Preconditions.SessionID, f.Preconditions.ActorVersion, f.TokenLifetime.Microseconds(), f.Refresh.RotatedBy,
		f.SignIn.SessionID, f.Code.Nonce, f.Claims, audience, f.SignIn.Provider, f.Preconditions.Subject, proof,
	}, nil
}

// familyColumnValues returns the values of familyColumns for a family without Preconditions.
func familyColumnValues(f *store.TokenFamily) ([]any, error) {
	values, err := familyValues(f)
	if err != nil {
		return nil, err
	}
	return slices.Concat(values[:24], values[26:33], values[34:]), nil
}

// audienceText returns the list in its stored form: empty if there is none, as for most families.
func audienceText(audience []string) (string, error) {
	if len(audience) == 0 {
		return "", nil
	}
	text, err := json.Marshal(audience)
	return string(text), err
}

// proofText returns a proof in its stored form.
func proofText(p store.Proof) (string, error) {
	if p.ACR == "" && len(p.AMR) == 0 {
		return "", nil
	}
	text, err := json.Marshal(p)
	return string(text), err
}

// hasCode reports whether the family has a code. A counted failure alone does not mean that it has.
func hasCode(f *store.TokenFamily) bool {
	code := f.Code
	code.Failures = 0
	return code != store.CodeBinding{}
}

// scanFamily reads a row of familyColumns.
func scanFamily(row scanner) (*store.TokenFamily, error) { return scanFamilyAnd(row) }

// scanFamilyAnd reads a row of familyColumns followed by more columns.
func scanFamilyAnd(row scanner, more ...any) (*store.TokenFamily, error) {
	var f store.TokenFamily
	var scopes string
	var auth, created, expires, revoked, codeExpires, spent, rotated sql.Null[int64]
	var hasCode bool // the other columns say the same
	var lifetime int64
	var audience, proof string
	err := row.Scan(append([]any{&f.ID, &f.User.ID, &f.User.Version, &f.User.Declared, &f.ClientID, &f.Origin, &scopes, &f.Actor.Subject,
		&f.Actor.ClientID, &f.Note, &auth, &created, &expires, &revoked, &f.Code.RequestID, &f.Code.RedirectURI,
		&f.Code.Challenge, &f.Code.Refreshable, &codeExpires, &spent, &f.Code.Failures, &f.Refresh.Generation,
		&rotated, &hasCode, &lifetime, &f.Refresh.RotatedBy, &f.SignIn.SessionID, &f.Code.Nonce, &f.Claims, &audience, &f.SignIn.Provider, &proof}, more...)...)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(scopes), &f.Scopes)
	if audience != "" {
		err = errors.Join(err, json.Unmarshal([]byte(audience), &f.Audience))
	}
	if proof != "" {
		err = errors.Join(err, json.Unmarshal([]byte(proof), &f.SignIn.Proof))
	}
	if err != nil {
		return nil, fmt.Errorf("family %q is damaged: %w", f.ID, err)
	}
	f.SignIn.Time, f.CreatedAt, f.ExpiresAt, f.RevokedAt = timeOf(auth), timeOf(created), timeOf(expires), timeOf(revoked)
	f.Code.ExpiresAt, f.Code.SpentAt, f.Refresh.RotatedAt = timeOf(codeExpires), timeOf(spent), timeOf(rotated)
	f.TokenLifetime = time.Duration(lifetime) * time.Microsecond
	return &f, nil
}

// Family returns the family of that id.
func (s families) Family(ctx context.Context, id string) (*store.TokenFamily, error) {
	f, err := askFor(ctx, s.db.text(selectFamily), []any{possible(id)}, scanFamily)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading family: %w", err)
	}
	return f, nil
}

// FamiliesOf lists the user's families that are not revoked and expire after the given time, newest first.
func (s families) FamiliesOf(ctx context.Context, userID string, expireAfter time.Time) ([]*store.TokenFamily, error) {
	list, err := askAll(ctx, s.db.text(`SELECT `+familyColumns+` FROM families
		WHERE user_id = $1 AND revoked_at IS NULL AND expires_at > $2`), []any{userID, expireAfter.UnixMicro()}, scanFamily)
	if err != nil {
		return nil, fmt.Errorf("listing families: %w", err)
	}
	slices.SortFunc(list, func(a, b *store.TokenFamily) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return list, nil
}
