package store

import "fmt"

// ClientState says whether a client is refused.
type ClientState string

// The states of a client.
const (
	ClientEnabled  ClientState = "enabled"
	ClientDisabled ClientState = "disabled"
)

// Validate returns an error for an unknown state.
func (s ClientState) Validate() error {
	if s != ClientEnabled && s != ClientDisabled {
		return fmt.Errorf("unknown state %q: use enabled or disabled", s)
	}
	return nil
}

// ClientQuery selects clients by every member that is set.
type ClientQuery struct {
	// Search is the beginning of an id or a name. It is compared as SearchText.
	Search string
	// Origin is how the clients were registered; nil: in any way.
	Origin *ClientOrigin
	State  ClientState
	// After is where the page begins; the zero value: at the beginning.
	After SearchPosition
	// Limit is the greatest number of clients in the page, 1 to MaxPage.
	Limit int
}

// ClientPage is a page of clients.
type ClientPage struct {
	Clients []*Client
	// Next is where the next page begins; the zero value: there is none. A page with a Next may have few clients or none.
	Next SearchPosition
}

// SearchTexts returns the texts by which a search finds the client: id and name, without duplicates and empty ones.
func (c *Client) SearchTexts() []string { return searchTexts(c.ID, c.Name) }

// Matches reports whether the query selects the client. It does not consider After.
func (q ClientQuery) Matches(c *Client) bool {
	return begins(c.SearchTexts(), q.Search) && (q.Origin == nil || c.Origin == *q.Origin) && (q.State == "" || c.Disabled == (q.State == ClientDisabled))
}
