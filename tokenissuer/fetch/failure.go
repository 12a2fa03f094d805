package fetch

import (
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// ErrAway marks an error that says nothing about what was asked for: the server did not answer, or answered that it cannot.
var ErrAway = errors.New("the server does not answer")

// away is an error that is ErrAway and has a text of its own.
type away struct{ error }

func (a away) Unwrap() error        { return a.error }
func (a away) Is(target error) bool { return target == ErrAway }

// withoutURL takes the URL out of an error of net/http: its query may hold what is not for a log, and callers name what they ask for.
func withoutURL(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}

// Guard runs code that handles foreign data, and turns a panic into an error. It bounds the text of any error, which may quote that data.
func Guard(run func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("panic: %v", cause)
		}
		err = brief(err)
	}()
	return run()
}

// maxErrorText bounds an error's text, which may quote foreign data.
const maxErrorText = 1 << 10

func brief(err error) error {
	if err == nil || len(err.Error()) <= maxErrorText {
		return err
	}
	short := errors.New(err.Error()[:maxErrorText] + "…")
	if errors.Is(err, ErrAway) {
		return away{short}
	}
	return short
}

// WithoutSecrets returns an error with the text of err, in which no spelling of a secret is left: it may quote the response, which
// may quote the request. It returns nil for nil.
func WithoutSecrets(err error, secrets ...oauth.Secret) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	for _, held := range secrets {
		secret := held.Reveal()
		for _, spelling := range []string{secret, url.QueryEscape(secret), inPointer.Replace(secret), strings.Trim(strconv.Quote(secret), `"`)} {
			if spelling != "" {
				text = strings.ReplaceAll(text, spelling, "[secret]")
			}
		}
	}
	return brief(errors.New(text))
}

// inPointer escapes a text as in a JSON Pointer (RFC 6901 §3), by which errors name a place in a response.
var inPointer = strings.NewReplacer("~", "~0", "/", "~1")
