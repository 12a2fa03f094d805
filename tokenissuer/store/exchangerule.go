package store

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ExchangeRule lets a client exchange tokens issued for it for tokens for other audiences (RFC 8693).
type ExchangeRule struct {
	// Audiences are those that the client may request, each a name or the URL of a resource.
	Audiences []string `json:"audiences"`
	// From lists the client's own audiences: a token with one of them, or with the client's id, was issued for the client.
	From []string `json:"from,omitempty"`
	// Scopes bound those of the new token; empty: only the exchanged token does.
	Scopes oauth.Scopes `json:"scopes,omitempty"`
}

// ParseExchangeRules reads rules of one line each: AUDIENCE... [from AUDIENCE...] [scopes SCOPE...]. It does not validate them.
func ParseExchangeRules(lines []string) []ExchangeRule {
	rules := make([]ExchangeRule, len(lines))
	for i, line := range lines {
		rule := &rules[i]
		list := &rule.Audiences
		for _, word := range strings.Fields(line) {
			switch word {
			case "from":
				list = &rule.From
			case "scopes":
				list = (*[]string)(&rule.Scopes)
			default:
				*list = append(*list, word)
			}
		}
	}
	return rules
}

// String returns the line that ParseExchangeRules reads.
func (r ExchangeRule) String() string {
	line := strings.Join(r.Audiences, " ")
	if len(r.From) > 0 {
		line += " from " + strings.Join(r.From, " ")
	}
	if len(r.Scopes) > 0 {
		line += " scopes " + r.Scopes.String()
	}
	return line
}

// MayExchange reports whether the client may exchange tokens.
func (c *Client) MayExchange() bool { return len(c.Exchange) > 0 }

// validateExchange returns an error if the client's exchange rules are invalid.
func validateExchange(c *Client) error {
	if !c.MayExchange() {
		if c.MayUse(oauth.TokenExchange) {
			return fmt.Errorf("the grant %s needs a rule that says what the client may exchange: add may_exchange", oauth.TokenExchange)
		}
		return nil
	}
	if c.IsPublic() {
		return fmt.Errorf("may_exchange is for confidential clients: anybody can say to be a %s one", c.Type)
	}
	for _, rule := range c.Exchange {
		if len(rule.Audiences) == 0 {
			return errors.New("may_exchange needs an audience: name the service for which the client may ask for tokens")
		}
		for _, audience := range slices.Concat(rule.Audiences, rule.From) {
			if audience == "" || len(audience) > maxClientText || !utf8.ValidString(audience) || strings.ContainsFunc(audience, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
				return fmt.Errorf("may_exchange: audience %q: use 1 to %d bytes of text without spaces", audience, maxClientText)
			}
		}
	}
	return nil
}
