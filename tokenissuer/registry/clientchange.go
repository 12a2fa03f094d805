package registry

import (
	"context"
	"errors"
	"reflect"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// UpdateClient has change edit the members of a client, and holds what is new to the rules of registration. No token ends by it:
// an access token keeps its scopes until it expires, and a refresh leaves out those that the client may not have any more.
// A confidential client stays one, because its codes and refresh tokens were given to a client with a secret.
func (g *Registry) UpdateClient(ctx context.Context, id string, change func(*store.Client) error) (changed *store.Client, err error) {
	if _, err := g.changeable(ctx, id); err != nil {
		return nil, err
	}
	var refused error
	err = g.Stored.ChangeClient(ctx, id, func(c *store.Client) error {
		before := *c
		if refused = change(c); refused == nil {
			refused = mayChange(c, &before)
		}
		if refused == nil {
			refused = g.checkClient(c, &before)
		}
		changed = c
		return refused
	})
	g.Known.Authenticated.Forget(id)
	g.Known.Origins.Forget()
	switch {
	case refused != nil:
		return nil, invalidInput{refused}
	case err != nil:
		return nil, err
	}
	return changed, nil
}

// mayChange refuses changes that would not last, or would vouch for a client that made itself known.
func mayChange(c, before *store.Client) error {
	kept := *c
	kept.Lifetimes = before.Lifetimes
	switch {
	case c.Origin == store.FromMetadata && !reflect.DeepEqual(&kept, before):
		return errors.New("the client describes itself at the URL that is its id: only its lifetimes can be changed here; disable it to keep it out")
	case c.Origin == store.FromRegistration && !reflect.DeepEqual(c.Scopes, before.Scopes):
		return errors.New("what clients can be granted that have registered themselves is in the configuration: `registration { scopes … }`")
	case c.Origin == store.FromRegistration && c.MayExchange():
		return errors.New("a client that has registered itself exchanges no tokens: register one of your own")
	case c.Origin == store.FromRegistration && c.FirstParty:
		return errors.New("a client that has registered itself cannot do without consent: register one of your own")
	case c.IsPublic() && !before.IsPublic():
		return errors.New("a confidential client cannot become a public one: what was issued to it needs its secret; register another client")
	case strings.TrimSpace(c.Name) == "" && c.Name != before.Name:
		return errors.New("a client needs a name: people see it when they are asked for their consent")
	}
	return nil
}
