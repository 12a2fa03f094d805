package upstream

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/oauth2"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/fetch"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Reasons why nobody was signed in. They are stable: pages choose their words by them, and audit logs have them.
const (
	// ReasonDenied: the person or the provider said no. Code access_denied.
	ReasonDenied = "provider_denied"
	// ReasonInteraction: the provider has to ask the person and was not allowed to, or it does not prove the fresh sign-in that was
	// demanded. Code login_required.
	ReasonInteraction = "provider_interaction_required"
	// ReasonUnavailable: the provider is away, slow, or says so itself. Code temporarily_unavailable.
	ReasonUnavailable = "provider_unavailable"
	// ReasonMisconfigured: the registration at the provider or our configuration is wrong; the operator has to act. Code
	// server_error.
	ReasonMisconfigured = "provider_misconfigured"
	// ReasonUntrusted: the answer is not one of this provider for this sign-in. Code access_denied.
	ReasonUntrusted = "provider_answer_untrusted"
	// ReasonMalformed: the answer of the browser cannot be read. Code invalid_request.
	ReasonMalformed = "provider_answer_malformed"
	// ReasonExpired: the code was used or is too old; a new sign-in may succeed. Code invalid_grant.
	ReasonExpired = "provider_code_refused"
)

// outcomes have the code of each reason, and the sentence for the person.
var outcomes = map[string]struct {
	code     oauth.ErrorCode
	sentence string
}{
	ReasonDenied:        {oauth.AccessDenied, "You were not signed in: the sign-in was cancelled or refused at the provider."},
	ReasonInteraction:   {oauth.LoginRequired, "The provider does not confirm that you have just signed in there. Sign in again, or in another way."},
	ReasonUnavailable:   {oauth.TemporarilyUnavailable, "The provider does not answer at the moment. Try again in a minute, or sign in another way."},
	ReasonMisconfigured: {oauth.ServerError, "Signing in with this provider is not set up correctly. Tell the administrator."},
	ReasonUntrusted:     {oauth.AccessDenied, "The provider's answer does not belong to this sign-in. Start again."},
	ReasonMalformed:     {oauth.InvalidRequest, "The provider's answer cannot be read. Start again."},
	ReasonExpired:       {oauth.InvalidGrant, "The sign-in took too long or was used already. Start again."},
}

// retryAfter is when a provider that is away may be tried again.
const retryAfter = 10 * time.Second

func failure(reason string, cause error) *oauth.Error {
	outcome := outcomes[reason]
	e := oauth.NewError(outcome.code, reason).WithDescription(outcome.sentence).WithCause(cause)
	if reason == ReasonUnavailable {
		e.RetryAfter = retryAfter
	}
	return e
}

func malformed(text string) error { return failure(ReasonMalformed, errors.New(text)) }

func untrusted(format string, values ...any) error {
	return failure(ReasonUntrusted, fmt.Errorf(format, values...))
}

func misconfigured(format string, values ...any) error {
	return failure(ReasonMisconfigured, fmt.Errorf(format, values...))
}

// unavailable is the outcome of an error of the network, or of what was awaited in vain.
func unavailable(err error) error {
	if e, ok := errors.AsType[*oauth.Error](err); ok && outcomes[e.Reason].sentence != "" {
		return e
	}
	return failure(ReasonUnavailable, err)
}

// said is the outcome of an error that the provider has sent through the browser (RFC 6749 §4.1.2.1, OpenID Connect Core
// §3.1.2.6).
func said(code string) error {
	cause := fmt.Errorf("the provider answered with error %.64q", code)
	switch code {
	case "access_denied", "user_cancelled_login", "user_cancelled_authorize":
		return failure(ReasonDenied, cause)
	case "login_required", "interaction_required", "consent_required", "account_selection_required":
		return failure(ReasonInteraction, cause)
	case "temporarily_unavailable", "server_error":
		return failure(ReasonUnavailable, cause)
	}
	return failure(ReasonMisconfigured, cause)
}

// refusal is the outcome of a request to the token endpoint that has failed. The text of its cause has none of the secrets.
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
	// Before they are cut, because half of a secret would not be recognised.
	if refused.ErrorCode != "" {
		text += fmt.Sprintf(", error %.64q", withoutSecrets(errors.New(refused.ErrorCode), secrets))
	}
	if refused.ErrorDescription != "" {
		text += fmt.Sprintf(", %.400q", withoutSecrets(errors.New(refused.ErrorDescription), secrets))
	}
	cause := withoutSecrets(errors.New(text), secrets)
	switch code := refused.ErrorCode; {
	case code == "invalid_grant", code == "invalid_request", code == "bad_verification_code": // a made-up code may be any of these
		return failure(ReasonExpired, cause)
	case code == "temporarily_unavailable", code == "server_error", status >= 500, status == 429:
		return failure(ReasonUnavailable, cause)
	}
	return failure(ReasonMisconfigured, cause)
}

func withoutSecrets(err error, secrets []oauth.Secret) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return fetch.WithoutSecrets(err, secrets...)
}

// isProvidersFault reports whether an error says that the provider does not work, rather than that a person may not sign in.
func isProvidersFault(err error) bool {
	e, ok := errors.AsType[*oauth.Error](err)
	return ok && (e.Reason == ReasonUnavailable || e.Reason == ReasonMisconfigured) && !errors.Is(err, context.Canceled)
}

// joined joins names for a sentence.
func joined(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	return strings.Join(names, ", ")
}
