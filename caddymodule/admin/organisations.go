package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	"github.com/gatehouse-auth/gatehouse/tokenissuer/people"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

var organisationOperations = map[Route]operation{
	ListOrganisations:  shows[[]Organisation]("Lists the organisations", bare(listOrganisations)),
	AddOrganisation:    adds[Organisation]("Registers an organisation", withMembers[store.Organisation](addOrganisation)),
	RemoveOrganisation: changes("Deletes an organisation that has no users", changeNamed("organisation removed", "organisation", func(g *people.Registry) func(context.Context, string) error { return g.People.RemoveOrganisation })),
}

// Organisation is what an operator sees of an organisation: its id, its members and its state.
type Organisation struct {
	store.Organisation
	Source    string    `json:"source"`
	CreatedAt time.Time `json:"created_at,omitzero"`
}

func viewOfOrganisation(o *store.Organisation) Organisation {
	return Organisation{Organisation: *o, Source: source(o.Declared), CreatedAt: o.CreatedAt}
}

func listOrganisations(t *Target, r *http.Request) (int, any, error) {
	organisations, err := t.Registry.People.Organisations(r.Context())
	return listed(organisations, err, viewOfOrganisation)
}

// addOrganisation takes the members of an organisation and its id.
func addOrganisation(t *Target, r *http.Request, p store.Patch) (int, any, error) {
	var asked store.Organisation
	if err := errors.Join(p.Take("id", &asked.ID), p.Apply(&asked)); err != nil {
		return 0, nil, malformed(err)
	}
	organisation, err := t.Registry.People.AddOrganisation(r.Context(), asked)
	if err != nil {
		return 0, nil, err
	}
	t.record(r.Context(), "organisation added", zap.String("organisation", organisation.ID))
	return http.StatusCreated, viewOfOrganisation(organisation), nil
}
