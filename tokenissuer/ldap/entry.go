package ldap

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/signin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// subjectAttributes identify an entry permanently, even if it is moved: OpenLDAP (RFC 4530), Active Directory, 389 Directory Server,
// FreeIPA.
var subjectAttributes = []string{"entryUUID", objectGUID, "nsUniqueId", "ipaUniqueID"}

// objectGUID is the attribute of Active Directory. Its value is 16 bytes.
const objectGUID = "objectGUID"

const (
	accountControl = "userAccountControl"
	accountLock    = "nsAccountLock"
	// accountLockedTime is when an account was locked for failed attempts, or lockedForEver.
	accountLockedTime = "pwdAccountLockedTime"
	lockedForEver     = "000001010000Z"
	// accountDisabled is ADS_UF_ACCOUNTDISABLE in userAccountControl.
	accountDisabled = 2
)

// userAttributes are the attributes requested by a search for people.
func (p *plan) userAttributes() []string {
	a := p.Attributes
	list := slices.Concat([]string{a.Email, accountControl, accountLock, accountLockedTime, "givenName", "sn"}, a.Names, a.Usernames, subjectAttributes)
	for _, optional := range []string{a.Subject, a.Groups} {
		if optional != "" {
			list = append(list, optional)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// subject returns the permanent identifier of a person. isName reports that it is only the entry's name, which another person may get
// later.
func (p *plan) subject(e *ldap.Entry) (subject string, isName bool, err error) {
	names := subjectAttributes
	if p.Attributes.Subject != "" {
		names = []string{p.Attributes.Subject}
	}
	for _, name := range names {
		values := e.GetEqualFoldRawAttributeValues(name)
		switch {
		case len(values) > 1:
			return "", false, fmt.Errorf("%s of %q has several values: it identifies nobody", name, e.DN)
		case len(values) == 0 || len(values[0]) == 0:
		case strings.EqualFold(name, objectGUID):
			subject, err := formatGUID(values[0])
			return subject, false, err
		default:
			return string(values[0]), false, nil
		}
	}
	if p.Attributes.Subject != "" {
		return "", false, fmt.Errorf("%q has no %s, or %s cannot read it", e.DN, p.Attributes.Subject, cmp.Or(p.BindDN, "an anonymous search"))
	}
	return foldName(e.DN), true, nil
}

// formatGUID formats an objectGUID as Active Directory's own tools do: the first three groups are little-endian.
func formatGUID(b []byte) (string, error) {
	if len(b) != 16 {
		return "", fmt.Errorf("objectGUID has %d bytes: 16 are expected", len(b))
	}
	ordered := []byte{b[3], b[2], b[1], b[0], b[5], b[4], b[7], b[6]}
	text := hex.EncodeToString(append(ordered, b[8:]...))
	return strings.Join([]string{text[:8], text[8:12], text[12:16], text[16:20], text[20:]}, "-"), nil
}

// isDisabled reports whether an entry says that its account is disabled: in Active Directory, or by an administrator's lock in OpenLDAP, 389
// Directory Server or FreeIPA, which refuse the bind too.
func isDisabled(e *ldap.Entry) bool {
	if strings.EqualFold(e.GetEqualFoldAttributeValue(accountLock), "true") || e.GetEqualFoldAttributeValue(accountLockedTime) == lockedForEver {
		return true
	}
	control := e.GetEqualFoldAttributeValue(accountControl)
	if control == "" {
		return false
	}
	flags, err := strconv.ParseInt(control, 10, 64)
	return err != nil || flags&accountDisabled != 0
}

// account returns the account of an entry, without groups.
func (p *plan) account(e *ldap.Entry, subject, login string) signin.Account {
	a := signin.Account{
		Provider: p.Name, Subject: subject, Email: p.email(e, login), Aliases: e.GetEqualFoldAttributeValues(p.Attributes.Email), Name: first(e, p.Attributes.Names),
		Profile: &store.Profile{
			GivenName: first(e, []string{"givenName"}), FamilyName: first(e, []string{"sn"}), PreferredUsername: first(e, p.Attributes.Usernames),
		},
	}
	a.EmailVerified = a.Email != "" && !p.EmailUnverified
	return a
}

// email returns the login if it is one of the entry's addresses, or else the first address.
func (p *plan) email(e *ldap.Entry, login string) string {
	addresses := e.GetEqualFoldAttributeValues(p.Attributes.Email)
	for _, address := range addresses {
		if canonical, err := store.CanonicalEmail(address); err == nil && canonical == login {
			return address
		}
	}
	return first(e, []string{p.Attributes.Email})
}

// first returns the first value of the first attribute that an entry has.
func first(e *ldap.Entry, names []string) string {
	for _, name := range names {
		for _, value := range e.GetEqualFoldAttributeValues(name) {
			if value != "" {
				return value
			}
		}
	}
	return ""
}

// foldName returns the form in which names of entries are compared.
func foldName(dn string) string {
	parsed, err := ldap.ParseDN(dn)
	if err != nil {
		return strings.ToLower(dn)
	}
	return strings.ToLower(parsed.String())
}
