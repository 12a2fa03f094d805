// Package pages is what people see: sign-in, consent, account, and what went wrong. It turns values into HTML, in the
// language of the reader, and knows no request. Every text stands in texts/, one file a language.
package pages

import "time"

// Brand is how the operator's name and mark appear.
type Brand struct {
	// Name stands at the top of each page. Default: Gatehouse.
	Name string
	// Logo is shown beside it; nil: none.
	Logo *Logo
}

// Logo is an image that is embedded into the page, so that no page loads anything.
type Logo struct {
	MediaType string
	Data      []byte
}

// Form is what every form carries.
type Form struct {
	// Action is where it goes.
	Action string
	// Token proves that the form came from us, to this browser (the field `form_token`).
	Token string
	// Pending is the sealed authorization request, or empty (the field `pending`).
	Pending string
}

// Notice is what a page says about the attempt before.
type Notice string

// What a sign-in page can say.
const (
	NoNotice Notice = ""
	// WrongCredentials says that address and password do not belong together, and not which of them is wrong.
	WrongCredentials Notice = "wrong_credentials"
	// TooManyAttempts asks for a pause.
	TooManyAttempts Notice = "too_many_attempts"
	// Busy says that the server cannot look at a password now.
	Busy Notice = "busy"
	// SignInAgain explains why somebody who is signed in is asked for the password.
	SignInAgain Notice = "sign_in_again"
)

// SignIn asks for e-mail address and password (the fields `email` and `password`).
type SignIn struct {
	Form   Form
	Notice Notice
	// RetryAfter goes with TooManyAttempts and Busy.
	RetryAfter time.Duration
	// Email fills the field.
	Email string
	// ClientName is the application that asks; empty: none does.
	ClientName string
}

// Consent asks whether an application may act (the field `decision` is `allow` or `deny`). Each scope is a checkbox
// `scope_N`, N counting from 0, ticked from the start.
type Consent struct {
	Form       Form
	ClientName string
	ClientID   string
	// Host is where the answer goes: a host, with its port unless that is the scheme's, or a private scheme.
	Host   string
	Scopes []Scope
	// User and Email are who is signed in.
	User, Email string
	// SwitchURL leads to the sign-in page for another account.
	SwitchURL string
	// AccountURL leads to the account page, where access can be taken back.
	AccountURL string
}

// Scope is a scope and what it allows, in words. Without words the page says the built-in ones, or the name.
type Scope struct{ Name, Words string }

// Done is what the account page says about the change before.
type Done string

// What can have been done.
const (
	NothingDone Done = ""
	// ApplicationRemoved says that an application may act for the user no more.
	ApplicationRemoved Done = "application"
	// SessionEnded says that the user is signed out of another browser.
	SessionEnded Done = "session"
)

// Account shows a person's applications and sessions. Each can be ended by a form with a field `application` or
// `session` that holds its id, and all by one with `everywhere`.
type Account struct {
	Form         Form
	Done         Done
	User, Email  string
	Organisation string
	Role         string
	Applications []Application
	Sessions     []Session
	// SignOutURL leads to the sign-out page.
	SignOutURL string
}

// Application is a client that may act for the user.
type Application struct {
	ID, Name string
	Scopes   []Scope
	Since    time.Time
	// LastUsed is when it last renewed its token.
	LastUsed time.Time
}

// Session is a browser in which the user is signed in.
type Session struct {
	ID string
	// Note is the browser in words.
	Note     string
	Since    time.Time
	LastSeen time.Time
	// Current is the browser that asks.
	Current bool
}

// SignOut asks whether to sign out (a form without further fields), or says that it is done.
type SignOut struct {
	Form Form
	// Done: nobody is signed in any more.
	Done bool
	// Email is who is signed in.
	Email string
	// SignInURL leads back.
	SignInURL string
}

// Problem says why a request cannot go on. Title and words follow from the code; see the texts `problem.*`.
type Problem struct {
	Code ProblemCode
	// Detail is a sentence in English for whoever builds the application; empty: none.
	Detail string
	// RetryAfter goes with what passes.
	RetryAfter time.Duration
	// AccountURL leads to the account page, for whom nothing else is left to do here.
	AccountURL string
}

// ProblemCode names what went wrong.
type ProblemCode string

// The problems there are.
const (
	// BadClient: the application is unknown, or the address that it wants the answer at is not its own.
	BadClient ProblemCode = "bad_client"
	// BadRequest: the request is malformed.
	BadRequest ProblemCode = "bad_request"
	// Expired: the sign-in took too long, or its address was damaged or is another browser's.
	Expired ProblemCode = "expired"
	// Forged: the form did not come from a page of ours in this browser.
	Forged ProblemCode = "forged"
	// Decided: this request was answered before.
	Decided ProblemCode = "decided"
	// NotFound: there is no such page.
	NotFound ProblemCode = "not_found"
	// NotAllowed: the page cannot be asked like this.
	NotAllowed ProblemCode = "not_allowed"
	// Throttled: too many attempts.
	Throttled ProblemCode = "throttled"
	// Unavailable: the service cannot answer now.
	Unavailable ProblemCode = "unavailable"
	// Internal: a fault of ours.
	Internal ProblemCode = "internal"
)
