package configuration

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig/caddyfile"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// PeopleRegistration lets people with certain addresses make an account, and says what it gets.
type PeopleRegistration struct {
	// EmailDomains are the domains of their addresses. A domain does not include those below it.
	EmailDomains []string `json:"email_domains,omitempty"`
	// Anybody lets everybody make an account, in place of EmailDomains.
	Anybody bool `json:"anybody,omitempty"`
	// Creation are the organisation and the role of the accounts. The role manages no other.
	Creation
	// Groups are those of the accounts. Default: none.
	Groups []string `json:"groups,omitempty"`
}

const peopleRegistration = "registration_of_people"

// parsePeopleRegistration reads one rule. Several lines add up.
//
//	registration_of_people email_domain <domain>... | anybody {
//		organisation <id>
//		role         <role>
//		groups       <group>...
//	}
func parsePeopleRegistration(d *caddyfile.Dispenser, rules *[]PeopleRegistration, at *Sources) error {
	const usage = "write it as `registration_of_people email_domain example.com` or `registration_of_people anybody`"
	var c PeopleRegistration
	if !d.NextArg() {
		return d.Errf("%s", usage)
	}
	switch word := d.Val(); word {
	case "email_domain":
		if err := checkedList(&c.EmailDomains, checkDomain)(d); err != nil {
			return err
		}
	case "anybody":
		if err := flag(&c.Anybody)(d); err != nil {
			return err
		}
	default:
		return d.Errf("%s", usage)
	}
	for _, other := range *rules {
		if err := c.fits(other); err != nil {
			return d.Errf("%s: %v", peopleRegistration, err)
		}
	}
	at.note(d, peopleRegistration)
	at.note(d, peopleRegistration, c.condition())
	err := options{
		"organisation": func(d *caddyfile.Dispenser) error {
			err := checkedText(&c.Organisation, store.ValidateID)(d)
			at.note(d, peopleRegistration, "organisation", c.Organisation)
			return err
		},
		"role": checkedText(&c.Role, nil), "groups": checkedList(&c.Groups, checkGroup),
	}.parse(d, peopleRegistration+" has no option %q")
	*rules = append(*rules, c)
	return err
}

// condition is the rule's condition as in a Caddyfile.
func (c *PeopleRegistration) condition() string {
	if c.Anybody {
		return "anybody"
	}
	return "email_domain " + strings.Join(c.EmailDomains, " ")
}

// fits refuses a rule for the same addresses as another.
func (c *PeopleRegistration) fits(other PeopleRegistration) error {
	if c.Anybody && other.Anybody {
		return errors.New("anybody is there twice")
	}
	for _, domain := range c.EmailDomains {
		if slices.Contains(other.EmailDomains, domain) {
			return fmt.Errorf("the domain %s is there twice", domain)
		}
	}
	return nil
}

// readPeopleRegistration checks the rules and the settings that they need.
func readPeopleRegistration(rules []PeopleRegistration, s *Settings, at *Sources) error {
	fail := func(err error, words ...string) error {
		return at.At(fmt.Errorf("%s: %w", peopleRegistration, err), append([]string{peopleRegistration}, words...)...)
	}
	switch {
	case len(rules) == 0:
		return nil
	case !s.SignIn.Password || s.SignIn.DirectoriesAlone:
		return fail(errors.New("people would choose a password, and nobody signs in with a password of ours: add `password` to sign_in"))
	case s.Mail == nil:
		return fail(errors.New("a letter proves the address: add `mail`"))
	}
	for i, c := range rules {
		err := c.check(s.Issuer.Roles)
		for _, other := range rules[:i] {
			err = errors.Join(err, c.fits(other))
		}
		if err != nil {
			return fail(err, c.condition())
		}
		s.SignIn.Registration = append(s.SignIn.Registration, people.RegistrationRule{
			Domains: c.EmailDomains, Groups: c.Groups, Creation: signin.Creation{Organisation: c.Organisation, Role: store.Role(c.Role)},
		})
	}
	return nil
}

// check refuses a rule that says nothing about people, or that gives them power over others.
func (c *PeopleRegistration) check(roles store.RoleCatalogue) error {
	if c.Anybody == (len(c.EmailDomains) > 0) {
		return errors.New("say for whom: email_domain or anybody, and not both")
	}
	for _, domain := range c.EmailDomains {
		if err := checkDomain(domain); err != nil {
			return err
		}
	}
	if c.Organisation != "" {
		if err := store.ValidateID(c.Organisation); err != nil {
			return fmt.Errorf("organisation: %w", err)
		}
	}
	if err := c.Creation.check(roles); err != nil {
		return err
	}
	role := store.Role(c.Role)
	if role == "" {
		role = roles.Default()
	}
	if role == roleOperator || roles.ManagesAny(role) {
		return fmt.Errorf("role %s has power over others, which nobody gets by registering: name another", role)
	}
	return store.ValidateGroups(c.Groups)
}

// roleOperator is the role of people who may do what operators may.
const roleOperator store.Role = "operator"
