package mcp

import (
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Reasons of refusals, for the audit log.
const (
	reasonMalformed  = "rpc_malformed"
	reasonIncomplete = "rpc_incomplete"
	reasonTooLarge   = "rpc_too_large"
	reasonEncoding   = "rpc_encoding"
	reasonMismatch   = "rpc_header_mismatch"
)

// Codes of JSON-RPC errors.
const (
	codeParseError     = -32700
	codeInvalidRequest = -32600
	// codeHeaderMismatch is defined by the Model Context Protocol.
	codeHeaderMismatch = -32020
	// codeRefused is ours: the caller may not.
	codeRefused = -32003
)

func refusal(reason, description string) *oauth.Error {
	return oauth.NewError(oauth.InvalidRequest, reason).WithDescription(description)
}

func mismatch(description string) error { return refusal(reasonMismatch, description) }

// Denied returns the error of a call of a tool with `deny`.
func Denied() error {
	return oauth.NewError(oauth.AccessDenied, "tool_denied").WithDescription("This tool cannot be called here.")
}

// codeOf returns the code of the JSON-RPC error for a refusal.
func codeOf(e *oauth.Error) int {
	switch e.Reason {
	case reasonMalformed, reasonIncomplete:
		return codeParseError
	case reasonMismatch:
		return codeHeaderMismatch
	}
	if e.Code == oauth.InvalidRequest {
		return codeInvalidRequest
	}
	return codeRefused
}

// WriteRefusal answers a message with an error, as JSON-RPC says. Id is the JSON text of the message's id; nil: unknown.
func WriteRefusal(w http.ResponseWriter, status int, id []byte, err error) {
	e := oauth.AsError(err)
	type data struct {
		Error string `json:"error"`
	}
	type failure struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Data    data   `json:"data"`
	}
	body, err := json.Marshal(struct {
		Version string         `json:"jsonrpc"`
		ID      jsontext.Value `json:"id"`
		Error   failure        `json:"error"`
	}{"2.0", jsontext.Value(id), failure{codeOf(e), e.Description, data{answers.WireName(e.Code)}}})
	if err != nil { // every text is our own, and the id was read
		status, body = http.StatusInternalServerError, nil
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client is gone when this fails
}
