package command

import (
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// exchangeRules parses rules of one line each. The server validates them.
func exchangeRules(texts []string) []store.ExchangeRule {
	rules := make([]store.ExchangeRule, len(texts))
	for i, text := range texts {
		rule := &rules[i]
		list := &rule.Audiences
		for _, word := range strings.Fields(text) {
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

// exchangeText is the reverse of exchangeRules.
func exchangeText(rule store.ExchangeRule) string {
	text := strings.Join(rule.Audiences, " ")
	if len(rule.From) > 0 {
		text += " from " + strings.Join(rule.From, " ")
	}
	if len(rule.Scopes) > 0 {
		text += " scopes " + rule.Scopes.String()
	}
	return text
}
