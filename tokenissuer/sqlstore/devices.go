package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// devices is a part of a Store.
type devices struct{ db *database }

// deviceColumns are the columns of scanDevice.
const deviceColumns = `id, client_id, user_code, scopes, audience, address, created_at, expires_at, poll_interval, polled_at,
	EXISTS (SELECT 1 FROM decided_requests WHERE decided_requests.id = devices.id)`

// scanDevice reads a row of deviceColumns.
func scanDevice(row scanner) (*store.Device, error) {
	var d store.Device
	var scopes, audience string
	var created, expires, polled sql.Null[int64]
	var interval int64
	err := row.Scan(&d.ID, &d.ClientID, &d.UserCode, &scopes, &audience, &d.Address, &created, &expires, &interval, &polled, &d.Decided)
	if err != nil {
		return nil, err
	}
	err = json.Unmarshal([]byte(scopes), &d.Scopes)
	if audience != "" {
		err = errors.Join(err, json.Unmarshal([]byte(audience), &d.Audience))
	}
	if err != nil {
		return nil, fmt.Errorf("device authorization %q is damaged: %w", d.ID, err)
	}
	d.CreatedAt, d.ExpiresAt, d.PolledAt = timeOf(created), timeOf(expires), timeOf(polled)
	d.Interval = time.Duration(interval) * time.Microsecond
	return &d, nil
}

// AddDevice stores a device authorization unless there are too many.
func (s devices) AddDevice(ctx context.Context, d *store.Device, most int) (added bool, err error) {
	scopes, err := json.Marshal(d.Scopes)
	if err != nil {
		return false, fmt.Errorf("adding device: %w", err)
	}
	audience, err := audienceText(d.Audience)
	if err != nil {
		return false, fmt.Errorf("adding device: %w", err)
	}
	values := []any{
		d.ID, d.ClientID, d.UserCode, string(scopes), audience, d.Address, micros(d.CreatedAt), d.ExpiresAt.UnixMicro(),
		d.Interval.Microseconds(), micros(d.PolledAt),
	}
	now := d.CreatedAt.UnixMicro()
	var room bool
	err = s.db.step(ctx, "adding device", func(ctx context.Context, tx session) error {
		var pending int
		if err := tx.QueryRowContext(ctx, `SELECT COUNT(*) FROM devices WHERE expires_at > $1`, now).Scan(&pending); err != nil {
			return err
		}
		if room = pending < most; !room {
			return nil
		}
		return mustAdd(tx.ExecContext(ctx, `INSERT INTO devices (id, client_id, user_code, scopes, audience, address, created_at, expires_at,
			poll_interval, polled_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT DO NOTHING`, values...))
	})
	if err != nil {
		return false, err
	}
	return room, nil
}

// DeviceByUserCode returns the device authorization with a user code.
func (s devices) DeviceByUserCode(ctx context.Context, userCode string) (*store.Device, error) {
	d, err := askFor(ctx, s.db.text(`SELECT `+deviceColumns+` FROM devices WHERE user_code = $1`), []any{possible(userCode)}, scanDevice)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, store.ErrNotFound
	case err != nil:
		return nil, fmt.Errorf("reading device: %w", err)
	}
	return d, nil
}

// ChangeDevice edits what a poll changes.
func (s devices) ChangeDevice(ctx context.Context, id string, change func(*store.Device) error) error {
	return s.db.step(ctx, "changing device", func(ctx context.Context, tx session) error {
		// The update changes nothing, but it locks the row in every dialect, which serializes changes.
		list, err := queryAll(ctx, tx, `UPDATE devices SET client_id = client_id WHERE id = $1 RETURNING `+deviceColumns, []any{possible(id)}, scanDevice)
		if err != nil {
			return err
		}
		if len(list) == 0 {
			return store.ErrNotFound
		}
		d := list[0]
		if err := change(d); err != nil {
			return editError{err}
		}
		_, err = tx.ExecContext(ctx, `UPDATE devices SET poll_interval = $1, polled_at = $2 WHERE id = $3`, d.Interval.Microseconds(), micros(d.PolledAt), id)
		return err
	})
}
