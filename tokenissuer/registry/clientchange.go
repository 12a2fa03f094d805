package registry

import (
	"context"
	"errors"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// UpdateClient changes what is named of a client and holds what is new to the rules of registration. No token ends by it:
// an access token keeps its scopes until it expires, and a refresh leaves out those that the client may not have any more.
// A confidential client stays one, because its codes and refresh tokens were given to somebody with a secret.
func (g *Registry) UpdateClient(ctx context.Context, id string, change store.ClientChange) (*store.Client, error) {
	client, err := g.changeable(ctx, id)
	if err != nil {
		return nil, err
	}
	if change == (store.ClientChange{}) {
		return nil, invalidInput{errors.New("name what is to change")}
	}
	if err := mayChange(client, change); err != nil {
		return nil, invalidInput{err}
	}
	changed := *client
	change.Apply(&changed)
	if changed.IsPublic() && !client.IsPublic() {
		return nil, invalidInput{errors.New("a confidential client cannot become a public one: what was issued to it needs its secret; register another client")}
	}
	if strings.TrimSpace(changed.Name) == "" && change.Name != nil {
		return nil, invalidInput{errors.New("a client needs a name: people see it when they are asked for their consent")}
	}
	if err := g.checkClient(&changed, client); err != nil {
		return nil, invalidInput{err}
	}
	err = g.Stored.ChangeClient(ctx, id, change)
	g.Issuer.Authenticated.Forget(id)
	g.Issuer.Origins.Forget()
	if err != nil {
		return nil, err
	}
	return &changed, nil
}

// mayChange refuses changes that would not last, or would vouch for a client that made itself known.
func mayChange(client *store.Client, change store.ClientChange) error {
	switch {
	case client.Origin == store.FromMetadata && change != (store.ClientChange{Lifetimes: change.Lifetimes}):
		return errors.New("the client describes itself at the URL that is its id: only its lifetimes can be changed here; disable it to keep it out")
	case client.Origin == store.FromRegistration && change.Scopes != nil:
		return errors.New("what clients can be granted that have registered themselves is in the configuration: `registration { scopes … }`")
	case client.Origin == store.FromRegistration && change.Exchange != nil:
		return errors.New("a client that has registered itself exchanges no tokens: register one of your own")
	case client.Origin == store.FromRegistration && change.FirstParty != nil && *change.FirstParty:
		return errors.New("a client that has registered itself cannot do without consent: register one of your own")
	}
	return nil
}
