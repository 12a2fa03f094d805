package pages

import (
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
)

// SecondFactor asks for a code of the user's authenticator, or for a recovery code (field `code`).
type SecondFactor struct {
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyCodes.
	RetryAfter time.Duration
	// Email is the account that is signing in.
	Email string
	// RestartURL is the sign-in page, for another account.
	RestartURL string
}

// Enrolment asks the user to add an authenticator and to type a code of it (field `code`).
type Enrolment struct {
	Form   Form
	Notice Notice
	// RetryAfter is for TooManyCodes.
	RetryAfter time.Duration
	// Secret is the authenticator's secret in groups of characters, and Picture the same as a QR picture in PNG.
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
	// Added reports that an authenticator was added.
	Added bool
}

func (SecondFactor) template() string { return "factor" }
func (SecondFactor) heading() string  { return "factor.title" }
func (f SecondFactor) failed() bool   { return f.Notice.Failed() }

func (Enrolment) template() string { return "enrolment" }
func (Enrolment) heading() string  { return "enrolment.title" }
func (e Enrolment) failed() bool   { return e.Notice.Failed() }

// PictureURL returns the picture as a data URL.
func (e Enrolment) PictureURL() template.URL {
	return template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(e.Picture)) //nolint:gosec // base64 of a picture that we have drawn
}

func (Codes) template() string { return "codes" }
func (Codes) heading() string  { return "codes.title" }
func (Codes) failed() bool     { return false }

// Factor is a second factor on the account page.
type Factor struct {
	ID string
	// Kind is `totp` or `recovery_codes`.
	Kind, Name      string
	Since, LastUsed time.Time
	// Left is the number of recovery codes that were not used.
	Left int
}

// Factors are the user's second factors on the account page. The field `factor` of a form is the id of one to remove, `add`, `codes` for
// new recovery codes, or `sign_in` to sign in again.
type Factors struct {
	List []Factor
	// SignIn reports that the user must sign in again to change them.
	SignIn bool
	// CanAdd reports that the user can add an authenticator, and CanRenew that there can be new recovery codes.
	CanAdd, CanRenew bool
}
