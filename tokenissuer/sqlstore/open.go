package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// open creates the schema and prepares the statements of the hot path. The Store owns the handles, even if open fails.
func open(ctx context.Context, s *Store, schema func(context.Context) error) (*Store, error) {
	s.dropping = newDropPaces()
	s.read.options, s.feed.options = s.options, s.options
	for _, next := range []func(context.Context) error{
		schema, s.start, s.addStandIn, s.addStandInUser, s.prepare,
	} {
		if err := next(ctx); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// start starts the runner.
func (s *Store) start(ctx context.Context) (err error) {
	s.steps, err = s.dialect.newRunner(ctx)
	return err
}

// prepare prepares the statements of the hot path: queries on the handles for reading, steps on the writing one.
func (s *Store) prepare(ctx context.Context) error {
	s.prepared = make(map[string]*sql.Stmt)
	insert := fmt.Sprintf(insertFamily, s.dialect.shareLock)
	steps := map[string]string{
		insertFamily: insert, decideRequest: decideRequest, redeemCode: redeemCode, rotateRefreshToken: rotateRefreshToken, endFamilyByID: endFamilyByID,
	}
	queries := []query{
		s.text(selectClients + whereClient), s.text(selectUsers + whereUser), s.text(selectUsers + whereEmail), s.text(selectFamily),
	}
	if s.dialect.concurrent() {
		// The driver itself caches prepared statements for frequent queries. What is prepared here must be closed before its connection,
		// and forsake would wait for that if the server is silent. The queries of the feed are therefore not prepared.
		steps[insertDecided] = fmt.Sprintf(insertDecided, insert)
	} else {
		steps[advanceFeed], steps[tagFeed], steps[recordRevocation] = advanceFeed, tagFeed, recordRevocation
		queries = append(queries, s.background(selectProgress), s.background(selectFeedPage))
	}
	for key, text := range steps {
		if err := prepareOn(ctx, s.write, s.prepared, key, text); err != nil {
			return err
		}
	}
	for _, q := range queries {
		if err := prepareOn(ctx, q.on.db, s.prepared, q.text, q.text); err != nil {
			return err
		}
	}
	return nil
}

func prepareOn(ctx context.Context, db *sql.DB, prepared map[string]*sql.Stmt, key, text string) (err error) {
	if prepared[key], err = db.PrepareContext(ctx, text); err != nil {
		return fmt.Errorf("preparing %.40q: %w", text, err)
	}
	return nil
}
