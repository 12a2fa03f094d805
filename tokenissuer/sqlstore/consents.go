package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// Consent returns what the user has consented to for the client.
func (s families) Consent(ctx context.Context, userID, clientID string) (oauth.Scopes, error) {
	var text string
	err := askOne(ctx, s.db.text(`SELECT scopes FROM consents WHERE user_id = $1 AND client_id = $2`),
		[]any{possible(userID), possible(clientID)}, &text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, store.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("reading consent: %w", err)
	}
	var scopes oauth.Scopes
	if err := json.Unmarshal([]byte(text), &scopes); err != nil {
		return nil, fmt.Errorf("the consent of user %q for client %q is damaged: %w", userID, clientID, err)
	}
	return scopes, nil
}

// PutConsent replaces the user's consent to the client, or deletes it when there are no scopes.
func (s families) PutConsent(ctx context.Context, userID, clientID string, scopes oauth.Scopes, at time.Time) error {
	text, err := json.Marshal(scopes)
	if err != nil {
		return fmt.Errorf("storing consent: %w", err)
	}
	none := len(scopes) == 0
	return s.db.step(ctx, "storing consent", func(ctx context.Context, tx session) error {
		if none {
			_, err := tx.ExecContext(ctx, `DELETE FROM consents WHERE user_id = $1 AND client_id = $2`, possible(userID), possible(clientID))
			return err
		}
		_, err := tx.ExecContext(ctx, `INSERT INTO consents (user_id, client_id, scopes, decided_at)
			VALUES ($1, $2, $3, $4) ON CONFLICT (user_id, client_id)
			DO UPDATE SET scopes = excluded.scopes, decided_at = excluded.decided_at`,
			userID, clientID, string(text), micros(at))
		return err
	})
}
