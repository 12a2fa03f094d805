package admin

import (
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/registry"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var organisationOperations = map[string]operation{
	"GET /oauth/organisations":         listOrganisations,
	"POST /oauth/organisations":        withBody(addOrganisation),
	"DELETE /oauth/organisations/{id}": changeNamed("organisation removed", "organisation", (*registry.Registry).RemoveOrganisation),
}

// Organisation is what an operator sees of an organisation.
type Organisation struct {
	ID        string    `json:"id"`
	Name      string    `json:"name"`
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

func viewOfOrganisation(o *store.Organisation) Organisation {
	return Organisation{ID: o.ID, Name: o.Name, Source: source(o.Declared), CreatedAt: o.CreatedAt}
}

func listOrganisations(t *Target, r *http.Request) (int, any, error) {
	organisations, err := t.Registry.Organisations(r.Context())
	return listed(organisations, err, viewOfOrganisation)
}

// NewOrganisation is the request to add an organisation.
type NewOrganisation struct {
	ID   string `json:"id"`
	Name string `json:"name,omitzero"`
}

func addOrganisation(t *Target, r *http.Request, n NewOrganisation) (int, any, error) {
	organisation, err := t.Registry.AddOrganisation(r.Context(), store.Organisation{ID: n.ID, Name: n.Name})
	if err != nil {
		return 0, nil, err
	}
	t.record("organisation added", zap.String("organisation", organisation.ID))
	return http.StatusCreated, viewOfOrganisation(organisation), nil
}
