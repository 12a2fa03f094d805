package store

import "github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"

// ClientChange is what ChangeClient changes: the members that are not nil.
type ClientChange struct {
	Name         *string
	Type         *ClientType
	Grants       *[]oauth.GrantType
	Scopes       *oauth.Scopes
	RedirectURIs *[]string
	CORSOrigins  *[]string
	FirstParty   *bool
	PKCERequired *bool
	PKCEOptional *bool
	OpenID       *ClientOpenID
	// Keys replaces how the client proves who it is. Secrets that it had stay, and are good again when the keys go.
	Keys           *ClientKeys
	RevokePrevious *bool
	Exchange       *[]ExchangeRule
	Lifetimes      *Lifetimes
}

// Apply makes the change to c.
func (change ClientChange) Apply(c *Client) {
	setTo(&c.Name, change.Name)
	setTo(&c.Type, change.Type)
	setTo(&c.Grants, change.Grants)
	setTo(&c.Scopes, change.Scopes)
	setTo(&c.RedirectURIs, change.RedirectURIs)
	setTo(&c.CORSOrigins, change.CORSOrigins)
	setTo(&c.FirstParty, change.FirstParty)
	setTo(&c.PKCERequired, change.PKCERequired)
	setTo(&c.PKCEOptional, change.PKCEOptional)
	setTo(&c.OpenID, change.OpenID)
	setTo(&c.ClientKeys, change.Keys)
	setTo(&c.RevokePrevious, change.RevokePrevious)
	setTo(&c.Exchange, change.Exchange)
	setTo(&c.Lifetimes, change.Lifetimes)
}

func setTo[T any](member, value *T) {
	if value != nil {
		*member = *value
	}
}
