package configuration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/clients"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Accept is a rule by which the token endpoint exchanges tokens of a trusted issuer for ours (RFC 7523 §2.1).
type Accept struct {
	// Trust is the name of the issuer.
	Trust string `json:"trust"`
	// Claims must each have one of the listed values, in which * matches any characters except "/", and ** any characters.
	Claims []AcceptClaim `json:"claims,omitempty"`
	// Types are the accepted values of typ: `JWT`, `none` and `at+jwt`. Default: JWT and none.
	Types []string `json:"types,omitempty"`
	// Subject is the sub of the tokens: a text and a colon, and {name} for a claim.
	Subject string `json:"subject,omitempty"`
	// Client is the client that gets the tokens. It excludes Subject.
	Client string `json:"client,omitempty"`
	// Scopes bound the scopes of a token. With Client or IDJAG the default is the scopes of the client.
	Scopes []string `json:"scopes,omitempty"`
	// IDJAG accepts identity assertion grants (typ oauth-id-jag+jwt) from authenticated clients. The tokens act for users.
	IDJAG bool `json:"id_jag,omitempty"`
	// Link is `verified_email` if a person may be linked to the user with the same verified address. Default: only accounts that have
	// signed in before are known.
	Link string `json:"link,omitempty"`
}

// acceptLink is the value of Link.
const acceptLink = "verified_email"

// AcceptClaim is a claim with its accepted values.
type AcceptClaim struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// parseAccept reads a rule. It checks all that does not depend on other blocks, so that errors name the line.
//
//	accept <trust> {
//		claims  <name> <value>...
//		typ     JWT | none | at+jwt...
//		subject <text>:{<claim>}
//		client  <id>
//		scopes  <scope>...
//		id_jag
//		link    verified_email
//	}
func parseAccept(d *caddyfile.Dispenser, rules *[]Accept, at *Sources) error {
	var c Accept
	if !d.Args(&c.Trust) || d.NextArg() {
		return d.Errf("write it as `accept <trust> { … }`")
	}
	at.note(d, "accept", fmt.Sprint(len(*rules)+1))
	first := *d
	err := options{
		"claims":  c.parseClaims,
		"typ":     func(d *caddyfile.Dispenser) error { return parseWords(d, &c.Types, token.CheckTokenType) },
		"subject": checkedText(&c.Subject, clients.CheckSubject),
		"client":  checkedText(&c.Client, nil),
		"scopes":  checkedList(&c.Scopes, nil),
		"id_jag":  flag(&c.IDJAG),
		"link":    checkedText(&c.Link, oneWord("link", acceptLink)),
	}.parse(d, "unknown accept option %q")
	if err != nil {
		return err
	}
	if _, err := c.read(""); err != nil {
		return first.Errf("accept %s: %v", c.Trust, err)
	}
	*rules = append(*rules, c)
	return nil
}

func (c *Accept) parseClaims(d *caddyfile.Dispenser) error {
	args := d.RemainingArgs()
	if len(args) < 2 {
		return d.Errf("write a claim and its values, as in `claims repository acme/app`")
	}
	c.Claims = append(c.Claims, AcceptClaim{args[0], args[1:]})
	return nil
}

// read returns the rule for the issuer with that identifier.
func (c *Accept) read(issuer string) (clients.AcceptRule, error) {
	r := clients.AcceptRule{
		Trust: c.Trust, Issuer: issuer, Subject: c.Subject, ClientID: c.Client, Scopes: c.Scopes, People: c.IDJAG, LinkVerifiedEmail: c.Link != "",
	}
	for _, claim := range c.Claims {
		rule, err := clients.NewClaimRule(claim.Name, claim.Values)
		if err != nil {
			return r, err
		}
		r.Claims = append(r.Claims, rule)
	}
	if err := oneWord("link", acceptLink)(c.Link); err != nil {
		return r, err
	}
	switch {
	case c.IDJAG && (c.Subject != "" || c.Client != "" || len(c.Types) > 0):
		return r, errors.New("with id_jag the token says who it is for, and its typ is given: leave subject, client and typ out")
	case c.IDJAG:
		r.Types = []string{token.TypeJAG}
		return r, nil
	case c.Link != "":
		return r, errors.New("link is for people: it goes with id_jag")
	case len(c.Claims) == 0:
		return r, errors.New("claims is missing: say which of the issuer's tokens are meant, for it makes tokens for others too")
	case (c.Subject == "") == (c.Client == ""):
		return r, errors.New("say whom the tokens are for: subject or client, one of the two")
	case c.Client == "" && len(c.Scopes) == 0:
		return r, errors.New("scopes is missing: say what the tokens may do")
	case c.Subject != "":
		if err := clients.CheckSubject(c.Subject); err != nil {
			return r, err
		}
	}
	for _, name := range c.Types {
		if err := token.CheckTokenType(name); err != nil {
			return r, err
		}
		r.Types = append(r.Types, strings.TrimPrefix(strings.ToLower(name), token.TypeNone))
	}
	if len(r.Types) == 0 {
		r.Types = []string{strings.ToLower(token.TypeJWT), ""}
	}
	return r, nil
}

// readAccept reads the rules. It needs the trusted issuers and the scopes.
func readAccept(rules []Accept, s *Settings, at *Sources) error {
	count := make(map[string]int)
	for i, c := range rules {
		place := []string{"accept", fmt.Sprint(i + 1)}
		trusted := slices.IndexFunc(s.Trusted, func(t TrustedIssuer) bool { return t.Name == c.Trust })
		if trusted < 0 {
			return at.At(fmt.Errorf("accept %s: no `trust` has that name: add `trust %s <issuer>`", c.Trust, c.Trust), place...)
		}
		rule, err := c.read(s.Trusted[trusted].Settings.Issuer)
		if err == nil {
			err = s.Issuer.Scopes.Check(rule.Scopes)
		}
		for _, name := range rule.Scopes {
			if scope, _ := s.Issuer.Scopes.Find(name); err == nil && !rule.People && !scope.ServerTokens {
				err = fmt.Errorf("scope %q is none that a server token can hold", name)
			}
		}
		if err == nil && rule.ClientID != "" && setting.IsPlaceholder(rule.ClientID) {
			err = errors.New("client: write the id out")
		}
		if err != nil {
			return at.At(fmt.Errorf("accept %s: %w", c.Trust, err), place...)
		}
		count[c.Trust]++
		rule.Name = fmt.Sprintf("%s#%d", c.Trust, count[c.Trust])
		s.Issuer.AcceptRules = append(s.Issuer.AcceptRules, rule)
	}
	return nil
}
