package admin

import (
	"errors"
	"net/http"
)

// mailOperations need no store.
var mailOperations = map[Route]operation{TestMail: shows[MailTest]("Sends a mail at once", withBody(testMail))}

var errNoMail = errors.New("there is no mail: add `mail smtp://…` to the oauth block")

// MailRequest is the request to send a test.
type MailRequest struct {
	// To is the address.
	To string `json:"to"`
}

// MailTest is the result of sending a mail.
type MailTest struct {
	// Server is the mail server's host and port.
	Server string `json:"server"`
	// Answer is what it said when it took the mail. Error is why it did not, or empty.
	Answer string `json:"answer,omitzero"`
	Error  string `json:"error_of_server,omitzero"`
}

// testMail sends a mail at once.
func testMail(t *Target, r *http.Request, request MailRequest) (int, any, error) {
	if t.SendTestMail == nil {
		return 0, nil, errNoMail
	}
	result, err := t.SendTestMail(r.Context(), request.To)
	return http.StatusOK, result, err
}
