package store

import (
	"context"
	"errors"
	"testing"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// countedDirectory is a Directory of clients that counts calls and can fail.
type countedDirectory struct {
	Directory
	clients map[string]*Client
	asked   int
	fault   error
}

func (d *countedDirectory) Client(_ context.Context, id string) (*Client, error) {
	d.asked++
	if d.fault != nil {
		return nil, d.fault
	}
	if c, ok := d.clients[id]; ok {
		return c, nil
	}
	return nil, ErrNotFound
}

func TestDirectories(t *testing.T) {
	declared := &Client{ID: "a", Type: PublicClient, Grants: []oauth.GrantType{oauth.AuthorizationCode}}
	static, err := NewStaticDirectory(Declarations{Clients: []*Client{declared}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewStaticDirectory(Declarations{Clients: []*Client{declared, declared}}); err == nil {
		t.Error("one client was declared twice")
	}
	if _, err := NewStaticDirectory(Declarations{Clients: []*Client{{ID: "b"}}}); err == nil {
		t.Error("a client that cannot be was declared")
	}
	stored := &countedDirectory{clients: map[string]*Client{"a": {ID: "a", Type: ConfidentialClient}, "b": {ID: "b", Type: ConfidentialClient}}}
	overlay := OverlayDirectory{Declared: static, Stored: stored}
	for id, want := range map[string]ClientType{"a": PublicClient, "b": ConfidentialClient} {
		stored.asked = 0
		c, err := overlay.Client(context.Background(), id)
		if err != nil || c.Type != want || c.Declared != (id == "a") {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
		if stored.asked != 1 {
			t.Errorf("%s: the store was asked %d times", id, stored.asked)
		}
	}
	for _, id := range []string{"", "A", "a ", "c"} {
		if c, err := overlay.Client(context.Background(), id); !errors.Is(err, ErrNotFound) || c != nil {
			t.Errorf("%q: %v, %v", id, c, err)
		}
	}
	stored.fault = errors.New("down")
	if c, err := overlay.Client(context.Background(), "a"); err != nil || c.ID != "a" {
		t.Errorf("a store that is down hides a declared client: %v", err)
	}
	if _, err := overlay.Client(context.Background(), "b"); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a store that is down says %v", err)
	}
	if declared.Declared {
		t.Error("the caller's client was changed")
	}
}
