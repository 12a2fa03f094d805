package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/answers"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// The tables of this package call the handlers through the functions of this file.

// memberRequest returns a request for a member's token as net/http would deliver it. The path may be one that url.Parse refuses.
func memberRequest(path, body string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	u, err := url.ParseRequestURI(path)
	if err != nil {
		u = &url.URL{Path: path}
	}
	r.URL = u
	return r
}

// memberOf returns the member's id that a request names. It checks that the result is the same without a Content-Length.
func memberOf(path, body string) (string, error) {
	r := memberRequest(path, body)
	id, _, err := new(memberTokens).targetOf(httptest.NewRecorder(), r)
	r = memberRequest(path, body)
	r.ContentLength = -1
	if chunked, _, chunkedErr := new(memberTokens).targetOf(httptest.NewRecorder(), r); chunked != id || refusalOf(chunkedErr) != refusalOf(err) {
		return chunked, fmt.Errorf("with a length: %w, in chunks: %w", err, chunkedErr)
	}
	return id, err
}

// ownsMember reports whether a path is that of member tokens, for an issuer whose URL has a path.
func ownsMember(issuerPath, path string) bool {
	return (&memberTokens{prefix: issuerPath}).owns(memberRequest(path, "").URL)
}

// refusal describes an error response: its status, its code and, after a space, the pointer into the document, or "-".
type refusal struct {
	status int
	text   string
}

func refusalOf(err error) refusal {
	if err == nil {
		return refusal{}
	}
	text := string(oauth.AsError(err).Code)
	var pointed pointedError
	if errors.As(err, &pointed) {
		return refusal{answers.StatusOf(err), text + " " + pointed.pointer}
	}
	return refusal{answers.StatusOf(err), text + " -"}
}

// isSameOrigin reports whether a form with these headers counts as sent by a page of https://id.example.
func isSameOrigin(headers ...string) bool {
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	for pair := range slices.Chunk(headers, 2) {
		r.Header.Add(pair[0], pair[1])
	}
	return (&site{origin: "https://id.example"}).isSameOrigin(r)
}
