package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

// passwordHash has the scheme of new hashes.
const passwordHash = "$argon2id$v=19$m=19456,t=2,p=1$c2FsdHNhbHRzYWx0c2FsdA$MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE"

func newUser(id string) *store.User {
	return &store.User{
		ID: id, Email: id + "@example.com", Name: "name of " + id, Organisation: "acme", Role: store.RoleMember,
		Status: store.UserActive, PasswordHash: oauth.NewSecret(passwordHash), CreatedAt: time.Now(),
	}
}

// newFamily returns a family with a code and a refresh token, of a user as AddUser leaves it.
func newFamily(id, userID string) *store.TokenFamily {
	now := time.Now()
	return &store.TokenFamily{
		ID:       id,
		User:     store.FamilyUser{ID: userID, Version: "1"},
		Grant:    store.Grant{ClientID: "app", Origin: oauth.AuthorizationCode, Scopes: oauth.Scopes{"public", "read"}},
		Validity: store.Validity{CreatedAt: now, ExpiresAt: now.Add(time.Hour)},
		Code:     store.CodeBinding{RequestID: "request of " + id, RedirectURI: "https://app.example/", ExpiresAt: now.Add(time.Minute)},
		Refresh:  store.RefreshState{Generation: 1, RotatedAt: now},
	}
}

// declaredFamily returns a family of a declared user.
func declaredFamily(id string) *store.TokenFamily {
	f := newFamily(id, "declared")
	f.User.Declared = true
	return f
}

func ending() store.Ending {
	return store.Ending{At: time.Now(), Until: time.Now().Add(time.Hour)}
}

// TestPeopleStepsAreWhole breaks the last part of each step. The earlier parts must be rolled back.
func TestPeopleStepsAreWhole(t *testing.T) {
	s := openAt(t, newPath(t))
	must(t, s.Users.AddUser(t.Context(), newUser("ada"), true))
	must(t, storetest.Done(s.Families.AddFamily(t.Context(), newFamily("family", "ada"))))
	must(t, s.Families.PutConsent(t.Context(), "ada", "app", oauth.Scopes{"read"}, time.Now()))
	for _, statement := range []string{
		`DROP TABLE counters`,
		`CREATE TRIGGER no_users BEFORE INSERT ON users BEGIN SELECT RAISE(ABORT, 'broken'); END`,
		`CREATE TRIGGER no_requests BEFORE INSERT ON decided_requests BEGIN SELECT RAISE(ABORT, 'broken'); END`,
	} {
		_, err := s.db.write.ExecContext(t.Context(), statement)
		must(t, err)
	}
	locked := store.UserLocked
	for name, step := range map[string]func() error{
		"AddUser":   func() error { return s.Users.AddUser(t.Context(), newUser("eve"), true) },
		"AddFamily": func() error { return storetest.Done(s.Families.AddFamily(t.Context(), newFamily("other", "ada"))) },
		"ChangeUser": func() error {
			_, err := s.Users.ChangeUser(t.Context(), "ada", store.UserChange{Edit: func(u *store.User) error { u.Status = locked; return nil }}, ending())
			return err
		},
		"RemoveUser": func() error { _, err := s.Users.RemoveUser(t.Context(), "ada", ending()); return err },
		"EndFamilies": func() error {
			_, err := s.Families.EndFamilies(t.Context(), store.FamilyFilter{UserID: "ada"}, ending())
			return err
		},
	} {
		if err := step(); err == nil {
			t.Errorf("%s succeeded on a broken database", name)
		}
	}
	if list, err := s.Users.Users(t.Context(), ""); err != nil || len(list) != 1 || list[0].Version != "1" || list[0].Status != store.UserActive {
		t.Errorf("half of a step stayed: users %+v (%v)", list, err)
	}
	if list, err := s.Families.FamiliesOf(t.Context(), "ada", time.Now()); err != nil || len(list) != 1 || list[0].ID != "family" {
		t.Errorf("half of a step stayed: families %+v (%v)", list, err)
	}
	if _, err := s.Families.Consent(t.Context(), "ada", "app"); err != nil {
		t.Errorf("half of a step stayed: the consent gave %v", err)
	}
	var subjects int
	must(t, s.db.read.db.QueryRowContext(t.Context(), `SELECT COUNT(*) FROM subjects WHERE id NOT LIKE $1`, standIn+"%").Scan(&subjects))
	if subjects != 1 {
		t.Errorf("%d ids are taken, want one", subjects)
	}
}

// TestTM1StandInOfUsersIsNoUser: the row that is read for unknown users is neither found nor listed.
func TestTM1StandInOfUsersIsNoUser(t *testing.T) {
	s := openAt(t, newPath(t))
	notFound := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s gave %v", what, err)
		}
	}
	_, err := s.Users.User(t.Context(), standInUser)
	notFound("the stand-in's id", err)
	_, err = s.Users.UserByEmail(t.Context(), standInUser)
	notFound("the stand-in's address", err)
	if list, err := s.Users.Users(t.Context(), ""); err != nil || len(list) != 0 {
		t.Errorf("listed %+v, %v", list, err)
	}
	if schemes, err := s.Users.PasswordSchemes(t.Context()); err != nil || len(schemes) != 0 {
		t.Errorf("listed the schemes %q, %v", schemes, err)
	}
	if err := store.ValidateID(standInUser); err == nil {
		t.Error("a user could have the stand-in's id")
	}
	if _, err := store.CanonicalEmail(standInUser); err == nil {
		t.Error("a user could have the stand-in's address")
	}
}

// TestRotationTouchesNoIndex inspects SQLite's program for the hottest step: it writes into one b-tree, the table.
func TestRotationTouchesNoIndex(t *testing.T) {
	s := openAt(t, newPath(t))
	for _, c := range []struct {
		name, statement string
		args            []any
		writes          int
	}{
		{"rotation", rotateRefreshToken, []any{1, "id", 1, "by"}, 1},
		{"redemption moves the expiry", redeemCode, []any{1, 1, 1, "id", 1}, 2},
	} {
		opcodes, err := askAll(t.Context(), s.db.text("EXPLAIN "+c.statement), c.args, func(row scanner) (opcode string, err error) {
			var ignored [7]any
			err = row.Scan(&ignored[0], &opcode, &ignored[1], &ignored[2], &ignored[3], &ignored[4], &ignored[5], &ignored[6])
			return opcode, err
		})
		must(t, err)
		writes := 0
		for _, opcode := range opcodes {
			if opcode == "Insert" || opcode == "IdxInsert" {
				writes++
			}
		}
		if writes != c.writes {
			t.Errorf("the %s writes into %d b-trees, want %d: %q", c.name, writes, c.writes, opcodes)
		}
	}
}

// markText returns the statement that marks the families of a filter.
func markText(which store.FamilyFilter) string {
	conditions, args := familyConditions(which)
	return fmt.Sprintf(revokeMatching, len(args)+1, conditions)
}

// TestNoScanOnHotPaths inspects SQLite's query plans. A full scan of a table would become slow unnoticed.
func TestNoScanOnHotPaths(t *testing.T) {
	s := openAt(t, newPath(t))
	const drop = `DELETE FROM families WHERE id IN (SELECT id FROM families WHERE expires_at < $1 ORDER BY expires_at LIMIT $2)`
	for name, statement := range map[string]string{
		"User": selectUsers + whereUser, "UserByEmail": selectUsers + whereEmail, "Family": selectFamily,
		"AddFamily": fmt.Sprintf(insertFamily, ""), "RedeemCode": redeemCode, "RotateRefreshToken": rotateRefreshToken,
		"DropFamilies": drop, "UserByIdentity": selectIdentities + ` WHERE provider = $1 AND subject = $2`,
		"Identities": selectIdentities + ` WHERE user_id = $1`, "EndFamilies of a sign-in": markText(store.FamilyFilter{SessionID: "sign-in"}),
		"EndFamilies of an actor": markText(store.FamilyFilter{ActorID: "boss"}), "EndFamilies of a user": markText(store.FamilyFilter{UserID: "ada"}),
	} {
		args := slices.Repeat([]any{0}, strings.Count(statement, "$"))
		plan, err := askAll(t.Context(), s.db.text("EXPLAIN QUERY PLAN "+statement), args, func(row scanner) (detail string, err error) {
			var ignored sql.RawBytes
			err = row.(*sql.Rows).Scan(&ignored, &ignored, &ignored, &detail)
			return detail, err
		})
		must(t, err)
		for _, detail := range plan {
			if strings.HasPrefix(detail, "SCAN") && detail != "SCAN CONSTANT ROW" || strings.Contains(detail, "TEMP B-TREE") {
				t.Errorf("%s would %s", name, detail)
			}
		}
	}
}
