package configuration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/caddymodule/setting"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/assertion"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/token"
)

// Accept is a rule by which tokens of a trusted issuer become tokens of ours, at the token endpoint (RFC 7523 §2.1).
type Accept struct {
	// Trust is the name of the issuer.
	Trust string `json:"trust"`
	// Claims must all have one of their values, in which * stands for any characters but "/", and ** for any at all.
	Claims []AcceptClaim `json:"claims,omitempty"`
	// Types are what typ may be: `JWT`, `none` and `at+jwt`. Default: JWT and none.
	Types []string `json:"types,omitempty"`
	// Subject is the sub of the tokens: a text and a colon, and {name} for a claim.
	Subject string `json:"subject,omitempty"`
	// Client is the client that gets the tokens, in place of Subject.
	Client string `json:"client,omitempty"`
	// Scopes are the most that a token gets. With Client or IDJAG the default is what the client may have.
	Scopes []string `json:"scopes,omitempty"`
	// IDJAG takes grants that say who somebody is (typ oauth-id-jag+jwt), for clients that prove who they are: the tokens act for users.
	IDJAG bool `json:"id_jag,omitempty"`
	// Link is `verified_email` when a person may be the user who has the address. Default: only who has signed in from there.
	Link string `json:"link,omitempty"`
}

// AcceptClaim is a claim with the values that it may have.
type AcceptClaim struct {
	Name   string   `json:"name"`
	Values []string `json:"values"`
}

// parseAccept reads a rule. What can be said of it alone is said here, with its line.
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
func (b *Block) parseAccept(d *caddyfile.Dispenser) error {
	var c Accept
	if !d.Args(&c.Trust) || d.NextArg() {
		return d.Errf("write it as `accept <trust> { … }`")
	}
	b.note(d, "accept", fmt.Sprint(len(b.Accept)+1))
	first := *d
	err := options{
		"claims":  c.parseClaims,
		"typ":     func(d *caddyfile.Dispenser) error { return parseWords(d, &c.Types, token.CheckTokenType) },
		"subject": checkedText(&c.Subject, assertion.CheckSubject),
		"client":  checkedText(&c.Client, nil),
		"scopes":  checkedList(&c.Scopes, nil),
		"id_jag":  flag(&c.IDJAG),
		"link":    checkedText(&c.Link, checkAcceptLink),
	}.parse(d, "unknown accept option %q")
	if err != nil {
		return err
	}
	if _, err := c.read(""); err != nil {
		return first.Errf("accept %s: %v", c.Trust, err)
	}
	b.Accept = append(b.Accept, c)
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

func checkAcceptLink(word string) error {
	if word != "" && word != "verified_email" {
		return fmt.Errorf("link %q: the one word for it is verified_email", word)
	}
	return nil
}

// read turns the rule into the core's form, for the issuer of that identifier.
func (c *Accept) read(issuer string) (assertion.Rule, error) {
	r := assertion.Rule{
		Trust: c.Trust, Issuer: issuer, Subject: c.Subject, ClientID: c.Client, Scopes: c.Scopes, People: c.IDJAG, LinkVerifiedEmail: c.Link != "",
	}
	for _, claim := range c.Claims {
		rule, err := assertion.NewClaimRule(claim.Name, claim.Values)
		if err != nil {
			return r, err
		}
		r.Claims = append(r.Claims, rule)
	}
	if err := checkAcceptLink(c.Link); err != nil {
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
		if err := assertion.CheckSubject(c.Subject); err != nil {
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

// readAccept reads the rules. Their issuers and scopes are known now.
func (b *Block) readAccept(s *Settings) error {
	count := make(map[string]int)
	for i, c := range b.Accept {
		place := []string{"accept", fmt.Sprint(i + 1)}
		at := slices.IndexFunc(s.Trusted, func(t TrustedIssuer) bool { return t.Name == c.Trust })
		if at < 0 {
			return b.at(fmt.Errorf("accept %s: no `trust` has that name: add `trust %s <issuer>`", c.Trust, c.Trust), place...)
		}
		rule, err := c.read(s.Trusted[at].Settings.Issuer)
		if err == nil {
			err = s.Scopes.Check(rule.Scopes)
		}
		for _, name := range rule.Scopes {
			if scope, _ := s.Scopes.Find(name); err == nil && !rule.People && !scope.ServerTokens {
				err = fmt.Errorf("scope %q is none that a server token can hold", name)
			}
		}
		if err == nil && rule.ClientID != "" && setting.IsPlaceholder(rule.ClientID) {
			err = errors.New("client: write the id out")
		}
		if err != nil {
			return b.at(fmt.Errorf("accept %s: %w", c.Trust, err), place...)
		}
		count[c.Trust]++
		rule.Name = fmt.Sprintf("%s#%d", c.Trust, count[c.Trust])
		s.AcceptRules = append(s.AcceptRules, rule)
	}
	return nil
}
