package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/oauth"
)

// Counters receives counts of a Handler's decisions. Every request calls it, so it must be safe for concurrent use and must not block. Its
// arguments come from small fixed sets, never from a client.
type Counters interface {
	// Issued counts issued tokens by grant type, AdminCreated or BrowserSession.
	Issued(by oauth.GrantType)
	// RepeatedElsewhere counts refresh tokens repeated within the grace period by a requester other than the first.
	RepeatedElsewhere()
	// Refused counts a refusal by endpoint and error.
	Refused(endpoint string, err *oauth.Error)
}

// Endpoint names in metrics.
const (
	tokenEndpoint         = "token"
	authorizationEndpoint = "authorize"
	loginEndpoint         = "login"
	metadataEndpoint      = "metadata"
	memberEndpoint        = "member_token"
	unknownEndpoint       = "unknown" // one of our paths without a route
)

// refuse counts a refusal and answers it in the endpoint's form.
func (h *Handler) refuse(w http.ResponseWriter, r *http.Request, found route, err error) {
	h.counters.Refused(found.name, oauth.AsError(err))
	found.refuse(w, r, err)
}
