package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// FindFamilies returns a page of the families that a query selects. There is no index of clients and hosts, which every sign-in would have
// to write: such a page looks at a bounded number of families, by id.
func (s families) FindFamilies(ctx context.Context, which store.FamilyQuery) (store.FamilyPage, error) {
	var args []any
	arg := func(value any) string {
		args = append(args, value)
		return fmt.Sprintf("$%d", len(args))
	}
	from := `id > ` + arg(possible(which.After))
	if which.UserID != "" {
		from += ` AND revoked_at IS NULL AND user_id = ` + arg(possible(which.UserID))
	}
	matches := `revoked_at IS NULL AND expires_at > ` + arg(which.ExpireAfter.UnixMicro())
	if which.ClientID != "" {
		matches += ` AND client_id = ` + arg(possible(which.ClientID))
	}
	if which.Host != "" {
		host := possible(which.Host)
		matches += ` AND ` + isHostSession + ` AND code_redirect_uri IN (` + arg("https://"+host+oauth.CallbackPath) + `, ` + arg("http://"+host+oauth.CallbackPath) + `)`
	}
	limit := max(maxCandidates, which.Limit+1)
	text := `SELECT (` + matches + `), ` + familyColumns + ` FROM families WHERE ` + from + ` ORDER BY id LIMIT ` + arg(limit)
	var page store.FamilyPage
	err := ask(ctx, s.db.text(text), args, func(rows *sql.Rows) error {
		seen := 0
		for rows.Next() {
			var matches bool
			f, err := scanFamily(behind{rows, []any{&matches}})
			if err != nil {
				return err
			}
			if seen++; matches && len(page.Families) == which.Limit {
				return nil // page.Next is there: a further family follows
			}
			page.Next = f.ID
			if matches {
				page.Families = append(page.Families, f)
			}
		}
		if seen < limit {
			page.Next = ""
		}
		return rows.Err()
	})
	if err != nil {
		return store.FamilyPage{}, fmt.Errorf("finding families: %w", err)
	}
	return page, nil
}
