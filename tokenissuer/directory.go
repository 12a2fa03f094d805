package tokenissuer

import (
	"context"
	"fmt"
)

// Directory answers who exists. What it returns is shared and never changed by the caller.
type Directory interface {
	// Client returns the client of exactly that id, byte for byte, disabled ones too. ErrNotFound when there is none.
	Client(ctx context.Context, id string) (*Client, error)
}

// StaticDirectory holds what the configuration declares. The zero value is empty.
type StaticDirectory struct{ clients map[string]*Client }

// NewStaticDirectory returns a directory of the clients, each marked as declared.
func NewStaticDirectory(clients ...*Client) (StaticDirectory, error) {
	d := StaticDirectory{clients: make(map[string]*Client, len(clients))}
	for _, c := range clients {
		if err := c.Validate(); err != nil {
			return d, fmt.Errorf("client %q: %w", c.ID, err)
		}
		if _, twice := d.clients[c.ID]; twice {
			return d, fmt.Errorf("client %q is declared twice", c.ID)
		}
		declared := *c
		declared.Declared = true
		d.clients[c.ID] = &declared
	}
	return d, nil
}

// Client returns a declared client.
func (d StaticDirectory) Client(_ context.Context, id string) (*Client, error) {
	if c, ok := d.clients[id]; ok {
		return c, nil
	}
	return nil, ErrNotFound
}

// Clients lists the declared clients in no order.
func (d StaticDirectory) Clients() []*Client {
	list := make([]*Client, 0, len(d.clients))
	for _, c := range d.clients {
		list = append(list, c)
	}
	return list
}

// OverlayDirectory is the configuration laid over the store.
type OverlayDirectory struct {
	Declared StaticDirectory
	Stored   Directory
}

// Client returns the declared client, else the stored one. It asks the store either way, so that the time of an
// answer does not tell which ids exist; a store that fails does not hide a declared client.
func (d OverlayDirectory) Client(ctx context.Context, id string) (*Client, error) {
	stored, err := d.Stored.Client(ctx, id)
	if declared, ok := d.Declared.clients[id]; ok {
		return declared, nil
	}
	return stored, err
}
