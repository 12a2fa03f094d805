package admin

import (
	"fmt"
	"io"
	"net/http"

	"github.com/spf13/cobra"
)

func organisationCommand(admin *apiClient) *cobra.Command {
	return group("org", "Manages organisations", organisationAdd(admin), organisationList(admin),
		changeCommand(admin, "remove ID", "Deletes an organisation that has no users", http.MethodDelete, "organisations", ""))
}

func organisationAdd(admin *apiClient) *cobra.Command {
	var n newOrganisation
	cmd := queryCommand("add ID --name NAME", "Registers an organisation", cobra.ExactArgs(1),
		func(_ *cobra.Command, args []string, added *organisationView) error {
			n.ID = args[0]
			return admin.call(http.MethodPost, "/oauth/organisations", n, added)
		},
		func(out io.Writer, added *organisationView) error {
			_, err := fmt.Fprintf(out, "organisation  %s\n", added.ID)
			return err
		})
	cmd.Flags().StringVar(&n.Name, "name", "", "Name, as people know the organisation")
	_ = cmd.MarkFlagRequired("name")
	return cmd
}

func organisationList(admin *apiClient) *cobra.Command {
	return listCommand(admin, "Lists the organisations", "/oauth/organisations", "ID\tNAME\tSOURCE\tCREATED", func(o *organisationView) []string {
		return []string{o.ID, o.Name, o.Source, moment(o.CreatedAt)}
	})
}
