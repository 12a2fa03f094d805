package endpoint

import (
	"net/http"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/endpoint/pages"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/redirect"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

// sendAnswer sends the browser to the client with an answer of the authorization endpoint: by a redirect, or by a form (OAuth 2.0
// Form Post Response Mode).
func (h *Handler) sendAnswer(w http.ResponseWriter, r *http.Request, client *store.Client, target redirect.Target, answer redirect.Answer) error {
	if answer.Location != "" {
		seeOther(w, answer.Location)
		return nil
	}
	page := pages.FormPost{URI: answer.URI, ClientName: titleOf(client, target.Host())}
	for _, p := range answer.Parameters {
		page.Fields = append(page.Fields, pages.Field{Name: p.Name, Value: p.Value})
	}
	return h.showUnder(w, r, h.pages.FormPostPolicy(target.Origin()), http.StatusOK, "", page)
}
