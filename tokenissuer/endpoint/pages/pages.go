// Package pages renders the HTML pages: sign-in, consent, account and error pages. It renders values in the reader's language and does not
// depend on requests. Their texts are in the package words; settings.go is what an operator can change.
package pages

import (
	"html/template"
	"time"
)

// Form holds the common fields of all forms.
type Form struct {
	// Action is the form's target.
	Action string
	// Token proves that the form came from us, for this browser (field `form_token`).
	Token string
	// Pending is the sealed authorization request, or empty (field `pending`).
	Pending string
}

// Notice is a message about the previous attempt.
type Notice string

// The notices of the sign-in page.
const (
	NoNotice Notice = ""
	// WrongCredentials does not reveal whether address or password is wrong.
	WrongCredentials Notice = "wrong_credentials"
	// TooManyAttempts asks the user to wait.
	TooManyAttempts Notice = "too_many_attempts"
	// Busy means that the server cannot verify a password now.
	Busy Notice = "busy"
	// SignInAgain explains why a signed-in user is asked to sign in.
	SignInAgain Notice = "sign_in_again"
	// FormReplaced means that the sent form was ignored, because it was not made for this browser.
	FormReplaced Notice = "form_replaced"
	// ProviderUnavailable and the five after it concern a sign-in at a provider: the provider does not respond; the person or the provider
	// declined; the account may not sign in here; the answer did not belong to this sign-in or came too late; the operator must act; a
	// fresh sign-in was required but not proved.
	ProviderUnavailable   Notice = "provider_unavailable"
	ProviderCancelled     Notice = "provider_cancelled"
	ProviderRefused       Notice = "provider_refused"
	ProviderFailed        Notice = "provider_failed"
	ProviderMisconfigured Notice = "provider_misconfigured"
	ProviderNotFresh      Notice = "provider_not_fresh"
)

// ProviderNotices are the notices about a provider.
var ProviderNotices = []Notice{ProviderUnavailable, ProviderCancelled, ProviderRefused, ProviderFailed, ProviderMisconfigured, ProviderNotFresh}

// SignIn asks for e-mail address and password (fields `email` and `password`), for a passkey (`passkey`), or for a provider (`provider`).
type SignIn struct {
	Form   Form
	Notice Notice
	// WithoutPasswords offers only providers. Usernames reports that the address may be a username.
	WithoutPasswords, Usernames bool
	// Providers are the providers to choose from.
	Providers []Provider
	// AtProvider is the title of the provider that a notice concerns.
	AtProvider string
	// RetryAfter is for TooManyAttempts and Busy.
	RetryAfter time.Duration
	// Email prefills the field.
	Email string
	// ClientName is the requesting application, or empty. NoteFor selects the operator's note about it.
	ClientName string
	NoteFor    NoteFor
	SignInWays
	// Passkey offers a sign-in with a passkey.
	Passkey PasskeySignIn
}

// PasskeySignIn is what the script of the sign-in page says to the browser about passkeys, as JSON. The zero value offers none.
type PasskeySignIn struct {
	// Request is what it asks for. Unknown is the passkey that the notice UnknownPasskey concerns, or empty.
	Request, Unknown string
}

// Script returns the script, if the page offers a passkey.
func (s SignIn) Script() template.JS { return scriptFor(s.Passkey.Request) }

// SignInWays are choices on the sign-in page.
type SignInWays struct {
	// Choose makes the provider ask which account to use (field `choose`).
	Choose bool
	// ForgottenURL is for people who have forgotten their password. It may be empty.
	ForgottenURL string
	// SignUpURL is for people without an account. It is empty where they cannot make one.
	SignUpURL string
}

// Provider is an identity provider at which people sign in.
type Provider struct {
	// Name is the value of the field. Title is the name shown.
	Name, Title string
}

// Consent asks whether an application may act for the user (field `decision`, `allow` or `deny`). Each scope has a checkbox `scope_N`, with
// N counting from 0, initially ticked.
type Consent struct {
	Form       Form
	ClientName string
	ClientID   string
	// Host is where the answer is sent: a host, with a port unless it is the scheme's default, or a private scheme.
	Host string
	// SelfMade reports that the application registered itself and its name was not checked. DescribedBy is the host that describes it, or
	// empty. OnDevice reports that the answer goes to some program on the user's device.
	SelfMade    bool
	DescribedBy string
	OnDevice    bool
	Scopes      []Scope
	Viewer
	// AccountURL is the account page, where access can be revoked.
	AccountURL string
	// Device is the device that asks. It is nil for an application that sent the browser here; Host is empty otherwise.
	Device *AskingDevice
}

// Viewer is the signed-in user who is asked.
type Viewer struct {
	User, Email string
	// SwitchURL is the sign-in page for another account.
	SwitchURL string
}

// Scope is a scope with a description. Without Words, the page uses the built-in words, or the name.
type Scope struct {
	Name, Words string
	// Fixed reports that the user cannot untick the scope. The form does not send its checkbox.
	Fixed bool
	// Ticked reports that the checkbox of a new token is ticked.
	Ticked bool
}

// Done is a message about the previous change on the account page.
type Done string

// The messages of the account page.
const (
	NothingDone Done = ""
	// ApplicationRemoved: an application may no longer act for the user.
	ApplicationRemoved Done = "application"
	// SessionEnded: the user is signed out of another browser.
	SessionEnded Done = "session"
	// IdentityUnlinked: an account at a provider is no longer linked to the user.
	IdentityUnlinked Done = "identity"
	// TokenEnded: a personal access token is no longer valid.
	TokenEnded Done = "token"
	// FactorRemoved: a second factor no longer belongs to the user.
	FactorRemoved Done = "factor"
	// ProfileSaved: the user has changed the profile.
	ProfileSaved Done = "profile"
	// PasswordChanged: the user has another password.
	PasswordChanged Done = "password"
	// AddressAsked: a link was sent to a new address, unless another user has it.
	AddressAsked Done = "email_sent"
	// AddressChanged: the user has another address.
	AddressChanged Done = "email"
	// FactorAdded: a passkey was added to others. FactorRenamed: it has another name.
	FactorAdded   Done = "factor_added"
	FactorRenamed Done = "factor_renamed"
)

// Account shows a user's applications and sessions. A form with the field `application` or `session` ends the one with that id. A form with
// `everywhere` ends all.
type Account struct {
	Form        Form
	Done        Done
	User, Email string
	Memberships
	// Profile is what the user can change. It is nil where nobody has a password here.
	Profile      *Profile
	Applications []Application
	Sessions     []Session
	// Identities are the accounts at providers with which the user signs in. A form with the field `identity` unlinks one.
	Identities []Identity
	// Factors are the user's second factors. It is nil if there are none.
	Factors *Factors
	// Tokens are the user's personal access tokens. It is nil if there are none.
	Tokens *Tokens
	// SignOutURL is the sign-out page.
	SignOutURL string
}

// Memberships are what a user belongs to, and cannot change.
type Memberships struct {
	Organisation, Role string
	Groups             []string
}

// Application is a client that may act for the user.
type Application struct {
	ID, Name string
	Scopes   []Scope
	Since    time.Time
	// LastUsed is when it last refreshed its token.
	LastUsed time.Time
}

// Session is a browser in which the user is signed in.
type Session struct {
	ID string
	// Note describes the browser.
	Note     string
	Since    time.Time
	LastSeen time.Time
	// Hosts are the hosts at which the session is used.
	Hosts []Host
	// SignsOutOf are the names of the applications that are notified when the session ends.
	SignsOutOf []string
	// Current reports that this is the browser of the request.
	Current bool
}

// Host is a host at which a session is used. It has a session of its own.
type Host struct {
	ID, Name string
	LastUsed time.Time
}

// Identity is an account at a provider.
type Identity struct {
	// ID is the value of the field.
	ID string
	// Provider is the provider's title.
	Provider string
	LinkedAt time.Time
	LastUsed time.Time
	// Only reports that the user could no longer sign in without it.
	Only bool
}

// SignOut asks whether to sign out (a form without further fields), or confirms the sign-out.
type SignOut struct {
	Form Form
	// Done reports that the user is signed out.
	Done bool
	// Email identifies the signed-in user.
	Email string
	// ClientName is the application that requests the sign-out. It is empty if there is none or it is unknown.
	ClientName string
	// Fields are the application's request, which the form repeats.
	Fields []Field
	// Detail is a sentence in English for the application's developer, or empty.
	Detail string
	// ReturnURL leads back to the application once the user is signed out. It is of http or https, or empty.
	ReturnURL string
	// SignInURL is the sign-in page.
	SignInURL string
}

// Front is the page at the issuer's own address. It links to the account page and the sign-out page.
type Front struct{ AccountURL, SignOutURL string }

// AtHost is a page of the sign-in at a host behind the gate. Code selects title and text; see the texts `host.*`.
type AtHost struct {
	Code HostCode
	// URL is where to continue. NewTab opens it in another tab.
	URL    string
	NewTab bool
}

// HostCode identifies a page of the sign-in at a host.
type HostCode string

// The pages of the sign-in at a host.
const (
	// Interrupted: a form was sent without a session and was not processed.
	Interrupted HostCode = "interrupted"
	// Foreign: a page of another site sent a form, which was not processed.
	Foreign HostCode = "foreign"
	// Shortened: the browser is signed in, but the address at which the sign-in began was too long to keep.
	Shortened HostCode = "shortened"
	// Elsewhere: the user is not signed in at the host, but may be at the provider.
	Elsewhere HostCode = "elsewhere"
	// SignedIn: the browser is signed in, but the page that it wants is unknown.
	SignedIn HostCode = "signed_in"
	// NotSignedIn: the sign-in failed.
	NotSignedIn HostCode = "not_signed_in"
	// NotFresh: a fresh sign-in was required but not proved.
	NotFresh HostCode = "not_fresh"
)

// Denied says that the signed-in account may not open a page of a host behind the gate.
type Denied struct {
	// User and Email identify the signed-in user. Email may be empty, and User may be the address.
	User, Email string
	// SwitchURL signs in with another account and returns to the page. SignOutURL is the sign-out page.
	SwitchURL, SignOutURL string
}

// Problem is an error page. Code selects title and text; see the texts `problem.*`.
type Problem struct {
	Code ProblemCode
	// Detail is a sentence in English for the application's developer, or empty.
	Detail string
	// RetryAfter is for temporary problems.
	RetryAfter time.Duration
	// AccountURL is the account page, for problems that end a visit.
	AccountURL string
	// SignOutURL is the sign-out page, for TwoSessions.
	SignOutURL string
}

// ProblemCode identifies a problem.
type ProblemCode string

// The problems.
const (
	// BadClient: the application is unknown, or its redirect URI is not registered.
	BadClient ProblemCode = "bad_client"
	// BadRequest: the request is malformed.
	BadRequest ProblemCode = "bad_request"
	// AmbiguousPath: servers could read the address as two different paths.
	AmbiguousPath ProblemCode = "ambiguous_path"
	// TwoSessions: the browser sent two different session cookies. A sign-out deletes both.
	TwoSessions ProblemCode = "two_sessions"
	// Expired: the sign-in took too long, or its URL is damaged or belongs to another browser.
	Expired ProblemCode = "expired"
	// Forged: the form did not come from our page in this browser.
	Forged ProblemCode = "forged"
	// Decided: this request was already answered.
	Decided ProblemCode = "decided"
	// LinkBroken: the link of a letter is damaged.
	LinkBroken ProblemCode = "link_broken"
	// LinkExpired: the link of a letter is too old.
	LinkExpired ProblemCode = "link_expired"
	// LinkSpent: the link of a letter was used, or its user has changed since.
	LinkSpent ProblemCode = "link_spent"
	// AddressTaken: the address of the link belongs to another user.
	AddressTaken ProblemCode = "address_taken"
	// RegistrationClosed: people with the address of the link may not make accounts any more.
	RegistrationClosed ProblemCode = "registration_closed"
	// NotFound: there is no such page.
	NotFound ProblemCode = "not_found"
	// NotAllowed: the method is not allowed.
	NotAllowed ProblemCode = "not_allowed"
	// Throttled: too many attempts.
	Throttled ProblemCode = "throttled"
	// Unavailable: the service is temporarily unavailable.
	Unavailable ProblemCode = "unavailable"
	// Internal: a server error.
	Internal ProblemCode = "internal"
)
