package caddymodule

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestStatusCountsAtOnce: status counts the current rows, however short a time the node has run and whichever node is
// the housekeeper.
func TestStatusCountsAtOnce(t *testing.T) {
	g := startPeople(t, "store memory", "store sqlite DIR/counted.db")
	counted := func(want map[string]int64) {
		t.Helper()
		s := toldStatus(t, g.ok("status", "--json"))
		for table, n := range want {
			if s.Own.Stored[table] != n {
				t.Errorf("%d %s are stored, want %d", s.Own.Stored[table], table, n)
			}
		}
	}
	counted(map[string]int64{"clients": 0, "families": 0, "revocations": 0})
	g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"counted","name":"counted"}`)
	g.userTokens(requestOf("conf"), ada)
	counted(map[string]int64{"clients": 1, "families": 2})
	g.must(http.StatusNoContent, "POST", "/oauth/revocations", `{"user":"u-ada"}`)
	s := toldStatus(t, g.ok("status", "--json"))
	if s.Own.Revocations == 0 || int64(s.Own.Revocations) != s.Own.Stored["revocations"] {
		t.Errorf("%d revocations are known, %d are stored", s.Own.Revocations, s.Own.Stored["revocations"])
	}
	g.awaitHousekeeping()
	inAnHour := time.Now().Add(time.Hour) // after this node's lease has expired
	if leads, err := g.app().node.Store().Housekeeping.Lease(t.Context(), "housekeeping", "another node", inAnHour.Add(time.Hour), inAnHour); !leads || err != nil {
		t.Fatalf("the lease: %v, %v", leads, err)
	}
	check(t, g.app().node.KeepHouse(t.Context()))
	if g.app().node.Status().Housekeeper {
		t.Error("it is the housekeeper still")
	}
	counted(map[string]int64{"clients": 1, "families": 2})
}

// TestStartLogsOneLine checks that the line has what an operator would ask for first.
func TestStartLogsOneLine(t *testing.T) {
	g := startGatehouse(t, durableSite)
	line := func() (found map[string]any) {
		t.Helper()
		g.eventually("the line is there", func() bool {
			for text := range strings.Lines(g.logs()) {
				if strings.Contains(text, `"msg":"serving"`) {
					check(t, json.Unmarshal([]byte(text), &found))
				}
			}
			return found != nil
		})
		return found
	}
	first := line()
	if first["issuer"] != g.url || first["store"] != "sqlite" || first["algorithm"] != "ES256" || first["guarded_routes"] == 0.0 || first["version"] == "" {
		t.Errorf("it says %v", first)
	}
	declared := first["clients"].(float64)
	g.must(http.StatusCreated, "POST", "/oauth/clients", `{"id":"stored","name":"stored"}`)
	g.stop()
	g.reload(strings.Replace(durableSite, "issuer http", "keys {\n\t\t\talgorithm EdDSA\n\t\t}\n\t\tissuer http", 1))
	g.eventually("the stored client is counted", func() bool {
		again := line()
		return again["algorithm"] == "EdDSA" && again["clients"] == declared+1
	})
	if n := strings.Count(g.logs(), `"msg":"serving"`); n != 2 {
		t.Errorf("two starts logged %d lines", n)
	}
}
