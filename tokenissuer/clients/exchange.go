package clients

import (
	"fmt"
	"slices"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// CheckExchange returns an error for the first exchange rule of a client that is not allowed here (RFC 8693).
func (p *Policy) CheckExchange(client *store.Client) error {
	for _, rule := range client.Exchange {
		if err := p.Scopes.Check(rule.Scopes); err != nil {
			return fmt.Errorf("may_exchange: %w", err)
		}
		if i := slices.IndexFunc(rule.Audiences, p.IsOwnAudience); i >= 0 {
			return fmt.Errorf("may_exchange %s: this is our issuer's own audience, with which a service could act as the caller everywhere: name that service alone", rule.Audiences[i])
		}
	}
	return nil
}
