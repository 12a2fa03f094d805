package store

import "errors"

// ErrDeclared is returned for a change of something that the configuration declares.
var ErrDeclared = errors.New("it is declared in the configuration: change it there")

// InvalidInput marks err as the caller's mistake.
func InvalidInput(err error) error { return invalidInput{err} }

// IsInvalidInput reports whether an error is marked by InvalidInput.
func IsInvalidInput(err error) bool { return errors.As(err, new(invalidInput)) }

type invalidInput struct{ error }

func (e invalidInput) Unwrap() error { return e.error }
