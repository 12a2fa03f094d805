package ldap_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/internal/ldaptest"
	. "github.com/gatehouse-auth/gatehouse/tokenissuer/ldap"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// TestP193WhatBecameOfAnEntry: an entry looked up again → the person's groups now; gone, moved away, not found by the filter any more → not
// found; a stopped directory → temporarily_unavailable.
func TestP193WhatBecameOfAnEntry(t *testing.T) {
	server := ldaptest.Start(t)
	server.AddPerson(ldaptest.DN("eve"), "eve", "eve@example.com", "eve@other.example")
	settings := settingsOf(t, server)
	d := open(t, settings)
	subject := signedIn(t, d, "eve@other.example", ldaptest.PasswordOf("eve")).Subject
	groups := func(want ...string) {
		t.Helper()
		a, err := d.Recheck(t.Context(), subject, oauth.Secret{})
		slices.Sort(a.Groups)
		if err != nil || a.Subject != subject || !slices.Equal(a.Groups, want) || !a.EmailVerified || len(a.Aliases) != 2 {
			t.Errorf("%+v, %v", a, err)
		}
	}
	gone := func(subject, why string) {
		t.Helper()
		if a, err := d.Recheck(t.Context(), subject, oauth.Secret{}); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %+v, %v", why, a, err)
		}
	}
	groups()
	server.AddGroup("cn=guests,"+ldaptest.Groups, ldaptest.DN("eve"))
	groups("guests")
	for _, forged := range []string{"", "*", "*)(uid=*", strings.Repeat("0", 36), "cn=admins,ou=elsewhere," + ldaptest.Base, ldaptest.Base, "uid=eve,ou=people,dc=elsewhere", "=", "a=b\x00"} {
		gone(forged, forged)
	}
	server.Modify(ldaptest.DN("eve"), "mail", "eve@example.com")
	server.Modify(ldaptest.DN("eve"), "uid", "eve", "another")
	if a, err := d.Recheck(t.Context(), subject, oauth.Secret{}); err != nil || a.Email != "eve@example.com" {
		t.Errorf("with another address: %+v, %v", a, err)
	}
	rule := settings
	rule.UserFilter = "(&(mail={email})(employeeType=staff))"
	d = open(t, rule)
	gone(subject, "the filter wants more than the entry has")
	server.Modify(ldaptest.DN("eve"), "employeeType", "staff")
	groups2, err := d.Recheck(t.Context(), subject, oauth.Secret{})
	if err != nil || len(groups2.Groups) != 1 {
		t.Errorf("the filter finds it: %+v, %v", groups2, err)
	}
	server.Modify(ldaptest.DN("eve"), "mail")
	gone(subject, "no address to sign in with")
	d = open(t, settings)
	admin := server.Admin()
	if err := admin.ModifyDN(ldap.NewModifyDNRequest(ldaptest.DN("eve"), "uid=eve", false, "ou=elsewhere,"+ldaptest.Base)); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Recheck(t.Context(), subject, oauth.Secret{}); err != nil {
		t.Errorf("moved below the base: %v", err)
	}
	people := settings
	people.UserBase = ldaptest.People
	d = open(t, people)
	gone(subject, "moved out of the base")
	d = open(t, settings)
	if err := admin.Del(ldap.NewDelRequest("uid=eve,ou=elsewhere,"+ldaptest.Base, nil)); err != nil {
		t.Fatal(err)
	}
	_ = admin.Close()
	gone(subject, "deleted")
	server.Stop()
	if _, err := d.Recheck(t.Context(), subject, oauth.Secret{}); oauth.AsError(err).Code != oauth.TemporarilyUnavailable {
		t.Errorf("stopped: %v", err)
	}
}

// TestP194DisabledEntries: an entry that says that its account is disabled or locked, at its recheck → refused; a name as the subject → looked
// up by name.
func TestP194DisabledEntries(t *testing.T) {
	for attribute, reason := range map[string]string{
		"userAccountControl=514": ReasonDisabled, "nsAccountLock=TRUE": ReasonDisabled, "pwdAccountLockedTime=000001010000Z": ReasonDisabled,
		"userAccountControl=512": "", "nsAccountLock=false": "", "pwdAccountLockedTime=20260101000000Z": "",
	} {
		name, value, _ := strings.Cut(attribute, "=")
		for _, byName := range []bool{false, true} {
			f := newFake(t, but(ldap.ApplicationSearchRequest, func(o operation) []byte {
				a := adaInActiveDirectory("512")
				a[name] = []string{value}
				if byName {
					delete(a, "objectGUID")
				}
				return append(entry(o, adaDN, a), result(o, ldap.ApplicationSearchResultDone, 0)...)
			}))
			s := f.settings()
			s.UserBase = "dc=example,dc=com"
			d := open(t, s)
			subject := "04030201-0605-0807-090a-0b0c0d0e0f10"
			if byName {
				subject = strings.ToLower(adaDN)
			}
			account, err := d.Recheck(t.Context(), subject, oauth.Secret{})
			if reason == "" && (err != nil || account.Subject != subject) || reason != "" && oauth.AsError(err).Reason != reason {
				t.Errorf("%s, by name %t: %+v, %v", attribute, byName, account, err)
			}
		}
	}
}
