package oauth

import (
	"errors"
	"strings"
	"time"
)

// ErrorCode is an error code of the RFCs (RFC 6749 §5.2, RFC 6750 §3.1, RFC 7009 §2.2.1). HTTP statuses are assigned
// outside of the core.
type ErrorCode string

// The codes that clients can receive.
const (
	InvalidRequest       ErrorCode = "invalid_request"
	InvalidClient        ErrorCode = "invalid_client"
	InvalidGrant         ErrorCode = "invalid_grant"
	UnauthorizedClient   ErrorCode = "unauthorized_client"
	UnsupportedGrantType ErrorCode = "unsupported_grant_type"
	InvalidScope         ErrorCode = "invalid_scope"
	// InvalidTarget: a token is asked for a resource that is not known or was not granted (RFC 8707 §2).
	InvalidTarget ErrorCode = "invalid_target"
	InvalidToken  ErrorCode = "invalid_token"
	// Unauthorized: a request lacks the token it needs. The response names no error (RFC 6750 §3.1).
	Unauthorized ErrorCode = "unauthorized"
	// AccessDenied: the token is valid, but a rule other than a scope refuses it.
	AccessDenied      ErrorCode = "access_denied"
	InsufficientScope ErrorCode = "insufficient_scope"
	// InsufficientAuthentication: the token is valid, but its user must sign in again or in another way (RFC 9470 §3).
	InsufficientAuthentication ErrorCode = "insufficient_user_authentication"

	ServerError            ErrorCode = "server_error"
	TemporarilyUnavailable ErrorCode = "temporarily_unavailable"
	// RateLimited is sent as temporarily_unavailable, with another status.
	RateLimited ErrorCode = "rate_limited"
	// Denied: the user refused consent (RFC 6749 §4.1.2.1). It is sent as access_denied.
	Denied ErrorCode = "denied_by_user"
	// The errors of an authorization request (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
	UnsupportedResponseType ErrorCode = "unsupported_response_type"
	LoginRequired           ErrorCode = "login_required"
	ConsentRequired         ErrorCode = "consent_required"
	UnmetAuthentication     ErrorCode = "unmet_authentication_requirements"
	RequestNotSupported     ErrorCode = "request_not_supported"
	RequestURINotSupported  ErrorCode = "request_uri_not_supported"
	// AuthorizationPending, SlowDown and ExpiredToken answer the polls of a device (RFC 8628 §3.5).
	AuthorizationPending ErrorCode = "authorization_pending"
	SlowDown             ErrorCode = "slow_down"
	ExpiredToken         ErrorCode = "expired_token"
	// The refusals of the operation by which an organisation's administrator obtains tokens.
	UserContextRequired  ErrorCode = "user_context_required"
	AdminRequired        ErrorCode = "admin_required"
	UserNotFound         ErrorCode = "user_not_found"
	TargetRoleNotAllowed ErrorCode = "target_role_not_allowed"
	UserInactive         ErrorCode = "user_inactive"
	// InvalidRedirectURI and InvalidClientMetadata are those of a registration (RFC 7591 §3.2.2).
	InvalidRedirectURI    ErrorCode = "invalid_redirect_uri"
	InvalidClientMetadata ErrorCode = "invalid_client_metadata"
	// TokenNotYours is sent as unauthorized_client, with another status (RFC 7009 §2.1).
	TokenNotYours ErrorCode = "token_of_another_client"
)

// Errors that callers act on. They are compared with errors.Is, and returned as they are or as copies.
var (
	// ErrCodeReplayed and ErrRefreshReused mean that a credential was used twice and its family has ended.
	ErrCodeReplayed  = NewError(InvalidGrant, "code_replayed")
	ErrRefreshReused = NewError(InvalidGrant, "refresh_token_reused")
	// ErrRepeatedElsewhere means that a refresh token was repeated within the grace period but from another place, and
	// that store.Lifetimes.SameAddress ended its family.
	ErrRepeatedElsewhere = NewError(InvalidGrant, "refresh_token_repeated_elsewhere")
	// ErrDecided means that the authorization request was answered before.
	ErrDecided = NewError(InvalidRequest, "request_decided")
	// ErrVerificationBusy, ErrIntrospectionBusy and ErrHashingBusy mean that a limit of concurrent work is reached.
	// Clients can cause that, so it is not counted as a fault of the server.
	ErrVerificationBusy  = Unavailable("verification_busy", nil)
	ErrIntrospectionBusy = Unavailable("introspection_busy", nil)
	ErrHashingBusy       = Unavailable("password_hashing_busy", nil)
	// ErrDocumentAway, ErrDocumentBusy and ErrDocumentThrottled mean that a client's metadata document cannot be fetched now, and
	// ErrRegistrationFull that no client can register now. Clients can cause these as well.
	ErrDocumentAway      = Unavailable("client_document_away", nil)
	ErrDocumentBusy      = Unavailable("client_document_busy", nil)
	ErrDocumentThrottled = Unavailable("client_document_throttled", nil)
	ErrRegistrationFull  = Unavailable("registration_full", nil)
)

// Error is the error type of all packages. Code and Description are for the client, Reason is for the audit log, and
// the cause is for the log only.
type Error struct {
	Code        ErrorCode
	Description string // a sentence for the client: only %x20-21 / %x23-5B / %x5D-7E (RFC 6749 §5.2)
	Reason      string // snake_case, stable, for the audit log: "client_throttled", "key_unknown"
	// RetryAfter tells a throttled client, or one that met an outage, when to try again; zero: unknown.
	RetryAfter time.Duration
	// Scope is the missing scope of an insufficient_scope.
	Scope string
	// ACRValues and MaxAge are what an insufficient_user_authentication demands: one of these authentication context
	// classes, and a sign-in no older than that; nil and zero: no demand.
	ACRValues []string
	MaxAge    time.Duration
	cause     error
	origin    *Error // the one that NewError returned, of which this is a copy
}

// NewError returns an Error with the code's standard description. Reason identifies the case in the audit log.
func NewError(code ErrorCode, reason string) *Error {
	e := &Error{Code: code, Description: descriptions[code], Reason: reason}
	e.origin = e
	return e
}

// Error returns code, reason and cause. The text is for logs, not for clients.
func (e *Error) Error() string {
	text := string(e.Code)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	if e.cause != nil {
		text += ": " + e.cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.cause }

// Is reports whether target is the error of which e is a copy, or another copy of it. Errors that merely have the same code and
// reason are different.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t != nil && e.origin != nil && e.origin == t.origin
}

// WithRetryAfter returns a copy of e that tells when to try again.
func (e *Error) WithRetryAfter(d time.Duration) *Error {
	c := *e
	c.RetryAfter = d
	return &c
}

// WithCause returns a copy of e that carries cause for the log.
func (e *Error) WithCause(cause error) *Error {
	c := *e
	c.cause = cause
	return &c
}

// WithDescription returns a copy of e with another description.
func (e *Error) WithDescription(sentence string) *Error {
	c := *e
	c.Description = sentence
	return &c
}

// AsError returns err as an Error. An error of another type becomes a server_error with err as its cause.
func AsError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return NewError(ServerError, "internal_error").WithCause(err)
}

// MissingParameter returns the invalid_request for a required parameter that is absent or empty.
func MissingParameter(name string) *Error {
	return NewError(InvalidRequest, "parameter_missing").WithDescription("Missing required parameter: " + name + ".")
}

// MissingScope returns the insufficient_scope for a scope that the token lacks.
func MissingScope(name string) *Error {
	e := NewError(InsufficientScope, "scope_missing").WithDescription(`Access to this resource requires scope "` + name + `".`)
	e.Scope = name
	return e
}

// InsufficientACR returns the insufficient_user_authentication for a sign-in of none of the wanted classes.
func InsufficientACR(values []string) *Error {
	e := NewError(InsufficientAuthentication, "acr_insufficient")
	e.ACRValues = values
	return e
}

// SignInTooOld returns the insufficient_user_authentication for a sign-in that is older than maxAge, or of unknown
// age.
func SignInTooOld(maxAge time.Duration) *Error {
	e := NewError(InsufficientAuthentication, "sign_in_too_old").WithDescription("More recent authentication is required.")
	e.MaxAge = maxAge
	return e
}

// Unavailable returns the temporarily_unavailable for a store, key or feed that cannot be reached.
func Unavailable(reason string, cause error) *Error {
	return NewError(TemporarilyUnavailable, reason).WithCause(cause)
}

// descriptions are the standard descriptions, one for each code.
var descriptions = map[ErrorCode]string{
	InvalidRequest:        "The request is missing a required parameter, includes an unsupported parameter value, or is otherwise malformed.",
	InvalidRedirectURI:    "The value of one or more redirection URIs is invalid.",
	InvalidClientMetadata: "The value of one of the client metadata fields is invalid.",
	InvalidClient:         "Client authentication failed due to unknown client, no client authentication included, or unsupported authentication method.",
	InvalidGrant:          "The provided authorization grant is invalid, expired, revoked, does not match the redirection URI used in the authorization request, or was issued to another client.",
	UnauthorizedClient:    "The client is not authorized to perform this request using this method.",
	UnsupportedGrantType:  "The authorization grant type is not supported by the authorization server.",
	InvalidScope:          "The requested scope is invalid, unknown, or malformed.",
	InvalidTarget:         "The requested resource is invalid, missing, unknown, or malformed.",
	InvalidToken:          "The access token is invalid",
	Unauthorized:          "Access to this resource requires an access token.",
	AccessDenied:          "The access token does not allow access to this resource.",
	InsufficientScope:     "The request requires higher privileges than provided by the access token.",

	InsufficientAuthentication: "A different authentication level is required.",

	ServerError:            "The authorization server encountered an unexpected condition which prevented it from fulfilling the request.",
	TemporarilyUnavailable: "The service is temporarily unable to handle the request. Try again later.",
	RateLimited:            "Too many failed attempts. Try again later.",
	TokenNotYours:          "You are not authorized to revoke this token",

	Denied:                  "The resource owner or authorization server denied the request.",
	UnsupportedResponseType: "The authorization server does not support this response type.",
	LoginRequired:           "The authorization server requires end-user authentication.",
	ConsentRequired:         "The authorization server requires end-user consent.",
	UnmetAuthentication:     "The authorization server cannot meet the requested authentication requirements.",
	RequestNotSupported:     "The request parameter is not supported.",
	RequestURINotSupported:  "The request_uri parameter is not supported.",

	AuthorizationPending: "The user has not decided yet.",
	SlowDown:             "The user has not decided yet. Wait 5 seconds longer between requests from now on.",
	ExpiredToken:         "The device code has expired. Start again.",

	UserContextRequired:  "This operation needs an access token that acts for a user.",
	AdminRequired:        "Only an admin of the organisation may do this.",
	UserNotFound:         "The organisation has no such user.",
	TargetRoleNotAllowed: "Tokens can be created for group managers and business managers only.",
	UserInactive:         "The user is not active.",
}

// Describable returns a text with nothing in it that a description must not hold (RFC 6749 §5.2), and at most 512 bytes of it.
func Describable(text string) string {
	text = strings.Map(func(c rune) rune {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			return '\''
		}
		return c
	}, text)
	return text[:min(len(text), 512)]
}
