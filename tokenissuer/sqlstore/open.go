package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// open creates the schema and prepares the statements of the hot path. It closes the database if it fails.
func open(ctx context.Context, db *database, schema func(context.Context) error) (*Store, error) {
	db.read.options, db.feed.options = db.options, db.options
	for _, next := range []func(context.Context) error{
		schema, db.start, clients{db}.addStandIn, users{db}.addStandIn, db.prepare,
	} {
		if err := next(ctx); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return newStore(db), nil
}

// start starts the runner.
func (db *database) start(ctx context.Context) (err error) {
	db.steps, err = db.dialect.newRunner(ctx)
	return err
}

// prepare prepares the statements of the hot path: queries on the handles for reading, steps on the writing one.
func (db *database) prepare(ctx context.Context) error {
	db.prepared = make(map[string]*sql.Stmt)
	insert := fmt.Sprintf(insertFamily, db.dialect.shareLock)
	steps := map[string]string{
		insertFamily: insert, decideRequest: decideRequest, redeemCode: redeemCode, rotateRefreshToken: rotateRefreshToken, endFamilyByID: endFamilyByID,
	}
	queries := []query{
		db.text(selectClients + whereClient), db.text(selectUsers + whereUser), db.text(selectUsers + whereEmail), db.text(selectFamily),
	}
	if db.dialect.concurrent() {
		// The driver itself caches prepared statements for frequent queries. What is prepared here must be closed before its connection,
		// and forsake would wait for that if the server is silent. The queries of the feed are therefore not prepared.
		steps[insertDecided] = fmt.Sprintf(insertDecided, insert)
	} else {
		steps[intoFamilies], steps[intoImported] = insertOne(intoFamilies, columnsIn(familyColumns)), insertOne(intoImported, columnsIn(importedColumns))
		steps[advanceFeed], steps[tagFeed], steps[recordRevocation] = advanceFeed, tagFeed, recordRevocation
		queries = append(queries, db.background(selectProgress), db.background(selectFeedPage))
	}
	for key, text := range steps {
		if err := prepareOn(ctx, db.write, db.prepared, key, text); err != nil {
			return err
		}
	}
	for _, q := range queries {
		if err := prepareOn(ctx, q.on.db, db.prepared, q.text, q.text); err != nil {
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
