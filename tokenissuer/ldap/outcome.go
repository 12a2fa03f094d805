package ldap

import (
	"errors"
	"fmt"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Reasons of failed sign-ins, for the audit log. They are stable. For the first three, the person learns only that the sign-in failed.
const (
	// ReasonRefused: the directory refuses the password or the account. Code invalid_grant.
	ReasonRefused = "directory_refused"
	// ReasonAmbiguous: the filter finds several entries. Code invalid_grant.
	ReasonAmbiguous = "directory_ambiguous"
	// ReasonDisabled: the password is correct, but the entry says that the account is disabled. Code invalid_grant.
	ReasonDisabled = "directory_account_disabled"
	// ReasonBusy: too many sign-ins are in progress. Code temporarily_unavailable.
	ReasonBusy = "directory_busy"
	// ReasonUnavailable: the directory is down or slow, sends an invalid response, or refuses us. Code temporarily_unavailable.
	ReasonUnavailable = "directory_of_people_unavailable"
)

// retryAfter is when to retry an unavailable directory.
const retryAfter = 10 * time.Second

var errTooMany = errors.New("more entries than expected")

func refused(reason string, cause error) error {
	return oauth.NewError(oauth.InvalidGrant, reason).WithCause(cause)
}

func unavailable(cause error) error {
	e := oauth.Unavailable(ReasonUnavailable, cause)
	e.RetryAfter = retryAfter
	return e
}

// isAnswer reports whether the directory returned the error. The connection then remains usable.
func isAnswer(err error) bool {
	answered, ok := errors.AsType[*ldap.Error](err)
	return ok && answered.ResultCode < ldap.ErrorNetwork
}

// refusesPassword reports whether the response to a bind refuses the person or the password. Any other failure, such as a busy directory or
// a referral, is a fault.
func refusesPassword(err error) bool {
	return ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication,
		ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultUnwillingToPerform, ldap.LDAPResultConstraintViolation,
		ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax)
}

// withoutReferral explains a response that refers to another directory.
func withoutReferral(err error) error {
	if ldap.IsErrorWithCode(err, ldap.LDAPResultReferral) {
		return fmt.Errorf("the directory refers to another one, and referrals are not followed: name that one, or one that has everything: %w", err)
	}
	return err
}
