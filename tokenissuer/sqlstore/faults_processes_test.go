package sqlstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/storetest"
)

const (
	// racerName is the environment variable that makes the test binary one of the processes of TestF9ProcessesRace.
	racerName      = "GATEHOUSE_TEST_SQLITE_RACER"
	raced          = 40
	racedRefreshes = 4
)

// race tries every single-use step on every family, concurrently with the other process, and prints which steps succeeded.
func race(name string) (err error) {
	if _, err := io.ReadAll(os.Stdin); err != nil { // the parent closes it for all at once
		return err
	}
	ctx, now := context.Background(), time.Now()
	s, err := OpenSQLite(ctx, childPath, Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	var won []string
	for i := range raced {
		id := racedFamily(i)
		born := newFamily(fmt.Sprint(name, " ", i), "ada")
		born.User.Declared, born.Code.RequestID = true, id
		steps := map[string]func() error{
			"request": func() error { return storetest.Done(s.Families.AddFamily(ctx, born)) },
			"code": func() error {
				return storetest.Used(s.Families.RedeemCode(ctx, id, store.Redemption{At: now, Generation: 1, ExpiresAt: now.Add(time.Hour), MaxFailures: 5}))
			},
		}
		order := []string{"request", "code"}
		for g := range racedRefreshes {
			step := fmt.Sprint("refresh token ", g+1)
			order = append(order, step)
			steps[step] = func() error {
				return storetest.Used(s.Families.RotateRefreshToken(ctx, id, int64(g)+1, store.Rotation{At: now}))
			}
		}
		for _, step := range order {
			switch err := steps[step](); {
			case err == nil:
				won = append(won, racedStep(step, i))
			case !errors.Is(err, storetest.Refused(store.Replayed)):
				return err
			}
		}
	}
	return json.NewEncoder(os.Stdout).Encode(won)
}

func racedFamily(i int) string { return fmt.Sprint("family ", i) }

func racedStep(step string, i int) string { return fmt.Sprint(step, " of ", racedFamily(i)) }

// TestF9ProcessesRace: processes on one SQLite file race for codes, refresh tokens and decisions → one winner each.
func TestF9ProcessesRace(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, childPath)
	s := openAt(t, path)
	for i := range raced {
		f := newFamily(racedFamily(i), "ada")
		f.User.Declared, f.Refresh.Generation, f.Code.RequestID = true, 0, ""
		must(t, storetest.Done(s.Families.AddFamily(t.Context(), f)))
	}
	winners := make(map[string]int)
	for i, won := range atOnce[[]string](t, dir, racerName, 2) {
		t.Logf("racer %d was the first %d times", i, len(won))
		for _, step := range won {
			winners[step]++
		}
	}
	steps := []string{"request", "code"}
	for g := range racedRefreshes {
		steps = append(steps, fmt.Sprint("refresh token ", g+1))
	}
	for i := range raced {
		for _, step := range steps {
			if n := winners[racedStep(step, i)]; n != 1 {
				t.Errorf("%s: %d winners", racedStep(step, i), n)
			}
		}
		if f, err := s.Families.Family(t.Context(), racedFamily(i)); err != nil || f.Refresh.Generation != 1+racedRefreshes {
			t.Errorf("%s: %+v, %v", racedFamily(i), f, err)
		}
	}
}
