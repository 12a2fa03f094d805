package endpoint

import (
	"errors"
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/requests"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// pointedError is an error with a JSON pointer to the value at fault.
type pointedError struct {
	error
	pointer string
}

func (e pointedError) Unwrap() error { return e.error }

// documentError returns an error about a JSON:API document.
func documentError(status int, code oauth.ErrorCode, pointer, description string) error {
	err := oauth.NewError(code, string(code)).WithDescription(description)
	return pointedError{requests.Error{Status: status, Err: err}, pointer}
}

func missingMember(name, parent string) error {
	return documentError(http.StatusBadRequest, "missing_member", parent, "The member "+name+" is missing.")
}

func invalidMember(name, pointer string) error {
	kind := "a string that is not empty"
	if name == "data" {
		kind = "an object"
	}
	return documentError(http.StatusBadRequest, "invalid_member", pointer, "The member "+name+" must be "+kind+".")
}

// refuse answers with a JSON:API document, regardless of Accept. It adds a challenge if the credential is at fault (RFC 6750 §3).
func (h *memberTokens) refuse(w http.ResponseWriter, r *http.Request, err error) {
	h.audit.Refused(r, "token for a member refused", err)
	e := oauth.AsError(err)
	status := answers.Challenge{Realm: h.tokens.Minter.URL}.SetHeaders(w, err)
	w.Header().Set("Vary", "Accept")
	switch status {
	case http.StatusBadRequest, http.StatusMethodNotAllowed:
		// A malformed request says nothing about the credential.
		if e.Reason != "authorization_header_duplicate" && e.Reason != "token_twice" && e.Reason != "bearer_malformed" {
			w.Header().Del("Www-Authenticate")
		}
	}
	if status == http.StatusMethodNotAllowed {
		e = oauth.NewError("method_not_allowed", e.Reason).WithDescription("Send the request with POST.")
	}
	var pointer *string
	if pointed, ok := errors.AsType[pointedError](err); ok {
		pointer = &pointed.pointer
	}
	answers.WriteJSONAPIError(w, status, e, pointer)
}
