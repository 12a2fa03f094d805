package command

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"

	"github.com/gatehouse-auth/gatehouse/caddymodule/admin"
)

func organisationCommand(api *apiClient) *cobra.Command {
	return group("org", "Manages organisations", organisationAdd(api), organisationList(api),
		changeCommand(api, "remove ID", "Deletes an organisation that has no users", http.MethodDelete, "organisations", ""))
}

func organisationAdd(api *apiClient) *cobra.Command {
	var n admin.NewOrganisation
	cmd := queryCommand("add ID --name NAME", "Registers an organisation", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, added *admin.Organisation) error {
			n.ID = args[0]
			return api.call(http.MethodPost, "/oauth/organisations", n, added)
		},
		func(out io.Writer, added *admin.Organisation) error {
			_, err := fmt.Fprintf(out, "organisation  %s\n", added.ID)
			return err
		})
	cmd.Flags().StringVar(&n.Name, "name", "", "Name, as people know the organisation")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func organisationList(api *apiClient) *cobra.Command {
	return listCommand(api, "Lists the organisations", "/oauth/organisations", "ID\tNAME\tSOURCE\tCREATED", func(o *admin.Organisation) []string {
		return []string{o.ID, o.Name, o.Source, moment(o.CreatedAt)}
	})
}
