package upstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Errors that end a sign-in at a provider without a user. Compare them with errors.Is. Their reasons are stable.
var (
	// ErrDenied means that the person or the provider declined.
	ErrDenied = oauth.NewError(oauth.AccessDenied, "provider_denied").
			WithDescription("You were not signed in: the sign-in was cancelled or refused at the provider.")
	// ErrInteraction means that the provider needs to ask the person but may not, or that it does not prove the required fresh sign-in.
	ErrInteraction = oauth.NewError(oauth.LoginRequired, "provider_interaction_required").
			WithDescription("The provider does not confirm that you have just signed in there. Sign in again, or in another way.")
	// ErrUnavailable means that the provider is unreachable, slow, or reports that it is unavailable.
	ErrUnavailable = oauth.NewError(oauth.TemporarilyUnavailable, "provider_unavailable").
			WithDescription("The provider does not answer at the moment. Try again in a minute, or sign in another way.").
			WithRetryAfter(retryAfter)
	// ErrMisconfigured means that the registration at the provider or our configuration is wrong. The operator must act.
	ErrMisconfigured = oauth.NewError(oauth.ServerError, "provider_misconfigured").
				WithDescription("Signing in with this provider is not set up correctly. Tell the administrator.")
	// ErrUntrusted means that the answer is not from this provider for this sign-in.
	ErrUntrusted = oauth.NewError(oauth.AccessDenied, "provider_answer_untrusted").
			WithDescription("The provider's answer does not belong to this sign-in. Start again.")
	// ErrMalformed means that the answer in the browser's request is malformed.
	ErrMalformed = oauth.NewError(oauth.InvalidRequest, "provider_answer_malformed").
			WithDescription("The provider's answer cannot be read. Start again.")
	// ErrExpired means that the code was used or has expired. A new sign-in may succeed.
	ErrExpired = oauth.NewError(oauth.InvalidGrant, "provider_code_refused").
			WithDescription("The sign-in took too long or was used already. Start again.")
)

// outcomes lists all of these errors.
var outcomes = []*oauth.Error{ErrDenied, ErrInteraction, ErrUnavailable, ErrMisconfigured, ErrUntrusted, ErrMalformed, ErrExpired}

// retryAfter is when to retry an unavailable provider.
const retryAfter = 10 * time.Second

func malformed(text string) error { return ErrMalformed.WithCause(errors.New(text)) }

func untrusted(format string, values ...any) error {
	return ErrUntrusted.WithCause(fmt.Errorf(format, values...))
}

func misconfigured(format string, values ...any) error {
	return ErrMisconfigured.WithCause(fmt.Errorf(format, values...))
}

// unavailable returns the outcome for a network error or a timeout.
func unavailable(err error) error {
	if e, ok := errors.AsType[*oauth.Error](err); ok && slices.ContainsFunc(outcomes, func(o *oauth.Error) bool { return errors.Is(e, o) }) {
		return e
	}
	return ErrUnavailable.WithCause(err)
}

// said returns the outcome for an error that the provider sent through the browser (RFC 6749 §4.1.2.1, OpenID Connect Core §3.1.2.6).
func said(code string) error {
	cause := fmt.Errorf("the provider answered with error %.64q", code)
	switch code {
	case "access_denied", "user_cancelled_login", "user_cancelled_authorize":
		return ErrDenied.WithCause(cause)
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		return ErrInteraction.WithCause(cause)
	case "temporarily_unavailable", "server_error":
		return ErrUnavailable.WithCause(cause)
	}
	return ErrMisconfigured.WithCause(cause)
}

// refusal returns the outcome of a failed request to the token endpoint. It removes the secrets from the text of the cause.
func refusal(err error, secrets ...oauth.Secret) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok {
		return unavailable(withoutSecrets(err, secrets))
	}
	status := 0
	if refused.Response != nil {
		status = refused.Response.StatusCode
	}
	text := fmt.Sprintf("the token endpoint answered with status %d", status)
	// Remove secrets before truncating, because half of a secret would not be recognised.
	if refused.ErrorCode != "" {
		text += fmt.Sprintf(", error %.64q", withoutSecrets(errors.New(refused.ErrorCode), secrets))
	}
	if refused.ErrorDescription != "" {
		text += fmt.Sprintf(", %.400q", withoutSecrets(errors.New(refused.ErrorDescription), secrets))
	}
	cause := withoutSecrets(errors.New(text), secrets)
	switch code := refused.ErrorCode; {
	case code == "invalid_grant", code == "invalid_request", code == "bad_verification_code": // a forged code may cause any of these
		return ErrExpired.WithCause(cause)
	case code == "temporarily_unavailable", code == "server_error", status >= 500, status == 429:
		return ErrUnavailable.WithCause(cause)
	}
	return ErrMisconfigured.WithCause(cause)
}

func withoutSecrets(err error, secrets []oauth.Secret) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return fetch.WithoutSecrets(err, secrets...)
}

// isProvidersFault reports whether an error is the provider's fault, rather than a refusal of the person.
func isProvidersFault(err error) bool {
	return (errors.Is(err, ErrUnavailable) || errors.Is(err, ErrMisconfigured)) && !errors.Is(err, context.Canceled)
}

// joined joins names for a sentence.
func joined(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
