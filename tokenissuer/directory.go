package tokenissuer

import "github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"

// DirectoryAttempt is what somebody presents who has no password of ours, for a directory of people elsewhere.
type DirectoryAttempt struct {
	// Login is a canonical e-mail address or username.
	Login    string
	Password oauth.Secret
	// Address is where the attempt comes from.
	Address string
	// Admit is called with the directory's permanent identifier of the person before the password is looked at. Its error ends the attempt: too many
	// have failed for this person, whatever names they used.
	Admit func(subject string) error
}
