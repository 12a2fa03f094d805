package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// open makes the schema and prepares the statements of the hot path. The Store owns the handles, also when open fails.
func open(ctx context.Context, s *Store, schema func(context.Context) error) (*Store, error) {
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

// start lets steps begin.
func (s *Store) start(ctx context.Context) (err error) {
	s.steps, err = s.dialect.newRunner(ctx)
	return err
}

// statements are prepared for the hot path: queries on the handles for reading, steps on the writing one.
type statements struct {
	clientByID, userByID, userByEmail, familyByID            query
	progressed, feedPage                                     query
	addFamily, decideRequest, redeemCode, rotateRefreshToken *sql.Stmt
	addDecided                                               *sql.Stmt // nil: it takes two statements
	endFamilyByID                                            *sql.Stmt
	advanceFeed, tagFeed, recordRevocation                   *sql.Stmt // nil where recordTogether does it
}

// preparation is where a statement of a handle is to stand.
type preparation struct {
	statement **sql.Stmt
	handle    *sql.DB
	text      string
}

// prepare fills statements.
func (s *Store) prepare(ctx context.Context) error {
	s.clientByID = s.text(selectClients + whereClient)
	s.userByID, s.userByEmail = s.text(selectUsers+whereUser), s.text(selectUsers+whereEmail)
	s.familyByID = s.text(selectFamily)
	s.progressed, s.feedPage = s.background(selectProgress), s.background(selectFeed+`> $1 ORDER BY position LIMIT $2`)
	list := []preparation{
		{&s.addFamily, s.write, fmt.Sprintf(insertFamily, s.dialect.shareLock)},
		{&s.decideRequest, s.write, decideRequest},
		{&s.redeemCode, s.write, redeemCode},
		{&s.rotateRefreshToken, s.write, rotateRefreshToken},
		{&s.endFamilyByID, s.write, endFamilyByID},
	}
	queries := []*query{&s.clientByID, &s.userByID, &s.userByEmail, &s.familyByID}
	if s.dialect.concurrent {
		// The driver keeps what is asked often prepared by itself. What is prepared here is given back before its connection is
		// closed, for which forsake would wait where the server is silent: the queries of the feed are not.
		list = append(list, preparation{&s.addDecided, s.write, fmt.Sprintf(insertDecided, fmt.Sprintf(insertFamily, s.dialect.shareLock))})
	} else {
		list = append(list, preparation{&s.advanceFeed, s.write, advanceFeed},
			preparation{&s.tagFeed, s.write, tagFeed}, preparation{&s.recordRevocation, s.write, recordRevocation})
		queries = append(queries, &s.progressed, &s.feedPage)
	}
	for _, q := range queries {
		list = append(list, preparation{&q.stmt, q.on.db, q.text})
	}
	for _, p := range list {
		var err error
		if *p.statement, err = p.handle.PrepareContext(ctx, p.text); err != nil {
			return fmt.Errorf("preparing %.40q: %w", p.text, err)
		}
	}
	return nil
}
