package pages

import (
	_ "embed" // the script
	"encoding/base64"
	"html/template"
	"time"
)

// The notices of the pages for second factors.
const (
	// WrongCode does not reveal whether the code is wrong or was used before.
	WrongCode Notice = "wrong_code"
	// TooManyCodes asks the user to wait.
	TooManyCodes Notice = "too_many_codes"
	// AlreadyEnrolled means that the user has added an authenticator in another tab.
	AlreadyEnrolled Notice = "already_enrolled"
	// WrongPasskey does not reveal why a passkey is refused. UnknownPasskey means that it does not exist here, ExpiredPasskey that the page
	// was open for too long.
	WrongPasskey   Notice = "wrong_passkey"
	UnknownPasskey Notice = "unknown_passkey"
	ExpiredPasskey Notice = "expired_passkey"
	// PasskeyNotAlone means that the user signs in with the password of a directory or at a provider first.
	PasskeyNotAlone Notice = "passkey_not_alone"
	// TooManyPasskeys asks the user to remove one first.
	TooManyPasskeys Notice = "too_many_passkeys"
)

// passkeyScript asks for passkeys on the pages that have a field for them, and tells the browser which ones exist. Without it the pages do
// not offer passkeys.
//
//go:embed passkey.js
var passkeyScript string

// scriptFor returns the script of a page with that content for it, or "".
func scriptFor(content string) template.JS {
	if content == "" {
		return ""
	}
	return template.JS(passkeyScript) //lint:ignore gosec our own file
}

// SecondFactor asks for a code of the user's authenticator or a recovery code (field `code`), or for a passkey (field `passkey`).
type SecondFactor struct {
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyCodes.
	RetryAfter time.Duration
	// Email is the account that is signing in.
	Email string
	// RestartURL is the sign-in page, for another account.
	RestartURL string
	// Authenticator reports that the user has an authenticator, and not only recovery codes.
	Authenticator bool
	// Passkey is what the script asks the browser for, as JSON, or empty.
	Passkey string
}

// Enrolment asks the user to add a passkey (field `passkey`), or an authenticator by typing a code of it (field `code`).
type Enrolment struct {
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyCodes.
	RetryAfter time.Duration
	// Passkey is what the script asks the browser for, as JSON, or empty.
	Passkey string
	// Secret is the authenticator's secret in groups of characters, or empty, and Picture the same as a QR picture in PNG.
	Secret  string
	Picture []byte
	// Required reports that the user cannot sign in without it.
	Required bool
	// CancelURL leaves the page.
	CancelURL string
}

// Codes shows recovery codes. They are shown once.
type Codes struct {
	Codes []string
	// ContinueURL is where the user goes next.
	ContinueURL string
	// Added reports that an authenticator or, with Passkey, a passkey was added.
	Added, Passkey bool
}

func (SecondFactor) template() string { return "factor" }
func (SecondFactor) heading() string  { return "factor.title" }
func (f SecondFactor) failed() bool   { return f.Notice.Failed() }

// Script returns the script, if the page offers a passkey.
func (f SecondFactor) Script() template.JS { return scriptFor(f.Passkey) }

func (Enrolment) template() string { return "enrolment" }
func (e Enrolment) failed() bool   { return e.Notice.Failed() }
func (e Enrolment) heading() string {
	switch {
	case e.Passkey == "":
		return "enrolment.title"
	case e.Secret == "":
		return "passkey.add"
	}
	return "enrolment.title_choice"
}

// Script returns the script, if the page offers a passkey.
func (e Enrolment) Script() template.JS { return scriptFor(e.Passkey) }

// PictureURL returns the picture as a data URL.
func (e Enrolment) PictureURL() template.URL {
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(e.Picture)) //lint:ignore gosec base64 of a picture that we have drawn
}

func (Codes) template() string { return "codes" }
func (Codes) heading() string  { return "codes.title" }
func (Codes) failed() bool     { return false }

// Factor is a second factor on the account page.
type Factor struct {
	ID string
	// Kind is `totp`, `passkey` or `recovery_codes`.
	Kind, Name      string
	Since, LastUsed time.Time
	// Left is the number of recovery codes that were not used.
	Left int
	// Elsewhere reports that a passkey was made for another name of the site, at which browsers offer it.
	Elsewhere bool
}

// Factors are the user's second factors on the account page. The field `factor` of a form is the id of one to remove, `add`, `add_passkey`,
// `codes` for new recovery codes in place of those whose id is in the field `codes`, or `sign_in` to sign in again. A form with the fields `rename_factor`, an id, and `factor_name` renames one.
type Factors struct {
	List []Factor
	// SignIn reports that the user must sign in again to change them.
	SignIn bool
	// CanAdd reports that the user can add an authenticator, CanAddPasskey a passkey, and CanRenew that there can be new recovery codes.
	CanAdd, CanAddPasskey, CanRenew bool
	// Accepted are the passkeys that exist, as JSON for the script, or empty.
	Accepted string
}

// Script returns the script, if the browser is told which passkeys exist.
func (a Account) Script() template.JS {
	if a.Factors == nil {
		return ""
	}
	return scriptFor(a.Factors.Accepted)
}
