package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Tally counts what a Handler decides. Every request calls it, from any goroutine, so it must not wait for anything. What
// it is told is one of few words each time, and never a client's.
type Tally interface {
	// Issued is told of tokens that were handed out, and by what: a grant type, AdminCreated or BrowserSession.
	Issued(by oauth.GrantType)
	// RepeatedElsewhere is told that a refresh token was repeated in time, but not from where it was used, and served again.
	RepeatedElsewhere()
	// Refused is told of a refusal, and which endpoint refused.
	Refused(endpoint string, err *oauth.Error)
}

// The names of endpoints, for whoever counts.
const (
	tokenEndpoint         = "token"
	authorizationEndpoint = "authorize"
	loginEndpoint         = "login"
	metadataEndpoint      = "metadata"
	memberEndpoint        = "member_token"
	unknownEndpoint       = "unknown" // a path of ours at which there is nothing
)

// refuse counts a refusal and answers it in the endpoint's own form.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, found route, err error) {
	h.tally.Refused(found.name, oauth.AsError(err))
	found.refuse(h, w, r, err)
}
