package oauth

import "slices"

// The authentication context classes of sign-ins here (OpenID Connect Core §2). Those of providers are unknown.
const (
	// PasswordACR is the class of a sign-in with one factor.
	PasswordACR = "1"
	// TwoFactorACR is the class of a sign-in with two factors. It includes PasswordACR.
	TwoFactorACR = "2"
)

// SatisfiesACR reports whether a sign-in of class acr is one of the wanted classes, or better.
func SatisfiesACR(acr string, wanted []string) bool {
	return slices.Contains(wanted, acr) || acr == TwoFactorACR && slices.Contains(wanted, PasswordACR)
}
