// Package pages renders what people see: sign-in, consent, account and error pages. It turns values into HTML in the
// reader's language, and knows nothing of requests. The texts are in texts/, one file for each language.
package pages

import "time"

// Brand is the operator's name and logo.
type Brand struct {
	// Name is at the top of each page. Default: Gatehouse.
	Name string
	// Logo is shown beside the name; nil: none.
	Logo *Logo
}

// Logo is an image embedded into each page, so that pages load nothing.
type Logo struct {
	MediaType string
	Data      []byte
}

// Form holds the common fields of all forms.
type Form struct {
	// Action is the form's target.
	Action string
	// Token proves that the form came from us, for this browser (the field `form_token`).
	Token string
	// Pending is the sealed authorization request, or empty (the field `pending`).
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
	// FormReplaced means that what was sent was not looked at, because the form was not made for this browser.
	FormReplaced Notice = "form_replaced"
	// ProviderUnavailable and the five after it are about a sign-in at a provider: it does not answer; the person or the provider has
	// said no; the account may not sign in here; the answer was not one for this sign-in, or too late; the operator has to act; a fresh
	// sign-in was demanded, and not proved.
	ProviderUnavailable   Notice = "provider_unavailable"
	ProviderCancelled     Notice = "provider_cancelled"
	ProviderRefused       Notice = "provider_refused"
	ProviderFailed        Notice = "provider_failed"
	ProviderMisconfigured Notice = "provider_misconfigured"
	ProviderNotFresh      Notice = "provider_not_fresh"
)

// ProviderNotices are the notices about a provider.
var ProviderNotices = []Notice{ProviderUnavailable, ProviderCancelled, ProviderRefused, ProviderFailed, ProviderMisconfigured, ProviderNotFresh}

// SignIn asks for e-mail address and password (the fields `email` and `password`), or at which provider to sign in (`provider`).
type SignIn struct {
	Form   Form
	Notice Notice
	// WithoutPasswords: there are providers alone. Usernames: the address may be a username.
	WithoutPasswords, Usernames bool
	// Providers are the providers to choose from.
	Providers []Provider
	// AtProvider is what the provider is called that a notice is about.
	AtProvider string
	// Choose has the provider ask with which account to sign in (the field `choose`).
	Choose bool
	// RetryAfter is for TooManyAttempts and Busy.
	RetryAfter time.Duration
	// Email prefills the field.
	Email string
	// ClientName is the requesting application; empty: none.
	ClientName string
}

// Provider is an identity provider at which people sign in.
type Provider struct {
	// Name is the value of the field, Title what people call it.
	Name, Title string
}

// Consent asks whether an application may act for the user (the field `decision` is `allow` or `deny`). Each scope has a
// checkbox `scope_N`, N counting from 0, initially ticked.
type Consent struct {
	Form       Form
	ClientName string
	ClientID   string
	// Host is where the answer is sent: a host, with a port unless it is the scheme's default, or a private scheme.
	Host string
	// SelfMade: the application has made itself known, and nobody has checked its name. DescribedBy is the host that describes it; empty:
	// none does. OnDevice: the answer goes to a program on the user's device, whichever that is.
	SelfMade    bool
	DescribedBy string
	OnDevice    bool
	Scopes      []Scope
	// User and Email identify the signed-in user.
	User, Email string
	// SwitchURL is the sign-in page for another account.
	SwitchURL string
	// AccountURL is the account page, where access can be revoked.
	AccountURL string
}

// Scope is a scope with a description. Without Words, the page uses the built-in words, or the name.
type Scope struct {
	Name, Words string
	// Fixed: the user cannot untick it. The form does not send its checkbox.
	Fixed bool
	// Ticked: the checkbox of a new token is ticked.
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
	// IdentityUnlinked: an account at a provider does not lead to the user any more.
	IdentityUnlinked Done = "identity"
	// TokenEnded: a personal access token is good no more.
	TokenEnded Done = "token"
)

// Account shows a user's applications and sessions. A form with the field `application` or `session` ends the one with
// that id, and one with `everywhere` ends all.
type Account struct {
	Form         Form
	Done         Done
	User, Email  string
	Organisation string
	Role         string
	Applications []Application
	Sessions     []Session
	// Identities are the accounts at providers with which the user signs in. A form with the field `identity` unlinks one.
	Identities []Identity
	// Tokens are the user's personal access tokens; nil: there are none.
	Tokens *Tokens
	// SignOutURL is the sign-out page.
	SignOutURL string
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
	// Hosts are those at which the session is used.
	Hosts []Host
	// SignsOutOf are the names of the applications that are told when the session ends.
	SignsOutOf []string
	// Current: this is the browser of the request.
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
	// Provider is what the provider is called.
	Provider string
	LinkedAt time.Time
	LastUsed time.Time
	// Only: the user could not sign in any more without it.
	Only bool
}

// SignOut asks whether to sign out (a form without further fields), or confirms it.
type SignOut struct {
	Form Form
	// Done: the user is signed out.
	Done bool
	// Email identifies the signed-in user.
	Email string
	// ClientName is the application that asks for the sign-out; empty: none, or nobody knows which.
	ClientName string
	// Fields are the application's request, which the form repeats.
	Fields []Field
	// Detail is a sentence in English for the application's developer; empty: none.
	Detail string
	// ReturnURL leads back to the application once the user is signed out; empty: nowhere. It is of http or https.
	ReturnURL string
	// SignInURL is the sign-in page.
	SignInURL string
}

// Front is the page of the issuer's own address: it leads to the account page and to the sign-out page.
type Front struct{ AccountURL, SignOutURL string }

// AtHost is a page of the sign-in at a host behind the gate. Code selects title and text; see the texts `host.*`.
type AtHost struct {
	Code HostCode
	// URL is where to go on, and NewTab opens it in another tab.
	URL    string
	NewTab bool
}

// HostCode identifies a page of the sign-in at a host.
type HostCode string

// The pages of the sign-in at a host.
const (
	// Interrupted: a form was sent without a session, and nothing was done with it.
	Interrupted HostCode = "interrupted"
	// Foreign: a form was sent by a page of another site, and nothing was done with it.
	Foreign HostCode = "foreign"
	// Shortened: the browser is signed in, and the address at which it began was too long to be kept.
	Shortened HostCode = "shortened"
	// Elsewhere: nobody is signed in at the host. At the provider somebody may be.
	Elsewhere HostCode = "elsewhere"
	// SignedIn: the browser is signed in, and nobody knows to which page it wants to go.
	SignedIn HostCode = "signed_in"
	// NotSignedIn: the sign-in came to nothing.
	NotSignedIn HostCode = "not_signed_in"
	// NotFresh: a fresh sign-in was demanded, and not proved.
	NotFresh HostCode = "not_fresh"
)

// Denied says that the account that is signed in may not open a page of a host behind the gate.
type Denied struct {
	// User and Email identify the signed-in user. Email may be empty, and User may be the address.
	User, Email string
	// SwitchURL signs in with another account and comes back to the page, and SignOutURL is the sign-out page.
	SwitchURL, SignOutURL string
}

// Problem is an error page. Code selects title and text; see the texts `problem.*`.
type Problem struct {
	Code ProblemCode
	// Detail is a sentence in English for the application's developer; empty: none.
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
	// AmbiguousPath: servers could read two different paths in the address.
	AmbiguousPath ProblemCode = "ambiguous_path"
	// TwoSessions: the browser sent two different session cookies, and a sign-out deletes both.
	TwoSessions ProblemCode = "two_sessions"
	// Expired: the sign-in took too long, or its URL is damaged or another browser's.
	Expired ProblemCode = "expired"
	// Forged: the form did not come from our page in this browser.
	Forged ProblemCode = "forged"
	// Decided: this request was answered already.
	Decided ProblemCode = "decided"
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
