package pages

import (
	"strconv"
	"time"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/words"
)

// The notices of the pages for links.
const (
	// NoAddress means that what was typed is no e-mail address.
	NoAddress Notice = "no_address"
	// TooManyLetters asks the user to wait.
	TooManyLetters Notice = "too_many_letters"
	// ForeignAddress means that people with such an address may not make an account.
	ForeignAddress Notice = "foreign_address"
	// OtherAccount means that the link is for a user who is not signed in in this browser.
	OtherAccount Notice = "other_account"
)

// LetterPurpose is why a letter with a link is asked for. Its texts in the catalogues begin with it.
type LetterPurpose string

// The purposes of letters.
const (
	ForgottenPassword LetterPurpose = "forgotten"
	NewAccount        LetterPurpose = "sign_up"
)

// AskLetter asks for the address to which a letter with a link is sent (field `email`), or says that it was sent.
type AskLetter struct {
	For    LetterPurpose
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyLetters.
	RetryAfter time.Duration
	// Email is what was typed.
	Email string
	// Sent reports that a letter was sent. The page does not tell whether the address has an account.
	Sent bool
	// SignInURL is the sign-in page.
	SignInURL string
}

func (AskLetter) template() string { return "letter" }
func (a AskLetter) failed() bool   { return a.Notice.Failed() }
func (a AskLetter) heading() string {
	if a.Sent {
		return "letter.sent.title"
	}
	return string(a.For) + ".title"
}

// PasswordFault is why a new password is not accepted; see the texts `password_fault.*`.
type PasswordFault string

// The faults of a new password. The first four are those of package passwords.
const (
	PasswordTooShort  PasswordFault = "too_short"
	PasswordTooLong   PasswordFault = "too_long"
	PasswordTooCommon PasswordFault = "too_common"
	PasswordIsAddress PasswordFault = "is_address"
	// PasswordsDiffer: it was typed in two ways.
	PasswordsDiffer PasswordFault = "differ"
	// PasswordWrong: the present password, which is asked for beside the new one, is another.
	PasswordWrong PasswordFault = "wrong"
)

// Password is what asks for a new password (fields `new_password` and `new_password_again`).
type Password struct {
	// Email is the account.
	Email string
	// MinLength is the minimum length in characters.
	MinLength int
	Fault     PasswordFault
}

// UseLink is the page of a link: it asks for a password, or for a confirmation. It changes nothing by itself.
type UseLink struct {
	Form Form
	// Purpose is that of the link.
	Purpose string
	// Name asks for the name of a person who is not a user yet; nil: it is not asked for.
	Name *NewName
	// Password asks for a new password; nil: for a confirmation alone.
	Password *Password
	Notice   Notice
	// RetryAfter is for Busy.
	RetryAfter time.Duration
	// NewEmail is the address to be confirmed. SignInURL is the sign-in page, for OtherAccount.
	NewEmail, SignInURL string
}

// NewName asks for a name (field `profile_name`).
type NewName struct {
	Typed string
	// Wrong reports that a user cannot be called so.
	Wrong bool
}

func (UseLink) template() string  { return "link" }
func (l UseLink) heading() string { return "by_link." + l.Purpose + ".title" }
func (l UseLink) failed() bool {
	return l.Notice.Failed() || l.Name != nil && l.Name.Wrong || l.Password != nil && l.Password.Fault != ""
}

// IsNew reports whether the new password is at fault.
func (f PasswordFault) IsNew() bool { return f != "" && f != PasswordWrong }

// newPassword is the data of the template that asks for a new password.
type newPassword struct {
	words.Catalogue
	Password *Password
}

// NewPassword returns the data of the template new_password.
func (v view) NewPassword(p *Password) newPassword { return newPassword{v.Catalogue, p} }

// MinLength says how long the password must be.
func (n newPassword) MinLength() string { return n.count("password.words") }

// PasswordFault says why the password was not accepted.
func (n newPassword) PasswordFault() (string, error) {
	key := "password_fault." + string(n.Password.Fault)
	if _, err := n.Text(key); err != nil {
		return "", err
	}
	return n.count(key), nil
}

func (n newPassword) count(key string) string {
	return n.Fill(key, "{count}", strconv.Itoa(n.Password.MinLength))
}

// Profile is the part of the account page about the user. The field `change` of a form is `profile`, `email` or `password`.
type Profile struct {
	// Fixed reports that the profile is kept elsewhere and cannot be changed here.
	Fixed bool
	// Name, GivenName, FamilyName and Locale are the values of the fields `profile_name`, `given_name`, `family_name` and `locale`.
	Name, GivenName, FamilyName, Locale string
	// Wrong reports that they could not be saved.
	Wrong bool
	// Password asks for a new password; nil: the user has none here.
	Password *Password
	// Proves reports that the user has just proved a second factor. Otherwise the forms for the address and the password ask for the present
	// password (field `present_password`).
	Proves bool
	// Email asks for a new address; nil: it cannot be changed here.
	Email *NewEmail
	// PasswordNotice is why the password was not checked, and RetryAfter when to try again.
	PasswordNotice Notice
	RetryAfter     time.Duration
}

// NewEmail asks for a new address (field `new_email`).
type NewEmail struct {
	// Typed is what was typed, and Notice why it was not accepted.
	Typed  string
	Notice Notice
	// WrongPassword reports that the password beside it is wrong.
	WrongPassword bool
}

// failed reports whether a form was not accepted.
func (p *Profile) failed() bool {
	return p != nil && (p.Wrong || p.PasswordNotice != "" || p.Email != nil && (p.Email.Notice != "" || p.Email.WrongPassword) ||
		p.Password != nil && p.Password.Fault != "")
}
