//go:build linux

package rig

import (
	"net/http"
	"strings"
	"testing"
)

// TestQ114PersonalTokensEndOnAllNodes: such a token removed at one node → refused by all within a second.
func TestQ114PersonalTokensEndOnAllNodes(t *testing.T) {
	besideOthers(t)
	c := StartCluster(t, 3, Setup{OAuth: "personal_tokens {\n\t\t\tscopes public trusted\n\t\t}"})
	application, spread := Application{c.URL, Console}, new(times)
	c.Nodes[0].command(t, "", "service-account", "add", "--id", "robot")
	add := func() (id, token string) {
		t.Helper()
		for line := range strings.Lines(c.Nodes[0].command(t, "", "pat", "add", "--user", "robot", "--name", "rig", "--scope", "trusted")) {
			switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
			case "id":
				id = strings.TrimSpace(value)
			case "token":
				token = strings.TrimSpace(value)
			}
		}
		for _, n := range c.Nodes { // each node has cached it
			if err := mustBe(application.at(n).Use(t.Context(), token), http.StatusOK, "", "a new token"); err != nil {
				t.Fatal(err)
			}
		}
		return id, token
	}
	refused := func(token string) {
		t.Helper()
		for _, n := range c.Nodes {
			took, err := refusedBy(t.Context(), application, token, n)
			if err != nil {
				t.Fatal(err)
			}
			spread.add(took)
		}
	}
	for i := range either(3, 30) {
		id, token := add()
		c.Nodes[i%3].command(t, "", "pat", "remove", id)
		refused(token)
	}
	_, token := add()
	c.Nodes[1].command(t, "", "service-account", "disable", "robot")
	refused(token)
	measured(t, "Q114: from the removal of a personal access token until three nodes refuse it", "%v", spread)
	spread.arrived(t, "a removed token")
}
