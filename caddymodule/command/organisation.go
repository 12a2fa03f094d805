package command

import (
	"fmt"
	"io"
	"reflect"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
	"github.com/gatehouse-auth/gatehouse/tokenissuer/store"
)

func organisationCommand(api *apiClient) *cobra.Command {
	return group("org", "Manages organisations", organisationAdd(api), organisationList(api),
		changeCommand(api, "remove ID", "Deletes an organisation that has no users", admin.RemoveOrganisation))
}

func organisationAdd(api *apiClient) *cobra.Command {
	cmd := queryCommand("add ID --name NAME", "Registers an organisation", cobra.ExactArgs(1),
		func(cmd *cobra.Command, args []string, added *admin.Organisation) error {
			request, err := memberRequest(cmd, organisationType, "")
			if err != nil {
				return err
			}
			request["id"] = args[0]
			return api.call(admin.AddOrganisation.For(), request, added)
		},
		func(out io.Writer, added *admin.Organisation) error {
			_, err := fmt.Fprintf(out, "organisation  %s\n", added.ID)
			return err
		})
	addMemberFlags(cmd, organisationType, "")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

var organisationType = reflect.TypeFor[store.Organisation]()

func organisationList(api *apiClient) *cobra.Command {
	return listCommand(api, "Lists the organisations", admin.ListOrganisations, "ID\tNAME\tSOURCE\tCREATED", func(o *admin.Organisation) []string {
		return []string{o.ID, o.Name, o.Source, moment(o.CreatedAt)}
	})
}
